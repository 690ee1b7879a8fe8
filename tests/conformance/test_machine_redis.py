"""The redis engine under the state machine, in step with the memory engine as its model.

Every history has a namespace of its own, on one server for them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.servers.namespace import Namespace
from windlass.core.limits import Limits
from windlass.engines.protocol import Engine
from windlass.engines.redis import RedisEngine
from windlass.engines.redis.address import read_address
from windlass.testing.conformance.machine import machine_for

_numbers = count()
_where: Namespace


@pytest.fixture(autouse=True)
def where(valkey: Namespace) -> Iterator[None]:
    """The server for the histories; what they leave goes with the test."""
    global _where  # noqa: PLW0603 - a state machine is made by Hypothesis, which knows no fixtures
    _where = valkey
    yield
    for number in range(next(_numbers)):
        valkey._replace(name=f"{valkey.name}-{number}").clear()


def make(limits: Limits) -> Engine:
    return RedisEngine(read_address(f"{_where.url}-{next(_numbers)}"), limits)


TestRedisMachine = machine_for(make, name="TestRedisMachine")
