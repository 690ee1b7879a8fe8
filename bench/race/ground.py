"""The ground of a race: where the jobs of a contestant lie, fresh for every measurement.

`files.py` is that of the group `embedded`, `server.py` that of `redis`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from bench.race.entries import Product


class Place(Protocol):
    """One store of one contestant, and a folder for its marks and logs."""

    @property
    def folder(self) -> Path: ...

    @property
    def store(self) -> str:
        """Where it is."""
        ...

    def env(self, *, far: bool) -> dict[str, str]:
        """What a sender and a worker are told of it. `far`: by a longer way; refused where there is none."""
        ...

    def stored(self, sent: int) -> int:
        """How many of the jobs that were sent have an end that is stored."""
        ...

    def waiting(self) -> int:
        """How many jobs a worker could still take or get back."""
        ...

    def cpu_s(self) -> float:
        """CPU time that was spent on it so far outside of senders and workers."""
        ...


Fill = Callable[[Place, int], object]
"""Puts so many jobs into a store."""


class Ground(Protocol):
    """Gives out places, one at a time."""

    def prepare(self, product: Product) -> str:
        """Installs what this product needs besides its environment, and says what; raises where it cannot be had."""
        ...

    def fresh(self, product: Product, name: str) -> AbstractContextManager[Place]:
        """An empty one; nothing of it is left behind."""
        ...

    def filled(self, product: Product, name: str, jobs: int, fill: Fill) -> AbstractContextManager[Place]:
        """One with so many jobs, which nobody has taken yet."""
        ...
