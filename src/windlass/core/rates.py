"""A rate lets at most `burst + count × (w + 3 µs) / per` pass in any window of w µs, and gives up none of it.

The token bucket is kept as one instant (GCRA): the theoretical arrival time, `tat_us`, at which the bucket
is full again. An empty bucket's tat lies `burst` tokens ahead of now; a full one's lies in the past, so a
bucket nobody uses needs no upkeep, and 0 is a fresh, full bucket.

A token costs per / count µs, which is rarely whole (7/s costs 142,857.14…). Rounding it at each spend would
drift: 1 µs on 100,000/s is a tenth. So tat moves along the grid of instants ceil(k × per / count), keeping
its distance to the grid; the sum of any number of steps is then right to within 2 µs, in integers that fit
64 bits (and a Lua double) on every engine.

        k-1          k           k+1          k+2      grid of tokens
    ─────┴──────t────┴────────────┴──────t'────┴──►    t' = advance(t, 2): same distance from its mark
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from windlass.core.durations import SECOND_US, show, to_us
from windlass.core.errors import BadValue

_TEXT: Final = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9.]*\s*[a-z0-9. ]+)")
_TODO: Final = 'Write count/unit such as "5/s", "10/m", "100/h" or "3/15m".'
#: Tokens that gather while nobody claims, if no burst is stated: a tenth of a second's worth. Workers claim
#: in batches some milliseconds apart; with a bucket of one, 1000/s could never be reached.
_DEFAULT_BURST_US: Final = SECOND_US // 10
_MOST: Final = 1_000_000_000


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`count` tokens per `per_us`, at most `burst` saved up; values that make no sense raise `BadValue`."""

    count: int
    per_us: int
    burst: int = 1

    def __post_init__(self) -> None:
        # More than one token a microsecond could not be told apart on the grid.
        if not 1 <= self.count <= min(self.per_us, _MOST):
            raise BadValue(
                f"A rate of {self.count} per {self.per_us} µs is not possible.",
                f"Count must be at least 1 and at most one per microsecond. {_TODO}",
            )
        if not 1 <= self.burst <= _MOST:
            raise BadValue(f"A rate's burst cannot be {self.burst}.", f"Give a whole number from 1 to {_MOST:,}.")

    @classmethod
    def parse(cls, text: str, burst: int | None = None) -> Rate:
        """The rate written as `10/m`; without a burst, a tenth of a second's worth may gather, at least 1."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise BadValue(f"The rate {text[:40]!a} cannot be read.", _TODO)
        count, unit = int(found.group(1)), found.group(2).strip()
        try:
            per_us = to_us(unit if unit[0].isdigit() else f"1{unit}")
        except BadValue as error:
            raise BadValue(f"The rate {text[:40]!a} cannot be read: {error.message}", _TODO) from None
        return cls(count, per_us, burst or max(1, count * _DEFAULT_BURST_US // max(1, per_us)))

    def __str__(self) -> str:
        return f"{self.count}/{show(self.per_us)} burst {self.burst}"


def allowance(rate: Rate, tat_us: int, now_us: int) -> int:
    """How many tokens may be spent now: 0 to `rate.burst`."""
    if tat_us <= now_us:
        return rate.burst
    full_us = advance(rate, now_us, rate.burst)
    if tat_us >= full_us:
        return 0
    # The difference of marks is right or one too many, as the two instants stand off the grid differently.
    tokens = _mark(rate, full_us) - _mark(rate, tat_us)
    while tokens > 0 and advance(rate, tat_us, tokens) > full_us:
        tokens -= 1
    return min(tokens, rate.burst)


def spend(rate: Rate, tat_us: int, now_us: int, n: int) -> int:
    """The bucket's new tat after `n` tokens were taken; more than its allowance raises `BadValue`."""
    if n < 0 or n > allowance(rate, tat_us, now_us):
        raise BadValue(f"{n} tokens cannot be taken from this bucket now.", "Ask allowance() first.")
    # Without tokens taken an idle bucket must stay as it is: moving it to now would cost nothing but a write.
    return advance(rate, max(tat_us, now_us), n) if n else tat_us


def next_us(rate: Rate, tat_us: int, now_us: int) -> int:
    """The first instant, from now on, at which a token can be spent."""
    if allowance(rate, tat_us, now_us):
        return now_us
    # A good guess from below, then single steps: rounding puts the answer at most a few µs further.
    at_us = max(now_us, tat_us - (rate.burst - 1) * rate.per_us // rate.count - 3)
    while not allowance(rate, tat_us, at_us):
        at_us += 1
    return at_us


def advance(rate: Rate, at_us: int, n: int) -> int:
    """The instant `n` tokens after `at_us`; any number of steps stays within 2 µs of one long one."""
    mark = _mark(rate, at_us)
    return _instant(rate, mark + n) + at_us - _instant(rate, mark)


def _mark(rate: Rate, at_us: int) -> int:
    return at_us * rate.count // rate.per_us


def _instant(rate: Rate, mark: int) -> int:
    return -(-mark * rate.per_us // rate.count)
