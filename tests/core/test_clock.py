"""The system clock counts whole microseconds of the right epoch."""

from __future__ import annotations

import time

from windlass.core.clock import Clock, SystemClock


def test_the_system_clock_tells_wall_time_in_microseconds_since_1970() -> None:
    clock: Clock = SystemClock()
    before = time.time_ns()
    now = clock.now_us()
    after = time.time_ns()
    assert isinstance(now, int)
    assert before // 1000 <= now <= after // 1000


def test_the_monotonic_clock_never_goes_back() -> None:
    clock = SystemClock()
    seen = [clock.monotonic_us() for _ in range(1000)]
    assert seen == sorted(seen)
    assert seen[-1] // 1_000_000 - time.monotonic_ns() // 1_000_000_000 in (-1, 0)
