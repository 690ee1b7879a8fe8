"""The consumer, step by step: what it asks for, what it leaves to others, and suspects."""

from __future__ import annotations

import threading

import pytest

from tests.worker.rig import ByHand, Rig
from windlass.app.app import App
from windlass.core.errors import StoreUnavailable
from windlass.core.job import Job, State
from windlass.engines.protocol import BATCH, Claims, Note, Order, Settlement
from windlass.testing.faults import Fault
from windlass.worker.consumer import LOOK_S, NARROW_S, PATIENCE_US
from windlass.worker.executor import given_back
from windlass.worker.pools.both import BothPool
from windlass.worker.pools.pool import Wish
from windlass.worker.settler import MOST_UNSETTLED


def send(app: App, count: int) -> list[bytes]:
    return [handle.job_id for handle in app.named("double").delay_many([(number,) for number in range(count)])]


def lose_worker(rig: Rig, worker: Rig) -> None:
    """The worker dies with what it holds, and the other one sweeps."""
    rig.beat()
    rig.advance(8)
    rig.beat()
    rig.advance(8)
    rig.beat()
    rig.sweep()


def make_suspect(rig: Rig) -> bytes:
    """A job during which two workers died."""
    (job_id,) = send(rig.app, 1)
    for _ in range(2):
        other = rig.second()
        other.consume()
        assert rig.state(job_id) is State.RUNNING
        lose_worker(rig, other)
    assert rig.record(job_id).suspect
    return job_id


# ── how much ────────────────────────────────────────────────────────────────────────────────────────────


def test_before_anything_was_measured_a_slot_gets_one_claim(rig: Rig) -> None:
    ids = send(rig.app, 5)
    assert rig.consume() == 0
    assert rig.consume() is None
    assert [rig.state(job_id) for job_id in ids].count(State.RUNNING) == 2
    assert rig.pool.waiting() == 2


def test_tiny_jobs_are_claimed_about_fifty_milliseconds_ahead(rig: Rig) -> None:
    ids = send(rig.app, 300)
    rig.pool.room.mean_us = 1_000.0
    assert rig.consume() == 0
    assert rig.pool.waiting() == 2 * 50
    assert rig.consume() is None
    rig.pool.room.mean_us = 1.0
    assert rig.consume() == 0
    assert rig.pool.waiting() == 2 * BATCH
    assert [rig.state(job_id) for job_id in ids].count(State.READY) == 100


def test_a_claim_between_the_queue_and_its_run_counts_as_taken(rig: Rig) -> None:
    send(rig.app, 5)
    rig.consume()
    taken = [rig.pool.next_claim(), rig.pool.next_claim()]  # slots have taken them and have not begun
    assert all(rig.crew.desk.holds(claim) for claim in taken)
    assert rig.consume() is None


class Standing(ByHand):
    """A pool by hand that is of either kind."""

    def __init__(self, rig: Rig, kind: bool) -> None:
        crew = rig.crew
        super().__init__(2, crew, rig.staff.executor, rig.staff.settle, rig.clock)
        self.kind = kind

    def start(self) -> None:
        """It has no threads."""


def test_where_one_kind_has_room_and_the_other_has_not_its_tasks_are_asked_for_by_name(rig: Rig) -> None:
    @rig.app.task(name="later")
    async def later() -> None: ...

    send(rig.app, 2)
    rig.consume()
    first, second = rig.pool.next_claim(), rig.pool.next_claim()
    pools = {kind: Standing(rig, kind) for kind in (False, True)}
    both = BothPool(rig.app.tasks, pools.__getitem__)
    assert both.wishes() == [Wish(2)]
    both.put((first,))
    assert both.wishes() == [Wish(1), Wish(1, frozenset({"later"}))]
    both.put((second,))
    assert both.wishes() == [Wish(2, frozenset({"later"}))]
    pools[True].room.enter([first, second])
    assert both.wishes() == []


def test_an_ended_job_makes_room_before_the_store_has_its_end(rig: Rig) -> None:
    ids = send(rig.app, 3)
    rig.consume()
    rig.pool.run_next()
    assert rig.crew.settler.unsettled == 1
    assert rig.consume() == 0
    assert rig.state(ids[2]) is State.RUNNING


