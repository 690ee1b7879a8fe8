"""Gates: pause, limit, rate and breaker open and shut streams and never touch a job."""

from __future__ import annotations

import pytest

from windlass.core.errors import BadName, BadValue
from windlass.core.ids import WorkerId
from windlass.core.job import Outcome, State
from windlass.core.rates import Rate
from windlass.engines.protocol import Change, Put
from windlass.testing.conformance.harness import SECOND_US, Harness


def _n(harness: Harness, worker: WorkerId, limit: int = 100) -> int:
    return len(harness.claim(worker, limit))


class Gates:
    """What opens and shuts a queue, or what several queues share."""

    # ── pause ───────────────────────────────────────────────────────────────────────────────────────────

    def test_a_paused_queue_gives_nothing_and_its_jobs_stay_as_they_are(self, harness: Harness) -> None:
        ids = harness.send_many(3, queue="q")
        before = [harness.record(job_id) for job_id in ids]
        worker = harness.worker()
        harness.set_gate("queue/q", paused=True)
        assert _n(harness, worker) == 0
        assert [harness.record(job_id) for job_id in ids] == before
        harness.set_gate("queue/q")
        assert [claim.id for claim in harness.claim(worker)] == ids

    def test_a_paused_queue_does_not_stop_the_others(self, harness: Harness) -> None:
        harness.set_gate("queue/a", paused=True)
        harness.send(queue="a", priority=9)
        other = harness.send(queue="b")
        assert [claim.id for claim in harness.claim(harness.worker())] == [other]

    def test_a_paused_queue_takes_jobs_in_and_lets_running_ones_end(self, harness: Harness) -> None:
        claim = harness.running(queue="q")
        harness.set_gate("queue/q", paused=True)
        assert harness.state(harness.send(queue="q")) is State.READY
        harness.finish(claim)
        assert harness.state(claim.id) is State.SUCCEEDED

    def test_a_gate_whose_rule_is_deleted_is_open(self, harness: Harness) -> None:
        harness.send(queue="q")
        harness.set_gate("queue/q", paused=True)
        harness.put("queue/q", None)
        assert _n(harness, harness.worker()) == 1

    def test_a_gate_with_a_time_to_live_opens_when_it_ends(self, harness: Harness) -> None:
        worker = harness.worker()
        harness.send(queue="q")
        harness.set_gate("queue/q", paused=True, ttl_us=10 * SECOND_US)
        harness.pass_time(9)
        assert _n(harness, worker) == 0
        harness.pass_time(1)
        assert _n(harness, worker) == 1

    def test_a_paused_queue_gives_no_time_to_look_again(self, harness: Harness) -> None:
        harness.send(queue="q")
        harness.set_gate("queue/q", paused=True)
        assert harness.order(harness.worker()).wait_us is None

    # ── limit ───────────────────────────────────────────────────────────────────────────────────────────

    def test_a_limit_counts_what_runs_whoever_runs_it(self, harness: Harness) -> None:
        harness.set_gate("queue/q", limit=3)
        harness.send_many(10, queue="q")
        one, two = harness.worker(), harness.worker()
        claims = harness.claim(one, 2)
        assert _n(harness, two) == 1
        assert _n(harness, one) == 0
        harness.finish(claims[0])
        harness.finish(claims[1], Outcome.FAILED, delay_s=60)
        assert _n(harness, two) == 2

    def test_a_limit_of_none_lets_nothing_through(self, harness: Harness) -> None:
        harness.set_gate("queue/q", limit=0)
        harness.send(queue="q")
        assert _n(harness, harness.worker()) == 0

    def test_a_limit_lowered_waits_until_enough_have_ended(self, harness: Harness) -> None:
        harness.send_many(5, queue="q")
        worker = harness.worker()
        claims = harness.claim(worker, 3)
        harness.set_gate("queue/q", limit=1)
        for claim in claims:
            assert _n(harness, worker) == 0
            harness.finish(claim)
        assert _n(harness, worker) == 1

    def test_a_place_is_free_again_after_a_worker_vanished(self, harness: Harness) -> None:
        harness.set_gate("queue/q", limit=1)
        harness.send_many(2, queue="q")
        survivor, doomed = harness.worker(), harness.worker()
        assert _n(harness, doomed) == 1
        harness.vanish(doomed)
        assert _n(harness, survivor) == 0
        harness.sweep_all()
        assert _n(harness, survivor) == 1

    def test_a_limit_that_is_reached_never_says_look_again_at_once(self, harness: Harness) -> None:
        harness.set_gate("queue/q", limit=1, rate=Rate(1_000, SECOND_US, 100))
        harness.send_many(3, queue="q")
        worker = harness.worker()
        assert _n(harness, worker, 1) == 1
        answer = harness.order(worker)
        assert answer.claims == ()
        assert answer.wait_us != 0

    # ── rate ────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_rate_lets_a_burst_through_and_then_one_by_one(self, harness: Harness) -> None:
        harness.set_gate("queue/q", rate=Rate(1, 10 * SECOND_US, 3))
        harness.send_many(10, queue="q")
        worker = harness.worker()
        assert _n(harness, worker) == 3
        assert _n(harness, worker) == 0
        harness.pass_time(11)
        assert _n(harness, worker) == 1
        assert _n(harness, worker) == 0
        harness.pass_time(1_000)
        assert _n(harness, worker) == 3

    def test_a_rate_is_spent_by_claims_of_all_workers(self, harness: Harness) -> None:
        harness.set_gate("queue/q", rate=Rate(1, 10 * SECOND_US, 3))
        harness.send_many(10, queue="q")
        one, two = harness.worker(), harness.worker(on=harness.another())
        assert _n(harness, one, 2) + _n(harness, two, 2) == 3

    def test_the_wait_ends_when_the_rate_lets_the_next_one_through(self, harness: Harness) -> None:
        harness.set_gate("queue/q", rate=Rate(1, 7 * SECOND_US, 1))
        harness.send_many(2, queue="q")
        worker = harness.worker()
        assert _n(harness, worker) == 1
        answer = harness.order(worker)
        assert answer.claims == ()
        assert answer.wait_us
        harness.pass_time((answer.wait_us - 10) / SECOND_US)
        assert _n(harness, worker) == 0
        harness.clock.advance(10)
        assert _n(harness, worker) == 1

    def test_tokens_are_spent_only_by_what_was_claimed(self, harness: Harness) -> None:
        harness.set_gate("queue/q", rate=Rate(1, 10 * SECOND_US, 3))
        worker = harness.worker()
        assert _n(harness, worker) == 0
        harness.send(queue="q")
        assert _n(harness, worker) == 1
        harness.send_many(5, queue="q")
        assert _n(harness, worker) == 2

    def test_a_give_back_does_not_give_its_token_back(self, harness: Harness) -> None:
        harness.set_gate("queue/q", rate=Rate(1, 10 * SECOND_US, 1))
        harness.send(queue="q")
        worker = harness.worker()
        (claim,) = harness.claim(worker)
        harness.give_back(claim)
        assert _n(harness, worker) == 0

    # ── breaker ─────────────────────────────────────────────────────────────────────────────────────────

    def test_a_breaker_is_shut_until_its_time_and_then_lets_probes_through(self, harness: Harness) -> None:
        worker = harness.worker()
        harness.send_many(5, queue="q")
        harness.set_gate("queue/q", shut_until_us=harness.now_us + 10 * SECOND_US, probes=1)
        answer = harness.order(worker)
        assert answer.claims == ()
        assert answer.wait_us == 10 * SECOND_US
        harness.pass_time(10)
        (probe,) = harness.claim(worker)
        assert _n(harness, worker) == 0
        harness.finish(probe)
        harness.set_gate("queue/q")
        assert _n(harness, worker) == 4

    # ── gates that tasks share ──────────────────────────────────────────────────────────────────────────

    def test_a_shared_gate_counts_over_all_queues(self, harness: Harness) -> None:
        harness.set_gate("gate/api", limit=2)
        for queue in ("a", "b", "c"):
            harness.send(queue=queue, gate="api")
        free = harness.send(queue="a")
        worker = harness.worker()
        claims = harness.claim(worker)
        assert len(claims) == 3
        assert free in {claim.id for claim in claims}
        harness.finish(claims[0])
        assert _n(harness, worker) == 1

    def test_a_shut_shared_gate_leaves_the_rest_of_its_queue_open(self, harness: Harness) -> None:
        harness.set_gate("gate/api", paused=True)
        harness.send_many(3, queue="q", gate="api", priority=9)
        plain = harness.send(queue="q")
        assert [claim.id for claim in harness.claim(harness.worker())] == [plain]

    def test_a_job_passes_only_when_all_its_gates_are_open(self, harness: Harness) -> None:
        harness.set_gate("queue/q", limit=2)
        harness.set_gate("gate/api", rate=Rate(1, 10 * SECOND_US, 1))
        harness.send_many(3, queue="q", gate="api")
        harness.send_many(3, queue="q")
        assert _n(harness, harness.worker()) == 2

    def test_a_queue_and_a_gate_of_one_name_are_two(self, harness: Harness) -> None:
        harness.set_gate("gate/q", paused=True)
        harness.send(queue="q")
        assert _n(harness, harness.worker()) == 1

    def test_an_ended_job_leaves_its_shut_gate_without_being_claimed(self, harness: Harness) -> None:
        harness.set_gate("queue/q", paused=True)
        job_id = harness.send(queue="q")
        harness.amend(Change.CANCEL, job_id)
        assert harness.state(job_id) is State.CANCELLED

    # ── bad rules ───────────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize(
        "rule",
        [
            b"",
            b"[]",
            b"{",
            b'{"pause":true}',
            b'{"limit":-1}',
            b'{"limit":"2"}',
            b'{"rate":{"count":0,"per_us":1}}',
        ],
    )
    def test_a_bad_rule_is_refused_and_the_old_one_stays(self, harness: Harness, rule: bytes) -> None:
        harness.set_gate("queue/q", paused=True)
        (before,) = harness.engine.read(["queue/q"])
        with pytest.raises(BadValue):
            harness.engine.write([Put(key="other", value=b"1"), Put(key="queue/q", value=rule)])
        assert harness.engine.read(["queue/q", "other"]) == [before, None]

    def test_a_gate_of_a_bad_name_is_refused(self, harness: Harness) -> None:
        with pytest.raises(BadName):
            harness.put("queue/no spaces", b"{}")

    def test_the_plain_rule_is_open(self, harness: Harness) -> None:
        harness.set_gate("queue/q")
        harness.send(queue="q")
        assert _n(harness, harness.worker()) == 1

    @pytest.mark.parametrize("swept", [False, True])
    def test_a_rule_written_after_the_last_one_expired_begins_with_a_full_bucket(
        self, harness: Harness, swept: bool
    ) -> None:
        worker, rate = harness.worker(), Rate(1, 1_000 * SECOND_US)
        harness.set_gate("gate/g", ttl_us=SECOND_US, rate=rate)
        harness.send_many(3, gate="g")
        assert _n(harness, worker) == 1
        harness.pass_time(2)
        if swept:
            harness.sweep_all()
        harness.set_gate("gate/g", rate=rate)
        assert _n(harness, worker) == 1
        harness.set_gate("gate/g", rate=rate)
        assert _n(harness, worker) == 0, "a rule that still held keeps its bucket"
