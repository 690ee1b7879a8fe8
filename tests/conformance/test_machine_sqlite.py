"""The sqlite engine under the state machine, in step with the memory engine as its model.

Death by lease on both sides, so that the two call the same workers dead; death by lock has tests of its own.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from windlass.core.limits import Limits
from windlass.engines.protocol import Engine
from windlass.engines.sqlite import SqliteEngine
from windlass.testing.conformance.machine import machine_for

_numbers = count()
_folder = Path(tempfile.gettempdir())


@pytest.fixture(autouse=True)
def folder() -> Iterator[Path]:
    """Every history has a file of its own; all of them go with the test."""
    global _folder  # noqa: PLW0603 - a state machine is made by Hypothesis, which knows no fixtures
    _folder = Path(tempfile.mkdtemp(prefix="windlass-machine-"))
    yield _folder
    shutil.rmtree(_folder)


def make(limits: Limits) -> Engine:
    return SqliteEngine(_folder / f"{next(_numbers)}.db", limits=limits, death="lease")


TestSqliteMachine = machine_for(make, name="TestSqliteMachine")
