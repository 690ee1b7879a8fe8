"""amend: cancel, delete, run now and retry, in every state, by ids and by query."""

from __future__ import annotations

import pytest

from windlass.core.errors import BadValue
from windlass.core.ids import new_id
from windlass.core.job import ENDED, WAITING, Outcome, State
from windlass.core.lifecycle import CANCELLED, Standing, decide
from windlass.engines.protocol import BATCH, Amendment, Change, Query
from windlass.testing.conformance.harness import ERROR, SECOND_US, Harness

MANY = 2 * BATCH + 50
RETRIED = (State.DEAD, State.CANCELLED, State.EXPIRED)


def _left_as_it_is(harness: Harness, change: Change, state: State) -> None:
    """The change is refused with a sentence, and the job stays as it was."""
    job_id = harness.job_in(state)
    before = harness.job(job_id)
    amended = harness.amend(change, job_id)
    assert amended.changed == ()
    (refusal,) = amended.refused
    assert refusal.id == job_id
    assert refusal.why.endswith(".")
    assert harness.job(job_id) == before


class Cancelling:
    """What people do to jobs."""

    # ── cancel ──────────────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("state", sorted(WAITING))
    def test_a_waiting_job_is_cancelled_at_once(self, harness: Harness, state: State) -> None:
        job_id = harness.job_in(state)
        assert harness.amend(Change.CANCEL, job_id, reason="not needed").changed == (job_id,)
        record = harness.record(job_id)
        assert (record.state, record.reason) == (State.CANCELLED, "not needed")
        assert record.ended_us == harness.now_us
        harness.jump(3_600)
        assert harness.claim(harness.worker(), queues=(record.queue,)) == []

    def test_a_running_job_is_asked_to_stop_and_goes_on_until_it_settles(self, harness: Harness) -> None:
        claim = harness.running()
        for _ in range(2):
            assert harness.amend(Change.CANCEL, claim.id).changed == (claim.id,)
        record = harness.record(claim.id)
        assert (record.state, record.cancel_asked) == (State.RUNNING, True)
        harness.finish(claim, Outcome.CANCELLED)
        assert harness.state(claim.id) is State.CANCELLED

    @pytest.mark.parametrize(
        ("asked", "said", "ends_with"),
        [
            (("not needed",), CANCELLED, "not needed"),
            (("not needed",), None, "not needed"),
            (("not needed",), "sold out", "sold out"),
            ((None,), CANCELLED, CANCELLED),
            ((None, "not needed"), CANCELLED, "not needed"),
            (("not needed", None), CANCELLED, "not needed"),
            (("not needed", "really"), CANCELLED, "really"),
        ],
    )
    def test_a_running_job_ends_with_the_reason_of_the_ask_unless_its_task_gave_one(
        self, harness: Harness, asked: tuple[str | None, ...], said: str | None, ends_with: str
    ) -> None:
        claim = harness.running()
        for reason in asked:
            harness.amend(Change.CANCEL, claim.id, reason=reason)
        harness.finish(claim, Outcome.CANCELLED, transition=decide(Outcome.CANCELLED, Standing(), reason=said))
        record = harness.record(claim.id)
        assert (record.state, record.reason) == (State.CANCELLED, ends_with)

    def test_a_running_job_shows_the_reason_of_the_ask_and_not_that_of_its_last_snooze(self, harness: Harness) -> None:
        claim = harness.running()
        snoozed = decide(Outcome.SNOOZE, Standing(), delay_us=0, reason="too early")
        harness.finish(claim, Outcome.SNOOZE, transition=snoozed)
        (claim,) = harness.claim(harness.hand(), queues=(claim.queue,))
        harness.amend(Change.CANCEL, claim.id)
        assert harness.record(claim.id).reason == CANCELLED
        harness.amend(Change.CANCEL, claim.id, reason="not needed")
        assert harness.record(claim.id).reason == "not needed"

    @pytest.mark.parametrize("outcome", [None, Outcome.FAILED, Outcome.SNOOZE])
    def test_a_job_that_would_run_again_is_cancelled_for_the_reason_of_the_ask(
        self, harness: Harness, outcome: Outcome | None
    ) -> None:
        claim = harness.running()
        harness.amend(Change.CANCEL, claim.id, reason="not needed")
        harness.finish(claim, outcome, delay_s=1)
        record = harness.record(claim.id)
        assert (record.state, record.reason) == (State.CANCELLED, "not needed")

    def test_a_job_whose_worker_died_is_cancelled_for_the_reason_of_the_ask(self, harness: Harness) -> None:
        worker = harness.worker()
        job_id = harness.send()
        harness.claim(worker)
        harness.amend(Change.CANCEL, job_id, reason="not needed")
        harness.vanish(worker)
        harness.sweep_all()
        record = harness.record(job_id)
        assert (record.state, record.reason) == (State.CANCELLED, "not needed")

    @pytest.mark.parametrize(("outcome", "reason"), [(Outcome.SUCCEEDED, None), (Outcome.FAILED, Outcome.FAILED.value)])
    def test_nothing_shows_of_the_ask_once_the_job_has_ended_otherwise(
        self, harness: Harness, outcome: Outcome, reason: str | None
    ) -> None:
        claim = harness.running()
        harness.amend(Change.CANCEL, claim.id, reason="not needed")
        harness.finish(claim, outcome)
        assert harness.record(claim.id).reason == reason

    def test_a_retry_by_hand_forgets_the_ask_and_its_reason(self, harness: Harness) -> None:
        claim = harness.running()
        harness.amend(Change.CANCEL, claim.id, reason="not needed")
        harness.finish(claim, Outcome.CANCELLED)
        harness.amend(Change.RETRY, claim.id)
        record = harness.record(claim.id)
        assert (record.state, record.cancel_asked, record.reason) == (State.READY, False, None)
        (again,) = harness.claim(harness.hand(), queues=(claim.queue,))
        harness.finish(again, Outcome.CANCELLED, transition=decide(Outcome.CANCELLED, Standing(), reason=CANCELLED))
        assert harness.record(claim.id).reason == CANCELLED

    @pytest.mark.parametrize("state", sorted(ENDED))
    def test_an_ended_job_is_not_cancelled(self, harness: Harness, state: State) -> None:
        _left_as_it_is(harness, Change.CANCEL, state)

    # ── delete ──────────────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("state", sorted(WAITING | ENDED))
    def test_a_job_that_does_not_run_is_deleted(self, harness: Harness, state: State) -> None:
        job_id = harness.job_in(state)
        queue = harness.record(job_id).queue
        assert harness.amend(Change.DELETE, job_id).changed == (job_id,)
        assert harness.state(job_id) is None
        harness.jump(3_600)
        assert harness.claim(harness.worker(), queues=(queue,)) == []
        assert harness.find(Query(queue=queue)) == []

    def test_a_running_job_is_not_deleted(self, harness: Harness) -> None:
        _left_as_it_is(harness, Change.DELETE, State.RUNNING)

    # ── run now ─────────────────────────────────────────────────────────────────────────────────────────

    def test_a_scheduled_job_runs_now_behind_what_already_waits(self, harness: Harness) -> None:
        scheduled = harness.send(delay_us=60 * SECOND_US)
        ready = harness.send()
        assert harness.amend(Change.RUN_NOW, scheduled).changed == (scheduled,)
        assert harness.drain(harness.worker()) == [ready, scheduled]

    def test_a_retry_that_waits_can_run_now(self, harness: Harness) -> None:
        claim = harness.running()
        harness.finish(claim, Outcome.FAILED, delay_s=60)
        harness.amend(Change.RUN_NOW, claim.id)
        (again,) = harness.claim(harness.hand(), queues=(claim.queue,))
        assert again.attempt == 2

    @pytest.mark.parametrize("state", sorted(frozenset(State) - {State.SCHEDULED}))
    def test_only_a_scheduled_job_runs_now(self, harness: Harness, state: State) -> None:
        _left_as_it_is(harness, Change.RUN_NOW, state)

    # ── retry by hand ───────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("state", RETRIED)
    def test_an_ended_job_is_retried_by_hand_from_the_start(self, harness: Harness, state: State) -> None:
        job_id = harness.job_in(state)
        assert harness.amend(Change.RETRY, job_id).changed == (job_id,)
        record = harness.record(job_id)
        assert (record.state, record.attempt, record.ended_us, record.reason) == (State.READY, 1, None, None)
        (claim,) = harness.claim(harness.worker(), queues=(record.queue,))
        harness.finish(claim)
        assert harness.state(job_id) is State.SUCCEEDED

    @pytest.mark.parametrize("state", sorted(frozenset(State) - frozenset(RETRIED)))
    def test_nothing_else_is_retried_by_hand(self, harness: Harness, state: State) -> None:
        _left_as_it_is(harness, Change.RETRY, state)

    def test_a_retry_by_hand_forgets_crashes_losses_and_the_error(self, harness: Harness) -> None:
        claim = harness.running()
        for _ in range(2):
            harness.finish(claim, Outcome.CRASHED)
            (claim,) = harness.claim(harness.hand(), queues=(claim.queue,), suspects=True)
        harness.finish(claim, Outcome.FAILED, failure=ERROR)
        harness.amend(Change.RETRY, claim.id)
        job = harness.job(claim.id)
        assert job.record is not None
        assert (job.record.crashes, job.record.losses, job.record.suspect) == (0, 0, False)
        assert job.failure is None
        assert len(job.attempts) == 3

    def test_a_job_retried_by_hand_queues_at_the_end(self, harness: Harness) -> None:
        worker = harness.worker()
        first = harness.send()
        harness.finish(harness.claim(worker)[0], Outcome.FAILED)
        second = harness.send()
        harness.amend(Change.RETRY, first)
        assert harness.drain(worker) == [second, first]

    def test_an_expired_job_retried_by_hand_does_not_expire_again(self, harness: Harness) -> None:
        job_id = harness.job_in(State.EXPIRED)
        harness.amend(Change.RETRY, job_id)
        harness.jump(60)
        harness.sweep_all()
        assert harness.state(job_id) is State.READY

    # ── many ────────────────────────────────────────────────────────────────────────────────────────────

    def test_each_job_of_an_amendment_is_answered(self, harness: Harness) -> None:
        waiting, ended, missing = harness.send(), harness.job_in(State.SUCCEEDED), new_id()
        amended = harness.amend(Change.CANCEL, waiting, ended, missing)
        assert amended.changed == (waiting,)
        assert [refusal.id for refusal in amended.refused] == [ended, missing]
        assert amended.cursor is None

    def test_a_query_cancels_what_it_finds_and_nothing_else(self, harness: Harness) -> None:
        ids = harness.send_many(MANY, queue="q")
        other = harness.send(queue="other")
        changed = harness.amend_all(Change.CANCEL, Query(state=State.READY, queue="q"))
        assert sorted(changed) == sorted(ids)
        assert set(harness.states(ids)) == {State.CANCELLED}
        assert harness.state(other) is State.READY

    @pytest.mark.parametrize("change", [Change.DELETE, Change.RETRY])
    def test_a_query_misses_no_dead_job_while_it_changes_them(self, harness: Harness, change: Change) -> None:
        ids = harness.send_many(MANY, queue="q")
        for claim in harness.claim_all(harness.worker()):
            harness.finish(claim, Outcome.FAILED)
        changed = harness.amend_all(change, Query(state=State.DEAD, queue="q"))
        assert sorted(changed) == sorted(ids)
        assert set(harness.states(ids)) == {None if change is Change.DELETE else State.READY}

    def test_one_call_changes_no_more_than_a_batch(self, harness: Harness) -> None:
        harness.send_many(MANY)
        amended = harness.engine.amend(Amendment(change=Change.CANCEL, query=Query(limit=1_000)))
        assert len(amended.changed) <= BATCH
        assert amended.cursor is not None

    def test_more_ids_than_a_batch_are_refused_and_nothing_is_changed(self, harness: Harness) -> None:
        ids = harness.send_many(BATCH + 1)
        with pytest.raises(BadValue):
            harness.amend(Change.CANCEL, *ids)
        assert set(harness.states(ids)) == {State.READY}

    @pytest.mark.parametrize("change", [Change.DELETE, Change.CANCEL])
    def test_a_state_that_is_asked_for_is_looked_at_in_the_same_step(self, harness: Harness, change: Change) -> None:
        wanted = State.SCHEDULED
        jobs = {state: harness.job_in(state) for state in State}
        amended = harness.amend(change, *jobs.values(), state=wanted)
        assert amended.changed == (jobs[wanted],)
        assert {one.id for one in amended.refused} == {job_id for state, job_id in jobs.items() if state is not wanted}
        assert next(one.why for one in amended.refused if one.id == jobs[State.DEAD]) == "It is dead, not scheduled."
        left = {state: job_id for state, job_id in jobs.items() if state is not wanted}
        assert harness.states([*left.values()]) == list(left)

    def test_a_query_by_tag_reaches_every_job_of_it(self, harness: Harness) -> None:
        tagged = [harness.send(tags=("batch-7",)) for _ in range(3)]
        harness.send_many(3)
        assert sorted(harness.amend_all(Change.CANCEL, Query(tag="batch-7"))) == sorted(tagged)
