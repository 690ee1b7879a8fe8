"""What makes a write safe: one sync per answer, one writer at a time, one refusal harming nobody else."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.sqlite.rig import (
    claim,
    commits,
    gate_is_held,
    hire,
    in_child,
    inner,
    new_job,
    outside,
    record,
    send,
    tell,
    together,
)
from windlass.core.errors import (
    BadValue,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    TicketOutOfOrder,
    UnknownParent,
    WorkerGone,
)
from windlass.core.ids import JobId, new_id
from windlass.core.job import Edge, State
from windlass.engines.protocol import Amendment, Change, Hint, Interest, Receipt, Settlement, Sweep, Verdict
from windlass.engines.sqlite import SqliteEngine, gate, line
from windlass.engines.sqlite.gate import Gate
from windlass.engines.sqlite.line import Operation
from windlass.engines.sqlite.tx import Tx
from windlass.testing.clock import FakeClock, travel

SYSTEM = "unix"


class CountedFile(apsw.VFSFile):
    """A file of the system that says when it is synced."""

    def __init__(self, name: Any, flags: list[int], syncs: list[str]) -> None:
        super().__init__(SYSTEM, name, flags)
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._syncs = syncs

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        super().xSync(flags)
        self._syncs.append(self._name)


class CountingSystem(apsw.VFS):
    """The files of the system, with every sync written down."""

    def __init__(self, syncs: list[str]) -> None:
        super().__init__("counting", SYSTEM, makedefault=True)
        self._syncs = syncs

    def xOpen(self, name: Any, flags: list[int]) -> CountedFile:  # noqa: N802 - SQLite's name
        return CountedFile(name, flags, self._syncs)


@pytest.fixture
def syncs() -> Iterator[list[str]]:
    done: list[str] = []
    system = CountingSystem(done)
    yield done
    system.unregister()


# ── every answer is on the disk ─────────────────────────────────────────────────────────────────────────


def test_every_acknowledged_write_was_synced_before_its_answer(syncs: list[str], path: Path) -> None:
    engine = SqliteEngine(path)
    engine.open()
    wal = f"{path}-wal"
    worker = hire(engine)
    for write in (
        lambda: send(engine),
        lambda: claim(engine, worker),
        lambda: engine.amend(Amendment(change=Change.CANCEL, ids=(send(engine),))),
    ):
        before = syncs.count(wal)
        write()
        assert syncs.count(wal) > before
    engine.close()


def test_what_was_answered_is_there_for_everybody(engine: SqliteEngine, path: Path) -> None:
    job_id = send(engine)
    assert tell(path, "SELECT id FROM job") == [(job_id,)]


def test_a_commit_that_fails_is_told_to_all_it_was_for_and_nothing_is_stored(engine: SqliteEngine, path: Path) -> None:
    connection: apsw.Connection = inner(engine, "committer", "_connection")
    connection.set_commit_hook(lambda: True)
    answers = together(engine, path, [lambda: engine.insert([new_job()]) for _ in range(5)])
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 5
    connection.set_commit_hook(None)
    assert tell(path, "SELECT count(*) FROM job") == [(0,)]
    assert record(engine, send(engine)).state is State.READY


# ── groups ──────────────────────────────────────────────────────────────────────────────────────────────


def test_writes_that_come_together_share_one_commit(engine: SqliteEngine, path: Path) -> None:
    before = commits(path)
    answers = together(engine, path, [lambda: engine.insert([new_job()]) for _ in range(10)])
    assert all(isinstance(answer, list) for answer in answers)
    assert commits(path) == before + 1
    assert tell(path, "SELECT count(*) FROM job") == [(10,)]


def test_a_refused_operation_takes_nothing_of_its_neighbours_along(engine: SqliteEngine, path: Path) -> None:
    before, after, orphan = new_job(), new_job(), new_job(parents=(Edge(new_id()),))
    batch = [new_job(parents=()), new_job(tags=("x",)), orphan]
    worker = hire(engine)
    answers = together(
        engine,
        path,
        [
            lambda: engine.insert([before]),
            lambda: engine.insert(batch),
            lambda: claim(engine, new_id()),
            lambda: engine.insert([after]),
            lambda: claim(engine, worker, ticket=1),
        ],
    )
    assert answers[0] == [Receipt(id=before.id)]
    assert isinstance(answers[1], UnknownParent)
    assert isinstance(answers[2], WorkerGone)
    assert answers[3] == [Receipt(id=after.id)]
    claims: Any = answers[4]
    assert {held.id for held in claims} == {before.id, after.id}
    assert engine.fetch([job.id for job in batch]) == [None] * 3
    assert tell(path, "SELECT n FROM tally WHERE state = 'running'") == [(2,)]


def test_an_operation_refused_after_it_wrote_is_undone_alone(engine: SqliteEngine, path: Path) -> None:
    committer = inner(engine, "committer")

    def write_then_refuse(tx: Tx) -> None:
        tx.run("INSERT INTO fact (key, value, version) VALUES ('half', x'00', 1)")
        raise BadValue("Half way.", "Think first.")

    before, after = new_job(), new_job()
    answers = together(
        engine,
        path,
        [
            lambda: engine.insert([before]),
            lambda: committer.write(Operation(write_then_refuse)),
            lambda: engine.insert([after]),
        ],
    )
    assert [type(answer) for answer in answers] == [list, BadValue, list]
    assert [job is not None for job in engine.fetch([before.id, after.id])] == [True, True]
    assert tell(path, "SELECT key FROM fact") == []


def test_an_operation_refused_alone_leaves_nothing(engine: SqliteEngine, path: Path) -> None:
    before = commits(path)
    with pytest.raises(UnknownParent):
        engine.insert([new_job(), new_job(parents=(Edge(new_id()),))])
    assert tell(path, "SELECT count(*) FROM job") == [(0,)]
    assert commits(path) == before


def test_a_group_has_a_bound_and_nobody_is_forgotten(engine: SqliteEngine, path: Path) -> None:
    before = commits(path)
    count = line.GROUP + 6
    answers = together(engine, path, [lambda: engine.insert([new_job()]) for _ in range(count)])
    assert all(isinstance(answer, list) for answer in answers)
    assert commits(path) == before + 2
    assert tell(path, "SELECT count(*) FROM job") == [(count,)]


def test_closing_tells_those_who_wait_to_write(path: Path) -> None:
    engine = SqliteEngine(path)
    engine.open()
    queue: Any = inner(engine, "committer", "_line", "_waiting")
    closer = threading.Thread(target=engine.close)

    def close() -> list[object]:
        # Comes last: three wait for the gate when the engine is closed.
        closer.start()
        while len(queue) > 1:  # the leader waits for the gate
            closer.join(0.001)
        raise StoreClosed("The engine was closed.", "Open it again.")

    answers = together(engine, path, [*(lambda: engine.insert([new_job()]) for _ in range(3)), close])
    closer.join()
    assert [type(answer) for answer in answers] == [StoreClosed] * 4
    assert tell(path, "SELECT count(*) FROM job") == [(0,)]


# ── one writer at a time ────────────────────────────────────────────────────────────────────────────────


def test_the_gate_is_held_while_a_commit_is_written(engine: SqliteEngine, path: Path) -> None:
    held: list[bool] = []

    def look() -> bool:
        held.append(gate_is_held(path))
        return False

    inner(engine, "committer", "_connection").set_commit_hook(look)
    send(engine)
    inner(engine, "committer", "_connection").set_commit_hook(None)
    assert held == [True]
    assert not gate_is_held(path)


def test_the_gate_is_held_while_the_wal_is_folded_in(
    engine: SqliteEngine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []
    begin = Gate.begin_epoch

    def look(self: Gate) -> None:
        held.append(gate_is_held(path))
        begin(self)

    monkeypatch.setattr(Gate, "begin_epoch", look)
    inner(engine, "committer")._checkpoint_at = 0
    before = path.stat().st_size
    send(engine)
    assert held == [True]
    assert path.stat().st_size > before


def test_threads_that_share_an_engine_pass_its_gate_one_at_a_time(engine: SqliteEngine) -> None:
    gate: Gate = inner(engine, "gate")
    at_the_gate, inside = threading.Event(), threading.Event()

    def go_in() -> None:
        at_the_gate.set()
        gate.run(inside.set)

    second = threading.Thread(target=go_in)

    def first() -> bool:
        second.start()
        at_the_gate.wait()
        # However long one waits here, the other is not let in; a short wait can only miss a fault, not make one up.
        return inside.wait(0.2)

    assert not gate.run(first)
    second.join()
    assert inside.is_set()


def test_a_gate_whose_file_was_removed_is_made_anew_and_everybody_moves_on(engine: SqliteEngine, path: Path) -> None:
    Path(f"{path}.gate").unlink()
    held: list[bool] = []

    def look() -> bool:
        held.append(gate_is_held(path))
        return False

    inner(engine, "committer", "_connection").set_commit_hook(look)
    send(engine)
    inner(engine, "committer", "_connection").set_commit_hook(None)
    assert held == [True]


def test_from_its_first_read_on_nobody_else_can_write(engine: SqliteEngine, path: Path) -> None:
    refused: list[bool] = []

    def look(tx: Tx) -> None:
        with outside(path) as other:
            other.set_busy_timeout(0)
            try:
                other.execute("UPDATE book SET e = e + 1")
            except apsw.BusyError:
                refused.append(True)
            else:
                refused.append(False)

    inner(engine, "committer").write(Operation(look))
    assert refused == [True]


# ── the ground moves ────────────────────────────────────────────────────────────────────────────────────


def fold(path: Path) -> None:
    """Folds the WAL into the database, so that nothing is lost with it."""
    tell(path, "PRAGMA wal_checkpoint(TRUNCATE)")


def test_a_wal_that_was_swapped_between_commits_is_noticed(engine: SqliteEngine, path: Path) -> None:
    first = send(engine)
    fold(path)
    Path(f"{path}-wal").unlink()
    second = send(engine)
    assert {row for (row,) in tell(path, "SELECT id FROM job")} == {first, second}


def test_a_wal_that_was_swapped_during_a_commit_is_noticed_and_the_commit_repeated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without pins, as on macOS: with them SQLite itself can never swap the file.
    monkeypatch.setattr(gate, "OFD", False)
    engine = SqliteEngine(path)
    engine.open()
    first = send(engine)
    fold(path)
    done: list[bool] = []

    def swap() -> bool:
        if not done:
            Path(f"{path}-wal").unlink()
        done.append(True)
        return False

    inner(engine, "committer", "_connection").set_commit_hook(swap)
    second = send(engine)
    assert done
    assert {row for (row,) in tell(path, "SELECT id FROM job")} == {first, second}
    assert record(engine, second).state is State.READY
    engine.close()


def test_a_wal_removed_by_hand_during_a_commit_is_told_and_a_new_start_heals_it(path: Path) -> None:
    engine = SqliteEngine(path)
    engine.open()
    first = send(engine)
    fold(path)

    def remove() -> bool:
        Path(f"{path}-wal").unlink(missing_ok=True)
        return False

    inner(engine, "committer", "_connection").set_commit_hook(remove)
    answered: set[JobId] = set()
    with suppress(StoreUnavailable):
        answered.add(send(engine))
    engine.close()
    engine.open()
    answered |= {first, send(engine)}
    assert answered <= {row for (row,) in tell(path, "SELECT id FROM job")}
    engine.close()


LOOK = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("SELECT count(*) FROM job").fetchone()
database.close()
"""


