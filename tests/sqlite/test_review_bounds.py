"""What must not grow with the store: sweeps and searches, counted in steps of SQLite, records, commits and syncs."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.sqlite.rig import claim, commits, hire, inner, outside, send, tell
from windlass.core.errors import StoreCorrupt, StoreUnavailable
from windlass.core.ids import new_id
from windlass.core.job import Job, Request, State
from windlass.core.limits import Limits
from windlass.engines.memory import MemoryEngine
from windlass.engines.memory import sweep as memory_sweep
from windlass.engines.protocol import Beat, Card, Engine, Order, Put, Query, Settlement, Sweep
from windlass.engines.sqlite import SqliteEngine, sweep

MANY = 20_000
FAR_US = 1 << 60
ENDED = (
    "INSERT INTO job (seq, id, state, queue, task, rank, priority, created_us, due_us,"
    " ended_us, purge_us, ukey, payload) VALUES (?, ?, ?, 'q', 't', 0, 0, 1, 1, ?, ?, ?, x'')"
)


def fill(path: Path, state: State, first: int, n: int, *, keyed: bool = False) -> None:
    """Ended jobs, written past the engine: their ends and the times they may go count up with their numbers."""
    with outside(path) as connection:
        connection.execute("BEGIN")
        rows = [
            (seq, new_id(), state.value, seq, FAR_US + seq, f"k{seq}" if keyed else None)
            for seq in range(first, first + n)
        ]
        connection.executemany(ENDED, rows)
        connection.execute(
            "INSERT INTO book (kind, queue, task, state, a) VALUES (2, 'q', 't', ?1, ?2) "
            "ON CONFLICT DO UPDATE SET a = a + ?2",
            (state.value, n),
        )
        connection.execute("UPDATE book SET b = max(b, ?) WHERE kind = 0", (first + n,))
        connection.execute("COMMIT")


@contextmanager
def steps_of(connection: Any) -> Generator[Callable[[], int]]:
    """Counts, by tens, what SQLite's machine does on a connection: each row visited costs it several steps."""
    counted = 0

    def count() -> bool:
        nonlocal counted
        counted += 10
        return False

    connection.set_progress_handler(count, 10)
    try:
        yield lambda: counted
    finally:
        connection.set_progress_handler(None)


def swept_in(engine: SqliteEngine, limit: int = 100) -> tuple[int, int]:
    """How many records a sweep removed, and in how many steps."""
    with steps_of(inner(engine, "committer", "_connection")) as steps:
        purged = engine.sweep(Sweep(limit=limit)).purged
    return purged, steps()


@pytest.fixture
def few(path: Path) -> Iterator[SqliteEngine]:
    engine = SqliteEngine(path, Limits(keep_succeeded_count=10))
    engine.open()
    yield engine
    engine.close()


@pytest.mark.parametrize(("state", "keyed"), [(State.CANCELLED, False), (State.SUCCEEDED, True)])
def test_removing_successes_by_number_steps_over_nothing_else(
    few: SqliteEngine, path: Path, state: State, keyed: bool
) -> None:
    fill(path, state, 1, MANY, keyed=keyed)
    fill(path, State.SUCCEEDED, MANY + 1, 15)
    purged, steps = swept_in(few, limit=5)
    assert purged == 5
    assert steps < MANY, steps
    left = tell(path, "SELECT count(*), min(seq) FROM job WHERE state = 'succeeded' AND ukey IS NULL")
    assert left == [(10, MANY + 6)], "the oldest went"


def test_removing_by_time_finds_every_kind_of_ended_job(engine: SqliteEngine, path: Path) -> None:
    fill(path, State.CANCELLED, 1, 3)
    fill(path, State.SUCCEEDED, 11, 3)
    fill(path, State.SUCCEEDED, 21, 3, keyed=True)
    tell(path, "UPDATE job SET purge_us = 1 WHERE seq % 10 != 3")
    assert engine.sweep(Sweep(limit=4)).purged == 4
    assert engine.sweep(Sweep()).purged == 2
    assert tell(path, "SELECT seq FROM job ORDER BY seq") == [(3,), (13,), (23,)]


def test_facts_that_have_not_expired_are_not_looked_at(engine: SqliteEngine, path: Path) -> None:
    with outside(path) as connection:
        connection.execute("BEGIN")
        facts = [(f"a/{n}", b"v", 1, FAR_US if n % 2 else None) for n in range(MANY)]
        connection.executemany("INSERT INTO fact VALUES (?, ?, ?, ?)", facts)
        connection.execute("INSERT INTO fact VALUES ('z/old', x'', 1, 1)")
        connection.execute("COMMIT")
    _, steps = swept_in(engine)
    assert tell(path, "SELECT count(*) FROM fact") == [(MANY,)]
    assert steps < MANY // 2, steps


def test_an_expired_gate_takes_its_bucket_along_and_leaves_the_others(engine: SqliteEngine, path: Path) -> None:
    engine.write([Put(key="gate/short", value=b"{}", ttl_us=1), Put(key="gate/long", value=b"{}")])
    tell(path, "INSERT INTO bucket VALUES ('gate/short', 7), ('gate/long', 8)")
    tell(path, "UPDATE fact SET expires_us = 1 WHERE key = 'gate/short'")
    engine.sweep(Sweep())
    assert tell(path, "SELECT gate FROM bucket") == [("gate/long",)]


