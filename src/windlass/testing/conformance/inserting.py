"""insert: idempotent by id, all or nothing by batch, and the import of whole jobs."""

from __future__ import annotations

import msgspec
import pytest

from windlass.core.errors import BadName, BadValue, TooLarge, UnknownParent, WindlassError
from windlass.core.ids import new_id
from windlass.core.job import Attempt, Edge, Hold, Job, Outcome, Record, Request, State, Unique
from windlass.core.limits import Limits
from windlass.engines.protocol import Change, Part, Query, Settlement, Verdict
from windlass.testing.conformance.harness import DAY_US, ERROR, HOUR_US, SECOND_US, Harness

REFUSED: list[tuple[dict[str, object], type[WindlassError]]] = [
    ({"id": b"short"}, BadValue),
    ({"task": ""}, BadName),
    ({"task": "no spaces"}, BadName),
    ({"task": "x" * 129}, BadName),
    ({"queue": "_begins"}, BadName),
    ({"queue": "tab\there"}, BadName),
    ({"priority": -1}, BadValue),
    ({"priority": 10}, BadValue),
    ({"delay_us": -1}, BadValue),
    ({"at_us": -1}, BadValue),
    ({"expires_us": 1 << 62}, BadValue),
    ({"payload": bytes(Limits().payload_bytes + 1)}, TooLarge),
    ({"lane": "né"}, BadName),
    ({"lane": "l", "lane_limit": 0}, BadValue),
    ({"gate": "a/b"}, BadName),
    ({"unique": Unique("'; drop table jobs")}, BadName),
    ({"unique": Unique("k", "time", 0)}, BadValue),
    ({"tags": ("ok", "not ok")}, BadName),
    ({"tags": tuple(f"t{n}" for n in range(33))}, TooLarge),
    ({"needs": (("gpu", 0),)}, BadValue),
    ({"needs": (("g p u", 1),)}, BadName),
    ({"payload": "text"}, BadValue),
    ({"options": bytearray(b"{}")}, BadValue),
    ({"queue": 5}, BadName),
    ({"priority": 1.5}, BadValue),
    ({"lane_limit": "2"}, BadValue),
    ({"tags": (b"t",)}, BadName),
    ({"parents": (Edge(bytes(16)),)}, UnknownParent),
    ({"parents": tuple(Edge(n.to_bytes(16, "big")) for n in range(1_001))}, TooLarge),
]


def _brought(harness: Harness, record: Record, *, job: Job | None = None, **fields: object) -> Job:
    """A whole job, as an export of another store would bring it."""
    base = job or Job(request=harness.request("task", queue=record.queue, **fields))
    return msgspec.structs.replace(base, record=record)


