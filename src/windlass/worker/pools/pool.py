"""What a worker asks of a pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from windlass.engines.protocol import Claim, Settlement
from windlass.worker.desk import Run

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

    def hoarded(self, runs: Sequence[Run], before_us: int) -> list[Claim]:
        """Gives up claims that wait for slots which have all been taken since before that time."""
        ...

    def stop(self) -> None:
        """Ends the slots; a task that still runs is left to itself."""
        ...


def stands_still(runs: Sequence[Run], slots: int, before_us: int) -> bool:
    """Whether all slots are taken, and by tasks that started before that time."""
    return len(runs) >= slots and all(run.started_us < before_us for run in runs)
