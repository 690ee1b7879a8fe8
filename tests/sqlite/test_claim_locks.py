"""A claim whose lock is held outlives its worker; the others are taken back at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sqlite.rig import claim, hire, record, send
from windlass.core.clock import SystemClock
from windlass.core.ids import JobId, WorkerId, new_id
from windlass.core.job import State
from windlass.engines.locks import ClaimLocks
from windlass.engines.protocol import Beat, Card, Sweep
from windlass.engines.sqlite import SqliteEngine

CLOCK = SystemClock()
MINUTE_US = 60_000_000


@pytest.fixture
def locks(engine: SqliteEngine) -> ClaimLocks:
    return ClaimLocks(Path(engine.capabilities.locks))


def files(engine: SqliteEngine) -> list[str]:
    return os.listdir(engine.capabilities.locks)


def claimed(engine: SqliteEngine, count: int = 1) -> tuple[WorkerId, list[JobId]]:
    jobs, worker = [send(engine) for _ in range(count)], hire(engine)
    assert len(claim(engine, worker)) == count
    return worker, jobs


def die(engine: SqliteEngine, worker: WorkerId) -> None:
    engine.kill_for_tests(worker)


@pytest.mark.parametrize("until_us", [None, MINUTE_US])
def test_what_goes_on_stays_until_its_lock_is_free_and_the_others_go_at_once(
    engine: SqliteEngine, locks: ClaimLocks, until_us: int | None
) -> None:
    worker, (other, goes_on) = claimed(engine, 2)
    held = locks.hold(worker, goes_on, until_us and CLOCK.now_us() + until_us, CLOCK.now_us())
    assert held is not None
    die(engine, worker)
    assert engine.sweep(Sweep()).lost == 1
    assert (record(engine, other).state, record(engine, goes_on).state) == (State.READY, State.RUNNING)
    assert engine.sweep(Sweep()).lost == 0
    os.close(held.descriptor)
    swept = engine.sweep(Sweep())
    assert (swept.lost, swept.workers) == (1, 1)
    assert (record(engine, goes_on).state, record(engine, goes_on).losses) == (State.READY, 1)
    assert files(engine) == []


def test_past_its_time_it_is_taken_though_its_lock_is_held(engine: SqliteEngine, locks: ClaimLocks) -> None:
    worker, (job,) = claimed(engine)
    held = locks.hold(worker, job, CLOCK.now_us() - 1, CLOCK.now_us())
    assert held is not None
    die(engine, worker)
    assert engine.sweep(Sweep()).lost == 1
    assert record(engine, job).state is State.READY
    os.close(held.descriptor)


def test_many_that_go_on_do_not_stand_before_the_others(engine: SqliteEngine, locks: ClaimLocks) -> None:
    worker, jobs = claimed(engine, 5)
    held = [locks.hold(worker, job, None, CLOCK.now_us()) for job in jobs[:4]]
    die(engine, worker)
    assert engine.sweep(Sweep(limit=1)).lost == 1
    assert record(engine, jobs[4]).state is State.READY
    for descriptor in held:
        assert descriptor is not None
        os.close(descriptor.descriptor)


def test_a_lock_is_held_once_and_is_gone_with_its_release(engine: SqliteEngine, locks: ClaimLocks) -> None:
    worker, job = new_id(), new_id()
    held = locks.hold(worker, job, None, CLOCK.now_us())
    assert held is not None
    assert locks.hold(worker, job, None, CLOCK.now_us()) is None
    assert files(engine) == [f"{worker.hex()}-{job.hex()}.lock"]
    held.release()
    assert files(engine) == []


def test_a_lock_whose_time_is_over_is_taken_from_whoever_holds_it(engine: SqliteEngine, locks: ClaimLocks) -> None:
    worker, job = new_id(), new_id()
    old = locks.hold(worker, job, CLOCK.now_us() - 1, CLOCK.now_us())
    new = locks.hold(worker, job, None, CLOCK.now_us())
    assert old is not None
    assert new is not None
    assert locks.held(worker, CLOCK.now_us()) == {job}
    old.leave()
    new.release()
    assert files(engine) == []


def test_a_copy_of_its_descriptor_holds_it_too(locks: ClaimLocks) -> None:
    worker, job = new_id(), new_id()
    held = locks.hold(worker, job, None, CLOCK.now_us())
    assert held is not None
    copy = os.dup(held.descriptor)
    os.close(held.descriptor)
    assert locks.held(worker, CLOCK.now_us()) == {job}
    os.close(copy)
    assert locks.held(worker, CLOCK.now_us()) == set()


def test_what_workers_left_that_nobody_knows_any_more_is_removed(engine: SqliteEngine, locks: ClaimLocks) -> None:
    unknown, known = new_id(), hire(engine)
    free, held, of_known = (locks.hold(worker, new_id(), None, CLOCK.now_us()) for worker in (unknown, unknown, known))
    assert free is not None
    assert held is not None
    assert of_known is not None
    os.close(free.descriptor)
    os.close(of_known.descriptor)
    engine.sweep(Sweep())
    assert len(files(engine)) == 2
    os.close(held.descriptor)
    engine.renew(Beat(card=Card(worker=known), beat=1, bye=True))
    engine.sweep(Sweep())
    assert files(engine) == []
