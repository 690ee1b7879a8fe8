"""settle: every row of the lifecycle's table, the verdicts, what is kept of an attempt, and follow-ups."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from windlass.core.errors import BadName, BadValue, TooLarge, UnknownParent
from windlass.core.ids import JobId, child_id, new_id
from windlass.core.job import Edge, Job, Outcome, Request, State
from windlass.core.lifecycle import TABLE, Event, Transition
from windlass.engines.protocol import ATTEMPTS_KEPT, BATCH, Change, Claim, Settlement, Verdict
from windlass.testing.conformance.harness import DAY_US, ERROR, HOUR_US, SECOND_US, Harness

Walk = Callable[[Harness], JobId]
Row = tuple[State | None, Event | Outcome]


def _lane_taken(harness: Harness) -> str:
    """A lane whose only place is taken."""
    lane = new_id().hex()
    harness.send(queue="elsewhere", lane=lane)
    return lane


# ── how each row of the table is walked: the job that took it ───────────────────────────────────────────


def _freed(harness: Harness, parent_ends: Outcome = Outcome.SUCCEEDED, **fields: object) -> JobId:
    parent = harness.running()
    child = harness.send(parents=(Edge(parent.id),), **fields)  # pyright: ignore[reportArgumentType]
    assert harness.state(child) is State.HELD
    harness.finish(parent, parent_ends)
    return child


def _due(harness: Harness, **fields: object) -> JobId:
    job_id = harness.send(delay_us=SECOND_US, **fields)  # pyright: ignore[reportArgumentType]
    harness.jump(2)
    harness.sweep_all()
    return job_id


def _amended(harness: Harness, state: State, change: Change, **fields: object) -> JobId:
    job_id = harness.job_in(state, **fields)
    assert harness.amend(change, job_id).changed == (job_id,)
    return job_id


def _expired(harness: Harness, state: State) -> JobId:
    job_id = harness.job_in(state, expires_us=harness.now_us + SECOND_US)
    assert harness.state(job_id) is state
    harness.jump(2)
    harness.sweep_all()
    return job_id


def _retried_in_a_lane(harness: Harness, state: State) -> JobId:
    lane = new_id().hex()
    job_id = harness.job_in(state, lane=lane)
    harness.send(queue="elsewhere", lane=lane)
    harness.amend(Change.RETRY, job_id)
    return job_id


def _settled(harness: Harness, outcome: Outcome | None, to: State) -> JobId:
    claim = harness.running()
    if to is State.CANCELLED and outcome is not Outcome.CANCELLED:
        harness.amend(Change.CANCEL, claim.id)
        transition = Transition(to=State.SCHEDULED, delay_us=HOUR_US)
    else:
        transition = Transition(to=to, delay_us=HOUR_US if to is State.SCHEDULED else 0)
    assert harness.finish(claim, outcome, transition=transition) is Verdict.ACCEPTED
    return claim.id


WALKS: dict[Row, dict[State, Walk]] = {
    (None, Event.INSERT): {
        State.HELD: lambda h: h.send(lane=_lane_taken(h)),
        State.READY: Harness.send,
        State.SCHEDULED: lambda h: h.send(delay_us=HOUR_US),
        State.CANCELLED: lambda h: h.send(parents=(Edge(h.job_in(State.DEAD)),)),
    },
    (State.HELD, Event.FREE): {
        State.READY: _freed,
        State.SCHEDULED: lambda h: _freed(h, at_us=h.now_us + DAY_US),
        State.HELD: lambda h: _freed(h, lane=_lane_taken(h)),
        State.CANCELLED: lambda h: _freed(h, Outcome.FAILED),
    },
    (State.SCHEDULED, Event.DUE): {
        State.READY: _due,
        State.HELD: lambda h: _due(h, lane=_lane_taken(h)),
    },
    (State.SCHEDULED, Event.RUN_NOW): {
        State.READY: lambda h: _amended(h, State.SCHEDULED, Change.RUN_NOW),
        State.HELD: lambda h: _amended(h, State.SCHEDULED, Change.RUN_NOW, lane=_lane_taken(h)),
    },
    (State.READY, Event.CLAIM): {State.RUNNING: lambda h: h.running().id},
    (State.HELD, Event.CANCEL): {State.CANCELLED: lambda h: _amended(h, State.HELD, Change.CANCEL)},
    (State.READY, Event.CANCEL): {State.CANCELLED: lambda h: _amended(h, State.READY, Change.CANCEL)},
    (State.SCHEDULED, Event.CANCEL): {State.CANCELLED: lambda h: _amended(h, State.SCHEDULED, Change.CANCEL)},
    (State.RUNNING, Event.CANCEL): {State.RUNNING: lambda h: _amended(h, State.RUNNING, Change.CANCEL)},
    (State.HELD, Event.EXPIRE): {State.EXPIRED: lambda h: _expired(h, State.HELD)},
    (State.READY, Event.EXPIRE): {State.EXPIRED: lambda h: _expired(h, State.READY)},
    (State.SCHEDULED, Event.EXPIRE): {State.EXPIRED: lambda h: _expired(h, State.SCHEDULED)},
    (State.DEAD, Event.RETRY): {
        State.READY: lambda h: _amended(h, State.DEAD, Change.RETRY),
        State.HELD: lambda h: _retried_in_a_lane(h, State.DEAD),
    },
    (State.CANCELLED, Event.RETRY): {
        State.READY: lambda h: _amended(h, State.CANCELLED, Change.RETRY),
        State.HELD: lambda h: _retried_in_a_lane(h, State.CANCELLED),
    },
    (State.EXPIRED, Event.RETRY): {
        State.READY: lambda h: _amended(h, State.EXPIRED, Change.RETRY),
        State.HELD: lambda h: _retried_in_a_lane(h, State.EXPIRED),
    },
}
# A job retried by hand is due at once, so no engine leads it to scheduled.
UNREACHED = {(row, State.SCHEDULED) for row in TABLE if row[1] is Event.RETRY}


def _settle_walk(outcome: Outcome | None, to: State) -> Walk:
    return lambda harness: _settled(harness, outcome, to)


for _row, _ends in TABLE.items():
    if _row[1] is Event.GIVE_BACK:
        WALKS[_row] = {to: _settle_walk(None, to) for to in _ends}
    elif isinstance(_row[1], Outcome):
        WALKS[_row] = {to: _settle_walk(_row[1], to) for to in _ends}

_STEPS = [(row, to) for row, ends in TABLE.items() for to in sorted(ends) if (row, to) not in UNREACHED]


def _name(step: tuple[Row, State]) -> str:
    (state, event), to = step
    return f"{state or 'nothing'}-{event.value}-{to.value}"


def _follow_ups(parent: JobId, n: int, **fields: object) -> tuple[Job, ...]:
    return tuple(
        Job(request=Request(id=child_id(parent, index), task="next", **fields))  # pyright: ignore[reportArgumentType]
        for index in range(n)
    )


class Settling:
    """The end of a claim, in every way there is."""

    @pytest.mark.parametrize("step", _STEPS, ids=_name)
    def test_every_row_of_the_table_leads_where_it_says(self, harness: Harness, step: tuple[Row, State]) -> None:
        row, to = step
        assert harness.state(WALKS[row][to](harness)) is to

    # ── verdicts and fences ─────────────────────────────────────────────────────────────────────────────

    def test_a_settle_is_accepted_once_and_already_there_when_repeated(self, harness: Harness) -> None:
        claim = harness.running()
        assert harness.finish(claim, result=b"1") is Verdict.ACCEPTED
        job = harness.job(claim.id)
        assert harness.finish(claim, Outcome.FAILED, result=b"2") is Verdict.ALREADY
        assert harness.job(claim.id) == job

    def test_a_settle_sent_twice_in_one_batch_counts_once(self, harness: Harness) -> None:
        claim = harness.running()
        settlement = Settlement(id=claim.id, fence=claim.fence)
        assert harness.settle(settlement, settlement) == [Verdict.ACCEPTED, Verdict.ALREADY]

    def test_of_two_ends_of_one_claim_in_a_batch_the_first_counts(self, harness: Harness) -> None:
        claim = harness.running()
        first, second = (Settlement(id=claim.id, fence=claim.fence, result=result) for result in (b"1", b"2"))
        assert harness.settle(first, second) == [Verdict.ACCEPTED, Verdict.ALREADY]
        assert harness.job(claim.id).result == b"1"

    @pytest.mark.parametrize("size", [1, 2, 3, 33, 65, BATCH, BATCH + 3])
    def test_a_batch_of_any_size_gives_each_job_its_own_end(self, harness: Harness, size: int) -> None:
        harness.send_many(size)
        claims = harness.claim_all(harness.hand())
        ends = [Settlement(id=claim.id, fence=claim.fence, result=b"%d" % n) for n, claim in enumerate(claims)]
        stale = Settlement(id=claims[0].id, fence=claims[0].fence - 1, result=b"late")
        assert harness.settle(stale, *ends[1:]) == [Verdict.STALE, *[Verdict.ACCEPTED] * (size - 1)]
        assert [harness.job(claim.id).result for claim in claims] == [None, *[end.result for end in ends[1:]]]
        assert harness.state(claims[0].id) is State.RUNNING

    def test_a_give_back_sent_twice_is_one(self, harness: Harness) -> None:
        claim = harness.running()
        assert harness.give_back(claim) is Verdict.ACCEPTED
        assert harness.give_back(claim) is Verdict.ALREADY
        assert harness.state(claim.id) is State.READY

    def test_a_settle_with_an_old_fence_is_stale_and_changes_nothing(self, harness: Harness) -> None:
        old = harness.running()
        harness.finish(old, Outcome.FAILED, delay_s=0)
        (new,) = harness.claim(harness.hand(), queues=(old.queue,))
        harness.finish(new, Outcome.FAILED, delay_s=0)
        (newest,) = harness.claim(harness.hand(), queues=(old.queue,))
        before = harness.job(old.id)
        assert harness.finish(old, result=b"late", follow_ups=_follow_ups(old.id, 1)) is Verdict.STALE
        assert harness.job(old.id) == before
        assert harness.state(child_id(old.id, 0)) is None
        assert harness.finish(new) is Verdict.ALREADY
        assert harness.finish(newest) is Verdict.ACCEPTED

    def test_a_success_under_the_fence_of_an_earlier_claim_is_stale(self, harness: Harness) -> None:
        """Its job is like one that was never claimed before: nothing but the fence tells."""
        old = claim = harness.running()
        for _ in range(2):
            harness.give_back(claim)
            (claim,) = harness.claim(harness.hand(), queues=(old.queue,))
        assert harness.finish(old) is Verdict.STALE
        assert harness.state(old.id) is State.RUNNING

    def test_a_fence_that_never_was_is_stale(self, harness: Harness) -> None:
        claim = harness.running()
        for fence in (1, claim.fence - 1, claim.fence + 1):
            assert harness.settle(Settlement(id=claim.id, fence=fence)) == [Verdict.STALE]
        assert harness.state(claim.id) is State.RUNNING

    def test_a_settle_of_a_job_that_is_not_there_is_stale(self, harness: Harness) -> None:
        assert harness.settle(Settlement(id=new_id(), fence=1)) == [Verdict.STALE]

    def test_verdicts_come_in_the_order_of_the_settlements(self, harness: Harness) -> None:
        one, two = harness.running(), harness.running()
        harness.finish(two)
        verdicts = harness.settle(
            Settlement(id=new_id(), fence=1),
            Settlement(id=two.id, fence=two.fence),
            Settlement(id=one.id, fence=one.fence),
        )
        assert verdicts == [Verdict.STALE, Verdict.ALREADY, Verdict.ACCEPTED]

    def test_fences_only_grow_also_after_the_clock_was_set_back(self, harness: Harness) -> None:
        claim = harness.running()
        fences = [claim.fence]
        for end in ("give back", "snooze", "retry", "retry by hand"):
            harness.clock.set_back(HOUR_US)
            if end == "give back":
                harness.give_back(claim)
            elif end == "retry by hand":
                harness.finish(claim, Outcome.FAILED)
                harness.amend(Change.RETRY, claim.id)
            else:
                harness.finish(claim, Outcome.SNOOZE if end == "snooze" else Outcome.RETRY, delay_s=0)
            (claim,) = harness.claim(harness.hand(), queues=(claim.queue,))
            fences.append(claim.fence)
        assert fences == sorted(set(fences))
        assert len(fences) == 5

    def test_a_settle_is_accepted_after_the_lease_has_run_out(self, harness: Harness) -> None:
        claim = harness.running()
        harness.clock.advance(HOUR_US)
        assert harness.finish(claim) is Verdict.ACCEPTED

    def test_a_settle_through_another_engine_on_the_store_counts(self, harness: Harness) -> None:
        claim = harness.running()
        other = harness.another()
        assert other.settle([Settlement(id=claim.id, fence=claim.fence)]) == [Verdict.ACCEPTED]
        assert harness.state(claim.id) is State.SUCCEEDED

    # ── what is kept ────────────────────────────────────────────────────────────────────────────────────

    def test_a_first_try_success_keeps_no_attempt(self, harness: Harness) -> None:
        claim = harness.running()
        harness.finish(claim, ran_us=SECOND_US)
        job = harness.job(claim.id)
        assert job.attempts == ()
        assert job.record is not None
        assert job.record.started_us == harness.now_us - SECOND_US
        assert job.record.ended_us == harness.now_us

    def test_every_other_attempt_is_kept_in_order(self, harness: Harness) -> None:
        claim = harness.running()
        fences: list[int] = []
        for outcome in (Outcome.FAILED, Outcome.SNOOZE, Outcome.TIMED_OUT, Outcome.SUCCEEDED):
            fences.append(claim.fence)
            failed = outcome in (Outcome.FAILED, Outcome.TIMED_OUT)
            harness.finish(claim, outcome, delay_s=0, failure=ERROR if failed else None)
            if outcome is not Outcome.SUCCEEDED:
                (claim,) = harness.claim(harness.hand(), queues=(claim.queue,))
        kept = harness.job(claim.id).attempts
        assert [(entry.attempt, entry.outcome) for entry in kept] == [
            (1, Outcome.FAILED),
            (2, Outcome.SNOOZE),
            (2, Outcome.TIMED_OUT),
            (3, Outcome.SUCCEEDED),
        ]
        assert [entry.fence for entry in kept] == fences
        assert [entry.failure for entry in kept] == [ERROR, None, ERROR, None]
        assert {entry.worker for entry in kept} == {harness.hand()}

    def test_a_give_back_costs_no_attempt_and_keeps_none(self, harness: Harness) -> None:
        claim = harness.running()
        harness.give_back(claim)
        job = harness.job(claim.id)
        assert job.attempts == ()
        assert job.record is not None
        assert (job.record.attempt, job.record.crashes, job.record.losses) == (1, 0, 0)

    def test_a_failure_costs_an_attempt_and_a_snooze_none(self, harness: Harness) -> None:
        claim = harness.running()
        harness.finish(claim, Outcome.SNOOZE, delay_s=0)
        assert harness.record(claim.id).attempt == 1
        (claim,) = harness.claim(harness.hand(), queues=(claim.queue,))
        harness.finish(claim, Outcome.FAILED, delay_s=0)
        assert harness.record(claim.id).attempt == 2

    def test_three_crashes_make_a_job_dead_by_poison(self, harness: Harness) -> None:
        claim = harness.running()
        for crashes in (1, 2):
            harness.finish(claim, Outcome.CRASHED)
            (claim,) = harness.claim(harness.hand(), queues=(claim.queue,), suspects=True)
            assert claim.crashes == crashes
        harness.finish(claim, Outcome.CRASHED)
        record = harness.record(claim.id)
        assert (record.state, record.reason, record.attempt) == (State.DEAD, "poison", 1)

    def test_the_result_is_stored_with_a_success(self, harness: Harness) -> None:
        claim = harness.running()
        harness.finish(claim, result=b"forty-two")
        assert harness.job(claim.id).result == b"forty-two"

    def test_the_result_is_stored_with_a_success_after_a_failure(self, harness: Harness) -> None:
        claim = harness.running()
        harness.finish(claim, Outcome.FAILED, delay_s=0, failure=ERROR)
        (claim,) = harness.claim(harness.hand(), queues=(claim.queue,))
        harness.finish(claim, result=b"at last")
        assert harness.job(claim.id).result == b"at last"

    def test_the_failure_is_stored_with_a_dead_job(self, harness: Harness) -> None:
        claim = harness.running()
        harness.finish(claim, Outcome.FAILED, failure=ERROR)
        job = harness.job(claim.id)
        assert job.failure == ERROR
        assert job.record is not None
        assert (job.record.state, job.record.reason) == (State.DEAD, "failed")

    def test_a_success_after_a_failure_shows_no_failure(self, harness: Harness) -> None:
        claim = harness.running()
        harness.finish(claim, Outcome.FAILED, delay_s=0, failure=ERROR)
        assert harness.job(claim.id).failure == ERROR
        (claim,) = harness.claim(harness.hand(), queues=(claim.queue,))
        harness.finish(claim)
        job = harness.job(claim.id)
        assert job.failure is None
        assert job.attempts[0].failure == ERROR

    def test_a_result_is_gone_after_its_time_and_the_record_stays(self, harness: Harness) -> None:
        brief, lasting = harness.running(), harness.running()
        harness.finish(brief, result=b"1", keep_result_us=10 * SECOND_US)
        harness.finish(lasting, result=b"2")
        harness.pass_time(10)
        assert harness.job(brief.id).result is None
        assert harness.state(brief.id) is State.SUCCEEDED
        assert harness.job(lasting.id).result == b"2"

    def test_a_settled_job_belongs_to_no_worker_any_more(self, harness: Harness) -> None:
        claims = [harness.running() for _ in range(2)]
        assert harness.renew(harness.hand()).claims == 2
        harness.finish(claims[0])
        harness.give_back(claims[1])
        assert harness.renew(harness.hand()).claims == 0

    # ── running again ───────────────────────────────────────────────────────────────────────────────────

    def test_a_retry_waits_its_delay_and_queues_behind_what_came_before(self, harness: Harness) -> None:
        worker = harness.worker()
        first = harness.send()
        (claim,) = harness.claim(worker)
        harness.finish(claim, Outcome.FAILED, delay_s=10)
        between = harness.send()
        assert harness.record(first).due_us == harness.now_us + 10 * SECOND_US
        harness.pass_time(10)
        after = harness.send()
        assert harness.drain(worker) == [between, first, after]

    def test_a_snooze_waits_its_delay_and_queues_behind_what_came_before(self, harness: Harness) -> None:
        worker = harness.worker()
        first = harness.send()
        harness.finish(harness.claim(worker)[0], Outcome.SNOOZE, delay_s=10)
        between = harness.send()
        assert harness.drain(worker) == [between]
        harness.pass_time(10)
        assert harness.drain(worker) == [first]

    def test_a_crashed_job_keeps_its_rank(self, harness: Harness) -> None:
        claim = harness.running(priority=3)
        rank = harness.record(claim.id).rank
        harness.finish(claim, Outcome.CRASHED)
        assert harness.record(claim.id).rank == rank

    # ── follow-ups ──────────────────────────────────────────────────────────────────────────────────────

    def test_follow_ups_are_there_when_the_settle_is_accepted(self, harness: Harness) -> None:
        claim = harness.running()
        jobs = _follow_ups(claim.id, 3)
        harness.finish(claim, follow_ups=jobs)
        assert harness.states([job.id for job in jobs]) == [State.READY] * 3

    def test_a_hundred_follow_ups_fit_one_settle(self, harness: Harness) -> None:
        claim = harness.running()
        jobs = _follow_ups(claim.id, BATCH)
        harness.finish(claim, follow_ups=jobs)
        harness.sweep_all()
        assert harness.states([job.id for job in jobs]) == [State.READY] * BATCH

    def test_more_follow_ups_than_fit_one_step_all_come_once(self, harness: Harness) -> None:
        claim = harness.running()
        jobs = _follow_ups(claim.id, 3 * BATCH + 7, queue="next")
        harness.finish(claim, follow_ups=jobs)
        there = [state for state in harness.states([job.id for job in jobs]) if state is not None]
        assert len(there) <= 2 * BATCH
        harness.sweep_all()
        claims = harness.claim_all(harness.worker(), queues=("next",))
        assert sorted(entry.id for entry in claims) == sorted(job.id for job in jobs)

    def test_follow_ups_cut_in_the_middle_go_on_in_small_steps(self, harness: Harness) -> None:
        claim = harness.running()
        jobs = _follow_ups(claim.id, 2 * BATCH + 33, queue="next")
        ids = [job.id for job in jobs]
        harness.finish(claim, follow_ups=jobs)
        for _ in range(len(ids)):
            if not harness.sweep(limit=7).more:
                break
            harness.finish(claim, follow_ups=jobs)
        assert harness.states(ids) == [State.READY] * len(ids)

    def test_the_same_follow_ups_twice_change_nothing(self, harness: Harness) -> None:
        claim = harness.running()
        jobs = _follow_ups(claim.id, BATCH + 20, queue="next")
        harness.finish(claim, Outcome.FAILED, follow_ups=jobs)
        harness.sweep_all()
        harness.amend(Change.RETRY, claim.id)
        (again,) = harness.claim(harness.hand(), queues=(claim.queue,))
        assert len(harness.drain(harness.worker(), queues=("next",))) == len(jobs)
        assert harness.finish(again, follow_ups=jobs) is Verdict.ACCEPTED
        harness.sweep_all()
        assert harness.claim(harness.worker(), queues=("next",)) == []

    def test_a_follow_up_may_wait_for_the_job_that_brings_it(self, harness: Harness) -> None:
        claim = harness.running()
        (job,) = _follow_ups(claim.id, 1, parents=(Edge(claim.id),))
        harness.finish(claim, follow_ups=(job,))
        harness.sweep_all()
        assert harness.state(job.id) is State.READY

    @pytest.mark.parametrize(
        ("fields", "error"),
        [({"queue": "no spaces"}, BadName), ({"parents": (Edge(bytes(16)),)}, UnknownParent)],
    )
    def test_a_settle_with_a_bad_follow_up_is_refused_whole(
        self, harness: Harness, fields: dict[str, object], error: type[Exception]
    ) -> None:
        one, two = harness.running(), harness.running()
        bad = _follow_ups(two.id, 1, **fields)
        with pytest.raises(error):
            harness.settle(
                Settlement(id=one.id, fence=one.fence),
                Settlement(id=two.id, fence=two.fence, follow_ups=bad),
            )
        assert harness.states([one.id, two.id]) == [State.RUNNING] * 2
        assert harness.finish(two) is Verdict.ACCEPTED

    # ── the dead ────────────────────────────────────────────────────────────────────────────────────────

    def test_a_dead_job_may_move_to_another_queue_and_comes_home_by_retry(self, harness: Harness) -> None:
        claim = harness.running()
        harness.finish(claim, Outcome.FAILED, queue="graveyard")
        assert harness.record(claim.id).queue == "graveyard"
        assert harness.claim(harness.hand(), queues=("graveyard",)) == []
        harness.amend(Change.RETRY, claim.id)
        assert harness.record(claim.id).queue == claim.queue
        (again,) = harness.claim(harness.hand(), queues=(claim.queue,))
        assert (again.id, again.attempt) == (claim.id, 1)

    def test_only_the_dead_move_to_another_queue(self, harness: Harness) -> None:
        claim = harness.running()
        harness.finish(claim, queue="graveyard")
        assert harness.record(claim.id).queue == claim.queue

    # ── a cancel that was asked for while it ran ────────────────────────────────────────────────────────

    @pytest.mark.parametrize(
        ("outcome", "delay_s", "end"),
        [
            (Outcome.SUCCEEDED, None, State.SUCCEEDED),
            (Outcome.FAILED, None, State.DEAD),
            (Outcome.FAILED, 5.0, State.CANCELLED),
            (Outcome.RETRY, 5.0, State.CANCELLED),
            (Outcome.TIMED_OUT, 5.0, State.CANCELLED),
            (Outcome.SNOOZE, 5.0, State.CANCELLED),
            (Outcome.CRASHED, None, State.CANCELLED),
            (Outcome.CANCELLED, None, State.CANCELLED),
            (None, None, State.CANCELLED),
        ],
    )
    def test_a_job_to_be_cancelled_does_not_run_again(
        self, harness: Harness, outcome: Outcome | None, delay_s: float | None, end: State
    ) -> None:
        claim = harness.running()
        harness.amend(Change.CANCEL, claim.id)
        assert harness.record(claim.id).cancel_asked
        assert harness.finish(claim, outcome, delay_s=delay_s) is Verdict.ACCEPTED
        harness.jump(60)
        assert harness.claim(harness.hand(), queues=(claim.queue,)) == []
        assert harness.state(claim.id) is end

    def test_a_job_cancelled_while_it_ran_can_be_retried_by_hand(self, harness: Harness) -> None:
        claim = harness.running()
        harness.amend(Change.CANCEL, claim.id)
        harness.give_back(claim)
        harness.amend(Change.RETRY, claim.id)
        (again,) = harness.claim(harness.hand(), queues=(claim.queue,))
        harness.finish(again, Outcome.FAILED, delay_s=1)
        assert harness.state(claim.id) is State.SCHEDULED

    def test_a_batch_settles_each_job_by_itself(self, harness: Harness) -> None:
        ids = harness.send_many(30)
        claims = harness.claim(harness.worker())
        half: list[Claim] = claims[::2]
        assert harness.settle(*(Settlement(id=c.id, fence=c.fence) for c in half)) == [Verdict.ACCEPTED] * 15
        assert harness.states(ids) == [State.SUCCEEDED, State.RUNNING] * 15

    def test_of_two_fences_of_one_job_in_a_batch_only_the_current_one_counts(self, harness: Harness) -> None:
        claim = harness.running()
        stale = Settlement(id=claim.id, fence=claim.fence - 1)
        current = Settlement(id=claim.id, fence=claim.fence)
        assert harness.settle(stale, current, current) == [Verdict.STALE, Verdict.ACCEPTED, Verdict.ALREADY]

    def test_a_fence_of_nothing_is_stale(self, harness: Harness) -> None:
        job_id = harness.send()
        assert harness.settle(Settlement(id=job_id, fence=0)) == [Verdict.STALE]

    def test_a_success_leaves_the_counts_of_what_it_took(self, harness: Harness) -> None:
        worker = harness.worker()
        job_id = harness.send()
        harness.worker()
        harness.claim(worker)
        harness.vanish(worker)
        harness.sweep_all()
        (claim,) = harness.claim(harness.worker())
        harness.settle(Settlement(id=claim.id, fence=claim.fence))
        assert harness.record(job_id).losses == 1

    def test_a_move_that_is_not_in_the_table_is_refused(self, harness: Harness) -> None:
        claim = harness.running()
        for to in (State.EXPIRED, State.HELD, State.RUNNING):
            with pytest.raises(BadValue):
                harness.settle(Settlement(id=claim.id, fence=claim.fence, transition=Transition(to=to)))
        assert harness.state(claim.id) is State.RUNNING

    def test_an_heir_that_is_no_follow_up_is_refused(self, harness: Harness) -> None:
        claim = harness.running()
        with pytest.raises(BadValue):
            harness.settle(Settlement(id=claim.id, fence=claim.fence, become=new_id()))
        assert harness.state(claim.id) is State.RUNNING

    # ── bounds ──────────────────────────────────────────────────────────────────────────────────────────

    def test_a_job_that_snoozes_for_ever_keeps_only_its_last_attempts(self, harness: Harness) -> None:
        claim = harness.running()
        fences: list[int] = []
        for _ in range(ATTEMPTS_KEPT + 3):
            fences.append(claim.fence)
            harness.finish(claim, Outcome.SNOOZE, delay_s=0)
            (claim,) = harness.claim(harness.hand(), queues=(claim.queue,))
        assert [attempt.fence for attempt in harness.job(claim.id).attempts] == fences[-ATTEMPTS_KEPT:]

    def test_a_result_past_its_limit_is_refused_and_the_job_still_runs(self, harness: Harness) -> None:
        claim = harness.running()
        large = Settlement(id=claim.id, fence=claim.fence, result=bytes(harness.limits.result_bytes + 1))
        with pytest.raises(TooLarge):
            harness.settle(large)
        assert harness.state(claim.id) is State.RUNNING
