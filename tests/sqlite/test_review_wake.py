"""Hints, owners' locks and the gate, where somebody removes a file, closes the engine or comes at the wrong moment."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sqlite.rig import claim, hire, inner, record, send
from windlass.core.errors import StoreClosed, StoreError, WorkerGone
from windlass.core.ids import WorkerId, new_id
from windlass.core.job import State
from windlass.engines.protocol import Beat, Card, Hint, Interest, Orders, Sweep
from windlass.engines.sqlite import SqliteEngine, gate, listen, owners
from windlass.engines.sqlite.files import Paths
from windlass.engines.sqlite.gate import Gate, Pins
from windlass.engines.sqlite.listen import Ear
from windlass.engines.sqlite.owners import Owners
from windlass.testing.conformance.harness import Listener

LONG_AGO = time.time() - 2 * listen.STALE_S
WORK = Hint(kind="work", queue="default")


@pytest.fixture
def other(engine: SqliteEngine, path: Path) -> Iterator[SqliteEngine]:
    """A second engine on the same store, as another process has it."""
    other = SqliteEngine(path)
    other.open()
    yield other
    other.close()


@pytest.fixture
def wake(path: Path) -> Path:
    return path.parent / "jobs.db.d" / "wake"


def beat(engine: SqliteEngine, worker: WorkerId, number: int, *, bye: bool = False) -> Orders:
    return engine.renew(Beat(card=Card(worker=worker), beat=number, bye=bye))


def lock_files(path: Path) -> list[str]:
    return os.listdir(path.parent / "jobs.db.d" / "owners")


def grow_old(folder: Path) -> None:
    for entry in folder.iterdir():
        os.utime(entry, (LONG_AGO, LONG_AGO))


def lie_down(engine: SqliteEngine, wake: Path) -> Listener:
    """A listener that holds its FIFO open by now."""
    listener = Listener(engine, Interest(queues=None))
    bells = inner(engine, "bells")
    while not any(bells._ring(name, b"") for name in os.listdir(wake) if not name.endswith(".json")):
        assert not listener.done()
    return listener


# ── hints ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_removed_wake_folder_fails_no_write_and_is_made_again(engine: SqliteEngine, wake: Path) -> None:
    worker = hire(engine)
    wake.rmdir()
    job_id = send(engine)
    assert wake.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(wake)
    assert [held.id for held in claim(engine, worker)] == [job_id]
    shutil.rmtree(wake)
    engine.sweep(Sweep())


def test_a_folder_that_cannot_be_rung_fails_no_write_and_is_told_once(
    engine: SqliteEngine, wake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wake.rmdir()
    wake.touch()
    for _ in range(3):
        assert record(engine, send(engine)).state is State.READY
        engine.sweep(Sweep())
    assert [entry.levelname for entry in caplog.records] == ["WARNING"]
    assert "woken" in caplog.text


def test_one_fifo_that_cannot_be_opened_keeps_nobody_else_asleep(
    engine: SqliteEngine, wake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (wake / "00.e").mkdir()
    job_id = send(engine)
    assert Listener(engine, Interest(ends=frozenset([job_id]))).told(engine, Hint(kind="end", id=job_id)) == {"end"}
    assert len(caplog.records) == 1


def test_a_listener_survives_a_removed_wake_folder_and_can_be_woken(
    engine: SqliteEngine, other: SqliteEngine, wake: Path
) -> None:
    assert engine.listen(Interest(queues=None), 0) == []
    shutil.rmtree(wake)
    assert Listener(engine, Interest(queues=None)).told(other, WORK) == {"work"}


def test_a_sleeper_whose_folder_is_removed_under_it_makes_itself_heard_of_again(
    engine: SqliteEngine, other: SqliteEngine, wake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "NET_S", 0.01)
    listener = lie_down(engine, wake)
    wake.rename(wake.parent / "removed")  # at once: the sleeper must not make it anew while it is being removed
    assert listener.told(other, WORK) == {"work"}


def test_a_listener_that_cannot_lie_down_says_so_and_keeps_no_descriptor(engine: SqliteEngine, wake: Path) -> None:
    wake.rmdir()
    wake.touch()
    with pytest.raises(StoreError):
        engine.listen(Interest(queues=None), 0)
    assert inner(engine, "bells")._busy == []


def test_a_listener_with_a_descriptor_above_1023_hears(engine: SqliteEngine, other: SqliteEngine) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1_300:
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1_300), hard))
    many: list[int] = []
    try:
        while not many or many[-1] < 1_100:
            many.append(os.open(os.devnull, os.O_RDONLY))
        assert engine.listen(Interest(queues=None), 0.001) == []
        assert Listener(engine, Interest(queues=None)).told(other, WORK) == {"work"}
    finally:
        for descriptor in many:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ── strays ──────────────────────────────────────────────────────────────────────────────────────────────


def test_an_old_side_file_stays_with_its_younger_fifo(engine: SqliteEngine, wake: Path) -> None:
    engine.listen(Interest(queues=None), 0)
    (side,) = wake.glob("*.json")
    os.utime(side, (LONG_AGO, LONG_AGO))
    engine.sweep(Sweep())
    assert len(list(wake.iterdir())) == 2


def test_an_old_fifo_that_nobody_reads_goes_with_its_side_file(engine: SqliteEngine, wake: Path) -> None:
    engine.listen(Interest(queues=None), 0)
    (side,) = wake.glob("*.json")
    grow_old(wake)
    os.utime(side)
    engine.sweep(Sweep())
    assert list(wake.iterdir()) == []


def test_an_old_side_file_without_a_fifo_goes(engine: SqliteEngine, wake: Path) -> None:
    (wake / "00.w.json").touch()
    (wake / "11.w.json").touch()
    os.utime(wake / "00.w.json", (LONG_AGO, LONG_AGO))
    engine.sweep(Sweep())
    assert os.listdir(wake) == ["11.w.json"]


def test_however_old_a_fifo_is_its_reader_keeps_it_and_is_woken(
    engine: SqliteEngine, other: SqliteEngine, wake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "NET_S", 3_600.0)
    # Read by hand: a sleeping thread opens its ear anew when somebody looks at it, and is not there for a moment.
    ear = Ear(wake, Interest(queues=None))
    reader = ear.open()
    grow_old(wake)
    other.sweep(Sweep())
    assert len(list(wake.iterdir())) == 2
    other.signal([WORK])
    assert os.read(reader, 100) == b"work default\n"
    os.close(reader)


def test_a_listener_without_its_side_file_writes_both_again(
    engine: SqliteEngine, other: SqliteEngine, wake: Path
) -> None:
    engine.listen(Interest(queues=("default",)), 0)
    (side,) = wake.glob("*.json")
    before = side.read_bytes()
    side.unlink()
    assert Listener(engine, Interest(queues=("default",))).told(other, WORK) == {"work"}
    assert side.read_bytes() == before


# ── owners ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_dead_workers_file_is_removed_while_its_lock_is_held(
    engine: SqliteEngine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its id could be taken between the look and the removal, and its holder would be dead to everybody."""
    worker, seen = new_id(), list[bool]()
    file = path.parent / "jobs.db.d" / "owners" / f"{worker.hex()}.lock"
    file.touch(0o600)
    unlink = Path.unlink

    def look(self: Path, missing_ok: bool = False) -> None:
        if self == file:
            with file.open() as late, pytest.raises(BlockingIOError):
                fcntl.flock(late, fcntl.LOCK_EX | fcntl.LOCK_NB)
            seen.append(True)
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", look)
    inner(engine, "owners").bury_strays(set())
    assert seen == [True]
    assert not file.exists()


