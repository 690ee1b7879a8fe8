"""A clock that stands still until a test moves it, and the one way to put it into an engine.

Production code cannot do this: no constructor, URL or setting takes a clock, and a test reads the source to
make sure that only this module replaces one.
"""

from __future__ import annotations

from windlass.core.clock import Clock
from windlass.engines.protocol import Engine

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


def travel(engine: Engine, clock: Clock) -> None:
    """Makes the engine believe this clock."""
    if not hasattr(engine, "_clock"):
        raise TypeError(f"{type(engine).__name__} keeps no `_clock`; an engine under test needs one.")
    setattr(engine, "_clock", clock)  # noqa: B010 - the attribute is private on purpose: this is its only door