def inode(path: Path) -> int:
    return os.stat(f"{path}-wal").st_ino


@pytest.mark.skipif(sys.platform != "linux", reason="pins are locks of open file descriptions, which Linux has")
def test_a_visitor_does_not_take_the_wal_away_though_our_own_locks_are_gone(engine: SqliteEngine, path: Path) -> None:
    send(engine)
    before = inode(path)
    # Closing any descriptor of the file drops this process's POSIX locks on it, SQLite's included.
    os.close(os.open(path, os.O_RDONLY))
    os.close(os.open(f"{path}-shm", os.O_RDONLY))
    assert in_child(LOOK, path).returncode == 0
    assert inode(path) == before
    with closing(sqlite3.connect(path)) as visitor:
        visitor.execute("SELECT count(*) FROM job").fetchone()
    assert inode(path) == before
    second = send(engine)
    assert tell(path, "SELECT count(*) FROM job WHERE id = ?", (second,)) == [(1,)]


@pytest.mark.skipif(sys.platform != "linux", reason="pins are locks of open file descriptions, which Linux has")
def test_the_last_of_several_engines_lets_go_of_the_pins(path: Path) -> None:
    first, second = SqliteEngine(path), SqliteEngine(path)
    first.open()
    second.open()
    send(first)
    before = inode(path)
    first.close()
    os.close(os.open(path, os.O_RDONLY))
    assert in_child(LOOK, path).returncode == 0
    assert inode(path) == before
    second.close()
    assert in_child(LOOK, path).returncode == 0
    assert not Path(f"{path}-wal").exists()


