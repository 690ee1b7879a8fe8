"""What a worker asks of a pool, and what the pools of one kind have in common: how an attempt begins and ends."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from windlass.app.context import Guard
from windlass.core.clock import Clock
from windlass.engines.protocol import Claim, Settlement
from windlass.observe import capture
from windlass.worker.desk import Interrupt, Run
from windlass.worker.executor import Executor, cancelled, given_back
from windlass.worker.room import Room
from windlass.worker.staff import Office, Wish

Settle = Callable[[Settlement, Claim], None]
"""Where an end goes; returns at once."""


class Pool(Protocol):
    """Slots in which tasks run."""

    @property
    def slots(self) -> int: ...

    def start(self) -> None: ...

    def wishes(self) -> list[Wish]:
        """What to ask the store for, one after the other until one is not filled."""
        ...

    def put(self, claims: tuple[Claim, ...]) -> None:
        """Takes claims to run, in their order; returns at once."""
        ...

    def waiting(self) -> int:
        """How many claims have not been started."""
        ...

    def take_back(self) -> list[Claim]:
        """Gives up all claims that have not been started."""
        ...

    def hoarded(self, runs: Sequence[Run], now_us: int) -> list[Claim]:
        """Gives up claims that wait for slots which have all been taken for too long."""
        ...

    def stop(self) -> None:
        """Ends the slots; a task that still runs is left to itself."""
        ...


class OneKind(ABC):
    """A pool for functions, or one for coroutine functions."""

    kind: bool
    """Whether it runs coroutine functions."""

    def __init__(self, slots: int, office: Office, executor: Executor, settle: Settle, clock: Clock) -> None:
        self.room = Room(slots)
        self._pid = os.getpid()
        self._office = office
        self._desk = office.desk
        self._page = office.page
        self._executor = executor
        self._settle = settle
        self._clock = clock

    @property
    def slots(self) -> int:
        return self.room.slots

    def wishes(self) -> list[Wish]:
        free = self.room.free()
        return [Wish(free)] if free else []

    @abstractmethod
    def waiting(self) -> int: ...

    @abstractmethod
    def take_back(self) -> list[Claim]: ...

    def hoarded(self, runs: Sequence[Run], now_us: int) -> list[Claim]:
        own = [run for run in runs if run.task.is_async is self.kind]
        return self.take_back() if self.waiting() and self.room.stands_still(own, now_us) else []

    # ── an attempt ──────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, claim: Claim, interrupt: Interrupt, guard: Guard | None = None) -> Run | Settlement:
        """The attempt, going on from now; or its end, where it must not be started."""
        if claim.id in self._desk.cancelled:
            return cancelled(claim)
        if not self._desk.holds(claim):  # it was let go meanwhile: somebody else may run it
            return given_back(claim)
        now_us = self._clock.monotonic_us()
        if self._office.is_cut(now_us):
            return given_back(claim)
        run = self._executor.load(claim, now_us, interrupt)
        run.context.guard = guard
        if self._page is not None and not self._page.enter(run):
            return given_back(claim)
        self._desk.begin(run)
        return run

    def _hand_over(self, end: Settlement, claim: Claim) -> None:
        """The slot is free for its next job once the end of this one is on its way."""
        if os.getpid() != self._pid:
            os._exit(0)  # a task has forked, and this is the child: the slot is its parent's
        self.room.leave(claim)
        try:
            self._settle(end, claim)
        finally:
            if self._page is not None:
                self._page.leave(claim)

    def _end(self, run: Run, value: Any, error: BaseException | None) -> Settlement:
        """What came of it."""
        executor = self._executor
        ran_us = self._clock.monotonic_us() - run.started_us
        self._desk.finish(run)
        if run.context.partial is not None:
            capture.finish(run.context)
        if executor.has_hooks_after:
            executor.tell_after(run, error)
        self.room.timed(ran_us)
        return executor.succeeded(run, value, ran_us) if error is None else executor.failed(run, error, ran_us)
