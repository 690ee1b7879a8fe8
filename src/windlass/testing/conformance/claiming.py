"""claim: which jobs, in which order, to whom, and what a repeated or late order is answered with."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from windlass.core.errors import LeaseExpired, TicketOutOfOrder, WorkerGone
from windlass.core.ids import JobId, WorkerId, new_id
from windlass.core.job import Outcome, State
from windlass.core.rank import aging_bound_us
from windlass.engines.protocol import BATCH, Order
from windlass.testing.conformance.harness import DAY_US, HOUR_US, SECOND_US, Harness


def _ids(harness: Harness, worker: WorkerId, limit: int = 100, **fields: object) -> list[JobId]:
    return [claim.id for claim in harness.claim(worker, limit, **fields)]


class Claiming:
    """Order, delays, expiry, tickets, suspects, resources and unknown tasks."""

    # ── order ───────────────────────────────────────────────────────────────────────────────────────────

    def test_jobs_are_claimed_in_the_order_they_were_sent(self, harness: Harness) -> None:
        sent = [harness.send() for _ in range(5)]
        assert _ids(harness, harness.worker()) == sent

    def test_the_jobs_of_one_batch_keep_their_order(self, harness: Harness) -> None:
        sent = harness.send_many(30)
        worker = harness.worker()
        assert _ids(harness, worker, 10) + _ids(harness, worker, 20) == sent

    def test_a_higher_priority_goes_first(self, harness: Harness) -> None:
        by_priority = {priority: harness.send(priority=priority) for priority in (0, 3, 9, 1)}
        assert _ids(harness, harness.worker()) == [by_priority[n] for n in (9, 3, 1, 0)]

    def test_the_order_is_one_over_all_queues(self, harness: Harness) -> None:
        sent = [harness.send(queue=queue) for queue in ("a", "b", "a", "c", "b")]
        assert _ids(harness, harness.worker()) == sent

    def test_an_urgent_job_overtakes_what_was_sent_within_its_steps(self, harness: Harness) -> None:
        plain = harness.send()
        harness.jump(9 * 30 - 1)
        urgent = harness.send(priority=9)
        assert _ids(harness, harness.worker()) == [urgent, plain]

    def test_no_job_waits_behind_one_sent_more_than_nine_steps_after_it(self, harness: Harness) -> None:
        plain = harness.send()
        harness.jump(9 * 30 + 1)
        urgent = harness.send(priority=9)
        assert _ids(harness, harness.worker()) == [plain, urgent]

    def test_order_survives_a_clock_that_is_set_back(self, harness: Harness) -> None:
        first = harness.send()
        harness.clock.set_back(HOUR_US)
        second = harness.send()
        assert _ids(harness, harness.worker()) == [first, second]

    def test_what_is_given_back_keeps_its_place(self, harness: Harness) -> None:
        sent = [harness.send() for _ in range(3)]
        worker = harness.worker()
        (claim,) = harness.claim(worker, 1)
        harness.give_back(claim)
        assert _ids(harness, worker) == sent

    # ── delays and expiry ───────────────────────────────────────────────────────────────────────────────

    def test_a_delayed_job_is_claimed_when_it_is_due_and_not_before(self, harness: Harness) -> None:
        worker = harness.worker()
        job_id = harness.send(delay_us=10 * SECOND_US)
        assert harness.state(job_id) is State.SCHEDULED
        harness.pass_time(9)
        assert _ids(harness, worker) == []
        harness.pass_time(1)
        assert _ids(harness, worker) == [job_id]

    def test_a_job_sent_for_an_instant_is_due_at_it(self, harness: Harness) -> None:
        worker = harness.worker()
        job_id = harness.send(at_us=harness.now_us + 10 * SECOND_US)
        assert _ids(harness, worker) == []
        harness.pass_time(10)
        assert _ids(harness, worker) == [job_id]

    def test_jobs_due_at_different_times_run_in_the_order_of_those(self, harness: Harness) -> None:
        late = harness.send(delay_us=20 * SECOND_US)
        early = harness.send(delay_us=10 * SECOND_US)
        harness.jump(30)
        plain = harness.send()
        assert _ids(harness, harness.worker()) == [early, late, plain]

    def test_an_instant_in_the_past_does_not_overtake(self, harness: Harness) -> None:
        first = harness.send()
        second = harness.send(at_us=harness.now_us - DAY_US)
        assert _ids(harness, harness.worker()) == [first, second]

    def test_a_past_instant_with_priority_overtakes_no_more_than_its_steps(self, harness: Harness) -> None:
        plain = harness.send()
        harness.jump(9 * 30 + 1)
        past = harness.send(at_us=harness.now_us - DAY_US, priority=9)
        assert _ids(harness, harness.worker()) == [plain, past]

    def test_more_due_jobs_than_a_batch_all_come_in_order(self, harness: Harness) -> None:
        sent = harness.send_many(2 * BATCH + 50, delay_us=SECOND_US)
        harness.jump(2)
        assert [claim.id for claim in harness.claim_all(harness.worker())] == sent

    def test_a_job_past_its_expiry_ends_instead_of_being_claimed(self, harness: Harness) -> None:
        job_id = harness.send(expires_us=harness.now_us + SECOND_US)
        other = harness.send()
        harness.jump(1)
        assert _ids(harness, harness.worker()) == [other]
        assert harness.state(job_id) is State.EXPIRED

    def test_a_job_is_claimed_until_the_instant_it_expires(self, harness: Harness) -> None:
        job_id = harness.send(expires_us=harness.now_us + 1)
        assert _ids(harness, harness.worker()) == [job_id]

    def test_many_expired_jobs_do_not_hide_the_one_behind_them(self, harness: Harness) -> None:
        expired = harness.send_many(2 * BATCH + 50, expires_us=harness.now_us)
        good = harness.send()
        assert [claim.id for claim in harness.claim_all(harness.worker())] == [good]
        assert set(harness.states(expired)) == {State.EXPIRED}

    # ── what an order asks for ──────────────────────────────────────────────────────────────────────────

    def test_only_the_queues_asked_for_are_claimed(self, harness: Harness) -> None:
        a, _, c = (harness.send(queue=queue) for queue in ("a", "b", "c"))
        worker = harness.worker()
        assert _ids(harness, worker, queues=("a", "c")) == [a, c]
        assert _ids(harness, worker, queues=()) == []

    def test_no_more_than_the_limit_is_claimed(self, harness: Harness) -> None:
        sent = harness.send_many(5)
        worker = harness.worker()
        assert _ids(harness, worker, 2) == sent[:2]
        assert harness.states(sent[2:]) == [State.READY] * 3

    def test_one_claim_takes_no_more_than_a_batch(self, harness: Harness) -> None:
        sent = harness.send_many(BATCH + 20)
        worker = harness.worker()
        assert _ids(harness, worker, 10 * BATCH) == sent[:BATCH]
        assert _ids(harness, worker, 10 * BATCH) == sent[BATCH:]

    def test_a_claim_carries_what_the_worker_needs(self, harness: Harness) -> None:
        job_id = harness.send(
            "shout",
            queue="loud",
            payload=b"args",
            options=b"{}",
            priority=4,
            needs=(("gpu", 1),),
            lane="l",
        )
        (claim,) = harness.claim(harness.worker(), free={"gpu": 1})
        assert (claim.id, claim.task, claim.queue, claim.payload) == (job_id, "shout", "loud", b"args")
        assert (claim.options, claim.priority, claim.needs, claim.lane) == (b"{}", 4, (("gpu", 1),), "l")
        assert (claim.attempt, claim.crashes, claim.losses, claim.suspect) == (1, 0, 0, False)

    def test_a_claimed_job_says_who_runs_it(self, harness: Harness) -> None:
        job_id = harness.send()
        worker = harness.worker()
        (claim,) = harness.claim(worker)
        record = harness.record(job_id)
        assert (record.state, record.worker, record.fence) == (State.RUNNING, worker, claim.fence)
        assert record.claimed_us == harness.now_us
        assert record.started_us is None

    def test_two_workers_never_hold_the_same_job(self, harness: Harness) -> None:
        sent = harness.send_many(10)
        one, two = harness.worker(), harness.worker(on=harness.another())
        assert _ids(harness, one, 5) + _ids(harness, two) == sent
        assert _ids(harness, one) == []

    def test_threads_that_claim_at_once_never_share_a_job(self, harness: Harness) -> None:
        sent = harness.send_many(200)
        workers = [harness.worker() for _ in range(4)]

        def share_of(worker: WorkerId) -> list[JobId]:
            return [claim.id for _ in range(40) for claim in harness.claim(worker, 5)]

        with ThreadPoolExecutor(4) as pool:
            shares = list(pool.map(share_of, workers))
        assert sorted(job_id for share in shares for job_id in share) == sorted(sent)

    # ── when to look again ──────────────────────────────────────────────────────────────────────────────

    def test_an_empty_store_gives_no_time_to_look_again(self, harness: Harness) -> None:
        answer = harness.order(harness.worker())
        assert (answer.claims, answer.wait_us) == ((), None)

    def test_the_wait_ends_when_the_next_job_is_due(self, harness: Harness) -> None:
        worker = harness.worker()
        harness.send(delay_us=60 * SECOND_US)
        job_id = harness.send(delay_us=8 * SECOND_US)
        wait_us = harness.order(worker).wait_us
        assert wait_us is not None
        assert wait_us > 0
        harness.pass_time(wait_us / SECOND_US)
        assert _ids(harness, worker) == [job_id]

    # ── tickets and cards ───────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("gate", [None, "g"], ids=["plain", "gate"])
    def test_a_repeated_ticket_gives_the_same_claims_and_no_others(self, harness: Harness, gate: str | None) -> None:
        harness.send_many(4, gate=gate)
        worker = harness.worker()
        first = harness.order(worker, 2)
        assert len(first.claims) == 2
        assert harness.repeat(worker, 2).claims == first.claims
        assert len(harness.claim(worker)) == 2

    def test_a_repeated_ticket_leaves_out_what_earlier_tickets_brought(self, harness: Harness) -> None:
        harness.send_many(2)
        worker = harness.worker()
        harness.claim(worker, 1)
        last = harness.order(worker, 1)
        assert len(last.claims) == 1
        assert harness.repeat(worker, 1).claims == last.claims

    def test_a_repeated_ticket_leaves_out_what_was_settled_since(self, harness: Harness) -> None:
        harness.send_many(3)
        worker = harness.worker()
        claims = harness.claim(worker)
        harness.finish(claims[1])
        assert harness.repeat(worker).claims == (claims[0], claims[2])

    def test_a_repeated_ticket_leaves_out_what_another_worker_holds_now(self, harness: Harness) -> None:
        harness.send()
        worker, other = harness.worker(), harness.worker()
        (claim,) = harness.claim(worker)
        harness.give_back(claim)
        (again,) = harness.claim(other)
        assert again.fence > claim.fence
        assert harness.repeat(worker).claims == ()

    def test_a_ticket_that_found_nothing_leaves_no_trace_and_may_be_used_again(self, harness: Harness) -> None:
        worker = harness.worker()
        assert harness.claim(worker) == []
        job_id = harness.send()
        assert [claim.id for claim in harness.repeat(worker).claims] == [job_id]

    def test_an_older_ticket_is_refused_and_takes_nothing(self, harness: Harness) -> None:
        worker = harness.worker()
        for _ in range(2):
            harness.send()
            assert len(harness.claim(worker)) == 1
        job_id = harness.send()
        with pytest.raises(TicketOutOfOrder):
            harness.engine.claim(Order(worker=worker, ticket=1))
        assert harness.state(job_id) is State.READY

    def test_a_worker_without_a_card_is_refused_and_takes_nothing(self, harness: Harness) -> None:
        job_id = harness.send()
        with pytest.raises(WorkerGone):
            harness.engine.claim(Order(worker=new_id(), ticket=1))
        assert harness.state(job_id) is State.READY

    def test_a_worker_that_was_swept_is_refused(self, harness: Harness) -> None:
        harness.worker()
        dead = harness.worker()
        harness.vanish(dead)
        harness.sweep_all()
        with pytest.raises(WorkerGone):
            harness.engine.claim(Order(worker=dead, ticket=1))

    def test_a_worker_whose_lease_ran_out_claims_again_after_it_renewed(self, harness: Harness) -> None:
        if harness.engine.capabilities.death != "lease":
            pytest.skip("this engine decides death by an OS lock, not by leases")
        job_id = harness.send()
        worker = harness.worker()
        harness.clock.advance(16 * SECOND_US)
        with pytest.raises(LeaseExpired):
            harness.claim(worker)
        assert not harness.renew(worker).gone
        assert _ids(harness, worker) == [job_id]

    # ── suspects ────────────────────────────────────────────────────────────────────────────────────────

    def test_a_suspect_is_claimed_only_by_an_order_for_suspects(self, harness: Harness) -> None:
        worker = harness.worker()
        suspect = harness.send()
        harness.finish(harness.claim(worker)[0], Outcome.CRASHED)
        plain = harness.send()
        assert _ids(harness, worker) == [plain]
        (claim,) = harness.claim(worker, suspects=True)
        assert (claim.id, claim.suspect, claim.crashes) == (suspect, True, 1)

    def test_suspects_are_claimed_one_at_a_time_and_nothing_beside_them(self, harness: Harness) -> None:
        worker = harness.worker()
        suspects = harness.send_many(2)
        for claim in harness.claim(worker):
            harness.finish(claim, Outcome.CRASHED)
        harness.send()
        assert _ids(harness, worker, 50, suspects=True) == suspects[:1]
        assert _ids(harness, worker, 50, suspects=True) == suspects[1:]
        assert _ids(harness, worker, 50, suspects=True) == []

    # ── resources ───────────────────────────────────────────────────────────────────────────────────────

    def test_a_job_is_claimed_only_where_its_needs_are_free(self, harness: Harness) -> None:
        worker = harness.worker()
        big = harness.send(needs=(("gpu", 2),))
        small = harness.send(needs=(("gpu", 1),))
        plain = harness.send()
        total = {"gpu": 2}
        assert _ids(harness, worker, free={"gpu": 1}, total=total) == [small, plain]
        assert _ids(harness, worker, total=total) == []
        assert _ids(harness, worker, free=total, total=total) == [big]

    def test_free_resources_are_spent_inside_one_claim(self, harness: Harness) -> None:
        sent = harness.send_many(5, needs=(("memory", 3), ("gpu", 1)))
        worker = harness.worker()
        assert _ids(harness, worker, free={"memory": 7, "gpu": 8}) == sent[:2]

    def test_a_job_of_the_workers_very_size_runs_there(self, harness: Harness) -> None:
        for size in (9, 100_000_000, 4_000_000_000, (1 << 60) - 1, 1 << 60):
            total = {"memory": size}
            job_id = harness.send(needs=(("memory", size),))
            (claim,) = harness.claim(harness.worker(), free=total, total=total)
            assert (claim.id, claim.needs) == (job_id, (("memory", size),))
            harness.finish(claim)

    def test_jobs_share_a_worker_by_what_they_need_and_not_by_their_class(self, harness: Harness) -> None:
        worker, total = harness.worker(), {"memory": 4_000_000_000}
        sent = harness.send_many(5, needs=(("memory", 1_000_000_000),))
        assert _ids(harness, worker, 3, free=total, total=total) == sent[:3]
        assert _ids(harness, worker, free={"memory": 1_000_000_000}, total=total) == sent[3:4]

    def test_jobs_larger_than_the_worker_never_stand_in_the_way_of_those_that_fit(self, harness: Harness) -> None:
        small, large = harness.worker(), harness.worker()
        total = {"memory": 4_000_000_000}
        larger = harness.send_many(150, needs=(("memory", 4_000_000_001),))
        fitting = harness.send(needs=(("memory", 4_000_000_000),))
        found = [one for _ in range(3) for one in _ids(harness, small, free=total, total=total)]
        assert found == [fitting]
        assert harness.state(larger[0]) is State.READY
        plenty = {"memory": 1 << 50}
        assert _ids(harness, large, 100, free=plenty, total=plenty) == larger[:100], "at their rank, where they fit"

    def test_a_parked_job_is_compared_by_its_very_needs(self, harness: Harness) -> None:
        parked = harness.send("b", needs=(("memory", 100),))
        stranger = harness.worker(tasks=("a",))
        assert _ids(harness, stranger, free={"memory": 200}, total={"memory": 200}) == []
        worker = harness.worker()
        assert _ids(harness, worker, free={"memory": 99}, total={"memory": 99}) == []
        assert _ids(harness, worker, free={"memory": 100}, total={"memory": 100}) == [parked]

    def test_a_job_that_fits_later_keeps_those_of_its_class_behind_it(self, harness: Harness) -> None:
        worker, total = harness.worker(), {"memory": 200}
        first = harness.send(needs=(("memory", 110),))
        second = harness.send(needs=(("memory", 100),))
        assert _ids(harness, worker, free={"memory": 100}, total=total) == []
        assert _ids(harness, worker, free=total, total=total) == [first]
        assert _ids(harness, worker, free={"memory": 100}, total=total) == [second]

    def test_a_starving_big_job_makes_its_worker_hold_back_others_with_needs(self, harness: Harness) -> None:
        worker, total = harness.worker(), {"memory": 8}
        big = harness.send(needs=(("memory", 8),))
        early = harness.send(needs=(("memory", 1),))
        assert _ids(harness, worker, free={"memory": 4}, total=total) == [early]
        harness.jump(aging_bound_us(harness.limits.aging_step_us) / SECOND_US + 1)
        small = harness.send(needs=(("memory", 1),))
        plain = harness.send()
        assert _ids(harness, worker, free={"memory": 4}, total=total) == [plain]
        assert _ids(harness, worker, 1, free=total, total=total) == [big]
        assert _ids(harness, worker, free={"memory": 4}, total=total) == [small]

    def test_a_job_too_big_for_a_worker_holds_nothing_back_there(self, harness: Harness) -> None:
        worker = harness.worker()
        big = harness.send(needs=(("memory", 8),))
        harness.jump(aging_bound_us(harness.limits.aging_step_us) / SECOND_US + 1)
        small = harness.send(needs=(("memory", 1),))
        assert _ids(harness, worker, free={"memory": 4}, total={"memory": 4}) == [small]
        assert harness.state(big) is State.READY

    def test_a_big_job_behind_a_shut_gate_holds_nothing_back(self, harness: Harness) -> None:
        worker, total = harness.worker(), {"memory": 8}
        harness.set_gate("queue/paused", paused=True)
        big = harness.send(queue="paused", needs=(("memory", 8),))
        harness.jump(aging_bound_us(harness.limits.aging_step_us) / SECOND_US + 1)
        small = harness.send(needs=(("memory", 1),))
        assert _ids(harness, worker, free={"memory": 4}, total=total) == [small]
        harness.set_gate("queue/paused")
        harness.send(needs=(("memory", 1),))
        assert _ids(harness, worker, free={"memory": 4}, total=total) == [], "now it could run, and has waited"
        assert harness.state(big) is State.READY

    def test_an_urgent_big_job_that_has_just_come_holds_nothing_back(self, harness: Harness) -> None:
        worker, total = harness.worker(), {"memory": 8}
        harness.send(priority=9, needs=(("memory", 8),))
        harness.pass_time(1)
        small = harness.send(needs=(("memory", 1),))
        assert _ids(harness, worker, free={"memory": 4}, total=total) == [small]

    # ── tasks a worker does not know ────────────────────────────────────────────────────────────────────

    def test_a_worker_gets_only_tasks_it_knows(self, harness: Harness) -> None:
        unknown, known = harness.send("b"), harness.send("a")
        assert _ids(harness, harness.worker(tasks=("a",))) == [known]
        assert harness.state(unknown) is State.READY

    def test_jobs_of_unknown_tasks_never_stand_in_the_way(self, harness: Harness) -> None:
        unknown = harness.send_many(2 * BATCH + 50, "b", priority=9)
        known = harness.send("a")
        assert [c.id for c in harness.claim_all(harness.worker(tasks=("a",)), 1)] == [known]
        assert set(harness.states(unknown)) == {State.READY}

    def test_a_parked_job_runs_at_its_rank_once_a_worker_knows_the_task(self, harness: Harness) -> None:
        parked = harness.send("b")
        harness.send("a")
        harness.drain(harness.worker(tasks=("a",)))
        later = harness.send("a")
        assert _ids(harness, harness.worker(tasks=("a", "b"))) == [parked, later]

    def test_a_parked_job_is_claimed_by_a_worker_that_knows_every_task(self, harness: Harness) -> None:
        parked = harness.send("b")
        assert _ids(harness, harness.worker(tasks=())) == []
        assert _ids(harness, harness.worker()) == [parked]

    def test_a_worker_that_learns_a_task_gets_what_was_parked(self, harness: Harness) -> None:
        worker = harness.worker(tasks=("a",))
        parked = harness.send("b")
        assert _ids(harness, worker) == []
        harness.teach(worker, "a", "b")
        assert _ids(harness, worker) == [parked]

    def test_a_parked_job_still_expires(self, harness: Harness) -> None:
        worker = harness.worker(tasks=("a",))
        job_id = harness.send("b", expires_us=harness.now_us + 10 * SECOND_US)
        assert _ids(harness, worker) == []
        harness.pass_time(10)
        harness.sweep_all()
        assert harness.state(job_id) is State.EXPIRED

    # ── tasks an order leaves out ───────────────────────────────────────────────────────────────────────

    def test_an_order_may_want_some_of_the_tasks_its_worker_knows(self, harness: Harness) -> None:
        worker = harness.worker(tasks=("a", "b"))
        first, second = harness.send("a"), harness.send("b")
        assert _ids(harness, worker, tasks=frozenset({"b"})) == [second]
        assert _ids(harness, worker) == [first]

    def test_an_order_is_not_given_tasks_that_its_worker_does_not_know(self, harness: Harness) -> None:
        job_id = harness.send("b")
        assert _ids(harness, harness.worker(tasks=("a",)), tasks=frozenset({"a", "b"})) == []
        assert harness.state(job_id) is State.READY

    def test_an_order_for_no_task_is_given_nothing(self, harness: Harness) -> None:
        harness.send("a")
        assert _ids(harness, harness.worker(), tasks=frozenset[str]()) == []

    def test_a_backlog_that_is_not_wanted_does_not_stand_in_the_way(self, harness: Harness) -> None:
        worker = harness.worker()
        backlog = harness.send_many(2 * BATCH + 50, "a", priority=9)
        wanted = harness.send("b")
        assert [claim.id for claim in harness.claim_all(worker, tasks=frozenset({"b"}))] == [wanted]
        assert [claim.id for claim in harness.claim_all(worker)] == backlog, "in its order, as if nobody had passed it"

    def test_what_an_order_left_out_keeps_its_place_among_what_came_later(self, harness: Harness) -> None:
        worker = harness.worker()
        sent = [harness.send(task) for task in ("a", "b", "a")]
        assert _ids(harness, worker, tasks=frozenset({"c"})) == []
        sent += [harness.send(task) for task in ("b", "a")]
        assert _ids(harness, worker) == sent

    def test_a_suspect_of_a_task_that_is_not_wanted_is_left(self, harness: Harness) -> None:
        worker = harness.worker()
        suspect = harness.send("a")
        harness.finish(harness.claim(worker)[0], Outcome.CRASHED)
        assert _ids(harness, worker, suspects=True, tasks=frozenset({"b"})) == []
        assert _ids(harness, worker, suspects=True, tasks=frozenset({"a"})) == [suspect]
