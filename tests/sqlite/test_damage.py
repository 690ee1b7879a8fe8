"""A record that cannot be read is set aside and reported; the queue goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sqlite.rig import claim, hire, record, send, tell
from windlass.core.codec import encode_arguments
from windlass.core.errors import CorruptRecord
from windlass.core.job import State
from windlass.core.signature import Signature
from windlass.engines.protocol import Amendment, Change, Order, Query
from windlass.engines.sqlite import SqliteEngine


def test_a_damaged_record_is_set_aside_and_the_queue_goes_on(
    engine: SqliteEngine, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, broken, last = (send(engine, needs=(("gpu", 1),)) for _ in range(3))
    tell(path, "UPDATE job SET extra = x'7b2222' WHERE id = ?", (broken,))
    worker = hire(engine)
    order = Order(worker=worker, ticket=1, free={"gpu": 9}, total={"gpu": 9})
    assert [held.id for held in engine.claim(order).claims] == [first, last]
    found = record(engine, broken)
    assert (found.state, found.reason) == (State.DEAD, "corrupt")
    (warning,) = [entry.getMessage() for entry in caplog.records if entry.levelname == "WARNING"]
    assert "damaged" in warning
    assert tell(path, "SELECT state, n FROM tally WHERE n > 0 ORDER BY state") == [("dead", 1), ("running", 2)]
    assert tell(path, "SELECT ready, running FROM stream_now") == [(0, 2)]


def test_a_damaged_record_frees_its_lane_and_its_key(engine: SqliteEngine, path: Path) -> None:
    broken = send(engine, lane="l", needs=(("gpu", 1),))
    behind = send(engine, lane="l")
    tell(path, "UPDATE job SET extra = x'00' WHERE id = ?", (broken,))
    worker = hire(engine)
    orders = [Order(worker=worker, ticket=ticket, free={"gpu": 9}, total={"gpu": 9}) for ticket in (1, 2)]
    taken = [held.id for order in orders for held in engine.claim(order).claims]
    assert taken == [behind]
    assert record(engine, broken).reason == "corrupt"


@pytest.mark.parametrize("column", ["extra", "failure"])
def test_a_damaged_record_can_still_be_looked_at_and_deleted(engine: SqliteEngine, path: Path, column: str) -> None:
    broken, whole = send(engine, tags=("x",)), send(engine, tags=("x",))
    tell(path, f"UPDATE job SET {column} = x'7b2222' WHERE id = ?", (broken,))
    (job,) = engine.fetch([broken])
    assert job is not None
    assert job.failure is not None
    assert job.failure.fingerprint == "corrupt"
    assert {job.id for job in engine.search(Query(state=State.READY)).jobs} == {broken, whole}
    assert whole in {job.id for job in engine.search(Query(tag="x")).jobs}
    assert engine.amend(Amendment(change=Change.DELETE, ids=(broken,))).changed == (broken,)
    assert engine.fetch([broken]) == [None]


def test_a_damaged_payload_is_found_by_its_checksum_when_it_is_read(engine: SqliteEngine, path: Path) -> None:
    job_id = send(engine, payload=encode_arguments((1, "two"), {}))
    ((payload,),) = tell(path, "SELECT payload FROM job")
    tell(path, "UPDATE job SET payload = ?", (payload[:-3] + b"xx" + payload[-1:],))
    (held,) = claim(engine, hire(engine))
    assert held.id == job_id

    def task(number: int, word: str) -> None: ...

    with pytest.raises(CorruptRecord) as caught:
        Signature(task).decode(held.payload)
    assert caught.value.todo
