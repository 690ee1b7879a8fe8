"""What the store holds when everybody has gone: all jobs, the counters, SQLite's own check, and what was left."""

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any, cast

import apsw

from tests.soak.checker import Store
from windlass.core.ids import JobId
from windlass.core.job import Job, State
from windlass.engines.protocol import Engine, Query, Sweep, TallyQuery
from windlass.engines.sqlite import SqliteEngine

LONG_AGO_S = 7_200.0


def all_jobs(engine: Engine) -> dict[str, Job]:
    """Every job, found by search and fetched whole."""
    ids: list[JobId] = []
    cursor: str | None = None
    while True:
        page = engine.search(Query(limit=1_000, cursor=cursor))
        ids += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
    assert len(set(ids)) == len(ids), "search listed a job twice"
    jobs: dict[str, Job] = {}
    for start in range(0, len(ids), 500):
        for job_id, job in zip(ids[start : start + 500], engine.fetch(ids[start : start + 500]), strict=True):
            assert job is not None, "search found a job that fetch does not"
            jobs[job_id.hex()] = job
    return jobs


def integrity(database: Path) -> list[str]:
    """SQLite's own opinion of the file."""
    connection = cast("Any", apsw.Connection(str(database)))
    try:
        return [str(line) for (line,) in connection.execute("PRAGMA integrity_check")]
    except apsw.Error as error:
        return [f"{type(error).__name__}: {error}"]
    finally:
        connection.close(True)


def look(database: Path, *, drained: bool = True) -> Store:
    """Opens the store, reads it all, and after a drain looks for what should have gone."""
    engine = SqliteEngine(database, disk_floor=0, disk_reserve=0)
    opened = engine.open()
    try:
        if drained:
            _sweep_up(engine, database)
        jobs = all_jobs(engine)
        counts: Counter[tuple[str, str, State]] = Counter()
        for count in engine.tally(TallyQuery()).counts:
            counts[count.queue, count.task, count.state] += count.n
    finally:
        engine.close()
    leftovers = [*rows_left(database), *files_left(database)] if drained else []
    return Store(
        jobs=jobs,
        counts=counts,
        integrity=integrity(database),
        leftovers=leftovers,
        noticed=any("not closed cleanly" in notice for notice in opened.notices),
    )


def _sweep_up(engine: Engine, database: Path) -> None:
    """What a later sweep would do: the FIFOs of killed listeners are taken away once they are old."""
    for entry in os.scandir(f"{database}.d/wake"):
        then = time.time() - LONG_AGO_S
        os.utime(entry.path, (then, then), follow_symlinks=False)
    for _ in range(1_000):
        if not engine.sweep(Sweep()).more:
            return
    raise AssertionError("sweep says `more` for ever")


LEFT = {
    "chores": "SELECT count(*) FROM chore",
    "open edges": "SELECT count(*) FROM edge",
    "cards": "SELECT count(*) FROM card",
    "lanes with places taken": "SELECT count(*) FROM lane WHERE busy != 0",
    "lanes without jobs": "SELECT count(*) FROM lane WHERE busy = 0",
    "streams with counts": "SELECT count(*) FROM stream_now WHERE ready != 0 OR running != 0",
    "keys that block": "SELECT count(*) FROM job WHERE ukey IS NOT NULL",
    "places held": "SELECT count(*) FROM job WHERE slot != 0",
    "flows with live nodes": "SELECT count(*) FROM flow WHERE live != 0",
    "attempts of nobody": "SELECT count(*) FROM attempt WHERE job NOT IN (SELECT seq FROM job)",
}


def rows_left(database: Path) -> list[str]:
    """Rows that should be gone when every job has ended and every worker has left."""
    connection = cast("Any", apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY))
    try:
        found = {what: cast("int", connection.execute(query).get) for what, query in LEFT.items()}
    finally:
        connection.close(True)
    return [f"{n} {what}" for what, n in found.items() if n]


def files_left(database: Path) -> list[str]:
    """Files that should be gone, and locks that somebody still holds."""
    folder = Path(f"{database}.d")
    left = [f"{name}/{path}" for name in ("owners", "wake") for path in sorted(os.listdir(folder / name))]
    for path in (Path(f"{database}.gate"), folder / "open"):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            left.append(f"a lock on {path.name}")
        finally:
            os.close(descriptor)
    if (folder / "open").read_bytes() != b"clean":
        left.append("the mark of an unclean end")
    return left
