"""The only place that reads the time: whoever needs it takes a `Clock`, so tests can hand over their own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time in whole microseconds."""

    def now_us(self) -> int:
        """Wall time since 1970 in UTC; may jump, either way."""
        ...

    def monotonic_us(self) -> int:
        """Time since some fixed moment of this machine; never goes back."""
        ...


class SystemClock:
    """The machine's own clocks, without rounding through floats (a float is 0.2 µs coarse today)."""

    __slots__ = ()

    def now_us(self) -> int:
        """Wall time since 1970 in UTC; may jump, either way."""
        return time.time_ns() // 1_000

    def monotonic_us(self) -> int:
        """Time since some fixed moment of this machine; never goes back."""
        return time.monotonic_ns() // 1_000