# ── small promises ──────────────────────────────────────────────────────────────────────────────────────


def test_an_idle_claim_writes_nothing(engine: SqliteEngine, path: Path, syncs: list[str]) -> None:
    worker = hire(engine)
    before = (commits(path), Path(f"{path}-wal").stat().st_size)
    for ticket in range(1, 20):
        assert claim(engine, worker, ticket) == []
    assert (commits(path), Path(f"{path}-wal").stat().st_size) == before


def test_a_running_job_whose_workers_card_is_gone_is_taken_back(engine: SqliteEngine, path: Path) -> None:
    job_id = send(engine)
    worker = hire(engine)
    claim(engine, worker)
    tell(path, "DELETE FROM card WHERE worker = ?", (worker,))
    swept = engine.sweep(Sweep())
    assert swept.lost == 1
    assert record(engine, job_id).state is State.READY


def test_a_clock_set_back_is_reported_once(engine: SqliteEngine, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    travel(engine, clock)
    send(engine)
    clock.set_back(59_000_000)
    send(engine)
    assert "behind" not in caplog.text
    clock.set_back(10_000_000)
    for _ in range(5):
        send(engine)
    assert [entry.message for entry in caplog.records if "behind" in entry.message] == [
        "The clock is 69 s behind the store's own count."
    ]


def test_an_old_ticket_is_refused_in_words(engine: SqliteEngine) -> None:
    send(engine)
    worker = hire(engine)
    claim(engine, worker, ticket=5)
    with pytest.raises(TicketOutOfOrder) as caught:
        claim(engine, worker, ticket=4)
    assert caught.value.todo


LISTEN = """
import sys
from windlass.engines.protocol import Interest
from windlass.engines.sqlite import SqliteEngine, listen

listen.NET_S = 3600.0
engine = SqliteEngine(sys.argv[1])
engine.open()
work = Interest(queues=("mail",)) if sys.argv[2] == "work" else Interest(ends=frozenset([bytes.fromhex(sys.argv[2])]))
print("listening", flush=True)
print(*(hint.kind for hint in engine.listen(work, 100)), flush=True)
engine.close()
"""


@pytest.mark.parametrize("kind", ["work", "end"])
def test_a_fifo_wakes_a_sleeper_in_another_process(engine: SqliteEngine, path: Path, kind: str) -> None:
    job_id: JobId = send(engine, queue="other")
    argument = "work" if kind == "work" else job_id.hex()
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN, str(path), argument], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "listening\n"
        wake = path.parent / "jobs.db.d" / "wake"
        # A sleeper is one that holds its FIFO open for reading: the store tells, without anybody's clock.
        bells = inner(engine, "bells")
        while not any(bells._ring(name, b"") for name in os.listdir(wake) if not name.endswith(".json")):
            assert child.poll() is None
        if kind == "work":
            send(engine, queue="mail")
        else:
            engine.amend(Amendment(change=Change.CANCEL, ids=(job_id,)))
        assert child.stdout.readline().split() == [kind]
        assert child.wait() == 0


