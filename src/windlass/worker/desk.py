"""What the worker holds: claims and runs.

A claim is *open* from the moment the store gave it until the store has its settlement. Between the two it waits for a
slot or runs in one (it is in that pool's *room*), or lies with the settler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from windlass.app.context import JobContext
from windlass.app.endings import CancelAsked, Interrupted
from windlass.app.task import Task
from windlass.core.ids import JobId
from windlass.engines.protocol import Claim

GRACE_US = 5_000_000
"""How long a task that was asked to stop may take, where it does not say."""


class Run:
    """One attempt that is going on."""

    __slots__ = ("asked", "claim", "context", "grace_us", "interrupt", "reported", "started_us", "task")

    def __init__(
        self,
        claim: Claim,
        task: Task[..., Any],
        context: JobContext,
        started_us: int,
        interrupt: Interrupt,
        grace_us: int,
    ) -> None:
        self.claim = claim
        self.task = task
        self.context = context
        self.started_us = started_us
        self.interrupt = interrupt
        self.grace_us = grace_us
        """How long it may take to heed being stopped."""
        self.asked: type[Interrupted] | None = None
        """Why it was asked to stop, and by which exception."""
        self.reported = False
        """Whether it was told that it does not heed being asked."""

    def stop(self, why: type[Interrupted]) -> None:
        """Asks the task to stop, once."""
        if self.asked is None:
            self.asked = why
            if why is CancelAsked:
                self.context.cancelled = True
            self.interrupt(self, why)


Interrupt = Callable[[Run, type[Interrupted]], None]
"""How a pool gets an exception into a running task."""


class Desk:
    """The claims of one worker. Used by all its threads: every change is a single operation on a dict."""

    def __init__(self) -> None:
        self.open: dict[JobId, Claim] = {}
        self.running: dict[JobId, Run] = {}
        self.cancelled: set[JobId] = set()
        """Open claims whose cancel was asked for."""
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)

    def take_in(self, claims: tuple[Claim, ...]) -> None:
        """The store gave these."""
        for claim in claims:
            self.open[claim.id] = claim

    def let_go(self, claim: JobId) -> None:
        """The store has its settlement, or says that the claim is not ours any more."""
        self.open.pop(claim, None)
        self.cancelled.discard(claim)
        if not self.open:
            with self._idle:
                self._idle.notify_all()

    def holds(self, claim: Claim) -> bool:
        """Whether the claim is still open."""
        found = self.open.get(claim.id)
        return found is not None and found.fence == claim.fence

    def wait_until_empty(self, timeout_s: float) -> bool:
        """Whether nothing is open any more, at the latest after so long."""
        with self._idle:
            return self._idle.wait_for(lambda: not self.open, timeout_s)

    # ── runs ────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, run: Run) -> None:
        """The run is going on: from now on it can be asked to stop."""
        self.running[run.claim.id] = run
        # After the line above and not before: a cancel comes either before it, and is seen here, or finds the run.
        if run.claim.id in self.cancelled:
            run.stop(CancelAsked)

    def finish(self, run: Run) -> None:
        """The run is over. The same job may run here again already, if this worker was taken for dead meanwhile."""
        if self.running.get(run.claim.id) is run:
            del self.running[run.claim.id]

    def cancel(self, job_id: JobId) -> None:
        """Somebody wants the job to end."""
        if job_id in self.open:
            self.cancelled.add(job_id)
        run = self.running.get(job_id)
        if run is not None:
            run.stop(CancelAsked)
