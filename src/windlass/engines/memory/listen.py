"""listen and signal: sleeping until there is something to do. A hint may be lost; the store is the truth.

Nothing gets lost on the way here. But a hint for work goes to one sleeper, and that one may take less than there is, or
nothing: it stops, its slots are full, it does not know the task. So once a second, as a net, a listener looks itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from windlass.core.job import ENDED
from windlass.engines.memory.store import Store
from windlass.engines.protocol import Hint, Interest

NET_S = 1.0


class Ear:
    """One listening call."""

    def __init__(self, owner: object, interest: Interest, lock: threading.RLock) -> None:
        self.owner = owner
        self.interest = interest
        self.hints: list[Hint] = []
        self.bell = threading.Condition(lock)

    def hears(self, hint: Hint) -> bool:
        interest = self.interest
        match hint.kind:
            case "work":
                return interest.queues is None or hint.queue in interest.queues
            case "end":
                return hint.id in interest.ends
            case "order":
                return hint.id is not None and hint.id in (interest.worker, interest.bell)
            case "closed":
                return True


class Switchboard:
    """Rings those who listen: one idle worker for work, everybody concerned for the rest."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._ears: list[Ear] = []

    def signal(self, hints: Iterable[Hint]) -> None:
        for hint in hints:
            for ear in self._ears:
                if ear.hears(hint) and not (hint.kind == "work" and ear.hints):
                    ear.hints.append(hint)
                    ear.bell.notify()
                    if hint.kind == "work":
                        break

    def close(self, owner: object) -> None:
        """Wakes those who listen through an engine that closes, and nobody else."""
        for ear in self._ears:
            if ear.owner is owner:
                ear.hints.append(Hint(kind="closed"))
                ear.bell.notify()

    def listen(
        self, owner: object, store: Store, interest: Interest, looked: int | None, timeout_s: float
    ) -> list[Hint]:
        """`looked`: the store's version that the listener knows; a newer one means that it missed something."""
        deadline = time.monotonic() + timeout_s
        ear = Ear(owner, interest, self._lock)
        ear.hints += missed(store, interest, looked)
        self._ears.append(ear)
        try:
            while not ear.hints and (left_s := deadline - time.monotonic()) > 0:
                if not ear.bell.wait(min(left_s, NET_S)):
                    ear.hints += missed(store, interest, looked)
            return ear.hints
        finally:
            self._ears.remove(ear)


def missed(store: Store, interest: Interest, looked: int | None) -> Sequence[Hint]:
    """What happened between the listener's last look and now, so that nobody sleeps on it."""
    hints = [
        Hint(kind="end", id=job_id)
        for job_id in interest.ends
        if (row := store.rows.get(job_id)) is None or row.state in ENDED
    ]
    if looked is not None and looked != store.version:
        hints.append(Hint(kind="work"))
    return hints
