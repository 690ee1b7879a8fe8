"""What a worker asks of a pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from windlass.engines.protocol import Claim, Settlement

Settle = Callable[[Settlement, Claim], None]
"""Where an end goes; returns at once."""


class Pool(Protocol):
    """Slots in which tasks run."""

    slots: int

    def start(self) -> None: ...

    def put(self, claims: tuple[Claim, ...]) -> None:
        """Takes claims to run, in their order; returns at once."""
        ...

    def waiting(self) -> int:
        """How many claims have not been started."""
        ...

    def take_back(self) -> list[Claim]:
        """Gives up all claims that have not been started."""
        ...

    def stop(self) -> None:
        """Ends the slots; a task that still runs is left to itself."""
        ...