class Inserting:
    """What comes in, and what does not."""

    # ── once ────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_job_sent_twice_is_one_job(self, harness: Harness) -> None:
        request = harness.request()
        assert [receipt.duplicate_of for receipt in harness.insert(request)] == [None]
        assert [receipt.duplicate_of for receipt in harness.insert(request)] == [request.id]
        assert harness.drain(harness.worker()) == [request.id]

    def test_a_job_sent_again_after_it_ended_is_still_the_same(self, harness: Harness) -> None:
        request = harness.request()
        harness.insert(request)
        harness.drain(harness.worker())
        (receipt,) = harness.insert(request)
        assert receipt.duplicate_of == request.id
        assert harness.state(request.id) is State.SUCCEEDED

    def test_a_second_request_of_the_same_id_changes_nothing(self, harness: Harness) -> None:
        request = harness.request("first", payload=b"1")
        harness.insert(request)
        before = harness.job(request.id)
        harness.insert(harness.request("second", id=request.id, payload=b"2", queue="other"))
        assert harness.job(request.id) == before

    def test_the_same_job_twice_in_one_batch_is_one_job(self, harness: Harness) -> None:
        one, two = harness.request(), harness.request()
        receipts = harness.insert(one, two, one)
        assert [receipt.id for receipt in receipts] == [one.id, two.id, one.id]
        assert [receipt.duplicate_of for receipt in receipts] == [None, None, one.id]
        assert harness.drain(harness.worker()) == [one.id, two.id]

    def test_an_empty_batch_is_nothing(self, harness: Harness) -> None:
        assert harness.insert() == []

    def test_two_engines_on_one_store_see_the_same_jobs(self, harness: Harness) -> None:
        job_id = harness.send()
        (job,) = harness.another().fetch([job_id])
        assert job == harness.job(job_id)

    # ── all or nothing ──────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize(("fields", "error"), REFUSED)
    def test_one_bad_request_refuses_the_whole_batch(
        self, harness: Harness, fields: dict[str, object], error: type[WindlassError]
    ) -> None:
        good = [harness.new() for _ in range(3)]
        task = fields.get("task", "task")
        assert isinstance(task, str)
        rest = {name: value for name, value in fields.items() if name != "task"}
        with pytest.raises(error):
            harness.engine.insert([*good, harness.new(task, **rest)])
        assert harness.states([job.id for job in good]) == [None] * 3
        assert harness.engine.search(Query()).jobs == ()

    def test_a_job_cannot_wait_for_itself(self, harness: Harness) -> None:
        job_id = new_id()
        with pytest.raises(BadValue):
            harness.send(id=job_id, parents=(Edge(job_id),))
        assert harness.state(job_id) is None

    def test_a_payload_as_large_as_its_limit_comes_in(self, harness: Harness) -> None:
        payload = bytes(harness.limits.payload_bytes)
        assert harness.job(harness.send(payload=payload)).request.payload == payload

    def test_a_limit_is_the_engines_own(self, harness: Harness) -> None:
        small = harness.another(Limits(payload_bytes=4))
        with pytest.raises(TooLarge, match="payload_bytes"):
            small.insert([harness.new(payload=b"12345")])

    # ── what is stored ──────────────────────────────────────────────────────────────────────────────────

    def test_a_request_comes_back_as_it_was_sent(self, harness: Harness) -> None:
        parent = harness.send()
        request = Request(
            id=new_id(),
            task="a.b:c-d_e",
            queue="q" * 128,
            payload=bytes(range(256)),
            priority=9,
            delay_us=SECOND_US,
            at_us=harness.now_us + DAY_US,
            expires_us=harness.now_us + 2 * DAY_US,
            lane="l",
            lane_limit=7,
            unique=Unique("k", "time", HOUR_US),
            gate="g",
            needs=(("gpu", 1), ("memory", 1 << 40)),
            parents=(Edge(parent, "ended"),),
            flow=new_id(),
            retry_of=new_id(),
            tags=("a", "b"),
            options=b'{"x":"\xc3\xa9"}',
        )
        harness.insert(request)
        assert harness.job(request.id).request == request

    def test_a_new_record_says_when_it_came_and_is_due(self, harness: Harness) -> None:
        record = harness.record(harness.send(delay_us=SECOND_US))
        assert record.created_us == harness.now_us
        assert record.due_us == harness.now_us + SECOND_US
        assert (record.attempt, record.crashes, record.losses, record.fence) == (1, 0, 0, 0)
        assert (record.ended_us, record.worker, record.blocks) == (None, None, False)

    def test_fetch_answers_in_the_order_asked_and_none_for_what_is_not_there(self, harness: Harness) -> None:
        one, two = harness.send(), harness.send()
        jobs = harness.engine.fetch([two, new_id(), one, two])
        assert [job and job.id for job in jobs] == [two, None, one, two]

    def test_fetch_gives_only_the_parts_asked_for(self, harness: Harness) -> None:
        claim = harness.running(payload=b"in")
        harness.note(claim, "progress", b"half")
        harness.note(claim, "log", b"line")
        harness.note(claim, "step", b"1", key="s")
        harness.finish(claim, Outcome.FAILED, delay_s=0)
        (claim,) = harness.claim(harness.hand(), queues=(claim.queue,))
        harness.finish(claim, result=b"out")
        whole = harness.job(claim.id)

        def shown(job: Job) -> tuple[object, ...]:
            return job.request.payload, job.result, job.attempts, job.progress, job.log, job.steps

        empty = (b"", None, (), None, (), ())
        for index, part in enumerate(Part):
            (job,) = harness.engine.fetch([claim.id], frozenset({part}))
            assert job is not None
            assert shown(job) == (*empty[:index], shown(whole)[index], *empty[index + 1 :])
            assert shown(whole)[index] != empty[index]

    # ── import ──────────────────────────────────────────────────────────────────────────────────────────

    def test_a_ready_job_is_brought_in_with_all_it_has_behind_it(self, harness: Harness) -> None:
        record = Record(
            state=State.READY,
            queue="q",
            fence=5_000_000_000_000_000,
            settled_fence=4_000_000_000_000_000,
            attempt=4,
            crashes=1,
            losses=2,
            suspect=True,
            rank=harness.now_us - DAY_US,
            due_us=harness.now_us - DAY_US,
            created_us=harness.now_us - 2 * DAY_US,
        )
        attempts = (Attempt(attempt=3, fence=7, outcome=Outcome.FAILED, ended_us=9, failure=ERROR),)
        job = Job(request=harness.request(queue="q"), failure=ERROR, attempts=attempts)
        harness.engine.insert([_brought(harness, record, job=job)])
        there = harness.job(job.id)
        assert there.record == record
        assert (there.failure, there.attempts) == (ERROR, attempts)
        (claim,) = harness.claim(harness.worker(), suspects=True)
        assert claim.fence > record.fence
        assert (claim.attempt, claim.crashes, claim.losses) == (4, 1, 2)

    def test_a_ready_job_is_brought_in_at_its_own_rank(self, harness: Harness) -> None:
        here = harness.send()
        past_us = harness.now_us - DAY_US
        record = Record(state=State.READY, queue="q", rank=past_us, due_us=past_us)
        job = _brought(harness, record)
        harness.engine.insert([job])
        assert harness.drain(harness.worker()) == [job.id, here]

    def test_a_running_job_is_brought_in_as_ready_and_its_old_claim_is_stale(self, harness: Harness) -> None:
        rank = harness.now_us - DAY_US
        record = Record(state=State.RUNNING, queue="q", fence=77, worker=new_id(), rank=rank, attempt=2)
        job = _brought(harness, record)
        harness.engine.insert([job])
        there = harness.record(job.id)
        assert (there.state, there.worker, there.attempt, there.rank) == (State.READY, None, 2, rank)
        assert harness.settle(Settlement(id=job.id, fence=77)) == [Verdict.STALE]
        assert harness.drain(harness.worker()) == [job.id]

    def test_a_scheduled_job_is_brought_in_with_its_due_time(self, harness: Harness) -> None:
        due_us = harness.now_us + HOUR_US
        job = _brought(harness, Record(state=State.SCHEDULED, queue="q", due_us=due_us, attempt=3))
        harness.engine.insert([job])
        there = harness.record(job.id)
        assert (there.state, there.due_us, there.attempt) == (State.SCHEDULED, due_us, 3)
        harness.jump(3_600)
        assert harness.drain(harness.worker()) == [job.id]

    def test_held_jobs_are_brought_in_to_wait_again(self, harness: Harness) -> None:
        first = harness.send(lane="l", queue="q")
        lane, parents = (Record(state=State.HELD, queue="q", hold=hold) for hold in (Hold.LANE, Hold.PARENTS))
        in_lane = _brought(harness, lane, lane="l")
        child = _brought(harness, parents, parents=(Edge(first),))
        harness.engine.insert([in_lane, child])
        assert harness.states([in_lane.id, child.id]) == [State.HELD] * 2
        assert sorted(harness.drain(harness.worker())) == sorted([first, in_lane.id, child.id])

    @pytest.mark.parametrize("state", [State.SUCCEEDED, State.DEAD, State.CANCELLED, State.EXPIRED])
    def test_an_ended_job_is_brought_in_as_it_ended(self, harness: Harness, state: State) -> None:
        record = Record(
            state=state,
            queue="elsewhere",
            fence=9,
            settled_fence=9,
            attempt=2,
            reason="because",
            rank=5,
            due_us=6,
            created_us=harness.now_us - HOUR_US,
            ended_us=harness.now_us - SECOND_US,
        )
        request = harness.request(queue="home", parents=(Edge(new_id()),))
        job = Job(request=request, result=b"r", failure=ERROR)
        harness.engine.insert([_brought(harness, record, job=job)])
        there = harness.job(job.id)
        assert there.record == record
        assert (there.result, there.failure) == (b"r", ERROR)
        assert harness.settle(Settlement(id=job.id, fence=9)) == [Verdict.ALREADY]
        assert harness.claim(harness.worker()) == []

    def test_the_time_of_an_imported_end_counts_from_then(self, harness: Harness) -> None:
        old_us = harness.now_us - harness.limits.keep_succeeded_us
        job = _brought(harness, Record(state=State.SUCCEEDED, queue="q", ended_us=old_us))
        harness.engine.insert([job])
        harness.sweep_all()
        assert harness.state(job.id) is None

    def test_an_imported_job_with_a_cleared_key_neither_blocks_nor_is_blocked(self, harness: Harness) -> None:
        record = Record(state=State.READY, queue="q", rank=1, blocks=False)
        one, two = (_brought(harness, record, unique=Unique("k", "start")) for _ in range(2))
        receipts = harness.engine.insert([one])
        holder = harness.send(unique=Unique("k", "start"))
        receipts += harness.engine.insert([two])
        assert [receipt.duplicate_of for receipt in receipts] == [None, None]
        assert [harness.record(job_id).blocks for job_id in (one.id, holder, two.id)] == [False, True, False]

    def test_an_imported_job_that_blocks_takes_its_key_or_is_a_duplicate(self, harness: Harness) -> None:
        record = Record(state=State.READY, queue="q", rank=1, blocks=True)
        one, two = (_brought(harness, record, unique=Unique("k")) for _ in range(2))
        receipts = harness.engine.insert([one, two])
        assert [receipt.duplicate_of for receipt in receipts] == [None, one.id]

    def test_a_job_imported_twice_is_one_job(self, harness: Harness) -> None:
        job = _brought(harness, Record(state=State.DEAD, queue="q", ended_us=harness.now_us))
        harness.engine.insert([job])
        harness.amend(Change.RETRY, job.id)
        (receipt,) = harness.engine.insert([job])
        assert receipt.duplicate_of == job.id
        assert harness.state(job.id) is State.READY
