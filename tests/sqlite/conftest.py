"""An engine on a file of its own, closed with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.engines.sqlite import SqliteEngine


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def engine(path: Path) -> Iterator[SqliteEngine]:
    engine = SqliteEngine(path)
    engine.open()
    yield engine
    engine.close()
