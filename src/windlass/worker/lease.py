"""Until when a worker may count its claims as its own, where a lease decides (not a lock).

It counts from when the last good renewal was *sent*. At four fifths of it the worker cuts itself off: it claims and
starts nothing, and stops what must not run twice at a time. It goes on settling: the fence says what still counts.
"""

from __future__ import annotations

from collections.abc import Callable

CUT_AT = 0.8


class Lease:
    """One worker's lease; without a length there is none, and nothing is ever cut."""

    def __init__(self, lease_us: int | None) -> None:
        self._lease_us = lease_us
        self.cut_us = 0
        """When it is cut, by the monotonic clock; 0: never."""
        self.on_change: Callable[[int], None] = lambda _cut_us: None

    def renewed(self, sent_us: int) -> None:
        """The store has taken a renewal that was sent then."""
        if self._lease_us is not None:
            self.cut_us = sent_us + int(CUT_AT * self._lease_us)
            self.on_change(self.cut_us)

    def is_cut(self, now_us: int) -> bool:
        return 0 < self.cut_us <= now_us