def test_a_worker_has_nothing_to_do_when_nothing_is_open_and_nothing_waits_that_it_can_run(rig: Rig) -> None:
    crew = rig.crew
    rig.app.send("another", 1)
    rig.app.named("double").using(delay=60).delay(1)
    assert crew.has_nothing_to_do()
    send(rig.app, 1)
    assert not crew.has_nothing_to_do()
    rig.consume()
    run = rig.pool.begin_next()
    assert not crew.has_nothing_to_do(), "what runs may send another"
    rig.pool.end(run)
    assert not crew.has_nothing_to_do(), "the store does not have its end yet"
    rig.settle()
    assert crew.has_nothing_to_do()


def test_nothing_new_is_claimed_while_more_than_two_batches_are_unsettled(rig: Rig) -> None:
    (job_id,) = send(rig.app, 1)
    for number in range(MOST_UNSETTLED + 1):
        rig.crew.settler.put([Settlement(id=number.to_bytes(16), fence=1)], urgent=False)
    assert rig.consume() is None
    assert rig.state(job_id) is State.READY
    rig.settle()
    rig.consume()
    assert rig.state(job_id) is State.RUNNING


def test_fewer_claims_than_were_asked_for_are_all_there_are(rig: Rig) -> None:
    rig.pool.room.mean_us = 1_000.0
    send(rig.app, 3)
    asked = rig.engine.calls["claim"]
    assert rig.consume() == LOOK_S, "it sleeps in the store's wait"
    assert rig.engine.calls["claim"] == asked + 2, "and has asked once, and once for suspects"
    send(rig.app, 1)
    rig.crew.consumer.rest(LOOK_S)
    assert rig.consume() == LOOK_S
    assert rig.engine.calls["claim"] == asked + 3
    assert rig.pool.waiting() == 4


def test_an_answer_that_was_lost_does_not_tell_whether_there_are_more(rig: Rig) -> None:
    rig.pool.room.mean_us = 1_000.0
    send(rig.app, 1)
    rig.engine.lose("claim")
    with pytest.raises(StoreUnavailable):
        rig.consume()
    send(rig.app, 1)
    assert rig.consume() == 0
    assert rig.consume() == LOOK_S
    assert rig.pool.waiting() == 2


def test_an_idle_consumer_sleeps_until_something_comes_due(rig: Rig) -> None:
    assert rig.consume() == LOOK_S
    rig.app.named("double").using(delay=7).delay(1)
    assert rig.consume() == 7


