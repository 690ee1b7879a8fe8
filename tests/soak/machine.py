"""Story D: the state machine of the conformance suite, many long histories, on each engine."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path

from windlass.core.limits import Limits
from windlass.engines.memory import MemoryEngine
from windlass.engines.protocol import Engine
from windlass.engines.sqlite import SqliteEngine
from windlass.testing.conformance.machine import soak_machine

ENGINES = ("memory", "sqlite")
EXAMPLES = 50
"""Histories of one round; a round has a seed of its own."""
STEPS = 80


def run_histories(engine: str, seed: int, examples: int = EXAMPLES, steps: int = STEPS) -> None:
    """Raises with the shortest history that breaks a rule, and the seed that leads to it."""
    if engine == "memory":
        soak_machine(_memory, model_make=None, name="memory", seed=seed, examples=examples, steps=steps)
        return
    with tempfile.TemporaryDirectory(prefix="windlass-machine-") as folder:
        numbers = count()

        def make(limits: Limits) -> Engine:
            return SqliteEngine(Path(folder) / f"{next(numbers)}.db", limits=limits, death="lease")

        soak_machine(make, name="sqlite", seed=seed, examples=examples, steps=steps)


def _memory(limits: Limits) -> Engine:
    return MemoryEngine(limits=limits)
