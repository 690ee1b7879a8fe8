"""When a failed attempt is tried again, and after how long: bounded and spread out.

Full jitter: the wait is drawn evenly between 0 and the computed delay, so ten thousand jobs that failed
together do not come back together and fell the same service again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Never

from windlass.core.durations import SECOND_US, Duration, to_us
from windlass.core.errors import BadValue, InputError
from windlass.core.names import near_miss, refuse_unknown

Kind = Literal["exponential", "linear", "fixed", "custom"]
Errors = type[BaseException] | Sequence[type[BaseException]]
Roll = random.Random | Callable[[], float]

#: Above this a policy is not a policy but a loop; it also keeps attempts inside 32 bits in every store.
MOST_RETRIES: Final = 1_000_000
# Doubling stops here; base is at least 1 µs and cap at most 100 years, below 2^52 µs.
_MOST_DOUBLINGS: Final = 52
_KINDS: Final = ("exponential", "linear", "fixed")


class Numbers(NamedTuple):
    """A policy that needs no code, as it is stored with a job."""

    retries: int
    base_us: int
    cap_us: int
    kind: Kind
    jitter: bool
    delays_us: tuple[int, ...] | None = None

    def policy(self) -> Retry:
        """The policy itself."""
        delays = None if self.delays_us is None else [us / SECOND_US for us in self.delays_us]
        kind = "exponential" if self.kind == "custom" else self.kind
        base, cap = self.base_us / SECOND_US, self.cap_us / SECOND_US
        return Retry(self.retries, base=base, cap=cap, kind=kind, jitter=self.jitter, delays=delays)


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """A policy: `Retry(5)` is 5 retries, 6 attempts, waiting at most 1, 2, 4, 8, 16 s.

    `on` says which errors are worth another try, `not_on` which of those are not (it wins). `delays` replaces
    the formula: a list whose last entry repeats, or a function of the attempt number. With `delays` the waits
    are as stated unless `jitter=True`.
    """

    retries: int
    base_us: int
    cap_us: int
    kind: Kind
    jitter: bool
    on: tuple[type[BaseException], ...]
    not_on: tuple[type[BaseException], ...]
    delays: tuple[int, ...] | Callable[[int], Duration] | None

    def __init__(
        self,
        retries: int,
        *,
        base: Duration = 1.0,
        cap: Duration = 3600,
        kind: Literal["exponential", "linear", "fixed"] = "exponential",
        jitter: bool | None = None,
        on: Errors = (Exception,),
        not_on: Errors = (),
        delays: Sequence[Duration] | Callable[[int], Duration] | None = None,
        **unknown: Never,
    ) -> None:
        refuse_unknown("A retry policy", unknown, ("base", "cap", "kind", "jitter", "on", "not_on", "delays"))
        _check_retries(retries)
        if kind not in _KINDS:
            meant = near_miss(str(kind), _KINDS)
            hint = f'Did you mean "{meant}"? ' if meant else ""
            raise BadValue(f"There is no retry kind {kind!r}.", f"{hint}Use one of: {', '.join(_KINDS)}.")
        set_field = object.__setattr__
        set_field(self, "retries", retries)
        set_field(self, "base_us", _duration_us("base", base))
        set_field(self, "cap_us", _duration_us("cap", cap))
        set_field(self, "kind", kind if delays is None else "custom")
        set_field(self, "jitter", delays is None if jitter is None else jitter)
        set_field(self, "on", _classes("on", on))
        set_field(self, "not_on", _classes("not_on", not_on))
        set_field(self, "delays", _delays(delays))
        if delays is None and self.base_us > self.cap_us:
            raise BadValue("The retry's base is above its cap.", "Raise cap or lower base.")

    @classmethod
    def linear(
        cls,
        retries: int,
        *,
        base: Duration = 1.0,
        cap: Duration = 3600,
        jitter: bool = True,
        on: Errors = (Exception,),
        not_on: Errors = (),
        **unknown: Never,
    ) -> Retry:
        """Waits that grow by `base` each time."""
        refuse_unknown("A linear retry policy", unknown, ("base", "cap", "jitter", "on", "not_on"))
        return cls(retries, base=base, cap=cap, kind="linear", jitter=jitter, on=on, not_on=not_on)

    @classmethod
    def fixed(
        cls,
        retries: int,
        *,
        base: Duration = 1.0,
        jitter: bool = True,
        on: Errors = (Exception,),
        not_on: Errors = (),
        **unknown: Never,
    ) -> Retry:
        """Waits of at most `base`, every time; exactly `base` with `jitter=False`."""
        refuse_unknown("A fixed retry policy", unknown, ("base", "jitter", "on", "not_on"))
        return cls(retries, base=base, cap=base, kind="fixed", jitter=jitter, on=on, not_on=not_on)

    @classmethod
    def custom(
        cls,
        delays: Callable[[int], Duration] | Sequence[Duration],
        *,
        retries: int | None = None,
        cap: Duration = 3600,
        jitter: bool = False,
        on: Errors = (Exception,),
        not_on: Errors = (),
        **unknown: Never,
    ) -> Retry:
        """Waits as `delays(attempt)` or the list says; a list states the number of retries by its length."""
        refuse_unknown("A custom retry policy", unknown, ("retries", "cap", "jitter", "on", "not_on"))
        if retries is None:
            retries = MOST_RETRIES if callable(delays) else len(delays)
        return cls(retries, cap=cap, jitter=jitter, on=on, not_on=not_on, delays=delays)

    def numbers(self) -> Numbers:
        """What of it can be stored; a policy with code of its own, or with classes of errors, is refused."""
        if callable(self.delays) or self.on != (Exception,) or self.not_on:
            raise BadValue(
                "A policy with functions or classes of errors cannot be stored with a job.",
                "Give numbers only: Retry(5, base=10), or Retry.custom([1, 10, 60]).",
            )
        return Numbers(self.retries, self.base_us, self.cap_us, self.kind, self.jitter, self.delays)

    def wants(self, exc: BaseException, attempt: int) -> bool:
        """Whether attempt number `attempt` (from 1), ended by `exc`, is followed by another."""
        return attempt <= self.retries and isinstance(exc, self.on) and not isinstance(exc, self.not_on)

    def delay_us(self, attempt: int, rng: Roll = random.random) -> int:
        """The wait after attempt number `attempt` (from 1), between 0 and `cap`."""
        if attempt < 1:
            raise BadValue(f"There is no attempt number {attempt}.", "Attempts count from 1.")
        delay_us = min(self._full_us(attempt), self.cap_us)
        if not self.jitter:
            return delay_us
        return int((rng.random() if isinstance(rng, random.Random) else rng()) * (delay_us + 1))

    def _full_us(self, attempt: int) -> int:
        if callable(self.delays):
            return _duration_us(f"delay after attempt {attempt}", self.delays(attempt))
        if self.delays is not None:
            return self.delays[min(attempt, len(self.delays)) - 1]
        if self.kind == "exponential":
            return self.base_us << min(attempt - 1, _MOST_DOUBLINGS)
        return self.base_us * attempt if self.kind == "linear" else self.base_us


def _check_retries(retries: object) -> None:
    if not isinstance(retries, int) or isinstance(retries, bool) or not 0 <= retries <= MOST_RETRIES:
        raise BadValue(
            f"The number of retries cannot be {retries!r}.",
            f"Give a whole number from 0 to {MOST_RETRIES:,}.",
        )


def _duration_us(name: str, value: Duration) -> int:
    try:
        return to_us(value)
    except InputError as error:
        raise BadValue(f"The retry's {name} cannot be used: {error.message}", error.todo) from None


def _delays(
    delays: Sequence[Duration] | Callable[[int], Duration] | None,
) -> tuple[int, ...] | Callable[[int], Duration] | None:
    if delays is None or callable(delays):
        return delays
    # A string is a sequence too: "30s" would be read as the delays "3", "0" and "s".
    if isinstance(delays, str) or not delays:
        raise BadValue(f"The retry's delays cannot be {delays!r}.", 'Give a list such as [1, "30s", "10m"].')
    return tuple(_duration_us(f"delay number {number}", delay) for number, delay in enumerate(delays, 1))


def _classes(name: str, errors: Errors) -> tuple[type[BaseException], ...]:
    listed = tuple(errors) if isinstance(errors, Sequence) else (errors,)
    for one in listed:
        if not _is_exception_class(one):
            raise BadValue(
                f"The retry's {name} holds {one!r}, which is no exception class.",
                f"List classes: {name}=(TimeoutError, ConnectionError).",
            )
    return listed


def _is_exception_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)
