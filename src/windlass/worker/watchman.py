"""The watchman: looks over what runs, stops what is overdue, and tells of what does not heed it.

the lease is cut             jobs in lanes and those that want it get `Cut`: another worker may run them now
past its deadline            the task gets `TimedOut` (async: its asyncio task is cancelled)
still running a while later  a line in its log, a count, its id on the worker's card; its slot stays taken, unless there
                             is a supervisor, which kills the process of one past its timeout
no slot free for 50 ms       claims that wait behind long jobs go back: another worker may have a slot
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.app.endings import CancelAsked, Cut, TimedOut
from windlass.core.clock import Clock
from windlass.core.durations import show
from windlass.worker.desk import Run
from windlass.worker.pools.pool import Pool
from windlass.worker.service import Service, Vigil, log
from windlass.worker.spool import Spools
from windlass.worker.staff import Office

LOOK_S = 0.05


class Watchman(Service):
    """Keeps the time of running tasks."""

    name = "watchman"

    def __init__(self, clock: Clock, office: Office, pool: Callable[[], Pool], spools: Spools) -> None:
        super().__init__(clock)
        self._desk = office.desk
        self._page = office.page
        self._office = office
        self._pool = pool
        self._spools = spools
        self._asked_us: dict[bytes, int] = {}
        self._vigil = Vigil(LOOK_S)

    def expect(self) -> None:
        """Claims have come: it looks after them soon."""
        if self._vigil.is_over:
            self.wake()

    def tick(self, now_us: int) -> float | None:
        self._vigil.look()
        if self._page is not None:
            self._page.look(now_us)
        runs = list(self._desk.running.values())
        cut = self._office.is_cut(now_us)
        for run in runs:
            deadline_us = run.context.deadline_us
            if deadline_us is not None and now_us >= deadline_us:
                run.stop(TimedOut)
            if cut and (run.claim.lane is not None or run.task.options.on_cut == "stop"):
                run.stop(Cut)
            if run.asked is not None and not run.reported:
                self._watch(run, now_us)
        if self._asked_us:
            living = {run.claim.id for run in runs}
            self._asked_us = {job: at for job, at in self._asked_us.items() if job in living}
        self._spools.flush(now_us)
        self._office.give_back(self._pool().hoarded(runs, now_us))
        return self._vigil.next_s(now_us, is_busy=bool(self._desk.open))

    def _watch(self, run: Run, now_us: int) -> None:
        """A task that was asked to stop has a while to do so; then people are told."""
        since_us = self._asked_us.setdefault(run.claim.id, now_us)
        if now_us - since_us < run.grace_us:
            return
        run.reported = True
        asked = "a cancel" if run.asked is CancelAsked else "its timeout"
        is_killed = self._page is not None and run.context.deadline_us is not None and run.asked is TimedOut
        what = "its process is killed" if is_killed else "it runs on and its slot stays taken"
        text = f"The task has not heeded {asked} for {show(now_us - since_us)}; {what}."
        run.context.log(text)
        self._office.overran(run.claim)
        log.warning("%s %s: %s", run.claim.task, run.context.id, text)