# ── sweeps ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sweep_that_finds_nothing_to_do_commits_nothing(engine: SqliteEngine, path: Path) -> None:
    worker = hire(engine)
    send(engine)
    (running,) = claim(engine, worker)
    send(engine, delay_us=3_600_000_000)
    engine.sweep(Sweep())
    before = commits(path)
    for _ in range(3):
        engine.sweep(Sweep(worker=worker))
    assert commits(path) == before
    engine.settle([Settlement(id=running.id, fence=running.fence)])
    assert commits(path) == before + 1


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO fact VALUES ('a/b', x'', 1, 1)",
        "INSERT INTO stream (queue, gate, needs, task, suspect) VALUES ('q', '', '', '', 0)",
        "INSERT INTO book (kind, queue, task, state, a) VALUES (2, 'q', 't', 'ready', 0)",
        "INSERT INTO history VALUES ('minute', 0, 'q', 't', 'n', 1)",
    ],
    ids=["fact", "stream", "tally", "history"],
)
def test_a_sweep_that_only_tidies_up_still_commits(engine: SqliteEngine, path: Path, statement: str) -> None:
    table = "tally" if "book" in statement else statement.split()[2]
    tell(path, statement)
    before = commits(path)
    engine.sweep(Sweep())
    assert tell(path, f"SELECT count(*) FROM {table}") == [(0,)]
    assert commits(path) == before + 1


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_no_sweep_touches_more_than_its_bound_whatever_is_asked_for(
    kind: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert memory_sweep.MOST_RECORDS == sweep.MOST_RECORDS == 10_000
    monkeypatch.setattr(memory_sweep, "MOST_RECORDS", 4)
    monkeypatch.setattr(sweep, "MOST_RECORDS", 4)
    engine: Engine = MemoryEngine(new_id().hex(), Limits()) if kind == "memory" else SqliteEngine(path)
    engine.open()
    try:
        ids = _done(engine, 10)
        swept = engine.sweep(Sweep(limit=1 << 40))
        assert (swept.purged, swept.more) == (4, True)
        assert sum(job is None for job in engine.fetch(ids)) == 4
    finally:
        engine.close()


def _done(engine: Engine, n: int) -> list[bytes]:
    """Jobs that ended and may go at once."""
    worker = new_id()
    jobs = [Job(request=Request(id=new_id(), task="t")) for _ in range(n)]
    engine.insert(jobs)
    engine.renew(Beat(card=Card(worker=worker), beat=0))
    held = engine.claim(Order(worker=worker, ticket=1, limit=n)).claims
    engine.settle([Settlement(id=one.id, fence=one.fence, keep_us=0) for one in held])
    return [job.id for job in jobs]


# ── searches ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("since_us", "until_us", "n"), [(MANY - 4, None, 5), (None, 6, 5), (100, 110, 10), (MANY + 1, None, 0)]
)
@pytest.mark.parametrize("by", [{"queue": "q"}, {"task": "t"}, {}], ids=["queue", "task", "state"])
def test_a_search_by_time_looks_at_nothing_outside_it(
    engine: SqliteEngine, path: Path, by: dict[str, Any], since_us: int | None, until_us: int | None, n: int
) -> None:
    fill(path, State.SUCCEEDED, 1, MANY)
    page = engine.search(Query(state=State.SUCCEEDED, since_us=since_us, until_us=until_us, count=True, **by))
    assert (page.count, page.scanned, page.cursor) == (n, n, None)


@pytest.mark.parametrize("state", [None, State.SCHEDULED, State.DEAD])
def test_a_search_by_fingerprint_looks_at_nothing_else(engine: SqliteEngine, path: Path, state: State | None) -> None:
    fill(path, State.SUCCEEDED, 1, MANY)
    page = engine.search(Query(fingerprint="f", state=state))
    assert (page.scanned, page.cursor) == (0, None)


# ── readers, backup ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("error", "told"), [(apsw.CorruptError, StoreCorrupt), (apsw.IOError, StoreUnavailable)])
def test_a_read_that_fails_under_the_gate_is_told_in_our_words(
    engine: SqliteEngine, error: type[apsw.Error], told: type[Exception]
) -> None:
    gate, readers = inner(engine, "gate"), inner(engine, "readers")
    tries = 0

    def look(_: object) -> None:
        nonlocal tries
        tries += 1
        if tries > 5:
            raise error("broken")
        gate.begin_epoch()  # a checkpoint overtakes every try but the last, which is made under the gate

    with pytest.raises(told):
        readers.read(look)
    assert tries == 6
    assert engine.fetch([new_id()]) == [None], "the gate is free again"


def test_a_backup_is_on_the_disk_with_its_name(
    engine: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    synced: list[int] = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    copy = engine.backup(folder / "copy.db")
    assert synced == [copy.stat().st_ino, folder.stat().st_ino]


def test_a_backup_that_cannot_be_synced_is_told_and_leaves_nothing_behind(
    engine: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreUnavailable, match="Input/output error"):
        engine.backup(tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
