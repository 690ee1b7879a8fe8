"""A job's lines on their way to the store: a few times a second, and no more at once than others can bear.

Whoever says more than that loses the middle of what it said in that moment; how much is said in its place. What a spool
holds is bounded, and so is what it hands on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

from windlass.core.clock import Clock
from windlass.core.ids import JobId
from windlass.core.job import Stream
from windlass.core.limits import Limits
from windlass.core.plural import number_of
from windlass.engines.protocol import Note
from windlass.worker.desk import Desk

BURST = 3_000
"""How many lines a job may say at once."""
STEADY = 100
"""How many more it may say with every flush."""
LAST = 100
"""How many of the last ones are kept of what goes beyond."""
MOST_CHARS = 1 << 20
"""How much may be held at once: about what a log may take."""
LONGEST_LINE = 16_384
"""Characters."""
FLUSH_US = 250_000


class Line(NamedTuple):
    """One line as it was said."""

    number: int
    stream: Stream
    at_us: int
    text: str


class Spool:
    """Lines of one run. Tasks write, and may be interrupted anywhere: each change is one operation on a deque."""

    def __init__(self) -> None:
        self._first: deque[Line] = deque()
        self._last: deque[Line] = deque(maxlen=LAST)
        self._room = BURST
        self._chars = 0
        self._numbers = count(1)
        self._taken = 0

    def add(self, stream: Stream, at_us: int, text: str) -> None:
        text = text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE] + "…"
        self._chars += len(text)
        lines = self._first if len(self._first) < self._room and self._chars < MOST_CHARS else self._last
        lines.append(Line(next(self._numbers), stream, at_us, text))

    @property
    def room(self) -> int:
        """How many more are kept whole before the next flush."""
        return max(0, self._room - len(self._first)) if self._chars < MOST_CHARS else 0

    def skip(self, number: int) -> None:
        """So many were said that nobody looked at."""
        self._numbers = count(next(self._numbers) + number)

    def take(self) -> Iterator[Line]:
        """What is there now, in its order, and where something is missing, how much."""
        self._room = max(STEADY, min(BURST, self._room - len(self._first) + STEADY))
        self._chars = 0
        for line in sorted(lines.popleft() for lines in (self._first, self._last) for _ in range(len(lines))):
            missing = line.number - self._taken - 1
            if missing > 0:
                yield Line(0, "", line.at_us, f"… {number_of(missing, 'line')} left out: they came too fast.")
            yield line
            self._taken = line.number


class Spools:
    """The scribe of a worker: what its running jobs say."""

    def __init__(self, clock: Clock, desk: Desk, hand_on: Callable[[Note], None], limits: Limits) -> None:
        self._clock = clock
        self._desk = desk
        self._hand_on = hand_on
        self._limits = limits
        self._spools: dict[tuple[JobId, int], Spool] = {}
        self._taking = threading.Lock()
        self._flush_at_us = 0

    def line(self, job: JobId, fence: int, stream: Stream, text: str) -> None:
        spool = self._spools.get((job, fence))
        if spool is None:
            if job not in self._desk.open:
                return  # said by a thread that outlived its task: the job has ended, and takes no more
            spool = self._spools.setdefault((job, fence), Spool())
        spool.add(stream, self._clock.now_us(), text)

    def progress(self, job: JobId, fence: int, data: bytes) -> None:
        data = data if len(data) <= self._limits.note_bytes else b"{}"
        self._hand_on(Note(id=job, fence=fence, kind="progress", data=data))

    def flush(self, now_us: int) -> None:
        """What running jobs have said since the last time, if that is long enough ago."""
        if self._spools and now_us >= self._flush_at_us:
            self._flush_at_us = now_us + FLUSH_US
            for key in list(self._spools):
                if key[0] in self._desk.open:
                    self._take(key, self._spools.get(key))
                else:
                    self._spools.pop(key, None)

    def finish(self, job: JobId, fence: int) -> None:
        """It has ended: all that it said goes before its end."""
        if self._spools:
            self._take((job, fence), self._spools.pop((job, fence), None))

    def _take(self, key: tuple[JobId, int], spool: Spool | None) -> None:
        if spool is None:
            return
        with self._taking:
            for note in notes_of(key, spool, self._limits):
                self._hand_on(note)


def notes_of(key: tuple[JobId, int], spool: Spool, limits: Limits) -> Iterator[Note]:
    """What a run has said since the last time, as the store takes it."""
    job, fence = key
    for line in spool.take():
        data = _cut(line.text.encode(errors="backslashreplace"), limits.note_bytes)
        yield Note(id=job, fence=fence, kind="log", data=data, stream=line.stream, at_us=line.at_us)


def _cut(data: bytes, most: int) -> bytes:
    return data if len(data) <= most else data[: most - 3] + "…".encode()
