"""The one place where anything waits: for a condition, bounded, and loud when it does not come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

HANG_S = 60.0
"""Long past anything healthy: who waits longer hangs."""


class Hangs(AssertionError):
    """What was waited for did not come."""


def wait_for(what: str, look: Callable[[], T], *, hang_s: float = HANG_S, step_s: float = 0.002) -> T:
    """The first true answer of `look`; `Hangs` if none comes."""
    deadline = time.monotonic() + hang_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise Hangs(f"waited {hang_s:.0f} s for {what}")
        time.sleep(step_s)
