"""The sqlite engine against the conformance suite: deaths told by lock, and, for tests, by lease."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.core.ids import WorkerId
from windlass.engines.protocol import Engine
from windlass.engines.sqlite import SqliteEngine
from windlass.testing.conformance import EngineConformance, Harness


def kill(engine: Engine, worker: WorkerId) -> None:
    """What the kernel does when a worker dies: its lock is free."""
    assert isinstance(engine, SqliteEngine)
    engine.kill_for_tests(worker)


class TestSqlite(EngineConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[Harness]:
        yield from Harness.run(lambda limits: SqliteEngine(tmp_path / "jobs.db", limits=limits), kill=kill)


class TestSqliteByLease(EngineConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[Harness]:
        yield from Harness.run(lambda limits: SqliteEngine(tmp_path / "jobs.db", limits=limits, death="lease"))

    # Once for the engine is enough.
    test_a_search_through_a_hundred_thousand_jobs_is_bounded_and_complete = None  # pyright: ignore[reportAssignmentType]
