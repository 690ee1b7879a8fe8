"""Heartbeat, janitor and watchman, step by step."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.worker.rig import Rig
from windlass.app.endings import CancelAsked, TimedOut
from windlass.core.commands import Do
from windlass.core.errors import StoreUnavailable
from windlass.core.ids import WorkerId, new_id
from windlass.core.job import State
from windlass.engines.protocol import Beat, Card, Note, Order, TallyQuery
from windlass.ops import command
from windlass.testing.faults import Fault
from windlass.worker.consumer import CUT_S
from windlass.worker.desk import GRACE_US, Run
from windlass.worker.executor import given_back
from windlass.worker.watchman import LOOK_S


def running(rig: Rig, task: str = "double", *args: Any) -> Run:
    """A job of that task, running."""
    rig.app.send(task, *(args or (1,)) if task == "double" else args)
    rig.consume()
    return rig.pool.begin_next()


# ── heartbeat ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_beat_keeps_the_card_alive_however_long_a_job_takes(rig: Rig) -> None:
    run = running(rig)
    other = rig.second()
    for _ in range(20):
        rig.advance(5)
        assert rig.beat() == rig.app.settings.beat_s
        other.beat()
        other.sweep()
    rig.pool.end(run, 2)
    rig.settle()
    assert rig.state(run.claim.id) is State.SUCCEEDED
    assert rig.record(run.claim.id).losses == 0


def test_counts_reach_the_history_once_though_an_answer_is_lost(rig: Rig) -> None:
    rig.app.named("double").delay_many([(1,), (2,)])
    rig.work()
    rig.engine.plan("renew", [Fault.LOSE, Fault.REFUSE])
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            rig.beat()
    rig.app.send("double", 3)
    rig.work()
    rig.beat()
    assert rig.counted("succeeded") == 2
    rig.beat()
    assert rig.counted("succeeded") == 3


def test_a_cancel_reaches_the_running_job_with_the_next_beat(rig: Rig) -> None:
    run = running(rig)
    assert rig.app.result(run.claim.id).cancel()
    assert not run.context.cancelled
    rig.beat()
    assert run.context.cancelled
    assert run.asked is CancelAsked


def test_an_order_is_done_once_however_many_beats_bring_it_and_a_new_one_of_the_same_kind_too(rig: Rig) -> None:
    done: list[Do] = []
    rig.crew.on_asked = done.append
    for times in (1, 2):
        command.order(rig.engine, [rig.crew.worker()], "drain")
        for _ in range(3):
            rig.beat()
        assert done == ["drain"] * times


def test_a_cancel_of_a_job_that_waits_for_a_slot_ends_it_without_a_run(rig: Rig) -> None:
    handle = rig.app.send("fails", "must not run")
    rig.consume()
    assert handle.cancel("not needed")
    rig.beat()
    rig.pool.run_next()
    rig.settle()
    record = rig.record(handle.job_id)
    assert (record.state, record.reason) == (State.CANCELLED, "not needed")
    assert not rig.crew.desk.cancelled


def test_a_cancel_that_comes_while_a_slot_takes_the_claim_is_heeded(rig: Rig) -> None:
    """Between the slot's look at the cancels and its run being known there must be no gap."""
    rig.app.send("double", 1)
    rig.consume()
    (claim,) = rig.crew.desk.open.values()
    rig.crew.desk.cancel(claim.id)
    run = rig.pool.begin_next()
    assert run.asked is CancelAsked


