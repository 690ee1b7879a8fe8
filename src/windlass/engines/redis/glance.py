"""A glance at the store's head: its version, the last whole sweep, how many succeeded.

Several loops of a process look there once a second, as a net under what they are told. To answer one of them costs a
server that sleeps more than all that it says. So whoever sweeps has the head told to all workers, once a second; one
who has not heard of it asks, and one question serves all who ask within a second.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from windlass.engines.redis.link import Link

FRESH_S: Final = 0.9
TOLD_S: Final = 1.1
"""So long what was told is good: sweeps are a second apart, and a bit."""


LONGEST: Final = 19
"""Digits of a number in it."""


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
        """Until when it is good."""
        self._judged: tuple[float, int] = (0.0, 0)
        """The last whole sweep by one that may judge, and when it was first heard of."""

    def look(self) -> Head:
        """The head as it was a moment ago."""
        now_s = time.monotonic()
        if self._seen is not None and now_s < self._seen[0]:
            return self._seen[1]
        said = self._link.ask(b"HMGET", self._link.address.meta_key, b"version", b"judged", b"succeeded")
        return self._take_in(Head(*(int(number or 0) for number in said)), now_s, FRESH_S)

    def tell(self, data: bytes) -> None:
        """What a sweep has published; anything else that somebody may publish there tells nothing."""
        numbers = data.split()
        if len(numbers) == len(Head._fields) and all(_is_number(number) for number in numbers):
            self._take_in(Head(*map(int, numbers)), time.monotonic(), TOLD_S)

    def has_judged(self, after_us: int, within_s: float) -> bool:
        """Whether a whole sweep later than that one was first heard of within that time."""
        heard_s, judged_us = self._judged
        return judged_us > after_us and time.monotonic() - heard_s < within_s

    def _take_in(self, head: Head, now_s: float, good_s: float) -> Head:
        self._seen = now_s + good_s, head
        if head.judged_us != self._judged[1]:
            self._judged = now_s, head.judged_us
        return head


def _is_number(text: bytes) -> bool:
    return len(text) <= LONGEST and text.isdigit()
