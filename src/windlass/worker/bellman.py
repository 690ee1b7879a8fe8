"""The bellman: wakes those loops of this worker that sleep in the store's own wait.

Such a wake-up is a call of the store, which over a network may take seconds. Whoever rings here does not wait for it:
a slot, an event loop, the foreman with dead runners to bury. However often it is rung meanwhile, one call more is made.
"""

from __future__ import annotations

from contextlib import suppress

from windlass.core.clock import Clock
from windlass.core.errors import StoreError
from windlass.core.ids import WorkerId
from windlass.engines.protocol import Engine, Hint
from windlass.worker.service import Service


class Bellman(Service):
    """Rings in the store, for those who may not wait for it."""

    name = "bellman"

    def __init__(self, clock: Clock, engine: Engine) -> None:
        super().__init__(clock)
        self._engine = engine
        self._rung: set[WorkerId] = set()
        """Anybody adds, with one call into C; only the bellman takes."""

    def ring(self, sleeper: WorkerId) -> None:
        """Whoever listens under that id is woken, as soon as the store can be told; returns at once."""
        self._rung.add(sleeper)
        self.wake()

    def tick(self, now_us: int) -> float | None:
        hints = [Hint(kind="order", id=self._rung.pop()) for _ in range(len(self._rung))]
        if hints:
            with suppress(StoreError):  # those who sleep there look by themselves, a little later
                self._engine.signal(hints)
        return None