def test_a_hint_that_nobody_hears_costs_nothing_and_fails_nothing(engine: SqliteEngine) -> None:
    engine.listen(Interest(queues=None), 0)
    engine.signal([Hint(kind="work", queue="mail"), Hint(kind="end", id=new_id())])


def test_a_settle_is_one_commit_whatever_it_brings(engine: SqliteEngine, path: Path) -> None:
    send(engine)
    (held,) = claim(engine, hire(engine))
    before = commits(path)
    follow = tuple(new_job() for _ in range(100))
    settlement = Settlement(id=held.id, fence=held.fence, result=b"r", follow_ups=follow)
    assert engine.settle([settlement]) == [Verdict.ACCEPTED]
    assert commits(path) == before + 1


# ── streams that were looked up ─────────────────────────────────────────────────────────────────────────


def drain(engine: SqliteEngine) -> None:
    """Runs all that waits, and drops the streams that are empty then."""
    worker = hire(engine)
    ended = [Settlement(id=job.id, fence=job.fence) for job in claim(engine, worker)]
    assert set(engine.settle(ended)) == {Verdict.ACCEPTED}
    engine.sweep(Sweep())


def test_a_stream_that_another_process_dropped_is_made_anew(path: Path) -> None:
    one, other = SqliteEngine(path), SqliteEngine(path)
    one.open()
    other.open()
    send(one, queue="mail")
    drain(other)
    assert tell(path, "SELECT * FROM stream") == []
    job_id = send(one, queue="mail")
    assert [job.id for job in claim(other, hire(other))] == [job_id]
    one.close()
    other.close()


def test_a_stream_that_our_own_sweep_dropped_is_made_anew(engine: SqliteEngine, path: Path) -> None:
    send(engine, queue="mail")
    drain(engine)
    assert tell(path, "SELECT * FROM stream") == []
    job_id = send(engine, queue="mail")
    assert [job.id for job in claim(engine, hire(engine))] == [job_id]


def test_a_stream_made_by_a_commit_that_failed_is_made_anew(engine: SqliteEngine) -> None:
    connection = inner(engine, "committer", "_connection")
    connection.set_commit_hook(lambda: True)  # SQLite turns the commit into a rollback
    with pytest.raises(StoreError):
        send(engine, queue="mail")
    connection.set_commit_hook(None)
    job_id = send(engine, queue="mail")
    assert [job.id for job in claim(engine, hire(engine))] == [job_id]
