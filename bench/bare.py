"""The bare loop: the least that SQLite must do for the same jobs, on our table with all its indexes.

Same file, same pragmas, batches of 100, one transaction each. It keeps no counters, asks no gate, checks no argument,
knows no lanes, wakes nobody and shares its file with nobody: the distance to it is the price of all that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.rounds import Figure, Stopwatch, turn_of_the_wal
from bench.stores import PAYLOAD, PLAIN, RAN_US, RESULT, TASK, YEARS_US, connect
from windlass.core.ids import new_id
from windlass.core.limits import DEFAULT

BATCH = 100
DAY_US = DEFAULT.keep_result_us

INSERT = """
INSERT INTO job (seq, id, state, queue, task, stream, rank, priority, created_us, due_us, options, payload)
VALUES (?1, ?2, 'ready', ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10)"""
CLAIM = """
UPDATE job SET state = 'running', worker = ?1, ticket = ?2, claimed_us = ?3, fence = max(fence + 1, ?3)
WHERE seq IN (SELECT seq FROM job WHERE state = 'ready' AND stream = ?4 ORDER BY rank, seq LIMIT ?5)
RETURNING id, fence, task, queue, payload, options, attempt, crashes, losses, suspect, priority, due_us, lane, flow"""
SETTLE = """
UPDATE job SET state = 'succeeded', settled_fence = fence, started_us = ?3 - ?4, ended_us = ?3, result = ?5,
  result_until_us = ?6, keep_us = ?7, purge_us = ?3 + ?7
WHERE id = ?1 AND fence = ?2 AND state = 'running'"""


def drain(path: Path, sizes: Sequence[int]) -> Iterator[Figure]:
    """Claims and settles so many plain jobs."""
    database = open_store(path)
    stream, worker, ticket = stream_of(database), new_id(), 0
    for jobs in sizes:
        left = jobs
        watch = Stopwatch()
        while left:
            ticket += 1
            batch = min(left, BATCH)
            settle(database, claim(database, worker, ticket, stream, batch))
            left -= batch
        yield watch.stop(jobs)
    _check(database, "succeeded", sum(sizes))


def claim(database: Any, worker: bytes, ticket: int, stream: int, batch: int) -> list[tuple[Any, ...]]:
    """Takes up to so many jobs, in a transaction."""
    database.execute("BEGIN IMMEDIATE")
    claims = database.execute(CLAIM, (worker, ticket, _now_us(), stream, batch)).fetchall()
    database.execute("COMMIT")
    return claims


def settle(database: Any, claims: Sequence[tuple[Any, ...]]) -> None:
    """Ends all of them with a result, in a transaction."""
    now_us = _now_us()
    ends = [(taken[0], taken[1], now_us, RAN_US, RESULT, now_us + DAY_US, YEARS_US) for taken in claims]
    database.execute("BEGIN IMMEDIATE")
    database.executemany(SETTLE, ends)
    database.execute("COMMIT")


def insert(database: Any, rows: Sequence[tuple[Any, ...]]) -> None:
    """Puts these in, in a transaction."""
    database.execute("BEGIN IMMEDIATE")
    database.executemany(INSERT, rows)
    database.execute("COMMIT")


def insert_bulk(path: Path, sizes: Sequence[int]) -> Iterator[Figure]:
    """Inserts so many jobs, a hundred per transaction."""
    database, seq = open_store(path), 0
    stream = stream_of(database)
    for jobs in sizes:
        ids = [new_id() for _ in range(jobs)]
        watch = Stopwatch()
        for start in range(0, jobs, BATCH):
            now_us, part = _now_us(), ids[start : start + BATCH]
            rows = [row(number, id_, stream, now_us) for number, id_ in enumerate(part, seq + 1)]
            seq += len(part)
            insert(database, rows)
        yield watch.stop(jobs)
    _check(database, "ready", sum(sizes))


def insert_single(path: Path, sizes: Sequence[int]) -> Iterator[Figure]:
    """Inserts so many jobs, each with a commit of its own."""
    database, seq = open_store(path), 0
    stream = stream_of(database)
    turn = turn_of_the_wal(sizes)
    for _ in range(turn // BATCH):
        insert(database, [row(seq + number, new_id(), stream, _now_us()) for number in range(1, BATCH + 1)])
        seq += BATCH
    for jobs in sizes:
        ids = [new_id() for _ in range(jobs)]
        watch = Stopwatch()
        for id_ in ids:
            seq += 1
            database.execute(INSERT, row(seq, id_, stream, _now_us()))
        yield watch.stop(jobs)
    _check(database, "ready", turn + sum(sizes))


def row(seq: int, id_: bytes, stream: int, now_us: int) -> tuple[Any, ...]:
    """A job that is ready, as INSERT takes it."""
    return (seq, id_, PLAIN, TASK, stream, now_us + seq, 0, now_us, None, PAYLOAD)


def open_store(path: Path) -> Any:
    """As the engine opens it: WAL, FULL, the same page cache, a checkpoint every 4,000 pages."""
    database = connect(path)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-32768", "temp_store=MEMORY"):
        database.execute(f"PRAGMA {pragma}").fetchall()
    database.wal_autocheckpoint(4_000)
    return database


def stream_of(database: Any) -> int:
    """The stream of the plain jobs."""
    key = (PLAIN, "", "", "", 0)
    database.execute("INSERT OR IGNORE INTO stream (queue, gate, needs, task, suspect) VALUES (?, ?, ?, ?, ?)", key)
    return database.execute("SELECT id FROM stream WHERE queue = ?", (PLAIN,)).get


def _check(database: Any, state: str, jobs: int) -> None:
    """A contestant that did not do its work has no figure."""
    found = database.execute("SELECT count(*) FROM job WHERE state = ? AND queue = ?", (state, PLAIN)).get
    database.close()
    if found != jobs:
        raise RuntimeError(f"The bare loop left {found} jobs {state} instead of {jobs}.")


def _now_us() -> int:
    return time.time_ns() // 1_000
