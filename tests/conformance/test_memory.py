"""The memory engine is what the suite says an engine is."""

from collections.abc import Iterator

import pytest

from windlass.core.ids import new_id
from windlass.engines.memory import MemoryEngine
from windlass.testing.conformance import EngineConformance, Harness


class TestMemory(EngineConformance):
    @pytest.fixture
    def harness(self) -> Iterator[Harness]:
        name = new_id().hex()
        yield from Harness.run(lambda limits: MemoryEngine(name, limits))
