"""A glance at the store's head: its version, the last whole sweep, how many succeeded.

Several loops of a process look there once a second, as a net under what they are told. To answer one of them costs a
server that sleeps more than all that it says; so one question serves all who ask within that second.
"""

from __future__ import annotations

import threading
import time
from typing import Final, NamedTuple

from windlass.engines.redis.link import Link

FRESH_S: Final = 0.9


class Head(NamedTuple):
    """What was seen; 0 where there is nothing."""

    version: int
    judged_us: int
    """When a worker that may call others dead last swept and left nothing over."""
    succeeded: int


class Glance:
    """What one process has last seen of the head."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._seen: Head | None = None
        self._at_s = 0.0

    def look(self) -> Head:
        """The head as it was within the last second."""
        with self._lock:
            now_s = time.monotonic()
            if self._seen is None or now_s - self._at_s >= FRESH_S:
                said = self._link.ask(b"HMGET", self._link.address.meta_key, b"version", b"judged", b"succeeded")
                self._seen, self._at_s = Head(*(int(number or 0) for number in said)), now_s
            return self._seen