def test_an_idle_consumer_sleeps_long_whatever_time_its_claims_take(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = rig.engine.claim

    def slowly(order: Order) -> Claims:
        rig.advance(0.01)
        return claim(order)

    monkeypatch.setattr(rig.engine, "claim", slowly)
    assert [rig.consume() for _ in range(3)] == [LOOK_S] * 3


def test_who_does_not_ask_for_suspects_this_time_sleeps_until_it_may(rig: Rig) -> None:
    send(rig.app, 1)
    assert rig.consume() == LOOK_S
    rig.advance(0.25)
    assert rig.crew.desk.open
    assert rig.consume() == 0.75


def test_a_lost_answer_strands_no_claim(rig: Rig) -> None:
    ids = send(rig.app, 2)
    rig.engine.lose("claim")
    with pytest.raises(StoreUnavailable):
        rig.consume()
    assert [rig.state(job_id) for job_id in ids] == [State.RUNNING] * 2
    rig.work()
    assert [rig.state(job_id) for job_id in ids] == [State.SUCCEEDED] * 2


def test_a_lost_answer_is_asked_for_again_though_no_slot_is_free(rig: Rig) -> None:
    """Or its claims would lie in the store under our name for as long as the slots are taken."""
    rig.pool.room.mean_us = 20_000.0
    ids = send(rig.app, 4)
    rig.consume()
    rig.pool.begin_next()
    rig.pool.begin_next()
    rig.pool.run_next()
    ids += send(rig.app, 1)
    rig.engine.lose("claim")
    with pytest.raises(StoreUnavailable):
        rig.consume()
    rig.pool.room.mean_us = 100_000.0
    assert not rig.pool.wishes()
    assert rig.consume() == 0
    assert ids[4] in rig.crew.desk.open
    rig.advance(1)
    rig.watch()
    rig.settle()
    assert rig.state(ids[4]) is State.READY
    assert rig.consume() is None


# ── wake-ups ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_wake_up_for_more_than_it_can_take_is_passed_on(rig: Rig) -> None:
    """The store wakes one sleeper: if that one kept it to itself, the others would sleep beside waiting jobs."""
    assert rig.consume() == LOOK_S
    send(rig.app, 3)
    rig.crew.consumer.rest(LOOK_S)
    assert rig.consume() == 0
    assert rig.engine.calls["signal"] == 0
    assert rig.consume() is None
    assert rig.engine.calls["signal"] == 1
    assert rig.consume() is None
    assert rig.engine.calls["signal"] == 1


def test_a_wake_up_whose_work_was_taken_whole_is_not_passed_on(rig: Rig) -> None:
    assert rig.consume() == LOOK_S
    send(rig.app, 1)
    rig.crew.consumer.rest(LOOK_S)
    assert rig.consume() == LOOK_S
    assert rig.engine.calls["signal"] == 0


def test_a_wake_up_by_what_it_gave_back_itself_is_passed_on(rig: Rig) -> None:
    rig.pool.room.mean_us = 1_000.0
    send(rig.app, 10)
    rig.consume()
    rig.pool.begin_next()
    rig.pool.begin_next()
    assert rig.consume() == LOOK_S, "there is room for more"
    rig.advance(0.1)
    rig.watch()
    rig.settle()
    rig.crew.consumer.rest(LOOK_S)
    assert rig.consume() is None
    assert rig.engine.calls["signal"] == 1


class Narrow:
    """Lets the pool wish for some tasks only, as one does whose slots of the other kind are full."""

    def __init__(self, rig: Rig) -> None:
        rig.pool.wishes = lambda: [Wish(1, frozenset({"fails"}))]


def test_two_that_sleep_for_some_tasks_only_do_not_wake_each_other_for_ever(rig: Rig) -> None:
    Narrow(rig)
    assert rig.consume() == NARROW_S
    for _ in range(3):
        send(rig.app, 1)
        rig.crew.consumer.rest(NARROW_S)
        assert rig.consume() == NARROW_S
    assert rig.engine.calls["signal"] == 1, "passed on, for it was meant for another; not at once again"
    rig.advance(NARROW_S)
    send(rig.app, 1)
    rig.crew.consumer.rest(NARROW_S)
    rig.consume()
    assert rig.engine.calls["signal"] == 2


def test_a_free_slot_wakes_a_consumer_that_sleeps_for_other_tasks(rig: Rig) -> None:
    Narrow(rig)
    assert rig.consume() == NARROW_S
    sleeper = threading.Thread(target=rig.crew.consumer.rest, args=(60.0,))
    sleeper.start()
    while sleeper.is_alive():
        rig.crew.consumer.hungry()
        rig.ring()
        sleeper.join(0.01)


def test_waking_the_consumer_does_not_wake_the_heartbeat(rig: Rig) -> None:
    """Each renewal is a commit; a slot becomes free many times a second."""
    heart = threading.Thread(target=rig.crew.heartbeat.rest, args=(60.0,))
    heart.start()
    for _ in range(5):
        rig.crew.consumer.rouse()
        rig.ring()
        heart.join(0.01)
    assert heart.is_alive()
    while heart.is_alive():
        rig.crew.heartbeat.rouse()
        rig.ring()
        heart.join(0.01)


def test_whoever_wakes_a_loop_does_not_wait_for_the_store(rig: Rig) -> None:
    """All that came by then is one call of the bellman, who may wait."""
    Narrow(rig)
    assert rig.consume() == NARROW_S
    for _ in range(3):
        rig.crew.hungry()
        rig.crew.expect_a_suspect()
        rig.crew.heartbeat.rouse()
    assert rig.engine.calls["signal"] == 0
    rig.ring()
    rig.ring()
    assert rig.engine.calls["signal"] == 1


def test_a_wake_up_that_the_store_does_not_take_stops_nobody(rig: Rig) -> None:
    rig.crew.consumer.rouse()
    rig.engine.refuse("signal")
    rig.ring()
    assert rig.engine.calls["signal"] == 1


def test_the_patience_for_a_suspect_is_bounded(rig: Rig) -> None:
    """Beside a job of hours slots stand empty for a small part of the time only."""
    send(rig.app, 1)
    rig.consume()
    rig.pool.begin_next()
    make_suspect(rig)
    empty_s = 0.0
    for _ in range(7_200):
        rig.consume()
        empty_s += rig.crew.consumer.waits_for_others
        rig.settle()
        rig.advance(0.99)
        rig.beat()
    assert empty_s < 7_200 / 5


# ── what others could run ───────────────────────────────────────────────────────────────────────────────


def test_claims_behind_long_jobs_go_back_and_are_left_to_others_for_a_while(rig: Rig) -> None:
    rig.pool.room.mean_us = 10_000.0
    ids = send(rig.app, 10)
    rig.consume()
    runs = [rig.pool.begin_next(), rig.pool.begin_next()]
    rig.advance(0.04)
    rig.watch()
    assert rig.pool.waiting() == 8
    rig.advance(0.02)
    rig.watch()
    assert rig.pool.waiting() == 0
    rig.settle()
    assert [rig.state(job_id) for job_id in ids] == [State.RUNNING] * 2 + [State.READY] * 8
    assert rig.consume() is None
    other = rig.second()
    other.work()
    assert [rig.state(job_id) for job_id in ids[2:]] == [State.SUCCEEDED] * 8
    for run in runs:
        rig.pool.end(run, 0)
    rig.settle()
    assert [rig.state(job_id) for job_id in ids[:2]] == [State.SUCCEEDED] * 2


def test_claims_wait_while_one_slot_is_free_or_one_job_is_young(rig: Rig) -> None:
    rig.pool.room.mean_us = 10_000.0
    send(rig.app, 10)
    rig.consume()
    rig.pool.begin_next()
    rig.advance(1)
    rig.watch()
    assert rig.pool.waiting() == 9, "the other slot is about to take one"
    rig.pool.begin_next()
    rig.watch()
    assert rig.pool.waiting() == 8


def test_after_a_give_back_no_more_is_claimed_than_slots_until_jobs_are_short_again(rig: Rig) -> None:
    rig.pool.room.mean_us = 10_000.0
    send(rig.app, 10)
    rig.consume()
    runs = [rig.pool.begin_next(), rig.pool.begin_next()]
    rig.advance(0.2)
    rig.watch()
    rig.settle()
    rig.crew.consumer.hungry()
    assert rig.consume() is None, "both slots are taken: nothing is asked for, so nothing has to go back again"
    for run in runs:
        rig.pool.end(run, 0)
    assert rig.consume() == 0
    assert rig.pool.waiting() == 2


# ── suspects ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_suspect_runs_with_nothing_beside_it_and_its_start_is_written_first(rig: Rig) -> None:
    others = send(rig.app, 1)
    rig.consume()
    running = rig.pool.begin_next()
    suspect = make_suspect(rig)
    assert rig.consume() == 0, "it is claimed"
    assert rig.state(suspect) is State.RUNNING
    later = send(rig.app, 1)
    assert rig.consume() == PATIENCE_US / 1e6
    assert rig.pool.waiting() == 0, "it waits for the other job"
    assert rig.record(suspect).started_us is None
    rig.pool.end(running, 0)
    rig.settle()
    assert rig.consume() is None
    assert rig.record(suspect).started_us is not None
    assert rig.pool.first.id == suspect
    assert rig.consume() is None
    assert rig.state(later[0]) is State.READY, "nothing is claimed beside it"
    rig.pool.run_next()
    rig.settle()
    rig.work()
    assert [rig.state(job_id) for job_id in (*others, suspect, *later)] == [State.SUCCEEDED] * 3


def test_a_suspect_beside_a_long_job_goes_back_and_the_slots_go_on(rig: Rig) -> None:
    send(rig.app, 1)
    rig.consume()
    rig.pool.begin_next()
    suspect = make_suspect(rig)
    assert rig.consume() == 0
    rig.advance(PATIENCE_US / 1e6)
    assert rig.consume() == 0
    rig.settle()
    assert rig.state(suspect) is State.READY
    (later,) = send(rig.app, 1)
    assert rig.consume() == 0
    assert rig.state(later) is State.RUNNING
    assert rig.state(suspect) is State.READY, "it is left to others for a while"


def test_a_lost_answer_to_a_claim_of_a_suspect_does_not_run_it_beside_others(rig: Rig) -> None:
    suspect = make_suspect(rig)
    rig.engine.plan("claim", [None, Fault.LOSE])
    with pytest.raises(StoreUnavailable):
        rig.consume()
    assert rig.state(suspect) is State.RUNNING
    send(rig.app, 1)
    assert rig.consume() == 0
    assert rig.pool.waiting() == 0
    assert rig.consume() is None
    assert rig.record(suspect).started_us is not None
    assert rig.pool.first.id == suspect
    assert rig.pool.waiting() == 1


def test_a_lost_answer_to_a_claim_of_others_is_not_taken_for_a_suspect(rig: Rig) -> None:
    ids = send(rig.app, 2)
    rig.engine.plan("claim", [Fault.LOSE])
    with pytest.raises(StoreUnavailable):
        rig.consume()
    rig.pool.room.mean_us = 10_000.0
    rig.advance(2)
    rig.work()
    assert [rig.state(job_id) for job_id in ids] == [State.SUCCEEDED] * 2


def test_a_suspect_whose_start_cannot_be_written_is_tried_again(rig: Rig) -> None:
    suspect = make_suspect(rig)
    rig.consume()
    rig.engine.plan("note", [Fault.REFUSE, Fault.LOSE])
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            rig.consume()
        assert rig.pool.waiting() == 0
    rig.consume()
    assert rig.pool.run_next()
    rig.settle()
    assert rig.state(suspect) is State.SUCCEEDED
    assert rig.record(suspect).crashes == 0


def test_a_suspect_that_is_not_ours_any_more_is_let_go(rig: Rig) -> None:
    make_suspect(rig)
    rig.consume()
    (claim,) = rig.crew.desk.open.values()
    rig.engine.settle([given_back(claim)])
    assert rig.consume() == 0
    assert not rig.crew.desk.open
    rig.work()
    assert rig.state(claim.id) is State.SUCCEEDED


def test_a_suspect_that_has_not_started_goes_back_at_the_stop(rig: Rig) -> None:
    suspect = make_suspect(rig)
    rig.consume()
    rig.crew.consumer.stop()
    rig.settle()
    record = rig.record(suspect)
    assert (record.state, record.suspect, record.crashes, record.losses) == (State.READY, True, 0, 2)
    assert not rig.crew.desk.open


def test_an_idle_worker_looks_for_a_suspect_each_time_it_is_woken(rig: Rig) -> None:
    """The wake-up that says so comes once: who looks for others only then sleeps on it."""
    assert rig.consume() == LOOK_S
    suspect = make_suspect(rig)
    rig.crew.consumer.tick(1)
    assert rig.state(suspect) is State.RUNNING


def test_three_crashes_alone_make_it_dead(rig: Rig) -> None:
    suspect = make_suspect(rig)
    for crashes in range(3):
        assert rig.record(suspect).crashes == crashes
        other = rig.second()
        other.consume()
        other.consume()
        assert other.pool.first.id == suspect
        lose_worker(rig, other)
    record = rig.record(suspect)
    assert (record.state, record.reason, record.crashes) == (State.DEAD, "poison", 3)


def test_a_start_written_for_an_older_claim_counts_for_nothing(rig: Rig) -> None:
    """It went back before it ran; its next worker dies while it waits: a loss, not a crash."""
    suspect = make_suspect(rig)
    rig.consume()
    (claim,) = rig.crew.desk.open.values()
    rig.engine.note([Note(id=claim.id, fence=claim.fence, kind="start")])
    rig.crew.consumer.stop()
    rig.settle()
    other = rig.second()
    other.consume()
    lose_worker(rig, other)
    record = rig.record(suspect)
    assert (record.crashes, record.losses) == (0, 3)


def test_an_unknown_task_waits_for_a_worker_that_knows_it(rig: Rig) -> None:
    stranger = rig.app.send("elsewhere.task", 1)
    (known,) = send(rig.app, 1)
    rig.work()
    assert rig.state(known) is State.SUCCEEDED
    assert rig.state(stranger.job_id) is State.READY
    assert isinstance(stranger.job(), Job)

    @rig.app.task(name="elsewhere.task")
    def elsewhere(number: int) -> int:
        return number

    rig.second().work()
    assert rig.state(stranger.job_id) is State.SUCCEEDED
