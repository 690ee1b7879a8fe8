"""What a worker has seen of its store when it goes to sleep: whatever came after that must wake it.

Between two sleeps it may claim several times, each time for other tasks. A job may come for the first of them while the
second is on its way, so the state that the first one saw is the one that counts.
"""

from __future__ import annotations

from windlass.core.ids import WorkerId
from windlass.engines.protocol import Interest


class Looked:
    """By worker: a number of the store that grows with every change, as the first claim since the last sleep saw it."""

    def __init__(self) -> None:
        self._seen: dict[WorkerId, int] = {}
        self._slept: set[WorkerId] = set()

    def claimed(self, worker: WorkerId, version: int) -> None:
        """It has asked for work, and the store was at that number."""
        if worker in self._slept or worker not in self._seen:
            self._slept.discard(worker)
            self._seen[worker] = version

    def at(self, interest: Interest) -> int | None:
        """What it has seen, from now on asleep; None: it never asked."""
        if interest.worker is None or interest.queues == ():
            return None
        self._slept.add(interest.worker)
        return self._seen.get(interest.worker)

    def forget(self, worker: WorkerId) -> None:
        """It is gone."""
        self._slept.discard(worker)
        self._seen.pop(worker, None)