def test_a_lock_on_a_file_that_was_replaced_tells_nothing_of_the_new_one(
    engine: SqliteEngine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another sweeper buries the file, and its worker makes it anew, just before this one has its lock."""
    sweeper, holder = Owners(Paths(path)), inner(engine, "owners")
    worker = new_id()
    file = path.parent / "jobs.db.d" / "owners" / f"{worker.hex()}.lock"
    file.touch(0o600)
    locked = owners.take

    def late(descriptor: int) -> bool:
        monkeypatch.setattr(owners, "take", locked)
        file.unlink()
        holder.hold(worker)
        return locked(descriptor)

    monkeypatch.setattr(owners, "take", late)
    sweeper.bury(worker)
    assert file.exists()
    assert not sweeper.is_dead(worker)


def test_a_worker_whose_file_is_buried_before_it_has_the_lock_makes_it_anew(
    engine: SqliteEngine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeper, worker = Owners(Paths(path)), new_id()
    locked = owners.take

    def late(descriptor: int) -> bool:
        monkeypatch.setattr(owners, "take", locked)
        sweeper.bury(worker)
        return locked(descriptor)

    monkeypatch.setattr(owners, "take", late)
    beat(engine, worker, 0)
    assert lock_files(path) == [f"{worker.hex()}.lock"]
    assert not sweeper.is_dead(worker)


def test_a_worker_that_renews_after_close_and_open_is_alive(engine: SqliteEngine, other: SqliteEngine) -> None:
    job_id, worker = send(engine), hire(engine)
    claim(engine, worker)
    engine.close()
    engine.open()
    assert not beat(engine, worker, 1).gone
    assert other.sweep(Sweep()).lost == 0
    assert record(other, job_id).state is State.RUNNING


def test_a_worker_that_was_swept_while_it_was_closed_is_gone_and_leaves_no_file(
    engine: SqliteEngine, other: SqliteEngine, path: Path
) -> None:
    worker = hire(engine)
    engine.close()
    assert other.sweep(Sweep()).workers == 1
    engine.open()
    assert beat(engine, worker, 1).gone
    assert lock_files(path) == []


def test_an_id_that_another_holds_is_refused_before_anything_is_written(
    engine: SqliteEngine, other: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "PATIENCE_S", 0.0)
    worker = hire(engine)
    for number in (0, 1):
        with pytest.raises(WorkerGone, match="Another process holds this worker id") as caught:
            beat(other, worker, number)
        assert "new id" in caught.value.todo
    assert not beat(engine, worker, 1).gone


def test_a_worker_waits_for_a_sweeper_that_looks_whether_it_is_dead(
    engine: SqliteEngine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "PATIENCE_S", 3_600.0)
    worker = new_id()
    file = path.parent / "jobs.db.d" / "owners" / f"{worker.hex()}.lock"
    probe = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(probe, fcntl.LOCK_EX)
    locked, looks = owners.take, list[bool]()

    def look(descriptor: int) -> bool:
        looks.append(locked(descriptor))
        if len(looks) == 1:
            os.close(probe)
        return looks[-1]

    monkeypatch.setattr(owners, "take", look)
    assert not beat(engine, worker, 0).gone
    assert looks == [False, True]


def test_a_worker_that_leaves_with_claims_in_hand_leaves_no_lock_and_its_jobs_are_taken_back(
    engine: SqliteEngine, path: Path
) -> None:
    job_id, worker = send(engine), hire(engine)
    claim(engine, worker)
    assert beat(engine, worker, 1, bye=True).claims == 1
    assert lock_files(path) == []
    swept = engine.sweep(Sweep())
    assert (swept.workers, swept.lost) == (1, 1)
    assert record(engine, job_id).state is State.READY


def test_a_beat_that_comes_after_close_takes_no_lock(engine: SqliteEngine, path: Path) -> None:
    held = inner(engine, "owners")
    engine.close()
    with pytest.raises(StoreClosed):
        held.hold(new_id())
    assert lock_files(path) == []


# ── the gate ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def door(path: Path) -> Iterator[Gate]:
    paths = Paths(path)
    paths.prepare()
    door = Gate(paths)
    yield door
    door.close()


def test_a_gate_that_cannot_be_made_anew_keeps_the_descriptor_it_has(
    door: Gate, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(f"{path}.gate")
    file.unlink()

    def refuse(_: Path) -> int:
        raise StoreError("No file can be opened now.")

    monkeypatch.setattr(gate, "open_safely", refuse)
    for _ in range(2):
        with pytest.raises(StoreError, match="No file"):
            door.run(lambda: None)
        assert door.epoch() == 0
    monkeypatch.undo()
    door.run(door.begin_epoch)
    assert door.epoch() == 1
    assert file.read_bytes()[:1] == b"\1"


def test_a_closed_gate_is_told_and_never_uses_the_number_of_its_descriptor_again(door: Gate, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    number: int = getattr(door, "_descriptor")  # noqa: B009 - the number is what this is about
    door.close()
    door.close()
    # Another file gets the same number, as the kernel gives the lowest that is free.
    descriptor = os.open(taken, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        assert descriptor == number or os.dup2(descriptor, number) == number
        for use in (door.epoch, door.begin_epoch, lambda: door.run(lambda: None)):
            with pytest.raises(StoreClosed) as caught:
                use()
            assert caught.value.todo
        assert taken.read_bytes() == b""
    finally:
        os.close(number)
        if descriptor != number:
            os.close(descriptor)


def test_a_gate_is_not_closed_under_the_thread_that_is_inside(door: Gate) -> None:
    closing = threading.Thread(target=door.close)

    def inside() -> None:
        closing.start()
        # However long one waits here, it is not closed; a short wait can only miss a fault, not make one up.
        closing.join(0.1)
        assert closing.is_alive()
        door.begin_epoch()

    door.run(inside)
    closing.join()
    with pytest.raises(StoreClosed):
        door.epoch()


def test_a_thread_that_waits_at_the_gate_while_it_closes_is_told(door: Gate) -> None:
    told: list[str] = []

    def go_in() -> None:
        try:
            door.run(lambda: None)
        except StoreClosed as error:
            told.append(error.code)

    door.close()
    late = threading.Thread(target=go_in)
    late.start()
    late.join()
    assert told == ["WL302"]


def test_an_error_inside_the_gate_leaves_it_open(door: Gate) -> None:
    with pytest.raises(ZeroDivisionError):
        door.run(lambda: 1 / 0)
    door.run(door.begin_epoch)


def test_the_pin_of_a_commit_goes_with_it_whatever_happens(engine: SqliteEngine, path: Path) -> None:
    pins: Pins = inner(engine, "committer", "_pins")
    descriptor = os.open(f"{path}-shm", os.O_RDWR)
    # The byte that SQLite locks before it rebuilds the index of the WAL, as a stranger would.
    wanted = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 122, 1, 0)
    with pins.steady(), pytest.raises(BlockingIOError):
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wanted)
    with pytest.raises(ZeroDivisionError), pins.steady():
        raise ZeroDivisionError
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wanted)
    os.close(descriptor)
