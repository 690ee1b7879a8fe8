"""Unique keys: the record holds its key while it blocks others; once cleared it is never retaken."""

from __future__ import annotations

import pytest

from windlass.core.ids import JobId, show_id
from windlass.core.job import Outcome, State, Unique
from windlass.core.limits import Limits
from windlass.engines.protocol import Change, Settlement
from windlass.testing.conformance.harness import DAY_US, SECOND_US, Harness

START = Unique(key="k", until="start")
END = Unique(key="k")
PERIOD = Unique(key="k", until="time", period_us=60 * SECOND_US)


def _refused_for(harness: Harness, unique: Unique) -> JobId | None:
    """The job that blocks a new one of this key; None if the new one came in."""
    (receipt,) = harness.insert(harness.request(unique=unique))
    if receipt.duplicate_of is not None:
        assert harness.state(receipt.id) is None, "a duplicate must not be stored"
    return receipt.duplicate_of


class Keys:
    """Until start, until the end, for a time."""

    @pytest.mark.parametrize("unique", [START, END, PERIOD], ids=lambda unique: unique.until)
    def test_a_second_job_of_a_key_is_a_duplicate_of_the_first(self, harness: Harness, unique: Unique) -> None:
        first = harness.send(unique=unique)
        assert harness.record(first).blocks
        assert _refused_for(harness, unique) == first

    def test_other_keys_are_not_blocked(self, harness: Harness) -> None:
        harness.send(unique=END)
        assert _refused_for(harness, Unique(key="other")) is None

    def test_two_of_a_key_in_one_batch_are_one_job(self, harness: Harness) -> None:
        one, two = harness.request(unique=END), harness.request(unique=END)
        receipts = harness.insert(one, two)
        assert [receipt.duplicate_of for receipt in receipts] == [None, one.id]
        assert harness.states([one.id, two.id]) == [State.READY, None]

    @pytest.mark.parametrize("state", [State.SCHEDULED, State.HELD, State.READY])
    def test_a_waiting_job_blocks_in_every_state(self, harness: Harness, state: State) -> None:
        first = harness.job_in(state, unique=START)
        assert _refused_for(harness, START) == first

    # ── until start ─────────────────────────────────────────────────────────────────────────────────────

    def test_a_key_until_start_is_cleared_by_claim(self, harness: Harness) -> None:
        claim = harness.running(unique=START)
        assert not harness.record(claim.id).blocks
        assert _refused_for(harness, START) is None

    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.SNOOZE, None])
    def test_a_key_cleared_by_claim_is_not_retaken(self, harness: Harness, outcome: Outcome | None) -> None:
        claim = harness.running(unique=START)
        harness.finish(claim, outcome, delay_s=0)
        assert not harness.record(claim.id).blocks
        assert _refused_for(harness, START) is None

    def test_a_retry_is_not_blocked_by_the_keys_next_holder(self, harness: Harness) -> None:
        claim = harness.running(unique=START)
        holder = harness.send(unique=START, queue="other")
        harness.finish(claim, Outcome.FAILED, delay_s=0)
        (again,) = harness.claim(harness.hand(), queues=(claim.queue,))
        harness.finish(again)
        assert harness.record(holder).blocks

    def test_a_key_until_start_is_cleared_by_an_end_before_the_start(self, harness: Harness) -> None:
        harness.amend(Change.CANCEL, harness.send(unique=START))
        assert _refused_for(harness, START) is None

    # ── until the end ───────────────────────────────────────────────────────────────────────────────────

    def test_a_key_until_the_end_blocks_while_the_job_runs_and_between_tries(self, harness: Harness) -> None:
        claim = harness.running(unique=END)
        assert _refused_for(harness, END) == claim.id
        harness.finish(claim, Outcome.FAILED, delay_s=60)
        assert _refused_for(harness, END) == claim.id

    @pytest.mark.parametrize("state", [State.SUCCEEDED, State.DEAD, State.CANCELLED, State.EXPIRED])
    def test_every_end_clears_a_key_until_the_end(self, harness: Harness, state: State) -> None:
        ended = harness.job_in(state, unique=END)
        assert not harness.record(ended).blocks
        assert _refused_for(harness, END) is None

    def test_a_key_is_free_when_its_job_is_deleted(self, harness: Harness) -> None:
        for state in (State.READY, State.HELD, State.SCHEDULED):
            harness.amend(Change.DELETE, harness.job_in(state, unique=END))
        harness.amend(Change.DELETE, harness.job_in(State.SUCCEEDED, unique=PERIOD))
        assert _refused_for(harness, END) is None

    # ── for a time ──────────────────────────────────────────────────────────────────────────────────────

    def test_a_key_for_a_time_outlives_the_job_and_ends_with_the_time(self, harness: Harness) -> None:
        first = harness.job_in(State.SUCCEEDED, unique=PERIOD)
        harness.jump(59)
        assert _refused_for(harness, PERIOD) == first
        harness.jump(1)
        assert _refused_for(harness, PERIOD) is None

    def test_a_key_for_a_time_ends_while_the_job_still_waits(self, harness: Harness) -> None:
        first = harness.send(unique=PERIOD, delay_us=DAY_US)
        harness.jump(60)
        assert _refused_for(harness, PERIOD) is None
        assert not harness.record(first).blocks

    def test_sweep_clears_keys_whose_time_is_over(self, harness: Harness) -> None:
        ids = [harness.send(unique=Unique(f"k{n}", "time", 60 * SECOND_US)) for n in range(5)]
        harness.jump(60)
        assert harness.sweep().keys == 5
        assert not any(harness.record(job_id).blocks for job_id in ids)

    # ── retry by hand ───────────────────────────────────────────────────────────────────────────────────

    def test_a_retry_by_hand_against_a_holder_is_refused_and_names_it(self, harness: Harness) -> None:
        dead = harness.job_in(State.DEAD, unique=END)
        holder = harness.send(unique=END)
        amended = harness.amend(Change.RETRY, dead)
        assert amended.changed == ()
        (refusal,) = amended.refused
        assert refusal.id == dead
        assert "duplicate of" in refusal.why
        assert show_id(holder) in refusal.why
        assert harness.state(dead) is State.DEAD

    def test_a_retry_by_hand_takes_no_key(self, harness: Harness) -> None:
        dead = harness.job_in(State.DEAD, unique=END)
        assert harness.amend(Change.RETRY, dead).changed == (dead,)
        assert not harness.record(dead).blocks
        assert _refused_for(harness, END) is None

    def test_a_job_that_still_holds_its_own_key_can_be_retried_by_hand(self, harness: Harness) -> None:
        dead = harness.job_in(State.DEAD, unique=PERIOD)
        assert harness.amend(Change.RETRY, dead).changed == (dead,)

    # ── retention ───────────────────────────────────────────────────────────────────────────────────────

    def test_retention_keeps_a_record_while_its_key_is_set(self, harness: Harness) -> None:
        claim = harness.running(unique=PERIOD)
        harness.settle(Settlement(id=claim.id, fence=claim.fence, keep_us=SECOND_US))
        harness.jump(59)
        harness.sweep_all()
        assert harness.state(claim.id) is State.SUCCEEDED
        harness.jump(2)
        harness.sweep_all()
        assert harness.state(claim.id) is None
        assert _refused_for(harness, PERIOD) is None

    def test_retention_by_number_spares_a_record_whose_key_is_set(self, harness: Harness) -> None:
        worker = harness.worker(on=harness.another(Limits(keep_succeeded_count=0)))
        plain = harness.job_in(State.SUCCEEDED)
        keyed = harness.job_in(State.SUCCEEDED, unique=PERIOD)
        harness.sweep_all(worker=worker)
        assert harness.states([plain, keyed]) == [None, State.SUCCEEDED]

    def test_a_follow_up_whose_key_is_held_is_left_out(self, harness: Harness) -> None:
        holder = harness.send(unique=END)
        claim = harness.running()
        harness.finish(claim, follow_ups=(harness.new(unique=END),))
        harness.sweep_all()
        assert _refused_for(harness, END) == holder

    def test_a_follow_up_may_take_the_key_that_its_parents_period_has_freed(self, harness: Harness) -> None:
        parent = harness.running(unique=Unique("k", "time", SECOND_US))
        harness.jump(2)
        heir = harness.new(unique=Unique("k"))
        harness.settle(Settlement(id=parent.id, fence=parent.fence, follow_ups=(heir,)))
        assert (harness.state(parent.id), harness.state(heir.id)) == (State.SUCCEEDED, State.READY)
        assert (harness.record(parent.id).blocks, harness.record(heir.id).blocks) == (False, True)