def test_a_claim_that_is_refused_without_a_card_brings_the_next_beat_forward(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    lapsed: list[bool] = []
    rig.crew.consumer.on_lapse = lambda: lapsed.append(True)
    rig.app.send("double", 1)
    announced, rig.crew.heartbeat.worker = rig.crew.heartbeat.worker, new_id()
    assert rig.consume() == CUT_S
    assert lapsed == [True]
    rig.crew.heartbeat.worker = announced
    assert rig.consume() == 0
    assert caplog.records == [], "it is nothing that a user could do anything about"


def test_a_worker_whose_card_was_swept_goes_on_under_a_new_id(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    run = running(rig)
    old, ticket = rig.crew.heartbeat.worker, rig.crew.consumer.ticket
    other = rig.second()
    rig.advance(8)
    other.beat()
    rig.advance(8)
    other.beat()
    other.sweep()
    assert rig.state(run.claim.id) is State.READY
    assert rig.consume() == CUT_S, "its lease is cut: it does not even ask"
    rig.beat()
    assert "goes on under a new id" in caplog.text
    assert rig.crew.heartbeat.worker != old
    assert rig.crew.consumer.ticket == ticket, "tickets only ever grow, whatever card they go to"
    # The job comes back to the same worker, while its old run goes on.
    assert rig.consume() == 0
    again = rig.pool.begin_next()
    assert again.claim.id == run.claim.id
    assert again.claim.fence > run.claim.fence
    rig.pool.end(run, 1)
    rig.settle()
    assert rig.state(run.claim.id) is State.RUNNING, "the old end is stale"
    assert rig.crew.desk.running == {again.claim.id: again}
    assert rig.crew.desk.holds(again.claim)
    rig.pool.end(again, 2)
    rig.settle()
    assert rig.app.result(again.claim.id).get() == 2
    assert not rig.crew.desk.open


def test_what_a_worker_held_under_its_old_id_is_not_started(rig: Rig) -> None:
    """Others have it by now, or will: what has not begun here would run twice."""
    handle = rig.app.send("double", 1)
    rig.consume()
    assert rig.pool.waiting() == 1
    other = rig.second()
    rig.advance(8)
    other.beat()
    rig.advance(8)
    other.beat()
    other.sweep()
    other.consume()
    rig.beat()
    assert rig.pool.waiting() == 0
    assert not rig.crew.desk.open
    other.work()
    assert rig.state(handle.job_id) is State.SUCCEEDED


def test_a_new_id_is_announced_later_if_the_store_fails_just_then(rig: Rig) -> None:
    other = rig.second()
    rig.advance(8)
    other.beat()
    rig.advance(8)
    other.beat()
    other.sweep()
    rig.engine.plan("renew", [None, Fault.LOSE])
    with pytest.raises(StoreUnavailable):
        rig.beat()
    rig.beat()
    job_id = rig.app.send("double", 1).job_id
    rig.consume()
    assert rig.state(job_id) is State.RUNNING


def test_the_last_beat_takes_the_card_away(rig: Rig) -> None:
    rig.app.send("double", 1)
    rig.work()
    rig.crew.heartbeat.leave()
    assert rig.engine.inner.tally(TallyQuery()).cards == ()
    assert rig.counted("succeeded") == 1


# ── janitor ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_janitor_goes_on_at_once_while_there_is_more_to_sweep(rig: Rig) -> None:
    rig.app.named("double").using(expires=1).delay_many([(number,) for number in range(150)])
    rig.advance(2)
    assert rig.sweep() == 0.0
    assert rig.sweep() == rig.app.settings.sweep_s


def outlive(rig: Rig, worker: WorkerId, jobs: int, *, suspects: bool = False) -> None:
    """A worker announces itself, begins so many jobs and is never heard of again; the rig's own goes on, and sweeps."""
    rig.engine.renew(Beat(card=Card(worker=worker, name="web-1", host="north", pid=7), beat=0))
    if jobs:
        claims = rig.engine.claim(Order(worker=worker, ticket=1, limit=jobs, suspects=suspects)).claims
        assert len(claims) == jobs
        rig.engine.note([Note(id=claim.id, fence=claim.fence, kind="start") for claim in claims])
    for _ in range(4):
        rig.advance(5)
        rig.beat()
    rig.sweep()
    rig.sweep()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize(("jobs", "said"), [(0, "it held no job"), (1, "its job goes back"), (3, "its 3 jobs go back")])
def test_the_janitor_logs_who_died_and_what_becomes_of_the_jobs(
    rig: Rig, caplog: pytest.LogCaptureFixture, jobs: int, said: str
) -> None:
    rig.app.named("double").delay_many([(number,) for number in range(jobs)])
    outlive(rig, new_id(), jobs)
    assert warnings(caplog) == [f"Worker web-1 (north, 7) has died; {said}."]


def test_the_janitor_logs_a_job_that_is_poison(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    pill = rig.app.send("double", 1)
    for suspects in (False, False, True, True, True):
        caplog.clear()
        outlive(rig, new_id(), 1, suspects=suspects)
    assert warnings(caplog) == [
        "Worker web-1 (north, 7) has died; its job goes back.",
        f"double {pill.id} has ended 3 workers that ran it alone. It is dead (poison) and is not tried again.",
    ]


# ── watchman ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_watchman_sleeps_while_nothing_is_open(rig: Rig) -> None:
    assert rig.watch() is None
    running(rig)
    assert rig.watch() == LOOK_S


def test_a_task_is_stopped_at_its_deadline_and_not_before(rig: Rig) -> None:
    run = running(rig, "patient")
    rig.advance(9.99)
    rig.watch()
    assert run.asked is None
    rig.advance(0.01)
    rig.watch()
    assert run.asked is TimedOut


def test_a_job_that_ignores_its_timeout_is_in_its_log_in_the_history_and_on_the_card(rig: Rig) -> None:
    run = running(rig, "patient")
    rig.advance(10)
    rig.watch()
    rig.advance(GRACE_US / 1e6 - 0.01)
    rig.watch()
    assert not run.reported
    rig.advance(0.01)
    for _ in range(3):
        rig.watch()
    rig.settle()
    rig.beat()
    (line,) = rig.job(run.claim.id).log
    assert line.text == b"The task has not heeded its timeout for 5s; it runs on and its slot stays taken."
    assert rig.counted("overrun") == 1
    assert json.loads(rig.card_info())["stuck"] == [run.context.id]
    rig.pool.end(run, 1)
    rig.settle()
    rig.beat()
    assert "stuck" not in json.loads(rig.card_info())


def test_a_job_that_ignores_a_cancel_is_reported_too(rig: Rig) -> None:
    run = running(rig)
    rig.app.result(run.claim.id).cancel()
    rig.beat()
    rig.watch()
    rig.advance(GRACE_US / 1e6)
    rig.watch()
    rig.settle()
    (line,) = rig.job(run.claim.id).log
    assert line.text.startswith(b"The task has not heeded a cancel for 5s")


def test_the_slot_of_a_stuck_job_stays_taken_and_the_other_one_goes_on(rig: Rig) -> None:
    run = running(rig, "patient")
    rig.advance(10)
    rig.watch()
    rig.advance(6)
    rig.watch()
    rig.beat()
    ids = [handle.job_id for handle in rig.app.named("double").delay_many([(1,), (2,), (3,)])]
    assert rig.consume() == 0
    assert rig.pool.waiting() == 1
    while any(rig.state(job_id) is not State.SUCCEEDED for job_id in ids):
        rig.consume()
        rig.pool.run_next()
        rig.settle()
    assert run.claim.id in rig.crew.desk.running


# ── stocktaking ─────────────────────────────────────────────────────────────────────────────────────────


def beat(rig: Rig) -> None:
    """A beat in its time; one that an order brings forward takes no stock."""
    rig.advance(rig.app.settings.beat_s)
    rig.beat()
    rig.beat()


def test_a_claim_that_only_the_store_knows_goes_back_after_two_beats(rig: Rig) -> None:
    handle = rig.app.send("double", 1)
    order = Order(worker=rig.crew.heartbeat.worker, ticket=rig.crew.consumer.ticket + 1)
    (stray,) = rig.engine.claim(order).claims  # as if its answer had been lost for good
    beat(rig)
    rig.settle()
    assert rig.state(stray.id) is State.RUNNING, "once may be chance: an answer is on its way"
    beat(rig)
    rig.settle()
    assert rig.state(stray.id) is State.READY
    rig.crew.consumer.ticket += 1
    rig.work()
    assert rig.state(handle.job_id) is State.SUCCEEDED


def test_a_claim_whose_answer_was_lost_is_not_astray_while_it_is_asked_for_again(rig: Rig) -> None:
    """Given back by the one and repeated to the other, it would run twice."""
    handle = rig.app.send("double", 1)
    rig.engine.lose("claim")
    with pytest.raises(StoreUnavailable):
        rig.consume()
    for _ in range(3):
        beat(rig)
    assert not rig.crew.settler.unsettled
    assert rig.state(handle.job_id) is State.RUNNING
    rig.work()
    assert rig.state(handle.job_id) is State.SUCCEEDED
    assert rig.record(handle.job_id).fence == rig.record(handle.job_id).settled_fence


def test_a_claim_that_only_the_desk_knows_is_let_go_after_two_beats_and_not_run(rig: Rig) -> None:
    rig.app.send("fails", "must not run")
    rig.consume()
    claim = rig.pool.first
    rig.engine.settle([given_back(claim)])
    beat(rig)
    assert claim.id in rig.crew.desk.open
    beat(rig)
    assert not rig.crew.desk.open
    rig.pool.run_next()
    rig.settle()
    assert rig.state(claim.id) is State.READY
    assert rig.record(claim.id).attempt == 1


def test_a_running_job_whose_claim_is_gone_runs_on_and_its_end_is_stale(rig: Rig) -> None:
    run = running(rig)
    rig.engine.settle([given_back(run.claim)])
    for _ in range(3):
        beat(rig)
    assert run.claim.id in rig.crew.desk.open
    rig.pool.end(run, 2)
    rig.settle()
    assert rig.state(run.claim.id) is State.READY


def test_while_claims_come_and_go_nothing_is_astray(rig: Rig) -> None:
    for _ in range(5):
        run = running(rig)
        beat(rig)
        rig.pool.end(run, 2)
        beat(rig)
        rig.settle()
        assert rig.state(run.claim.id) is State.SUCCEEDED
