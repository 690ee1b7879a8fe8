"""What cannot be read is set aside and shown as damaged; everybody goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import msgspec
import pytest

from tests.servers.namespace import Namespace
from tests.soak.waiting import HANG_S, wait_for
from windlass import App, Worker
from windlass.core.ids import JobId, new_id
from windlass.core.job import Edge, Outcome, State, Unique
from windlass.core.lifecycle import Standing, decide
from windlass.engines.protocol import Change, Claim, Query, Settlement, TallyQuery, Verdict
from windlass.engines.redis import RedisEngine, read_address
from windlass.engines.redis.values import read_claim
from windlass.testing.conformance import Harness

GARBAGE = b"\xc1 no record"


@pytest.fixture
def harness(valkey: Namespace) -> Iterator[Harness]:
    yield from Harness.run(lambda limits: RedisEngine(read_address(valkey.url), limits))


def damage(valkey: Namespace, kind: str, job_id: JobId, value: bytes | None = GARBAGE) -> None:
    key = b"{%b}:%b:%b" % (valkey.name.encode(), kind.encode(), job_id)
    with valkey.client() as client:
        if value is None:
            client.delete(key)
        else:
            client.set(key, value)


@pytest.mark.parametrize("value", [GARBAGE, b"", b"\x07", b"\x90", b"\x93\xa1x\x01\x01"])
def test_a_ready_job_whose_record_is_damaged_is_set_aside(harness: Harness, valkey: Namespace, value: bytes) -> None:
    broken = harness.send(lane="l", unique=Unique("u", "end"))
    child = harness.send(parents=(Edge(broken, "ended"),))
    behind = harness.send(lane="l")
    damage(valkey, "j", broken, value)
    assert harness.drain(harness.worker()) == [behind, child]
    record = harness.record(broken)
    assert (record.state, record.reason) == (State.DEAD, "corrupt")
    assert not harness.engine.insert([harness.new(unique=Unique("u", "end"))])[0].duplicate_of
    assert harness.amend(Change.DELETE, broken).changed == (broken,)
    assert sum(count.n for count in harness.engine.tally(TallyQuery()).counts) == harness.count(Query())


@pytest.mark.parametrize(
    ("field", "value"),
    [(field, value) for field in range(1, 8) for value in (True, [1], 7 if field in (2, 3) else "text")],
)
def test_a_plain_job_with_one_bad_field_costs_no_other(
    harness: Harness, valkey: Namespace, field: int, value: object
) -> None:
    """The script that finds it among others must see it before it has written anything."""
    ids = harness.send_many(3, priority=1)
    _spoil(valkey, ids[1], field, value)
    claims = [claim for claim in harness.claim_all(harness.worker()) if claim.id != ids[1]]
    assert [claim.id for claim in claims] == [ids[0], ids[2]]
    assert harness.settle(*map(_success, claims)) == [Verdict.ACCEPTED] * 2


@pytest.mark.parametrize("field", [2, 3, 4, 14])
def test_a_running_plain_job_with_one_bad_field_costs_no_others_end(
    harness: Harness, valkey: Namespace, field: int
) -> None:
    harness.send_many(3)
    claims = harness.claim(harness.worker())
    _spoil(valkey, claims[1].id, field, True)
    assert harness.settle(*map(_success, claims)) == [Verdict.ACCEPTED, Verdict.STALE, Verdict.ACCEPTED]


@pytest.mark.parametrize("field", [4, 5, 6])
def test_eight_letters_are_no_number(harness: Harness, valkey: Namespace, field: int) -> None:
    """As long as one, but none: the record cannot be read, and those beside it can."""
    ids = harness.send_many(3)
    _spoil(valkey, ids[1], field, "12345678")
    assert [claim.id for claim in harness.claim_all(harness.worker()) if claim.id != ids[1]] == [ids[0], ids[2]]


@pytest.mark.parametrize("before", [b"t", b"default"])
def test_a_name_that_is_no_text_costs_no_other(harness: Harness, valkey: Namespace, before: bytes) -> None:
    ids = harness.send_many(3, task="t", queue="default")
    key = b"{%b}:j:%b" % (valkey.name.encode(), ids[1])
    with valkey.client() as client:
        stored = cast("bytes", client.get(key))
        name = bytes([0xA0 + len(before)]) + before
        assert stored.count(name) == 1
        client.set(key, stored.replace(name, name[:-1] + b"\xff"))
    assert [claim.id for claim in harness.claim_all(harness.worker()) if claim.id != ids[1]] == [ids[0], ids[2]]


def test_a_fence_that_is_no_text_stops_nobody(harness: Harness, valkey: Namespace) -> None:
    broken, whole = harness.send_many(2)
    worker = harness.worker()
    back = decide(None, Standing())
    claims = harness.claim(worker)
    harness.settle(*(Settlement(id=each.id, fence=each.fence, outcome=None, transition=back) for each in claims))
    _spoil(valkey, broken, 9, 7)
    assert [claim.id for claim in harness.claim_all(worker)] == [whole]


def _spoil(valkey: Namespace, job_id: JobId, field: int, value: object) -> None:
    key = b"{%b}:j:%b" % (valkey.name.encode(), job_id)
    with valkey.client() as client:
        row = msgspec.msgpack.decode(client.get(key))
        row[field - 1] = value
        client.set(key, msgspec.msgpack.encode(row))


def _success(claim: Claim) -> Settlement:
    return Settlement(id=claim.id, fence=claim.fence, result=b"null", ran_us=1)


def test_a_stream_that_is_gone_stops_nobody(harness: Harness, valkey: Namespace) -> None:
    harness.send(queue="q")
    with valkey.client() as client:
        client.delete(b"{%b}:s:q||||0" % valkey.name.encode())
    assert harness.claim(harness.worker()) == []


def test_a_scheduled_job_whose_record_is_damaged_holds_nobody_up(harness: Harness, valkey: Namespace) -> None:
    broken, gone, whole = (harness.send(delay_us=1_000) for _ in range(3))
    damage(valkey, "j", broken)
    damage(valkey, "j", gone, None)
    harness.pass_time(1)
    worker = harness.worker()
    assert [claim.id for claim in harness.claim(worker)] == [whole]
    assert harness.order(worker).wait_us is None
    assert harness.states([broken, gone]) == [State.DEAD, None]


def test_a_running_job_whose_record_is_damaged_goes_with_its_worker(harness: Harness, valkey: Namespace) -> None:
    worker = harness.worker()
    broken, gone = harness.send(), harness.send()
    assert len(harness.claim(worker)) == 2
    damage(valkey, "j", broken)
    damage(valkey, "j", gone, None)
    harness.vanish(worker)
    harness.sweep_all()
    assert harness.states([broken, gone]) == [State.DEAD, None]
    assert not harness.sweep().lost


def test_a_job_whose_request_is_gone_is_claimed_shown_and_deleted(harness: Harness, valkey: Namespace) -> None:
    broken, whole = harness.send(), harness.send()
    damage(valkey, "r", broken, None)
    assert {job.id for job in harness.find(Query())} == {broken, whole}
    failure = harness.job(broken).failure
    assert failure is not None
    assert failure.fingerprint == "corrupt"
    claims = harness.claim(harness.worker())
    assert (claims[0].id, claims[0].payload) == (broken, b"")
    assert [harness.finish(claim, Outcome.FAILED) for claim in claims] == [Verdict.ACCEPTED] * 2
    assert [refusal.id for refusal in harness.amend(Change.RETRY, broken, whole).refused] == [broken]
    assert harness.amend(Change.DELETE, broken).changed == (broken,)


def test_a_child_or_a_chore_that_is_damaged_stops_no_settle(harness: Harness, valkey: Namespace) -> None:
    parent = harness.send()
    broken, whole = (harness.send(parents=(Edge(parent),)) for _ in range(2))
    damage(valkey, "j", broken)
    with valkey.client() as client:
        client.rpush(f"{{{valkey.name}}}:chores", GARBAGE)
    (claim,) = harness.claim(harness.worker())
    assert harness.finish(claim) is Verdict.ACCEPTED
    harness.sweep_all()
    assert harness.state(whole) is State.READY


def test_a_card_that_is_damaged_stops_no_sweep(harness: Harness, valkey: Namespace) -> None:
    worker, name = harness.worker(), new_id().hex()
    with valkey.client() as client:
        client.hset(f"{{{valkey.name}}}:desks", name, GARBAGE)
        assert [card.worker for card in harness.engine.tally(TallyQuery()).cards] == [worker]
        harness.sweep_all()
        assert not client.hexists(f"{{{valkey.name}}}:desks", name)


def test_a_worker_goes_on_past_a_record_that_it_cannot_read(valkey: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    with App(valkey.url) as app, valkey.client() as client:

        @app.task(name="double")
        def double(number: int) -> int:
            return 2 * number

        broken = double.delay(1)

        def read(job_id: JobId, record: bytes, request: bytes | None) -> Claim | None:
            return None if job_id == broken.job_id else read_claim(job_id, record, request)

        monkeypatch.setattr("windlass.engines.redis.engine.read_claim", read)
        key = b"{%b}:j:%b" % (valkey.name.encode(), broken.job_id)
        ready = client.get(key)
        with Worker(app):
            wait_for("the worker to claim it", lambda: client.get(key) != ready)
            assert double.delay(2).get(timeout=HANG_S) == 4
