"""Stores to measure on: files with up to a million jobs, written once as the engine would, copied for every run.

Filling a store through the engine takes minutes per million lane jobs, and it is not what is measured. So the rows are
written directly, in bulk; tests/test_bars.py compares them with what the engine itself writes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from windlass.core.codec import encode_arguments, encode_result
from windlass.core.ids import new_id
from windlass.core.limits import Limits
from windlass.engines.sqlite import SqliteEngine

PLAIN, LANES, DONE = "plain", "lanes", "done"
"""The queues: plain jobs, lane jobs, finished jobs."""
TASK = "bench.noop"
PAYLOAD = encode_arguments(["x" * 173], {})
"""200 bytes, the size of a usual request: one text, as a worker reads it."""
RESULT = encode_result("ok")
RAN_US = 250
YEARS_US = 10 * 365 * 86_400 * 1_000_000
LIMITS = Limits(keep_succeeded_count=10**9, keep_succeeded_us=YEARS_US)
"""Retention lifted: nothing that was finished may go while we count."""
BYTES_PER_JOB = 1_000
"""A generous bound of what a job takes in a prepared file, indexes included."""


class Stock(msgspec.Struct, frozen=True):
    """What lies in a store: plain ready jobs; lanes, each with a ready head and `behind` held ones; finished jobs."""

    plain: int = 0
    lanes: int = 0
    behind: int = 0
    finished: int = 0

    @property
    def jobs(self) -> int:
        return self.plain + self.finished + self.lanes * (1 + self.behind)


class Workshop:
    """A folder with prepared stores; everything in it goes at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._prepared: dict[Stock, Path] = {}

    @classmethod
    @contextmanager
    def opened(cls, inside: Path) -> Generator[Workshop]:
        """A new workshop inside a folder: on the disk of the repository, not in a memory file system."""
        inside.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="bars-", dir=inside))
        try:
            yield cls(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def folder(self) -> Generator[Path]:
        """An empty folder, which goes with what was put into it."""
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=self._folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def copy(self, stock: Stock) -> Generator[Path]:
        """A store of one's own, synced, so that nobody pays for the copy while he is measured."""
        with self.folder() as folder:
            path = folder / "jobs.db"
            shutil.copyfile(self._template(stock), path)
            _sync(path)
            yield path

    def _template(self, stock: Stock) -> Path:
        if stock not in self._prepared:
            path = self._folder / f"template-{len(self._prepared)}.db"
            make(path, stock)
            self._prepared[stock] = path
        return self._prepared[stock]

    def drop(self, at_least: int) -> None:
        """Removes the prepared stores with so many jobs or more: the next measurement needs the room."""
        for stock in [stock for stock in self._prepared if stock.jobs >= at_least]:
            self._prepared.pop(stock).unlink()


def connect(path: Path) -> Any:
    """A connection of our own beside the engine. Its driver's types name classes that Python 3.11 has not."""
    return apsw.Connection(str(path), statementcachesize=256)


def make(path: Path, stock: Stock) -> None:
    """A store with exactly this stock, checkpointed into one file."""
    folder = Path(tempfile.mkdtemp(prefix="make-", dir=path.parent))
    try:
        own = folder / "jobs.db"
        engine = SqliteEngine(own)
        engine.open()
        engine.close()
        database = connect(own)
        try:
            # Back to one plain file; the engine turns WAL on again when it opens it.
            for pragma in ("journal_mode=DELETE", "journal_mode=OFF", "synchronous=OFF", "cache_size=-1048576"):
                database.execute(f"PRAGMA {pragma}").fetchall()
            with database:
                _Filler(database, stock).fill()
        finally:
            database.close()
        own.rename(path)
        _sync(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Filler:
    """Writes rows as the engine leaves them behind. Plain jobs come first in number and rank, lane jobs last."""

    def __init__(self, database: Any, stock: Stock) -> None:
        self._database = database
        self._stock = stock
        self._now_us = time.time_ns() // 1_000
        self._seq = 0
        self._order = self._now_us

    def fill(self) -> None:
        stock = self._stock
        if stock.finished:
            stream = self._stream(DONE, 0)
            self._write(_FINISHED, (self._finished(stream) for _ in range(stock.finished)))
            self._tally(DONE, "succeeded", stock.finished)
        if stock.plain:
            stream = self._stream(PLAIN, stock.plain)
            self._write(_READY, (self._plain(stream) for _ in range(stock.plain)))
            self._tally(PLAIN, "ready", stock.plain)
        if stock.lanes:
            self._fill_lanes(self._stream(LANES, stock.lanes))
        self._database.execute("UPDATE book SET b = ?, c = ? WHERE kind = 0", (self._seq, self._order))

    def _fill_lanes(self, stream: int) -> None:
        """Round robin, as customers come: the first job of each lane is in, the others wait behind it."""
        stock = self._stock
        heads = [self._in_lane(lane) for lane in range(stock.lanes)]
        self._write(_HEAD, ((*head, stream) for head in heads))
        self._write(_HELD, (self._in_lane(lane) for _ in range(stock.behind) for lane in range(stock.lanes)))
        lanes = ((head[3], 1, 1, head[4]) for head in heads)
        self._write("INSERT INTO lane (name, slots, busy, last_rank) VALUES (?, ?, ?, ?)", lanes)
        self._tally(LANES, "ready", stock.lanes)
        self._tally(LANES, "held", stock.lanes * stock.behind)

    def _write(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._database.executemany(statement, rows)

    def _stream(self, queue: str, ready: int) -> int:
        stream: int = self._database.execute(
            "INSERT INTO stream (queue, gate, needs, task, suspect) VALUES (?, '', '', '', 0) RETURNING id", (queue,)
        ).get
        self._database.execute("INSERT INTO book (kind, stream, a) VALUES (1, ?, ?)", (stream, ready))
        return stream

    def _tally(self, queue: str, state: str, n: int) -> None:
        if n:
            self._database.execute(
                "INSERT INTO book (kind, queue, task, state, a) VALUES (2, ?, ?, ?, ?)", (queue, TASK, state, n)
            )

    def _next(self) -> tuple[int, int]:
        self._seq += 1
        self._order += 1
        return self._seq, self._order

    def _plain(self, stream: int) -> tuple[Any, ...]:
        seq, rank = self._next()
        return seq, new_id(), rank, self._now_us, stream

    def _finished(self, stream: int) -> tuple[Any, ...]:
        seq, rank = self._next()
        # A hundred settled together share their instant.
        at_us = self._now_us - self._stock.finished + seq // 100
        return seq, new_id(), rank, at_us, stream, at_us + LIMITS.keep_result_us, YEARS_US

    def _in_lane(self, lane: int) -> tuple[Any, ...]:
        seq, rank = self._next()
        self._order += 1
        return seq, new_id(), self._now_us, f"customer-{lane}", rank, self._order


_PAYLOAD = f"x'{PAYLOAD.hex()}'"
_READY = f"""
INSERT INTO job (seq, id, state, queue, task, stream, rank, priority, created_us, due_us, payload)
VALUES (?1, ?2, 'ready', '{PLAIN}', '{TASK}', ?5, ?3, 0, ?4, ?4, {_PAYLOAD})"""
_FINISHED = f"""
INSERT INTO job (seq, id, state, queue, task, stream, rank, priority, created_us, due_us, payload,
  fence, settled_fence, worker, ticket, claimed_us, started_us, ended_us, purge_us, keep_us, result, result_until_us)
VALUES (?1, ?2, 'succeeded', '{DONE}', '{TASK}', ?5, ?3, 0, ?4, ?4, {_PAYLOAD},
  ?4, ?4, zeroblob(16), 1 + ?1 / 100, ?4, ?4 - {RAN_US}, ?4, ?4 + ?7, ?7, x'{RESULT.hex()}', ?6)"""
_HEAD = f"""
INSERT INTO job (seq, id, state, queue, task, stream, rank, priority, created_us, due_us, payload, lane, place, slot)
VALUES (?1, ?2, 'ready', '{LANES}', '{TASK}', ?7, ?5, 0, ?3, ?3, {_PAYLOAD}, ?4, ?6, 1)"""
_HELD = f"""
INSERT INTO job (seq, id, state, queue, task, rank, priority, created_us, due_us, payload, lane, place, hold)
VALUES (?1, ?2, 'held', '{LANES}', '{TASK}', ?5, 0, ?3, ?3, {_PAYLOAD}, ?4, ?6, 'lane')"""


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
