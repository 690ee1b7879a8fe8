"""A glance at the store's head: its version, the last whole sweep, how many succeeded.

Several loops of a process look there once a second, as a net under what they are told. To answer one of them costs a
server that sleeps more than all that it says; so one question serves all who ask within a second.
"""

from __future__ import annotations

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
    """What one process has last seen of the head. Two threads that ask at once both get an answer."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._seen: tuple[float, Head] | None = None

    def look(self) -> Head:
        """The head as it was within the last second."""
        now_s = time.monotonic()
        if self._seen is None or now_s - self._seen[0] >= FRESH_S:
            said = self._link.ask(b"HMGET", self._link.address.meta_key, b"version", b"judged", b"succeeded")
            self._seen = now_s, Head(*(int(number or 0) for number in said))
        return self._seen[1]
