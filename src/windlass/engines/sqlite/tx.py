"""One operation inside a transaction, and the counters it changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from windlass.core.ids import JobId, WorkerId
from windlass.core.rank import next_order
from windlass.engines.protocol import Hint
from windlass.engines.sqlite.connection import Database
from windlass.engines.sqlite.statements import repeated, sql

BOOK_ADD = sql("book_add")
WIDTH = BOOK_ADD.count("?")
"""The values of one counter in that statement."""


class Counters:
    """What the operations of a group have changed in the counters, until it is written.

    They stay with the connection: the streams looked up for one group hold for the next, if nobody else wrote between.
    """

    __slots__ = ("counts", "stream_ids", "streams")

    def __init__(self) -> None:
        self.counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self.streams: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        self.stream_ids: dict[str, int] = {}
        """The streams of plain jobs by queue, as far as they have been looked up."""

    def flush(self, connection: Database) -> None:
        """Writes what has changed, so that statements see it."""
        self._write(connection, [])

    def finish(self, connection: Database, seq: int, order: int) -> None:
        """Writes what has changed and one commit more, with so many job numbers and so much order given out."""
        self._write(connection, [0, 0, "", "", "", 0, seq, order, 1])

    def _write(self, connection: Database, rows: list[object]) -> None:
        """All in one statement."""
        for stream, (ready, running) in self.streams.items():
            if ready or running:
                rows += (1, stream, "", "", "", ready, running, 0, 0)
        for (queue, task, state), n in self.counts.items():
            if n:
                rows += (2, 0, queue, task, state, n, 0, 0, 0)
        if rows:
            connection.execute(repeated(BOOK_ADD, len(rows) // WIDTH), rows)
        self.streams.clear()
        self.counts.clear()

    def forget(self) -> None:
        """What was refused has been undone."""
        self.streams.clear()
        self.counts.clear()
        self.stream_ids.clear()


class Tx:
    """One operation inside a transaction: the connection, the instant, and what it has to tell afterwards."""

    __slots__ = (
        "asked",
        "commits",
        "connection",
        "counters",
        "counts",
        "ends",
        "idle",
        "now_us",
        "order",
        "run",
        "seq",
        "streams",
        "woken",
    )

    def __init__(
        self, connection: Database, counters: Counters, now_us: int, seq: int, order: int, commits: int
    ) -> None:
        self.connection = connection
        self.counters = counters
        self.commits = commits
        """The number of this commit."""
        self.idle = False
        """The operation changed nothing worth a sync: alone, it is rolled back."""
        self.run = connection.execute
        self.now_us = now_us
        self.seq = seq
        self.order = order
        self.counts = counters.counts
        self.streams = counters.streams
        self.woken: set[str] = set()
        self.ends: list[JobId] = []
        self.asked: set[WorkerId] = set()

    def next_order(self) -> int:
        """The next value of the store's own count."""
        self.order = next_order(self.order, self.now_us)
        return self.order

    def flush(self) -> None:
        """Writes the counters, so that statements of this operation see them."""
        self.counters.flush(self.connection)

    def hints(self) -> Iterator[Hint]:
        """What this operation has to tell those who listen."""
        yield from (Hint(kind="work", queue=queue) for queue in self.woken)
        yield from (Hint(kind="end", id=job_id) for job_id in self.ends)
        yield from (Hint(kind="order", id=worker) for worker in self.asked)
