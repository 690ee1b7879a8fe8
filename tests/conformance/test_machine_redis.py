"""The redis engine under the state machine, in step with the memory engine as its model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.servers.histories import Histories
from tests.servers.namespace import Namespace
from windlass.core.limits import Limits
from windlass.engines.protocol import Engine
from windlass.testing.conformance.machine import machine_for

_histories: Histories


@pytest.fixture(autouse=True)
def where(valkey: Namespace) -> Iterator[None]:
    """The server for the histories."""
    global _histories  # noqa: PLW0603 - a state machine is made by Hypothesis, which knows no fixtures
    _histories = Histories(valkey)
    yield
    _histories.clear()


def make(limits: Limits) -> Engine:
    return _histories.make(limits)


def leaks(engine: Engine) -> Sequence[str]:
    return _histories.leaks(engine)


TestRedisMachine = machine_for(make, name="TestRedisMachine", leaks=leaks)
