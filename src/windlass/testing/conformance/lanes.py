"""Lanes: a key whose jobs run one after another, or at most n at once, in the order in which they joined."""

from __future__ import annotations

import pytest

from windlass.core.ids import JobId, WorkerId, new_id
from windlass.core.job import Edge, Hold, Outcome, State
from windlass.engines.protocol import BATCH, Change, Claim, Settlement
from windlass.testing.conformance.harness import SECOND_US, Harness


def _ids(harness: Harness, worker: WorkerId, limit: int = 100) -> list[JobId]:
    return [claim.id for claim in harness.claim(worker, limit)]


def _first(harness: Harness, worker: WorkerId) -> Claim:
    """The only job that can be claimed now."""
    (claim,) = harness.claim(worker)
    return claim


class Lanes:
    """Never more than the limit, and order through everything that can happen to a job."""

    # ── how many ────────────────────────────────────────────────────────────────────────────────────────

    def test_one_job_of_a_lane_is_claimed_at_a_time(self, harness: Harness) -> None:
        sent = harness.send_many(3, lane="l")
        worker = harness.worker()
        claim = _first(harness, worker)
        assert claim.id == sent[0]
        assert _ids(harness, worker) == []
        assert [harness.record(job_id).hold for job_id in sent] == [None, Hold.LANE, Hold.LANE]
        harness.finish(claim)
        assert _ids(harness, worker) == sent[1:2]

    def test_a_lane_with_a_limit_never_has_more_claimed_than_that(self, harness: Harness) -> None:
        sent = harness.send_many(10, lane="l", lane_limit=3)
        worker = harness.worker()
        running = harness.claim(worker)
        order = [claim.id for claim in running]
        while running:
            assert len(running) <= 3
            assert _ids(harness, worker) == []
            harness.finish(running.pop(0))
            new = harness.claim(worker)
            order += [claim.id for claim in new]
            running += new
        assert order == sent

    def test_lanes_do_not_wait_for_one_another(self, harness: Harness) -> None:
        firsts = [harness.send_many(2, lane=lane)[0] for lane in ("a", "b", "c")]
        assert _ids(harness, harness.worker()) == firsts

    def test_a_lane_is_one_over_all_queues(self, harness: Harness) -> None:
        first, second = harness.send(queue="a", lane="l"), harness.send(queue="b", lane="l")
        worker = harness.worker()
        claim = _first(harness, worker)
        assert claim.id == first
        harness.finish(claim)
        assert _ids(harness, worker) == [second]

    def test_the_last_limit_stated_counts_upwards(self, harness: Harness) -> None:
        sent = harness.send_many(4, lane="l")
        worker = harness.worker()
        assert _ids(harness, worker) == sent[:1]
        last = harness.send(lane="l", lane_limit=4)
        assert _ids(harness, worker) == sent[1:]
        assert harness.record(last).hold is Hold.LANE

    def test_the_last_limit_stated_counts_downwards(self, harness: Harness) -> None:
        sent = harness.send_many(5, lane="l", lane_limit=3)
        worker = harness.worker()
        running = harness.claim(worker)
        assert len(running) == 3
        last = harness.send(lane="l", lane_limit=1)
        for claim in running[:2]:
            harness.finish(claim)
            assert _ids(harness, worker) == []
        harness.finish(running[2])
        assert harness.drain(worker) == [*sent[3:], last]

    def test_an_insert_that_states_no_limit_changes_none(self, harness: Harness) -> None:
        harness.send_many(2, lane="l", lane_limit=2)
        harness.send(lane="l")
        assert len(harness.claim(harness.worker())) == 2

    def test_a_limit_raised_over_many_waiting_jobs_lets_all_of_them_in(self, harness: Harness) -> None:
        sent = harness.send_many(3 * BATCH, lane="l")
        sent.append(harness.send(lane="l", lane_limit=1_000))
        harness.sweep_all()
        assert [claim.id for claim in harness.claim_all(harness.worker())] == sent

    # ── order ───────────────────────────────────────────────────────────────────────────────────────────

    def test_priority_does_not_act_inside_a_lane(self, harness: Harness) -> None:
        sent = [harness.send(lane="l", priority=priority) for priority in (0, 9, 5, 9)]
        assert harness.drain(harness.worker()) == sent

    def test_priority_does_not_act_inside_a_lane_with_a_limit(self, harness: Harness) -> None:
        sent = [harness.send(lane="l", lane_limit=4, priority=priority) for priority in (0, 9, 5, 9)]
        assert _ids(harness, harness.worker()) == sent

    def test_priority_acts_between_lanes(self, harness: Harness) -> None:
        plain, urgent = harness.send(lane="a"), harness.send(lane="b", priority=9)
        assert _ids(harness, harness.worker()) == [urgent, plain]

    def test_order_survives_a_clock_that_is_set_back(self, harness: Harness) -> None:
        sent: list[JobId] = []
        for _ in range(4):
            sent.append(harness.send(lane="l"))
            harness.clock.set_back(10 * SECOND_US)
        assert harness.drain(harness.worker()) == sent

    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.RETRY, Outcome.TIMED_OUT, Outcome.SNOOZE])
    def test_a_job_that_runs_again_later_keeps_its_place_and_the_lane_waits(
        self, harness: Harness, outcome: Outcome
    ) -> None:
        sent = harness.send_many(3, lane="l")
        worker = harness.worker()
        harness.finish(_first(harness, worker), outcome, delay_s=10)
        assert _ids(harness, worker) == []
        harness.pass_time(10)
        assert harness.drain(worker) == sent

    @pytest.mark.parametrize("limit", [1, 2])
    def test_order_is_kept_through_retry_and_give_back(self, harness: Harness, limit: int) -> None:
        sent = harness.send_many(4, lane="l", lane_limit=limit)
        worker = harness.worker()
        for claim in harness.claim(worker):
            harness.finish(claim, Outcome.FAILED, delay_s=0)
        for claim in harness.claim(worker):
            harness.give_back(claim)
        assert harness.drain(worker) == sent

    def test_a_retry_in_a_lane_with_a_limit_stays_ahead_of_those_behind_it(self, harness: Harness) -> None:
        sent = harness.send_many(3, lane="l", lane_limit=2)
        worker = harness.worker()
        first, second = harness.claim(worker)
        harness.pass_time(10)
        harness.finish(first, Outcome.FAILED, delay_s=0)
        harness.give_back(second)
        assert harness.drain(worker) == sent

    def test_a_retry_in_a_lane_that_is_run_now_stays_ahead_of_those_behind_it(self, harness: Harness) -> None:
        sent = harness.send_many(3, lane="l", lane_limit=2)
        worker = harness.worker()
        first, second = harness.claim(worker)
        harness.finish(first, Outcome.FAILED, delay_s=60)
        harness.give_back(second)
        harness.pass_time(10)
        harness.amend(Change.RUN_NOW, first.id)
        assert harness.drain(worker) == sent

    def test_a_crashed_job_keeps_its_place(self, harness: Harness) -> None:
        sent = harness.send_many(2, lane="l")
        worker = harness.worker()
        harness.finish(_first(harness, worker), Outcome.CRASHED)
        assert _ids(harness, worker) == []
        assert harness.drain(worker, suspects=True) == sent[:1]
        assert harness.drain(worker) == sent[1:]

    def test_a_job_whose_worker_vanished_keeps_its_place(self, harness: Harness) -> None:
        sent = harness.send_many(3, lane="l")
        survivor, doomed = harness.worker(), harness.worker()
        assert _ids(harness, doomed) == sent[:1]
        harness.vanish(doomed)
        assert _ids(harness, survivor) == []
        harness.sweep_all()
        assert harness.drain(survivor) == sent

    def test_a_delayed_job_joins_when_it_is_due(self, harness: Harness) -> None:
        worker = harness.worker()
        delayed = harness.send(lane="l", delay_us=10 * SECOND_US)
        running = harness.send(lane="l")
        waiting = harness.send(lane="l")
        claim = _first(harness, worker)
        assert claim.id == running
        harness.pass_time(10)
        assert _ids(harness, worker) == []
        last = harness.send(lane="l")
        harness.finish(claim)
        assert harness.drain(worker) == [waiting, delayed, last]

    def test_a_delayed_job_does_not_keep_its_lane_waiting(self, harness: Harness) -> None:
        harness.send(lane="l", delay_us=10 * SECOND_US)
        plain = harness.send(lane="l")
        assert _ids(harness, harness.worker()) == [plain]

    def test_a_job_joins_when_its_parents_have_closed(self, harness: Harness) -> None:
        parent = harness.running()
        child = harness.send(lane="l", parents=(Edge(parent.id),))
        first, second = harness.send_many(2, lane="l")
        harness.finish(parent)
        harness.sweep_all()
        assert harness.drain(harness.worker()) == [first, second, child]

    def test_a_job_retried_by_hand_joins_at_the_end(self, harness: Harness) -> None:
        sent = harness.send_many(3, lane="l")
        worker = harness.worker()
        harness.finish(_first(harness, worker), Outcome.FAILED)
        harness.amend(Change.RETRY, sent[0])
        assert harness.drain(worker) == [sent[1], sent[2], sent[0]]

    # ── moving on ───────────────────────────────────────────────────────────────────────────────────────

    def test_a_dead_job_moves_its_lane_on(self, harness: Harness) -> None:
        sent = harness.send_many(2, lane="l")
        worker = harness.worker()
        harness.finish(_first(harness, worker), Outcome.FAILED)
        assert _ids(harness, worker) == sent[1:]

    def test_a_cancelled_ready_job_moves_its_lane_on(self, harness: Harness) -> None:
        sent = harness.send_many(2, lane="l")
        harness.amend(Change.CANCEL, sent[0])
        assert _ids(harness, harness.worker()) == sent[1:]

    def test_a_deleted_ready_job_moves_its_lane_on(self, harness: Harness) -> None:
        sent = harness.send_many(2, lane="l")
        harness.amend(Change.DELETE, sent[0])
        assert _ids(harness, harness.worker()) == sent[1:]

    def test_a_retry_that_is_cancelled_while_it_waits_moves_its_lane_on(self, harness: Harness) -> None:
        sent = harness.send_many(2, lane="l")
        worker = harness.worker()
        harness.finish(_first(harness, worker), Outcome.FAILED, delay_s=60)
        harness.amend(Change.CANCEL, sent[0])
        assert _ids(harness, worker) == sent[1:]

    def test_a_cancelled_held_job_is_passed_over(self, harness: Harness) -> None:
        sent = harness.send_many(3, lane="l")
        harness.amend(Change.CANCEL, sent[1])
        assert harness.drain(harness.worker()) == [sent[0], sent[2]]

    def test_an_expired_ready_job_moves_its_lane_on(self, harness: Harness) -> None:
        harness.send(lane="l", expires_us=harness.now_us + SECOND_US)
        second = harness.send(lane="l")
        harness.jump(2)
        assert [claim.id for claim in harness.claim_all(harness.worker())] == [second]

    def test_a_held_job_that_expired_meanwhile_is_passed_over(self, harness: Harness) -> None:
        worker = harness.worker()
        first = harness.send(lane="l")
        stale = harness.send(lane="l", expires_us=harness.now_us + SECOND_US)
        last = harness.send(lane="l")
        assert _ids(harness, worker) == [first]
        harness.pass_time(2)
        claim = harness.repeat(worker).claims[0]
        harness.finish(claim)
        assert [entry.id for entry in harness.claim_all(worker)] == [last]
        assert harness.state(stale) is State.EXPIRED

    def test_an_end_that_a_lane_brings_about_within_a_sweep_is_one_end(self, harness: Harness) -> None:
        """The first in the lane expires, and its lane finds that the second has, too: so did the sweep."""
        flow = new_id()
        harness.start_flow(flow)
        expires_us = harness.now_us + SECOND_US
        harness.send(lane="l", expires_us=expires_us)
        second = harness.send(lane="l", expires_us=expires_us, flow=flow)
        other = harness.send(flow=flow)
        harness.jump(2)
        harness.sweep_all()
        assert harness.states([second, other]) == [State.EXPIRED, State.READY]
        harness.jump(2 * harness.limits.keep_expired_us / SECOND_US)
        harness.sweep_all()
        assert harness.state(second) is State.EXPIRED, "it is kept as long as its flow goes on"

    def test_a_run_now_joins_the_lane_as_any_other(self, harness: Harness) -> None:
        worker = harness.worker()
        delayed = harness.send(lane="l", delay_us=60 * SECOND_US)
        first = harness.send(lane="l")
        harness.amend(Change.RUN_NOW, delayed)
        assert harness.state(delayed) is State.HELD
        assert harness.drain(worker) == [first, delayed]

    def test_a_lane_leaves_nothing_behind(self, harness: Harness) -> None:
        worker = harness.worker()
        harness.send_many(3, lane="l", lane_limit=3, priority=0)
        assert len(harness.drain(worker)) == 3
        sent = harness.send_many(2, lane="l")
        assert _ids(harness, worker) == sent[:1]

    def test_many_expired_jobs_in_a_lane_do_not_hold_up_the_one_behind_them(self, harness: Harness) -> None:
        first = harness.send(lane="l")
        (claim,) = harness.claim(harness.worker())
        for _ in range(BATCH // 2):
            harness.send(lane="l", expires_us=harness.now_us + SECOND_US)
        last = harness.send(lane="l")
        harness.jump(2)
        harness.settle(Settlement(id=claim.id, fence=claim.fence))
        assert (claim.id, harness.state(last)) == (first, State.READY)
