"""Changes by people: counted first, in bounded steps, and nothing that was not meant."""

from __future__ import annotations

from typing import Any

import pytest

from windlass import App, Worker
from windlass.core.codec import encode_arguments
from windlass.core.errors import BadName, BadValue, CorruptRecord, JobDead, JobNotFound
from windlass.core.gates import Gate, read_gate
from windlass.core.ids import JobId, new_id, show_id
from windlass.core.job import Edge, Outcome, State, Unique
from windlass.engines.protocol import BATCH, Amended, Amendment, Change, Engine, Query, Receipt
from windlass.ops import stats, steer, view
from windlass.ops.facts import change
from windlass.testing.conformance import Harness
from windlass.testing.faults import FaultyEngine
from windlass.worker import consumer


class Watched:
    """A progress callback that keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int]] = []

    def __call__(self, done: int, of: int) -> None:
        self.told.append((done, of))


# ── many jobs ───────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_query_finds_is_counted_and_changed_a_hundred_at_a_time(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, others = harness.send_many(250, queue="mail"), harness.send_many(3, queue="other")
    sizes: list[int] = []
    amend = harness.engine.amend

    def watched(amendment: Amendment) -> Amended:
        amended = amend(amendment)
        sizes.append(len(amended.changed))
        return amended

    monkeypatch.setattr(harness.engine, "amend", watched)
    progress = Watched()
    query = Query(queue="mail")
    assert steer.look(harness.engine, Change.CANCEL, query).count == 250
    steered = steer.apply(harness.engine, Change.CANCEL, query, reason="closed", progress=progress)
    assert (steered.changed, steered.refused, steered.refusals) == (250, 0, ())
    assert max(sizes) == BATCH
    assert progress.told[-1] == (250, 250)
    assert progress.told == sorted(progress.told)
    assert {of for _, of in progress.told} == {250}
    assert set(harness.states(ids)) == {State.CANCELLED}
    assert harness.record(ids[0]).reason == "closed"
    assert set(harness.states(others)) == {State.READY}
    assert steer.look(harness.engine, Change.CANCEL, query).count == 0


def test_any_number_of_ids_may_be_named(harness: Harness) -> None:
    ids = harness.send_many(150)
    gone = new_id()
    progress = Watched()
    steered = steer.apply(harness.engine, Change.CANCEL, [*ids, gone], progress=progress)
    assert (steered.changed, steered.refused) == (150, 1)
    assert steered.refusals == (steer.Refused(show_id(gone), "There is no such job."),)
    assert progress.told == [(100, 151), (151, 151)]
    assert steer.apply(harness.engine, Change.CANCEL, []) == steer.Steered(changed=0, refused=0, refusals=())


@pytest.mark.parametrize("change", list(Change))
def test_what_would_become_of_named_jobs_is_what_becomes_of_them(harness: Harness, change: Change) -> None:
    ids = [harness.job_in(state) for state in State] + [new_id()] * BATCH
    before = harness.engine.fetch(ids)
    judged = steer.judge(harness.engine, change, ids)
    assert harness.engine.fetch(ids) == before
    assert judged == steer.apply(harness.engine, change, ids)
    assert judged.changed + judged.refused == len(ids)


def test_refusals_are_counted_and_only_the_first_are_kept(harness: Harness) -> None:
    ids = harness.send_many(120)
    steered = steer.apply(harness.engine, Change.RETRY, ids)
    assert (steered.changed, steered.refused, len(steered.refusals)) == (0, 120, 100)
    assert "only dead, cancelled and expired jobs" in steered.refusals[0].why


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (Change.CANCEL, {State.HELD, State.READY, State.SCHEDULED, State.RUNNING}),
        (Change.RETRY, {State.DEAD}),
        (Change.RUN_NOW, {State.SCHEDULED}),
        (Change.DELETE, set(State) - {State.RUNNING}),
    ],
)
def test_a_query_without_a_state_means_those_that_the_change_is_for(
    harness: Harness, change: Change, found: set[State]
) -> None:
    ids = {state: harness.job_in(state, tags=("mine",)) for state in State}
    query = Query(tag="mine")
    assert steer.look(harness.engine, change, query).count == len(found)
    steered = steer.apply(harness.engine, change, query)
    assert (steered.changed, steered.refused) == (len(found), 0)
    for state, job_id in ids.items():
        (job,) = harness.engine.fetch([job_id])
        untouched = job is not None and job.record is not None and job.record.state is state
        asked = job is not None and job.record is not None and job.record.cancel_asked
        assert (untouched and not asked) is (state not in found), state


def test_a_state_that_is_named_is_the_only_one(harness: Harness) -> None:
    cancelled, dead = (harness.job_in(state, queue="q") for state in (State.CANCELLED, State.DEAD))
    steered = steer.apply(harness.engine, Change.RETRY, Query(queue="q", state=State.CANCELLED))
    assert steered.changed == 1
    assert harness.states([cancelled, dead]) == [State.READY, State.DEAD]


def test_a_lane_is_cancelled_whole_though_each_end_frees_the_next(harness: Harness) -> None:
    ids = harness.send_many(230, lane="acme", queue="q")
    assert steer.apply(harness.engine, Change.CANCEL, Query(lane="acme")).changed == 230
    assert set(harness.states(ids)) == {State.CANCELLED}


def test_what_comes_or_ends_after_the_count_is_left_alone(harness: Harness) -> None:
    queued = harness.send_many(3, queue="mail", tags=("mine",))
    dead = [harness.job_in(State.DEAD, tags=("mine",)) for _ in range(2)]
    every, buried = Query(tag="mine"), Query(tag="mine", state=State.DEAD)
    found = [steer.look(harness.engine, Change.DELETE, query, now_us=harness.now_us) for query in (buried, every)]
    waiting = steer.look_waiting(harness.engine, "mail", now_us=harness.now_us)
    assert [one.count for one in (*found, waiting)] == [2, 5, 3]
    harness.pass_time(1)
    late = harness.send_many(150, queue="mail", tags=("mine",))
    late.append(harness.job_in(State.DEAD, tags=("mine",)))
    changed = [steer.apply(harness.engine, Change.DELETE, one).changed for one in (found[0], waiting, found[1])]
    assert changed == [2, 3, 0]
    assert harness.engine.fetch([*queued, *dead]) == [None] * 5
    assert harness.states(late) == [State.READY] * 150 + [State.DEAD]


def test_never_more_are_changed_than_were_counted(harness: Harness) -> None:
    harness.send_many(2, queue="mail")
    later = harness.send_many(150, queue="mail", delay_us=1_000_000)
    found = steer.look(harness.engine, Change.DELETE, Query(state=State.READY, queue="mail"))
    harness.pass_time(2)
    harness.sweep_all()
    assert set(harness.states(later)) == {State.READY}, "they were there before the count, and scheduled"
    assert steer.apply(harness.engine, Change.DELETE, found).changed == found.count == 2


def test_a_store_whose_clock_is_ahead_of_ours_is_counted_whole(harness: Harness) -> None:
    harness.send_many(2, tags=("mine",))
    harness.job_in(State.DEAD, tags=("mine",))
    hour_ago_us = harness.now_us - 3_600_000_000
    found = steer.look(harness.engine, Change.DELETE, Query(tag="mine"), now_us=hour_ago_us)
    assert found.count == steer.apply(harness.engine, Change.DELETE, found).changed == 3


def test_what_was_counted_is_not_counted_again(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.send_many(5, queue="mail")
    found = steer.look(harness.engine, Change.CANCEL, Query(queue="mail"))
    monkeypatch.delattr(type(harness.engine), "search")
    assert steer.apply(harness.engine, Change.CANCEL, found, progress=Watched()).changed == 5


@pytest.mark.parametrize("change", list(Change))
def test_a_change_of_every_job_of_the_store_is_refused(harness: Harness, change: Change) -> None:
    job_id = harness.send()
    for ask in (steer.look, steer.apply):
        with pytest.raises(BadValue, match="every job of the store is never meant"):
            ask(harness.engine, change, Query(limit=7, count=True))
    assert harness.state(job_id) is State.READY


@pytest.mark.parametrize("alone", [True, False])
def test_of_named_jobs_only_the_dead_are_buried(harness: Harness, alone: bool) -> None:
    dead = [harness.job_in(State.DEAD, queue="mail") for _ in range(120)]
    named, others = (dead, []) if alone else (dead[:110], dead[110:])
    living = [harness.job_in(state) for state in State if state is not State.DEAD]
    steered = steer.bury(harness.engine, [*named, *living, new_id()])
    assert (steered.changed, steered.refused) == (len(named), len(living) + 1)
    assert harness.engine.fetch(named) == [None] * len(named)
    assert set(harness.states(others)) <= {State.DEAD}
    assert all(harness.engine.fetch(living))
    assert {one.why for one in steered.refusals} >= {"There is no such job.", "It is ready, not dead."}


def test_a_dead_job_that_somebody_retries_meanwhile_is_not_deleted(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    retried, dead = harness.job_in(State.DEAD, queue="mail"), harness.job_in(State.DEAD, queue="mail")
    amend = harness.engine.amend

    def late(amendment: Amendment) -> Amended:
        if harness.state(retried) is State.DEAD:
            amend(Amendment(change=Change.RETRY, ids=(retried,)))
        return amend(amendment)

    monkeypatch.setattr(harness.engine, "amend", late)
    steered = steer.bury(harness.engine, [retried, dead])
    assert (steered.changed, steered.refusals) == (
        1,
        (steer.Refused(show_id(retried), "It is ready, not dead."),),
    )
    assert harness.state(retried) is State.READY
    assert harness.engine.fetch([dead]) == [None]


# ── one job, once more ──────────────────────────────────────────────────────────────────────────────────


def send_again(engine: Engine, job_id: JobId, **how: Any) -> Receipt:
    return steer.resend(engine, steer.remake(engine, job_id, **how))


def test_a_dead_job_is_sent_again_with_other_arguments_and_stays(app: App) -> None:
    @app.task(name="divide", retry=0)
    def divide(a: int, b: int, *, password: str) -> list[Any]:
        return [a / b, password]

    dead = divide.using(queue="math", priority=4).delay(6, 0, password="hunter2")
    with Worker(app, slots=1):
        with pytest.raises(JobDead):
            dead.get(timeout=10)
        seen = view.job(app.engine, dead.job_id)
        assert (seen.args, seen.kwargs) == ([6, 0], {"password": "***"})
        receipt = send_again(app.engine, dead.job_id, args=[6, 3], kwargs=seen.kwargs)
        again = divide.result(show_id(receipt.id))
        assert again.get(timeout=10) == [2.0, "hunter2"]
    new, old = view.job(app.engine, receipt.id), view.job(app.engine, dead.job_id)
    assert (new.retry_of, new.queue, new.priority, new.retried_by) == (dead.id, "math", 4, ())
    assert (old.state, old.args, old.retried_by) == (State.DEAD, [6, 0], (again.id,))
    (line,) = view.jobs(app.engine, Query(state=State.DEAD)).jobs
    assert line.retried_by == (again.id,)


def dead_job(harness: Harness, **fields: object) -> JobId:
    claim = harness.running(payload=encode_arguments([1], {"x": {"token": "hunter2"}}), **fields)
    harness.finish(claim, Outcome.FAILED)
    return claim.id


def test_without_arguments_they_are_those_of_the_old_one_to_the_byte(harness: Harness) -> None:
    job_id = dead_job(harness, tags=("a",), options=b'{"timeout_us":5}')
    (old, new) = (harness.job(job_id), harness.job(send_again(harness.engine, job_id).id))
    assert new.request.payload == old.request.payload
    assert (new.request.tags, new.request.options) == (("a",), b'{"timeout_us":5}')


def test_what_the_old_one_waited_for_does_not_hold_the_new_one(harness: Harness) -> None:
    parent = harness.running()
    harness.finish(parent)
    job_id = dead_job(harness, parents=(Edge(parent.id),), expires_us=harness.now_us + 1_000_000)
    harness.amend(Change.DELETE, parent.id)
    harness.pass_time(5)
    assert harness.state(send_again(harness.engine, job_id).id) is State.READY


def test_a_repeat_after_a_lost_answer_is_one_job_and_one_mark(harness: Harness) -> None:
    job_id, new = dead_job(harness), new_id()
    receipts = [send_again(harness.engine, job_id, args=[2], as_id=new) for _ in range(2)]
    assert [receipt.duplicate_of for receipt in receipts] == [None, new]
    other = send_again(harness.engine, job_id, args=[3]).id
    seen = view.job(harness.engine, job_id, now_us=harness.now_us)
    assert seen.retried_by == (show_id(new), show_id(other))
    assert steer.look(harness.engine, Change.CANCEL, Query(queue=seen.queue)).count == 2


def test_the_mark_goes_with_the_time_of_a_dead_record(harness: Harness) -> None:
    job_id = dead_job(harness)
    send_again(harness.engine, job_id)
    key = f"retried/{job_id.hex()}"
    assert harness.engine.read([key])[0] is not None
    harness.jump(harness.limits.keep_dead_us / 1e6 + 1)
    assert harness.engine.read([key]) == [None]


def test_a_job_whose_key_is_taken_is_neither_sent_nor_marked(harness: Harness) -> None:
    job_id = dead_job(harness, unique=Unique("k"))
    holder = harness.send(unique=Unique("k"), queue="other")
    assert send_again(harness.engine, job_id).duplicate_of == holder
    assert view.job(harness.engine, job_id, now_us=harness.now_us).retried_by == ()


@pytest.mark.parametrize("state", [State.READY, State.RUNNING, State.SUCCEEDED])
def test_only_what_ended_badly_is_sent_again(harness: Harness, state: State) -> None:
    job_id = harness.job_in(state)
    with pytest.raises(BadValue, match=rf"is {state}\. Send again what is dead"):
        steer.remake(harness.engine, job_id, args=[])
    with pytest.raises(JobNotFound):
        steer.remake(harness.engine, new_id())


@pytest.mark.parametrize(
    ("edit", "where"),
    [
        ({"kwargs": {"y": {"token": "***"}}}, r"kwargs\.y\.token"),
        ({"args": ["redis://ann:***@db.example/0"]}, r"args\[0\]"),
    ],
)
def test_a_mask_is_never_stored_in_place_of_a_secret(harness: Harness, edit: dict[str, Any], where: str) -> None:
    job_id = dead_job(harness, queue="q")
    with pytest.raises(BadValue, match=rf"`{where}` is still masked"):
        send_again(harness.engine, job_id, **edit)
    assert steer.look(harness.engine, Change.CANCEL, Query(queue="q")).count == 0


def test_arguments_that_cannot_be_read_can_be_replaced_only_by_a_new_send(harness: Harness) -> None:
    claim = harness.running(payload=b"damaged")
    harness.finish(claim, Outcome.FAILED)
    with pytest.raises(CorruptRecord):
        steer.remake(harness.engine, claim.id, args=[1])


# ── queues ──────────────────────────────────────────────────────────────────────────────────────────────


def gate(engine: Engine, queue: str) -> Gate | None:
    (fact,) = engine.read([f"queue/{queue}"])
    return None if fact is None else read_gate(fact.value)


def test_a_queue_is_paused_and_resumed_and_its_other_rules_stay(harness: Harness) -> None:
    harness.set_gate("queue/mail", limit=5)
    assert steer.pause(harness.engine, "mail")
    assert gate(harness.engine, "mail") == Gate(paused=True, limit=5)
    assert not steer.pause(harness.engine, "mail")
    assert steer.resume(harness.engine, "mail")
    assert gate(harness.engine, "mail") == Gate(limit=5)
    assert not steer.resume(harness.engine, "mail")


def test_nothing_is_left_of_a_pause_that_is_over(harness: Harness) -> None:
    assert not steer.resume(harness.engine, "mail")
    assert steer.pause(harness.engine, "mail")
    assert steer.resume(harness.engine, "mail")
    assert gate(harness.engine, "mail") is None


def test_a_paused_queue_stands_still_and_its_resume_wakes_a_sleeping_worker(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "LOOK_S", 1_000.0)  # it does not look by itself

    @app.task(name="double")
    def double(number: int) -> int:
        return 2 * number

    steer.pause(app.engine, "mail")
    with Worker(app, slots=1):
        held = double.using(queue="mail").delay(4)
        assert double.delay(1).get(timeout=10) == 2, "others go on, and the worker has looked"
        assert held.state is State.READY
        assert held.why() == "Its queue mail is paused; it goes on when that is resumed."
        steer.resume(app.engine, "mail")
        assert held.get(timeout=20) == 8


def test_a_resume_wakes_a_worker_and_a_pause_does_not(harness: Harness) -> None:
    """Without it the queue goes on as well, but a second later: every listener looks by itself then."""
    engine = FaultyEngine(harness.engine)
    assert steer.pause(engine, "mail")
    assert not steer.resume(engine, "post"), "it was not paused"
    assert engine.calls["signal"] == 0
    assert steer.resume(engine, "mail")
    assert engine.calls["signal"] == 1


def test_a_purge_deletes_what_waits_and_nothing_else(harness: Harness) -> None:
    ids = {state: harness.job_in(state, queue="q") for state in reversed(State)}  # what waits comes last
    harness.send_many(150, queue="q")
    other = harness.send(queue="other")
    progress = Watched()
    steered = steer.purge(harness.engine, "q", progress=progress)
    assert (steered.changed, steered.refused) == (153, 0)
    assert progress.told[-1] == (153, 153)
    left = {state for state, job_id in ids.items() if harness.state(job_id) is not None}
    assert left == set(State) - {State.HELD, State.READY, State.SCHEDULED}
    assert harness.state(other) is State.READY


@pytest.mark.parametrize("bad", ["", "a b", "../etc", "a/b"])
def test_a_queue_that_cannot_be_is_refused(harness: Harness, bad: str) -> None:
    for do in (steer.pause, steer.resume, steer.purge):
        with pytest.raises(BadName):
            do(harness.engine, bad)


def test_of_two_who_change_a_fact_at_once_neither_is_lost(harness: Harness) -> None:
    meddled: list[bytes] = []

    def add(there: bytes | None) -> bytes:
        if not meddled:
            meddled.append(b"b")
            harness.put("mine", b"b")
        return (there or b"") + b"a"

    assert change(harness.engine, "mine", add)
    (fact,) = harness.engine.read(["mine"])
    assert fact is not None
    assert fact.value == b"ba"


def test_a_paused_queue_is_shown_as_one(harness: Harness) -> None:
    steer.pause(harness.engine, "mail")
    (seen,) = stats.queues(harness.engine, ["mail"])
    assert seen.paused
