"""Where these tests play: on both engines, with a clock that stands still or with workers that run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass import App
from windlass.core.ids import WorkerId
from windlass.core.limits import Limits
from windlass.engines.memory import MemoryEngine
from windlass.engines.protocol import Engine
from windlass.engines.sqlite import SqliteEngine
from windlass.testing.conformance import Harness


def kill(engine: Engine, worker: WorkerId) -> None:
    """What the kernel does when a worker dies: its lock is free."""
    assert isinstance(engine, SqliteEngine)
    engine.kill_for_tests(worker)


@pytest.fixture(params=["memory", "sqlite"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """A store with a clock that stands still, and workers by hand."""

    def make(limits: Limits) -> Engine:
        if request.param == "memory":
            return MemoryEngine(tmp_path.name, limits)
        return SqliteEngine(tmp_path / "jobs.db", limits=limits)

    yield from Harness.run(make, kill=kill)


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{tmp_path.name}" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def app(url: str) -> Iterator[App]:
    with App(url) as app:
        yield app
