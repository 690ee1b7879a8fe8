"""Work for the processor, the same with a queue and without."""

from __future__ import annotations

UNITS = 100_000
"""Some milliseconds of it."""


def count(units: int) -> int:
    """Keeps a core busy, and the GIL."""
    found = 0
    for number in range(units):
        found += number & 1
    return found
