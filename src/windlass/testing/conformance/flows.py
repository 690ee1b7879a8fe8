"""Flows: edges between jobs, fan-in and fan-out, chores in bounded steps, heirs, what is kept how long."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from windlass.core.errors import BadValue, UnknownParent
from windlass.core.ids import JobId, child_id, new_id
from windlass.core.job import Edge, Hold, Job, Outcome, State, Unique
from windlass.engines.protocol import BATCH, Change, Claim, Settlement
from windlass.testing.conformance.harness import DAY_US, SECOND_US, Harness

MANY = 2 * BATCH + 50


def _children(harness: Harness, parent: JobId, n: int = MANY, **fields: object) -> list[JobId]:
    return harness.send_many(n, "child", parents=(Edge(parent),), **{"queue": "children", **fields})


def _sweep_in_steps(harness: Harness, limit: int, check: Callable[[], None]) -> None:
    """Sweeps as if it were cut after every few jobs."""
    while harness.sweep(limit=limit).more:
        check()


class Flows:
    """Jobs that wait for jobs."""

    # ── edges ───────────────────────────────────────────────────────────────────────────────────────────

    def test_a_child_is_held_until_its_parent_has_succeeded(self, harness: Harness) -> None:
        parent = harness.running()
        child = harness.send(parents=(Edge(parent.id),))
        assert harness.record(child).hold is Hold.PARENTS
        harness.finish(parent)
        assert harness.state(child) is State.READY

    def test_a_parent_that_runs_again_keeps_its_child_waiting(self, harness: Harness) -> None:
        parent = harness.running()
        child = harness.send(parents=(Edge(parent.id),))
        harness.finish(parent, Outcome.FAILED, delay_s=0)
        assert harness.state(child) is State.HELD

    @pytest.mark.parametrize("end", [Outcome.FAILED, Outcome.CANCELLED])
    def test_any_other_end_cancels_a_child_that_waits_for_success(self, harness: Harness, end: Outcome) -> None:
        parent = harness.running()
        child = harness.send(parents=(Edge(parent.id),))
        harness.finish(parent, end)
        record = harness.record(child)
        assert (record.state, record.reason) == (State.CANCELLED, "parent")

    @pytest.mark.parametrize("end", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELLED])
    def test_a_child_that_waits_for_any_end_goes_on_after_each(self, harness: Harness, end: Outcome) -> None:
        parent = harness.running()
        child = harness.send(parents=(Edge(parent.id, "ended"),))
        assert harness.state(child) is State.HELD
        harness.finish(parent, end)
        assert harness.state(child) is State.READY

    def test_a_child_waits_for_all_its_parents(self, harness: Harness) -> None:
        parents = [harness.running() for _ in range(3)]
        child = harness.send(parents=tuple(Edge(parent.id) for parent in parents))
        for parent in parents:
            assert harness.state(child) is State.HELD
            harness.finish(parent)
        assert harness.state(child) is State.READY

    def test_a_parent_named_twice_is_one(self, harness: Harness) -> None:
        worker = harness.worker()
        parent = harness.send()
        child = harness.send(parents=(Edge(parent), Edge(parent)))
        both = harness.send(parents=(Edge(parent), Edge(parent, "ended")))
        assert harness.drain(worker) == [parent, child, both]

    def test_a_settle_of_all_parents_at_once_frees_the_child_once(self, harness: Harness) -> None:
        parents = [harness.send(queue="p") for _ in range(60)]
        child = harness.send(parents=tuple(Edge(parent) for parent in parents), queue="c")
        harness.drain(harness.worker(), queues=("p",))
        harness.sweep_all()
        assert harness.drain(harness.worker(), queues=("c",)) == [child]

    def test_one_wrong_end_among_many_parents_cancels_the_child_for_good(self, harness: Harness) -> None:
        good, bad = harness.running(), harness.running()
        child = harness.send(parents=(Edge(good.id), Edge(bad.id)))
        harness.finish(bad, Outcome.FAILED)
        assert harness.state(child) is State.CANCELLED
        harness.finish(good)
        assert harness.state(child) is State.CANCELLED

    def test_a_cancel_runs_down_a_chain(self, harness: Harness) -> None:
        first = harness.send()
        chain = [first]
        for _ in range(5):
            chain.append(harness.send(parents=(Edge(chain[-1]),)))
        last = harness.send(parents=(Edge(chain[-1], "ended"),))
        harness.amend(Change.CANCEL, first)
        harness.sweep_all()
        assert harness.states(chain) == [State.CANCELLED] * 6
        assert harness.state(last) is State.READY

    def test_an_expired_or_deleted_parent_cancels_its_children(self, harness: Harness) -> None:
        expired = harness.send(expires_us=harness.now_us + SECOND_US)
        deleted = harness.send()
        children = [harness.send(parents=(Edge(parent),)) for parent in (expired, deleted)]
        harness.amend(Change.DELETE, deleted)
        harness.jump(2)
        harness.sweep_all()
        assert harness.states(children) == [State.CANCELLED] * 2

    def test_a_child_inserted_after_its_parent_ended_goes_by_that_end(self, harness: Harness) -> None:
        good, bad = harness.job_in(State.SUCCEEDED), harness.job_in(State.DEAD)
        assert harness.state(harness.send(parents=(Edge(good),))) is State.READY
        assert harness.state(harness.send(parents=(Edge(bad),))) is State.CANCELLED
        assert harness.state(harness.send(parents=(Edge(bad, "ended"),))) is State.READY

    def test_a_child_may_come_in_the_batch_of_its_parent_in_any_order(self, harness: Harness) -> None:
        parent = harness.request()
        before, after = (harness.request(parents=(Edge(parent.id),)) for _ in range(2))
        harness.insert(before, parent, after)
        assert harness.drain(harness.worker()) == [parent.id, before.id, after.id]

    def test_a_delay_counts_after_the_parents(self, harness: Harness) -> None:
        parent = harness.running()
        child = harness.send(parents=(Edge(parent.id),), at_us=harness.now_us + 60 * SECOND_US)
        harness.finish(parent)
        assert harness.state(child) is State.SCHEDULED

    def test_a_held_job_can_be_cancelled_and_is_not_freed_later(self, harness: Harness) -> None:
        parent = harness.running()
        child = harness.send(parents=(Edge(parent.id),))
        harness.amend(Change.CANCEL, child)
        harness.finish(parent)
        harness.sweep_all()
        assert harness.state(child) is State.CANCELLED

    def test_a_child_that_was_cancelled_by_hand_is_not_ended_again_by_its_parent(self, harness: Harness) -> None:
        parent = harness.running()
        child = harness.send(parents=(Edge(parent.id),))
        harness.amend(Change.CANCEL, child, reason="by hand")
        before = harness.record(child)
        harness.jump(1)
        harness.finish(parent, Outcome.FAILED)
        harness.sweep_all()
        assert harness.record(child) == before

    def test_a_cancelled_child_retried_by_hand_waits_for_its_parent_again(self, harness: Harness) -> None:
        parent = harness.running()
        child = harness.send(parents=(Edge(parent.id),))
        harness.amend(Change.CANCEL, child)
        harness.amend(Change.RETRY, child)
        assert harness.state(child) is State.HELD
        harness.finish(parent)
        harness.sweep_all()
        assert harness.state(child) is State.READY

    # ── fan-out by chores ───────────────────────────────────────────────────────────────────────────────

    def test_many_children_are_freed_in_bounded_steps_each_once(self, harness: Harness) -> None:
        parent = harness.running()
        children = _children(harness, parent.id)
        harness.finish(parent)
        assert 0 < harness.states(children).count(State.READY) <= 2 * BATCH
        harness.sweep_all()
        claims = harness.claim_all(harness.worker(), queues=("children",))
        assert sorted(claim.id for claim in claims) == sorted(children)

    def test_many_children_of_a_failure_are_all_cancelled(self, harness: Harness) -> None:
        parent = harness.running()
        children = _children(harness, parent.id)
        harness.finish(parent, Outcome.FAILED)
        harness.sweep_all()
        assert set(harness.states(children)) == {State.CANCELLED}

    def test_chores_cut_in_the_middle_free_every_child_once(self, harness: Harness) -> None:
        worker = harness.worker()
        parent = harness.running()
        children = _children(harness, parent.id)
        ran: list[JobId] = []
        harness.finish(parent)

        def run_some() -> None:
            ran.extend(claim.id for claim in harness.claim(worker, queues=("children",)))

        _sweep_in_steps(harness, 9, run_some)
        ran += [claim.id for claim in harness.claim_all(worker, queues=("children",))]
        assert sorted(ran) == sorted(children)

    def test_a_chore_may_be_carried_on_by_any_settle(self, harness: Harness) -> None:
        parent = harness.running()
        children = _children(harness, parent.id)
        harness.finish(parent)
        for _ in range(5):
            harness.finish(harness.running())
        assert harness.states(children) == [State.READY] * MANY

    def test_a_child_that_comes_while_its_siblings_are_freed_is_freed_too(self, harness: Harness) -> None:
        parent = harness.running()
        _children(harness, parent.id)
        harness.finish(parent)
        late = harness.send("child", queue="late", parents=(Edge(parent.id),))
        harness.sweep_all()
        assert harness.drain(harness.worker(), queues=("late",)) == [late]

    def test_sweeping_again_after_the_chores_changes_nothing(self, harness: Harness) -> None:
        parent = harness.running()
        children = _children(harness, parent.id)
        harness.finish(parent)
        harness.sweep_all()
        before = [harness.record(child) for child in children[:3]]
        assert harness.sweep().chores == 0
        assert [harness.record(child) for child in children[:3]] == before

    # ── flows that are being built ──────────────────────────────────────────────────────────────────────

    def test_a_flow_is_held_until_it_is_started(self, harness: Harness) -> None:
        flow = new_id()
        first = harness.send(flow=flow)
        second = harness.send(flow=flow, parents=(Edge(first),))
        assert harness.record(first).hold is Hold.FLOW
        assert harness.claim(harness.worker()) == []
        harness.start_flow(flow)
        assert harness.drain(harness.worker()) == [first, second]

    def test_a_flow_may_be_inserted_in_any_order_before_it_starts(self, harness: Harness) -> None:
        flow, first = new_id(), new_id()
        second = harness.send(flow=flow, parents=(Edge(first),))
        harness.send(flow=flow, id=first)
        harness.start_flow(flow)
        assert harness.drain(harness.worker()) == [first, second]

    def test_a_node_inserted_after_the_start_is_not_held(self, harness: Harness) -> None:
        flow = new_id()
        harness.send(flow=flow)
        harness.start_flow(flow)
        assert harness.state(harness.send(flow=flow)) is State.READY

    def test_a_flow_started_twice_runs_once(self, harness: Harness) -> None:
        flow = new_id()
        ids = harness.send_many(3, flow=flow)
        harness.start_flow(flow)
        harness.start_flow(flow)
        harness.sweep_all()
        assert harness.drain(harness.worker()) == ids

    def test_a_big_flow_is_started_in_bounded_steps(self, harness: Harness) -> None:
        flow = new_id()
        ids = harness.send_many(MANY, flow=flow)
        harness.start_flow(flow)
        assert harness.states(ids).count(State.READY) <= 2 * BATCH

        def nothing() -> None: ...

        _sweep_in_steps(harness, 9, nothing)
        assert sorted(claim.id for claim in harness.claim_all(harness.worker())) == sorted(ids)

    def test_starting_one_flow_leaves_the_others_held(self, harness: Harness) -> None:
        one, two = new_id(), new_id()
        started, held = harness.send(flow=one), harness.send(flow=two)
        harness.start_flow(one)
        assert harness.states([started, held]) == [State.READY, State.HELD]

    def test_a_bad_flow_id_is_refused(self, harness: Harness) -> None:
        with pytest.raises(BadValue):
            harness.put("flow/xyz", b"{}")

    def test_nodes_are_kept_until_the_flow_has_ended_and_their_time_after_it(self, harness: Harness) -> None:
        flow, worker = new_id(), harness.worker()
        first = harness.send(flow=flow)
        second = harness.send(flow=flow, parents=(Edge(first),))
        harness.start_flow(flow)
        harness.finish(harness.claim(worker)[0])
        harness.jump(3 * DAY_US / SECOND_US)
        harness.sweep_all()
        assert harness.states([first, second]) == [State.SUCCEEDED, State.READY]
        harness.drain(worker)
        harness.sweep_all()
        assert None not in harness.states([first, second][1:])
        harness.jump(DAY_US / SECOND_US + 1)
        harness.sweep_all()
        assert harness.states([first, second]) == [None, None]

    def test_a_flow_that_is_gone_leaves_no_fact_behind(self, harness: Harness) -> None:
        flow = new_id()
        harness.send(flow=flow)
        harness.start_flow(flow)
        harness.drain(harness.worker())
        harness.sweep_all()
        harness.jump(DAY_US / SECOND_US + 1)
        harness.sweep_all()
        assert harness.engine.read([f"flow/{flow.hex()}"]) == [None]

    # ── heirs ───────────────────────────────────────────────────────────────────────────────────────────

    def _become(self, harness: Harness, claim: Claim, **fields: object) -> JobId:
        """The job succeeds and hands its dependents to a follow-up."""
        heir = child_id(claim.id, 0)
        follow_up = harness.new("heir", id=heir, queue="heirs", **fields)
        harness.finish(claim, become=heir, follow_ups=(follow_up,))
        return heir

    def test_dependents_wait_for_the_heir(self, harness: Harness) -> None:
        parent = harness.running()
        child = harness.send(parents=(Edge(parent.id),))
        heir = self._become(harness, parent)
        harness.sweep_all()
        assert harness.record(parent.id).heir == heir
        assert harness.record(heir).heir_of == parent.id
        assert harness.states([parent.id, heir, child]) == [State.SUCCEEDED, State.READY, State.HELD]
        harness.drain(harness.worker(), queues=("heirs",))
        assert harness.state(child) is State.READY

    def test_the_end_of_the_heir_decides(self, harness: Harness) -> None:
        parent = harness.running()
        child = harness.send(parents=(Edge(parent.id),))
        self._become(harness, parent)
        (claim,) = harness.claim(harness.worker(), queues=("heirs",))
        harness.finish(claim, Outcome.FAILED)
        assert harness.state(child) is State.CANCELLED

    def test_a_chain_of_heirs_frees_the_dependents_at_its_end(self, harness: Harness) -> None:
        worker = harness.worker()
        parent = harness.running()
        children = _children(harness, parent.id)
        self._become(harness, parent)
        for _ in range(3):
            (claim,) = harness.claim(worker, queues=("heirs",))
            self._become(harness, claim)
            harness.sweep_all()
            assert set(harness.states(children)) == {State.HELD}
        harness.drain(worker, queues=("heirs",))
        harness.sweep_all()
        assert harness.states(children) == [State.READY] * MANY

    def test_a_child_that_comes_after_the_handover_waits_for_the_heir(self, harness: Harness) -> None:
        parent = harness.running()
        self._become(harness, parent)
        child = harness.send(parents=(Edge(parent.id),))
        assert harness.state(child) is State.HELD
        harness.drain(harness.worker(), queues=("heirs",))
        harness.sweep_all()
        assert harness.state(child) is State.READY
        assert harness.state(harness.send(parents=(Edge(parent.id),))) is State.READY

    def test_an_heir_among_many_follow_ups_takes_over_at_once(self, harness: Harness) -> None:
        parent = harness.running()
        child = harness.send(parents=(Edge(parent.id),))
        jobs = tuple(harness.new(id=child_id(parent.id, n), queue="heirs") for n in range(MANY))
        harness.finish(parent, follow_ups=jobs, become=jobs[-1].id)
        harness.sweep_all()
        assert harness.state(child) is State.HELD
        ran = harness.drain(harness.worker(), queues=("heirs",))
        assert sorted(ran) == sorted(job.id for job in jobs)
        harness.sweep_all()
        assert harness.state(child) is State.READY

    def test_an_heir_refused_as_a_duplicate_leaves_the_dependents_to_the_job_itself(self, harness: Harness) -> None:
        harness.send(queue="other", unique=Unique("k"))
        parent = harness.running()
        child = harness.send(parents=(Edge(parent.id),))
        heir = self._become(harness, parent, unique=Unique("k"))
        harness.sweep_all()
        assert harness.states([heir, child]) == [None, State.READY]

    def test_a_child_of_a_job_refused_as_a_duplicate_waits_for_the_one_that_is_there(self, harness: Harness) -> None:
        holder = harness.send(unique=Unique("k"))
        double = harness.request(unique=Unique("k"))
        child = harness.request(queue="children", parents=(Edge(double.id),))
        harness.insert(double, child)
        assert harness.state(child.id) is State.HELD
        assert harness.drain(harness.worker()) == [holder, child.id]

    def test_a_child_that_comes_before_its_refused_parent_waits_for_the_one_that_is_there(
        self, harness: Harness
    ) -> None:
        holder = harness.send(unique=Unique("k"))
        double = harness.request(unique=Unique("k"))
        child = harness.request(queue="children", parents=(Edge(double.id),))
        harness.insert(child, double)
        assert harness.drain(harness.worker()) == [holder, child.id]

    def test_a_follow_up_that_was_there_before_does_not_inherit(self, harness: Harness) -> None:
        parent = harness.running()
        child = harness.send(queue="children", parents=(Edge(parent.id),))
        early = harness.new(queue="early")
        harness.engine.insert([early])
        harness.drain(harness.worker(), queues=("early",))
        harness.settle(Settlement(id=parent.id, fence=parent.fence, follow_ups=(early,), become=early.id))
        harness.sweep_all()
        assert harness.state(child) is State.READY

    # ── parents that are not there ──────────────────────────────────────────────────────────────────────

    def test_a_parent_that_is_not_there_is_refused(self, harness: Harness) -> None:
        good = harness.new()
        with pytest.raises(UnknownParent):
            harness.engine.insert([good, harness.new(parents=(Edge(new_id()),))])
        assert harness.state(good.id) is None

    def test_a_parent_whose_heir_is_gone_is_refused(self, harness: Harness) -> None:
        parent = harness.running()
        heir = self._become(harness, parent)
        harness.drain(harness.worker(), queues=("heirs",))
        harness.amend(Change.DELETE, heir)
        job = Job(request=harness.request(parents=(Edge(parent.id),)))
        with pytest.raises(UnknownParent):
            harness.engine.insert([job])
        assert harness.state(job.id) is None
