"""A worker that dies is told by its lock at once; one that only stands still is left alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.soak.actor import Actor
from tests.soak.waiting import wait_for
from windlass.core.job import Outcome
from windlass.engines.sqlite import SqliteEngine


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def worker(database: Path) -> Iterator[Actor]:
    with Actor(database) as actor:
        actor.must("open")
        actor.must("announce")
        yield actor


@pytest.fixture
def other(database: Path, worker: Actor) -> Iterator[Actor]:
    with Actor(database) as actor:
        actor.must("open")
        actor.must("announce")
        yield actor


def test_jobs_of_a_killed_worker_are_taken_by_the_next_sweep_and_count_a_loss(
    database: Path, worker: Actor, other: Actor
) -> None:
    ids = worker.must("insert", 3).ids
    assert worker.must("claim", 3).ids == ids
    assert other.must("sweep").words == ["0", "0"]
    worker.kill()
    assert other.must("sweep").words == ["1", "3"]
    assert sorted(other.must("claim", 3).ids) == sorted(ids)
    assert other.must("settle", ids=ids).words == ["accepted"] * 3
    engine = SqliteEngine(database)
    engine.open()
    try:
        for job in engine.fetch([bytes.fromhex(job) for job in ids]):
            assert job is not None
            assert job.record is not None
            assert (job.record.losses, job.record.crashes, job.record.suspect) == (1, 0, False)
            assert [attempt.outcome for attempt in job.attempts] == [Outcome.LOST]
    finally:
        engine.close()


def test_nobody_takes_the_jobs_of_a_stopped_worker_and_its_late_settle_is_accepted(worker: Actor, other: Actor) -> None:
    ids = worker.must("insert", 2).ids
    worker.must("claim", 2)
    worker.process.send_signal(signal.SIGSTOP)
    try:
        wait_for("the worker to stand still", lambda: _state_of(worker.pid) == "T")
        worker.send("settle", ids=ids)
        for _ in range(5):
            assert other.must("sweep").words == ["0", "0"]
            assert other.must("claim", 10).ids == []
    finally:
        worker.process.send_signal(signal.SIGCONT)
    assert worker.hear().words == ["accepted", "accepted"]
    assert other.must("states", ids=ids).words == ["succeeded", "succeeded"]


def test_the_lock_file_of_a_worker_killed_before_it_had_a_card_goes_with_the_next_sweep(
    database: Path, worker: Actor, other: Actor
) -> None:
    owners = Path(f"{database}.d") / "owners"
    mine = owners / f"{other.must('announce').ids[0]}.lock"
    # What a process leaves that dies between taking its lock and writing its card, or a sweeper that dies in between.
    (owners / f"{os.urandom(16).hex()}.lock").touch(0o600)
    worker.kill()
    other.must("sweep")
    assert list(owners.iterdir()) == [mine]


def test_a_listener_that_goes_home_does_not_disturb_a_sweep(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its FIFO vanishes between the sweeper's look into the folder and its look at the file."""
    engine = SqliteEngine(database)
    engine.open()
    wake = Path(f"{database}.d") / "wake"
    os.mkfifo(wake / "00.w", 0o600)
    entries = list(os.scandir(wake))
    (wake / "00.w").unlink()
    monkeypatch.setattr(os, "scandir", lambda _: iter(entries))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    hands = getattr(engine, "_hands")  # noqa: B009 - the folder is looked at by nobody else
    hands.bells.clear_strays()
    monkeypatch.undo()
    engine.close()


def _state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
