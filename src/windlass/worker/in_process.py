"""The staff of a worker in one process: resources, hooks, the loop, the pools, and who watches over what runs."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any

from windlass.app.app import App
from windlass.app.middleware import tell
from windlass.app.resources import Opened
from windlass.core.clock import Clock
from windlass.core.errors import WrongPool
from windlass.core.ids import JobId
from windlass.core.info import Active, Process
from windlass.core.system import footprint
from windlass.engines.protocol import Claim, Engine, Settlement, Verdict
from windlass.observe import capture
from windlass.worker.executor import Executor
from windlass.worker.kind import Kind
from windlass.worker.pools.pool import Pool
from windlass.worker.pools.threads import ThreadPool
from windlass.worker.service import log
from windlass.worker.spool import Spools
from windlass.worker.staff import Office, Wish
from windlass.worker.watchman import Watchman

if TYPE_CHECKING:
    from windlass.worker.pools.aio import AioPool, Loop

WITH_A_LOOP: tuple[Kind, ...] = ("auto", "aio")


class InProcess:
    """Runs an app's tasks in this process."""

    apart = None

    def __init__(
        self,
        app: App,
        kind: Kind,
        slots: int,
        office: Office,
        clock: Clock,
        engine: Engine | None = None,
        others: bool = False,
    ) -> None:
        """`others`: whether there are other processes beside this one that run what it waits for."""
        self._app = app
        self._kind: Kind = kind
        self._office = office
        self._clock = clock
        self._loop: Loop | None = None
        self._making = threading.Lock()
        self._told: set[str] = set()
        self._started = False
        self._resources = Opened(app.resources, self._await if kind in WITH_A_LOOP else None)
        self._spools = Spools(clock, office.desk, office.note, app.limits)
        self.executor = Executor(
            app,
            engine,
            self._resources,
            self._spools,
            office.worker,
            alone=slots == 1 and not others,
            isolates=others,
        )
        self.pool = self._make_pool(slots)
        self.watchman = Watchman(clock, office, lambda: self.pool, self._spools)

    @property
    def slots(self) -> int:
        return self.pool.slots

    def tasks(self) -> tuple[str, ...]:
        tasks = list(self._app.tasks.items())
        if self._kind == "auto":
            return tuple(sorted(name for name, _ in tasks))
        fitting = {name for name, task in tasks if task.is_async is (self._kind == "aio")}
        for name, _ in tasks:
            if name not in fitting and name not in self._told:  # it came after the start, where it would be refused
                self._told.add(name)
                log.warning("The pool %s cannot run the task %s; its jobs wait.", self._kind, name)
        return tuple(sorted(fitting))

    # ── where tasks run ─────────────────────────────────────────────────────────────────────────────────

    def _make_pool(self, slots: int) -> Pool:
        if self._kind != "auto":
            return self._make_one(slots, self._kind == "aio")
        from windlass.worker.pools.both import BothPool

        return BothPool(self._app.tasks, lambda on_loop: self._make_one(slots, on_loop))

    def _make_one(self, slots: int, on_loop: bool) -> ThreadPool | AioPool:
        parts = (slots, self._office, self.executor, self.settle, self._clock)
        if not on_loop:
            return ThreadPool(*parts)
        from windlass.worker.pools.aio import AioPool

        return AioPool(*parts, self._get_loop())

    def _get_loop(self) -> Loop:
        """The worker's event loop, made at the first need."""
        with self._making:
            if self._loop is None:
                from windlass.worker.pools.aio import Loop

                self._loop = Loop()
                self._loop.start()
            return self._loop

    def _await(self, waits: Coroutine[Any, Any, Any]) -> Any:
        return self._get_loop().run(waits)

    # ── work ────────────────────────────────────────────────────────────────────────────────────────────

    def wishes(self) -> list[Wish]:
        return self.pool.wishes()

    def put(self, claims: tuple[Claim, ...]) -> None:
        self.pool.put(claims)
        self.watchman.expect()

    def has_waiting(self) -> bool:
        return self.pool.waiting() > 0

    def take_back(self) -> list[Claim]:
        return self.pool.take_back()

    def cancel(self, job_id: JobId) -> None:
        self._office.desk.cancel(job_id)

    def running(self) -> Collection[JobId]:
        return self._office.desk.running.keys()

    def stuck(self) -> tuple[str, ...]:
        return tuple(run.context.id for run in list(self._office.desk.running.values()) if run.reported)

    def settle(self, settlement: Settlement, claim: Claim) -> None:
        """Takes the end of an attempt from a slot; hooks see it before the store does."""
        stack = self._app.stack
        self._spools.finish(claim.id, claim.fence)
        self._office.settle([(stack.settling(settlement) if stack.before_settle else settlement, claim)])

    def answered(self, settlement: Settlement, verdict: Verdict) -> None:
        if self._app.stack.after_settle:
            tell(self._app.stack.after_settle, settlement, verdict)

    def cut_at(self, cut_us: int) -> None:
        """The slots ask the office."""

    def processes(self) -> tuple[Process, ...]:
        shift_us = self._clock.now_us() - self._clock.monotonic_us()
        runs = list(self._office.desk.running.values())
        seen = footprint(os.getpid())
        here = Process(
            role="embedded",
            pid=os.getpid(),
            rss=0 if seen is None else seen.rss,
            cpu_s=0.0 if seen is None else seen.cpu_s,
            slots=self.slots,
            active=tuple(
                Active(id=run.context.id, task=run.claim.task, started_us=run.started_us + shift_us) for run in runs
            ),
        )
        return (here,)

    def restart(self) -> None:
        log.warning("This worker is part of a program, which has to be started anew.")

    # ── start and stop ──────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        try:
            self._resources.open_all()
            for hook in self._app.starters:
                self._call(hook)
            self.pool.start()
        except BaseException:
            self.pool.stop()
            self._close_resources()
            raise
        self._started = True
        capture.start()
        self.watchman.start()

    def stop(self, timeout_s: float) -> None:
        self.watchman.stop(timeout_s)
        self.pool.stop()

    def close(self) -> None:
        for hook in self._app.stoppers if self._started else ():
            try:
                self._call(hook)
            except Exception:
                log.exception("on_stop: %s failed.", getattr(hook, "__qualname__", hook))
        if self._started:
            self._started = False
            capture.stop()
        self._close_resources()

    def _call(self, hook: Callable[[], Any]) -> None:
        made = hook()
        if inspect.iscoroutine(made):
            if self._kind not in WITH_A_LOOP:
                made.close()
                raise WrongPool(
                    f"{hook.__qualname__} is async, and the pool has no loop.",
                    "Use the pool auto, which runs both kinds.",
                )
            self._await(made)

    def _close_resources(self) -> None:
        try:
            self._resources.close()
        except Exception:
            log.exception("A resource failed to close.")
        if self._loop is not None:
            self._loop.stop()


def check_fit(app: App, kind: Kind) -> None:
    """Refuses a pool that cannot run all of the app's tasks."""
    wrong = [task.name for task in app.tasks.values() if task.is_async != (kind == "aio")] if kind != "auto" else []
    if wrong:
        what = "is no coroutine function" if kind == "aio" else "is a coroutine function"
        raise WrongPool(
            f"The task {wrong[0]} {what}, which the pool {kind} cannot run.",
            "Use the pool auto, which runs both kinds.",
        )
