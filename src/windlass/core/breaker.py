"""A circuit breaker as a value: after too many failures in a window nothing passes until a probe succeeds.

```
            failures in window                    cool is over
  closed ───────────────────────► open ─────────────────────────► half-open
    ▲                              ▲ ◄── a probe failed: cool doubles, up to its cap ──┤
    └────────────── a probe succeeded: cool is as at first ────────────────────────────┘
```
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from windlass.core.durations import HOUR_US, MINUTE_US
from windlass.core.errors import BadValue

_MOST_FAILURES: Final = 1000


class BreakerRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a breaker opens and how it closes again; values that cannot work raise `BadValue`."""

    failures: int = 5
    window_us: int = MINUTE_US
    cool_us: int = MINUTE_US // 2
    cool_cap_us: int = HOUR_US
    probes: int = 1

    def __post_init__(self) -> None:
        # Each failure in the window is kept as one instant in the state: the count bounds its size.
        if not 1 <= self.failures <= _MOST_FAILURES:
            raise BadValue(f"A breaker cannot open after {self.failures} failures.", "Give 1 to 1000.")
        if not 1 <= self.probes <= _MOST_FAILURES:
            raise BadValue(f"A breaker cannot send {self.probes} probes.", "Give 1 to 1000.")
        if self.window_us < 1 or self.cool_us < 1:
            raise BadValue("A breaker's window and cool must be above 0.", 'Give a duration such as "30s".')
        if self.cool_cap_us < self.cool_us:
            raise BadValue("A breaker's cool_cap is below its cool.", "Raise cool_cap or lower cool.")


class Breaker(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The whole state, small and bounded: at most `rule.failures` instants and four numbers."""

    rule: BreakerRule
    phase: Literal["closed", "open", "half_open"] = "closed"
    failed_us: tuple[int, ...] = ()
    until_us: int = 0
    cool_us: int = 0
    probing: int = 0


def permits(state: Breaker, now_us: int) -> int | None:
    """How many jobs may pass now; None means that the breaker sets no bound."""
    if state.phase == "closed":
        return None
    if state.phase == "open":
        return state.rule.probes if now_us >= state.until_us else 0
    # A probe whose worker vanished never reports; without this the breaker would stay shut for ever.
    if now_us >= state.until_us:
        return state.rule.probes
    return max(0, state.rule.probes - state.probing)


def admit(state: Breaker, n: int, now_us: int) -> Breaker:
    """The state after `n` permitted jobs were let through; makes an open breaker half-open."""
    allowed = permits(state, now_us)
    if allowed is None or n == 0:
        return state
    if n > allowed:
        raise BadValue(f"The breaker lets {allowed} jobs through now, not {n}.", "Ask permits() first.")
    fresh = state.phase == "open" or now_us >= state.until_us
    return msgspec.structs.replace(
        state, phase="half_open", until_us=now_us + state.cool_us, probing=n if fresh else state.probing + n
    )


def record(state: Breaker, ok: bool, now_us: int) -> Breaker:
    """The state after one job ended; what ends while the breaker is open changes nothing."""
    if state.phase == "closed":
        return state if ok else _count(state, now_us)
    if state.phase == "open":
        # Stragglers that started before it opened: they tell nothing about now, and a crowd of them
        # would otherwise double the cool once each.
        return state
    if ok:
        return Breaker(state.rule)
    return _open(state.rule, min(state.cool_us * 2, state.rule.cool_cap_us), now_us)


def _count(state: Breaker, now_us: int) -> Breaker:
    # Instants ahead of now come from a clock that was set back; they count, as they are recent in truth.
    recent = tuple(at_us for at_us in state.failed_us if now_us - at_us < state.rule.window_us)
    recent += (now_us,)
    if len(recent) >= state.rule.failures:
        return _open(state.rule, state.rule.cool_us, now_us)
    return Breaker(state.rule, failed_us=recent)


def _open(rule: BreakerRule, cool_us: int, now_us: int) -> Breaker:
    return Breaker(rule, "open", until_us=now_us + cool_us, cool_us=cool_us)
