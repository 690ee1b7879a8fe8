"""Where suspects run: a fresh process for each, one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress

from windlass.engines.protocol import Claim
from windlass.worker.roster import Roster


class Suspects:
    """Those that wait for their process; the foreman starts it."""

    def __init__(self, roster: Roster, wake: Callable[[], None]) -> None:
        self._roster = roster
        self._wake = wake
        self._waiting: deque[Claim] = deque()

    def has_room(self) -> bool:
        with self._roster.lock:
            busy = self._waiting or any(runner.apart for runner in self._roster.living)
            return not self._roster.stopping and not busy

    def put(self, suspect: Claim) -> None:
        self._waiting.append(suspect)
        self._wake()

    @property
    def first(self) -> Claim | None:
        """The one that a process is started for next; None: there is none."""
        with suppress(IndexError):
            return self._waiting[0]
        return None

    def take(self) -> Claim | None:
        """The next one, for which there is a process now; None: it was taken back meanwhile."""
        with suppress(IndexError):
            return self._waiting.popleft()
        return None

    def take_back(self) -> list[Claim]:
        """Those for which no process was started yet."""
        taken: list[Claim] = []
        while (suspect := self.take()) is not None:
            taken.append(suspect)
        return taken
