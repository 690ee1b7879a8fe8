"""sweep: lost workers' jobs, expiry and retention, in bounded steps that may be done by anybody and twice."""

from __future__ import annotations

import pytest

from windlass.core.errors import WorkerGone
from windlass.core.ids import WorkerId, new_id
from windlass.core.job import Outcome, State
from windlass.core.limits import Limits
from windlass.engines.protocol import (
    BATCH,
    Beat,
    Card,
    Change,
    Claim,
    Death,
    Poisoned,
    Sweep,
    Swept,
    TallyQuery,
    Verdict,
)
from windlass.testing.conformance.harness import DAY_US, HOUR_US, SECOND_US, Harness


def _lose(harness: Harness, *, start: bool = False, suspects: bool = False) -> Claim:
    """A new worker claims one job, perhaps writes its start, vanishes, and is swept."""
    worker = harness.worker()
    (claim,) = harness.claim(worker, 1, suspects=suspects)
    if start:
        assert harness.note(claim, "start") is Verdict.ACCEPTED
    harness.vanish(worker)
    harness.sweep_all()
    return claim


class Sweeping:
    """What nobody asked for but everybody needs."""

    # ── workers that vanished ───────────────────────────────────────────────────────────────────────────

    def test_the_jobs_of_a_vanished_worker_are_ready_again_at_their_old_rank(self, harness: Harness) -> None:
        harness.worker()
        ids = harness.send_many(3)
        ranks = [harness.record(job_id).rank for job_id in ids]
        doomed = harness.worker()
        claims = harness.claim(doomed, 2)
        harness.vanish(doomed)
        swept = harness.sweep()
        assert (swept.workers, swept.lost) == (1, 2)
        records = [harness.record(job_id) for job_id in ids]
        assert [record.state for record in records] == [State.READY] * 3
        assert [record.losses for record in records] == [1, 1, 0]
        assert [record.attempt for record in records] == [1, 1, 1]
        assert [record.rank for record in records] == ranks
        assert harness.finish(claims[0]) is Verdict.STALE
        assert harness.state(ids[0]) is State.READY

    def test_a_sweep_names_the_workers_that_died_and_how_many_jobs_each_held_and_the_next_sweep_does_not(
        self, harness: Harness
    ) -> None:
        harness.worker()
        harness.send_many(2)
        busy, idle = (
            harness.worker(name="web-1", host="north", pid=7),
            harness.worker(name="web-2", host="south", pid=8),
        )
        assert len(harness.claim(busy)) == 2
        harness.vanish(busy)
        harness.vanish(idle)
        swept = [harness.sweep(limit=1), harness.sweep(), harness.sweep()]
        told = sorted([death for step in swept for death in step.deaths], key=lambda death: death.name)
        assert told == [
            Death(worker=busy, name="web-1", host="north", pid=7, jobs=2),
            Death(worker=idle, name="web-2", host="south", pid=8, jobs=0),
        ]
        assert swept[0].poisoned == ()

    def test_a_sweep_that_may_rest_does_all_when_the_last_one_is_long_enough_ago(self, harness: Harness) -> None:
        worker = harness.worker()
        harness.pass_time(60)
        harness.sweep_all(worker=worker)
        job_id = harness.send(expires_us=harness.now_us + SECOND_US)
        harness.pass_time(10)
        assert harness.sweep(worker=worker, rest_us=10 * SECOND_US).expired == 1
        assert harness.state(job_id) is State.EXPIRED

    def test_a_worker_that_says_goodbye_has_not_died(self, harness: Harness) -> None:
        harness.worker()
        harness.send()
        leaver = harness.worker()
        assert len(harness.claim(leaver)) == 1
        harness.renew(leaver, bye=True)
        swept = harness.sweep()
        assert (swept.workers, swept.lost, swept.deaths) == (1, 1, ())

    def test_a_sweep_names_no_more_than_a_batch_of_the_dead(self, harness: Harness) -> None:
        harness.worker()
        for _ in range(BATCH + 3):
            if harness.engine.capabilities.death == "lock":
                harness.vanish(harness.worker())
            else:
                harness.engine.renew(Beat(card=Card(worker=new_id()), beat=0))  # once, and never again
        harness.pass_time(25)
        assert len(harness.sweep().deaths) == BATCH

    def test_a_loss_is_kept_as_an_attempt(self, harness: Harness) -> None:
        harness.worker()
        job_id = harness.send()
        claim = _lose(harness)
        (attempt,) = harness.job(job_id).attempts
        assert (attempt.outcome, attempt.fence, attempt.attempt) == (Outcome.LOST, claim.fence, 1)

    def test_a_living_worker_keeps_its_jobs_however_long_they_run(self, harness: Harness) -> None:
        claim = harness.running()
        harness.worker()
        for _ in range(3):
            harness.pass_time(60)
            assert harness.sweep().lost == 0
        assert harness.finish(claim) is Verdict.ACCEPTED

    def test_a_settle_before_the_sweep_still_counts(self, harness: Harness) -> None:
        harness.worker()
        harness.send()
        doomed = harness.worker()
        (claim,) = harness.claim(doomed)
        harness.vanish(doomed)
        assert harness.finish(claim) is Verdict.ACCEPTED
        assert harness.sweep().lost == 0
        assert harness.state(claim.id) is State.SUCCEEDED

    def test_the_first_loss_only_counts_and_the_second_makes_a_suspect(self, harness: Harness) -> None:
        harness.worker()
        job_id = harness.send()
        _lose(harness)
        assert not harness.record(job_id).suspect
        _lose(harness)
        record = harness.record(job_id)
        assert (record.suspect, record.losses, record.crashes) == (True, 2, 0)
        assert harness.claim(harness.worker()) == []

    def test_a_suspect_whose_start_was_written_has_crashed(self, harness: Harness) -> None:
        harness.worker()
        job_id = harness.send()
        _lose(harness)
        _lose(harness)
        _lose(harness, suspects=True, start=True)
        job = harness.job(job_id)
        assert job.record is not None
        assert (job.record.losses, job.record.crashes, job.record.state) == (2, 1, State.READY)
        assert [attempt.outcome for attempt in job.attempts] == [Outcome.LOST, Outcome.LOST, Outcome.CRASHED]

    def test_a_suspect_that_had_not_started_is_only_lost(self, harness: Harness) -> None:
        harness.worker()
        job_id = harness.send()
        _lose(harness)
        _lose(harness)
        _lose(harness, suspects=True)
        record = harness.record(job_id)
        assert (record.losses, record.crashes) == (3, 0)

    def test_a_start_written_for_a_job_that_is_no_suspect_makes_no_crash(self, harness: Harness) -> None:
        harness.worker()
        job_id = harness.send()
        _lose(harness, start=True)
        record = harness.record(job_id)
        assert (record.losses, record.crashes) == (1, 0)

    def test_the_third_crash_is_the_end(self, harness: Harness) -> None:
        harness.worker()
        job_id = harness.send()
        _lose(harness)
        _lose(harness)
        for _ in range(3):
            assert harness.state(job_id) is State.READY
            _lose(harness, suspects=True, start=True)
        record = harness.record(job_id)
        assert (record.state, record.reason, record.crashes) == (State.DEAD, "poison", 3)
        assert record.attempt == 1

    def test_a_sweep_names_the_jobs_that_it_calls_poison(self, harness: Harness) -> None:
        harness.worker()
        pill, other = harness.send("pill"), harness.send("other", queue="elsewhere")
        told: list[tuple[Poisoned, ...]] = []
        for suspects in (False, False, True, True, True):
            doomed = harness.worker()
            (claim,) = harness.claim(doomed, 1, suspects=suspects, queues=("default",))
            harness.note(claim, "start")
            harness.vanish(doomed)
            told.append(harness.sweep().poisoned)
        assert told == [(), (), (), (), (Poisoned(id=pill, task="pill", crashes=3),)]
        assert harness.sweep().poisoned == ()
        assert harness.state(other) is State.READY

    def test_a_lost_job_that_was_to_be_cancelled_is_cancelled(self, harness: Harness) -> None:
        harness.worker()
        harness.send()
        doomed = harness.worker()
        (claim,) = harness.claim(doomed)
        harness.amend(Change.CANCEL, claim.id)
        harness.vanish(doomed)
        harness.sweep_all()
        assert harness.state(claim.id) is State.CANCELLED

    def test_a_sweep_that_is_cut_takes_every_job_back_once(self, harness: Harness) -> None:
        harness.worker()
        ids = harness.send_many(60)
        doomed = harness.worker()
        claims = harness.claim(doomed)
        harness.vanish(doomed)
        lost: list[int] = []
        while True:
            swept = harness.sweep(limit=7)
            lost.append(swept.lost)
            if not swept.more:
                break
            running = harness.states(ids).count(State.RUNNING)
            assert running == 60 - sum(lost)
        assert sum(lost) == 60
        assert max(lost) <= 7
        assert {harness.record(job_id).losses for job_id in ids} == {1}
        assert harness.finish(claims[0]) is Verdict.STALE

    def test_a_worker_whose_jobs_are_being_taken_back_cannot_come_back(self, harness: Harness) -> None:
        harness.worker()
        harness.send_many(4)
        doomed = harness.worker()
        harness.claim(doomed, 2)
        card = harness.card(doomed)
        harness.vanish(doomed)
        assert harness.sweep(limit=1).lost == 1
        assert harness.engine.renew(Beat(card=card, beat=999)).gone
        with pytest.raises(WorkerGone):
            harness.claim(doomed, 1)

    def test_a_job_whose_worker_vanished_refuses_its_old_fence_before_it_is_claimed_again(
        self, harness: Harness
    ) -> None:
        harness.worker()
        job_id = harness.send()
        doomed = harness.worker()
        (claim,) = harness.claim(doomed)
        harness.vanish(doomed)
        harness.sweep_all()
        before = harness.job(job_id)
        for outcome in (Outcome.SUCCEEDED, Outcome.FAILED, None):
            assert harness.finish(claim, outcome) is Verdict.STALE
        assert harness.job(job_id) == before
        assert harness.record(job_id).fence > claim.fence

    def test_a_second_sweep_finds_nothing_to_do(self, harness: Harness) -> None:
        harness.worker()
        harness.send_many(5)
        doomed = harness.worker()
        harness.claim(doomed, 3)
        harness.vanish(doomed)
        harness.sweep_all()
        assert harness.sweep() == Swept()

    def test_two_engines_that_sweep_take_each_job_back_once(self, harness: Harness) -> None:
        one, two = harness.worker(), harness.worker(on=harness.another())
        ids = harness.send_many(10)
        doomed = harness.worker()
        harness.claim(doomed)
        harness.vanish(doomed)
        assert sum(harness.sweep(worker=worker).lost for worker in (one, two)) == 10
        assert {harness.record(job_id).losses for job_id in ids} == {1}

    def test_a_swept_worker_leaves_no_card_and_no_order_behind(self, harness: Harness) -> None:
        survivor = harness.worker()
        doomed = harness.worker()
        harness.put(f"worker/{doomed.hex()}", b"drain")
        harness.vanish(doomed)
        harness.sweep_all()
        assert [card.worker for card in harness.engine.tally(TallyQuery()).cards] == [survivor]
        assert harness.engine.read([f"worker/{doomed.hex()}"]) == [None]

    def test_the_places_a_vanished_worker_took_are_free_again(self, harness: Harness) -> None:
        survivor = harness.worker()
        harness.set_gate("queue/q", limit=2)
        ids = harness.send_many(2, queue="q")
        doomed = harness.worker()
        assert len(harness.claim(doomed)) == 2
        harness.vanish(doomed)
        harness.sweep_all()
        assert harness.drain(survivor) == ids

    # ── who may call whom dead (leases) ─────────────────────────────────────────────────────────────────

    def _lease_only(self, harness: Harness) -> tuple[Claim, WorkerId]:
        """A running job whose worker's lease has run out, on engines that go by leases."""
        if harness.engine.capabilities.death != "lease":
            pytest.skip("this engine decides death by an OS lock, not by leases")
        claim = harness.running()
        return claim, harness.hand()

    def test_a_sweeper_without_a_whole_lease_behind_it_takes_nothing(self, harness: Harness) -> None:
        claim, _ = self._lease_only(harness)
        harness.clock.advance(HOUR_US)
        fresh = harness.worker()
        assert harness.sweep(worker=fresh).lost == 0
        assert harness.engine.sweep(Sweep()).lost == 0
        assert harness.state(claim.id) is State.RUNNING

    def test_a_sweeper_whose_own_lease_ran_out_takes_nothing(self, harness: Harness) -> None:
        claim, worker = self._lease_only(harness)
        other = harness.worker()
        harness.pass_time(60)
        harness.clock.advance(HOUR_US)
        assert harness.sweep(worker=other).lost == 0
        harness.renew(other)
        assert harness.sweep(worker=other).lost == 0
        assert not harness.renew(worker).gone
        assert harness.finish(claim) is Verdict.ACCEPTED

    # ── time runs out ───────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("state", [State.HELD, State.READY, State.SCHEDULED])
    def test_a_waiting_job_expires_in_every_state(self, harness: Harness, state: State) -> None:
        harness.worker()
        job_id = harness.job_in(state, expires_us=harness.now_us + 10 * SECOND_US)
        harness.jump(9)
        assert harness.sweep().expired == 0
        harness.jump(1)
        assert harness.sweep().expired == 1
        record = harness.record(job_id)
        assert (record.state, record.ended_us) == (State.EXPIRED, harness.now_us)

    def test_a_running_job_does_not_expire(self, harness: Harness) -> None:
        claim = harness.running(expires_us=harness.now_us + SECOND_US)
        harness.jump(2)
        harness.sweep_all()
        assert harness.finish(claim) is Verdict.ACCEPTED

    def test_a_job_that_comes_back_after_its_expiry_expires(self, harness: Harness) -> None:
        claim = harness.running(expires_us=harness.now_us + SECOND_US)
        harness.jump(2)
        harness.sweep_all()
        harness.give_back(claim)
        harness.sweep_all()
        assert harness.state(claim.id) is State.EXPIRED

    def test_an_expiry_that_is_cut_goes_on(self, harness: Harness) -> None:
        ids = harness.send_many(25, expires_us=harness.now_us)
        steps: list[int] = []
        while True:
            swept = harness.sweep(limit=10)
            steps.append(swept.expired)
            if not swept.more:
                break
        assert sum(steps) == 25
        assert max(steps) <= 10
        assert set(harness.states(ids)) == {State.EXPIRED}

    def test_a_due_job_that_nobody_claims_is_made_ready(self, harness: Harness) -> None:
        ids = harness.send_many(3, delay_us=SECOND_US)
        harness.jump(1)
        assert harness.sweep().due == 3
        assert harness.states(ids) == [State.READY] * 3

    # ── retention ───────────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("state", [State.SUCCEEDED, State.DEAD, State.CANCELLED, State.EXPIRED])
    def test_an_ended_job_is_kept_its_time_and_then_goes(self, harness: Harness, state: State) -> None:
        harness.worker()
        job_id = harness.job_in(state)
        kept_us = {
            State.SUCCEEDED: harness.limits.keep_succeeded_us,
            State.DEAD: harness.limits.keep_dead_us,
            State.CANCELLED: harness.limits.keep_cancelled_us,
        }.get(state, harness.limits.keep_expired_us)
        harness.jump(kept_us / SECOND_US - 1)
        assert harness.sweep().purged == 0
        assert harness.state(job_id) is state
        harness.jump(1)
        assert harness.sweep().purged == 1
        assert harness.state(job_id) is None

    def test_a_settlement_may_say_how_long_its_job_is_kept(self, harness: Harness) -> None:
        brief, lasting = harness.running(), harness.running()
        harness.finish(brief, keep_us=SECOND_US)
        harness.finish(lasting, keep_us=10 * DAY_US)
        harness.jump(1)
        harness.sweep_all()
        assert harness.states([brief.id, lasting.id]) == [None, State.SUCCEEDED]
        harness.jump(9 * DAY_US / SECOND_US)
        harness.sweep_all()
        assert harness.state(lasting.id) is State.SUCCEEDED

    def test_no_more_successes_are_kept_than_their_number(self, harness: Harness) -> None:
        small = harness.another(Limits(keep_succeeded_count=5))
        worker = harness.worker(on=small)
        ids: list[bytes] = []
        for _ in range(12):
            ids.append(harness.send())
            assert harness.drain(worker) == ids[-1:]
            harness.pass_time(1)
        dead = harness.job_in(State.DEAD)
        harness.sweep_all(worker=worker)
        assert harness.states(ids) == [None] * 7 + [State.SUCCEEDED] * 5
        assert harness.state(dead) is State.DEAD

    def test_what_waits_or_runs_is_never_removed(self, harness: Harness) -> None:
        ids = [harness.job_in(state) for state in (State.READY, State.HELD, State.RUNNING)]
        ids.append(harness.job_in(State.SCHEDULED, delay_us=1_000 * DAY_US))
        before = harness.states(ids)
        harness.jump(365 * DAY_US / SECOND_US)
        harness.sweep_all()
        assert harness.states(ids) == before

    def test_a_job_retried_by_hand_is_not_removed_at_its_old_time(self, harness: Harness) -> None:
        job_id = harness.job_in(State.CANCELLED)
        harness.amend(Change.RETRY, job_id)
        harness.jump(2 * DAY_US / SECOND_US)
        harness.sweep_all()
        assert harness.state(job_id) is State.READY

    def test_an_id_that_was_removed_may_come_again(self, harness: Harness) -> None:
        request = harness.request()
        harness.insert(request)
        harness.drain(harness.worker())
        harness.jump(2 * DAY_US / SECOND_US)
        harness.sweep_all()
        (receipt,) = harness.insert(request)
        assert receipt.duplicate_of is None
        assert harness.state(request.id) is State.READY

    def test_a_retention_that_is_cut_goes_on(self, harness: Harness) -> None:
        ids = harness.send_many(25)
        harness.drain(harness.worker())
        harness.jump(2 * DAY_US / SECOND_US)
        steps: list[int] = []
        while True:
            swept = harness.sweep(limit=10)
            steps.append(swept.purged)
            if not swept.more:
                break
        assert sum(steps) == 25
        assert max(steps) <= 10
        assert set(harness.states(ids)) == {None}
