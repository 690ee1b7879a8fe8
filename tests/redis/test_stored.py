"""What the scripts store is what docs/reference/wire.md shows: the golden request in, the golden record beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.test_wire import JOB, REDIS_REQUEST, REDIS_SHORT, WORKER, golden
from tests.servers.namespace import Namespace
from windlass.core.job import Job, Request
from windlass.engines.redis import RedisEngine, read_address
from windlass.engines.redis.rows import Row, read_row
from windlass.testing.clock import START_US
from windlass.testing.conformance import Harness


@pytest.fixture
def harness(valkey: Namespace) -> Iterator[Harness]:
    yield from Harness.run(lambda limits: RedisEngine(read_address(valkey.url), limits))


def stored(namespace: Namespace, room: bytes) -> bytes:
    with namespace.client() as client:
        return client.get(b"{%b}:%b:%b" % (namespace.name.encode(), room, JOB))


def test_a_plain_job_is_stored_as_the_golden_bytes(harness: Harness, valkey: Namespace) -> None:
    harness.engine.insert([Job(request=REDIS_SHORT)])
    assert stored(valkey, b"r") == golden("redis_request_short.hex")
    assert stored(valkey, b"j") == golden("redis_record_short.hex")
    assert harness.job(JOB).request == REDIS_SHORT


def test_a_job_with_everything_is_stored_as_the_golden_bytes(harness: Harness, valkey: Namespace) -> None:
    harness.engine.insert([Job(request=Request(id=WORKER, task="parent"))])
    harness.engine.insert([Job(request=REDIS_REQUEST)])
    assert stored(valkey, b"r") == golden("redis_request.hex")
    assert stored(valkey, b"j") == golden("redis_record.hex")
    assert harness.job(JOB).request == REDIS_REQUEST


def test_the_golden_record_is_read() -> None:
    row = Row(state=2, queue="default", task="send", rank=START_US, due_us=START_US, created_us=START_US)
    assert read_row(golden("redis_record_short.hex")) == row
