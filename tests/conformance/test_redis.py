"""The redis engine against the conformance suite, on the newest Valkey and on the oldest Redis it takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.namespace import Namespace
from windlass.engines.redis import RedisEngine
from windlass.engines.redis.address import read_address
from windlass.testing.conformance import EngineConformance, Harness

pytestmark = pytest.mark.usefixtures("no_leaks")


class TestValkey(EngineConformance):
    @pytest.fixture
    def harness(self, valkey: Namespace) -> Iterator[Harness]:
        yield from Harness.run(lambda limits: RedisEngine(read_address(valkey.url), limits))


class TestRedis62(EngineConformance):
    @pytest.fixture
    def harness(self, redis62: Namespace) -> Iterator[Harness]:
        yield from Harness.run(lambda limits: RedisEngine(read_address(redis62.url), limits))

    # Once for the engine is enough.
    test_a_search_through_a_hundred_thousand_jobs_is_bounded_and_complete = None  # pyright: ignore[reportAssignmentType]
