"""A clock that stands still until a test moves it, one that only a test can move on, and the one way to use them.

Production code cannot do this: no constructor, URL or setting takes a clock, and a test reads the source to
make sure that only this module replaces one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from windlass.core.clock import Clock, SystemClock

START_US = 1_800_000_000_000_000


class FakeClock:
    """Wall time and monotonic time as the test says."""

    def __init__(self, start_us: int = START_US) -> None:
        self._wall_us = start_us
        self._monotonic_us = 1_000_000

    def now_us(self) -> int:
        return self._wall_us

    def monotonic_us(self) -> int:
        return self._monotonic_us

    def advance(self, us: int) -> None:
        """Lets time pass."""
        self._wall_us += us
        self._monotonic_us += us

    def set_back(self, us: int) -> None:
        """Somebody sets the wall clock back; the monotonic one goes on."""
        self._wall_us -= us


class MovedClock:
    """The machine's clocks, ahead by as much as the test has travelled: they go on by themselves."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self._ahead_us = 0

    def now_us(self) -> int:
        return self._system.now_us() + self._ahead_us

    def monotonic_us(self) -> int:
        return self._system.monotonic_us() + self._ahead_us

    def advance(self, us: int) -> None:
        """Lets time pass."""
        self._ahead_us += us

    @property
    def now(self) -> datetime:
        """The time it is now, for `at=` and `expires=`: Python's own `datetime.now()` does not travel."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.now_us())


def travel(whose: object, clock: Clock) -> Clock:
    """Makes an engine, or an app, believe this clock; gives the one it believed before."""
    if not hasattr(whose, "_clock"):
        raise TypeError(f"{type(whose).__name__} keeps no `_clock`; an engine under test needs one.")
    before: Clock = getattr(whose, "_clock")  # noqa: B009 - the attribute is private on purpose: this is its only door
    setattr(whose, "_clock", clock)  # noqa: B010
    return before
