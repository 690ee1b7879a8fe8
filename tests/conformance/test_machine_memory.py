"""The memory engine under the state machine: by invariants alone, as it is the model of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.limits import Limits
from windlass.engines.memory import MemoryEngine
from windlass.engines.protocol import Engine
from windlass.testing.conformance.machine import machine_for


def make(limits: Limits) -> Engine:
    return MemoryEngine(limits=limits)


SHELVES = (
    "rows",
    "by_seq",
    "ended",
    "streams",
    "scheduled",
    "expiring",
    "purging",
    "key_ends",
    "keys",
    "lanes",
    "edges",
    "flows",
    "desks",
    "chores",
    "gates",
    "buckets",
    "counts",
)


def leaks(engine: Engine) -> Sequence[str]:
    room: Any = getattr(engine, "_room")  # noqa: B009 - only the engine itself can see what it left behind
    return [f"{len(shelf)} in {name}" for name in SHELVES if (shelf := getattr(room.store, name))]


TestMemoryMachine = machine_for(make, model_make=None, name="TestMemoryMachine", leaks=leaks)
