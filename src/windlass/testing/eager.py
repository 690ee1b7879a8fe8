"""Eager: a job runs where and when it is sent, through the same steps as in a worker.

    task.delay() ─► store.insert ─► claim ─► executor: load, bind, call, classify ─► settler ─► store.settle
                         ▲                                                                          │
                         └────────────── failed, and the policy wants another try: at once ─────────┘

`delay` returns when nothing is left that could run now. A retry does not wait, a snoozed or delayed job does: for time
travel, which stops at each instant at which something comes due. A task that sends others runs them inside itself.
Timeouts and the cancelling of a running task need a second thread, and so a worker.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from windlass.app.app import App
from windlass.app.context import current
from windlass.app.endings import Interrupted
from windlass.app.middleware import tell
from windlass.app.resources import Opened
from windlass.core.durations import Duration, show, to_us
from windlass.core.errors import NotFinished
from windlass.core.ids import JobId, new_id, show_id
from windlass.core.job import WAITING, Job, Outcome, State
from windlass.core.limits import EIB, Limits
from windlass.core.scripts import SCRIPT
from windlass.engines.memory import MemoryEngine
from windlass.engines.protocol import (
    Amended,
    Amendment,
    Beat,
    Card,
    Change,
    Claim,
    Hint,
    Interest,
    Order,
    Put,
    Receipt,
    Settlement,
    Sweep,
    Swept,
    Written,
)
from windlass.testing.clock import MovedClock
from windlass.testing.sent import SentJobs
from windlass.testing.stage import Stage, StageClock, StageStore, staged
from windlass.worker.desk import Desk, Run
from windlass.worker.executor import Executor, Refused
from windlass.worker.settler import Settler
from windlass.worker.spool import Spools

if TYPE_CHECKING:
    from windlass.testing.coroutines import Coroutines

RETRIES_AT_ONCE = 100
"""After so many tries the next one waits for time travel: a policy without an end must not hang a test."""


@contextmanager
def run_eagerly(app: App) -> Generator[Stage]:
    """Within the `with`, jobs of the app run as they are sent, in a store of their own."""
    sent = SentJobs(app)
    store = EagerStore(sent, app.limits)
    clock = EagerClock(store)
    store.runner = runner = Runner(app, store, clock)
    try:
        with staged(app, store, clock):
            yield Stage(app, clock, sent)
    finally:
        runner.close()


class EagerStore(StageStore):
    """Runs what has become ready, after each verb that can make it so."""

    runner: Runner

    def __init__(self, sent: SentJobs, limits: Limits) -> None:
        super().__init__(sent, limits)

    def insert(self, jobs: Sequence[Job], /) -> list[Receipt]:
        receipts = super().insert(jobs)
        self.runner.provide(jobs)
        self.runner.run_ready()
        return receipts

    def amend(self, amendment: Amendment, /) -> Amended:
        amended = super().amend(amendment)
        self.runner.run_ready()
        return amended

    def write(self, puts: Sequence[Put], /) -> list[Written]:
        written = super().write(puts)
        self.runner.run_ready()
        return written

    def sweep(self, sweep_: Sweep, /) -> Swept:
        swept = super().sweep(sweep_)
        self.runner.run_ready()
        return swept

    def listen(self, interest: Interest, timeout_s: float, /) -> list[Hint]:
        """Whoever waits for a job that nobody will run is told so, instead of waiting for ever."""
        self.runner.run_ready()
        for job in self.fetch(tuple(interest.ends), frozenset()):
            if job is not None and job.record is not None and job.record.state in WAITING:
                raise self._stuck(job)
        return super().listen(interest, timeout_s)

    def _stuck(self, job: Job) -> NotFinished:
        request, record = job.request, job.record
        assert record is not None
        what = f"The job {show_id(job.id)} of {request.task} is {record.state}, and nothing runs it now."
        if record.state is State.SCHEDULED:
            left = show(max(0, record.due_us - self._clock.now_us()))
            return NotFinished(what, f"Let time pass first, {left} of it: windlass_clock.travel(…).")
        if request.task == SCRIPT:
            return NotFinished(what, "Scripts are processes: start a worker for them, windlass worker --scripts.")
        if not self.runner.knows(request.task):
            return NotFinished(what, "Import the module that defines the task.")
        return NotFinished(what, "Look at what it waits for: its queue may be paused.")


class EagerClock(StageClock):
    """The time of an eager stage: it goes from one due job to the next."""

    _store: EagerStore

    def travel(self, duration: Duration) -> None:
        """Lets time pass; what comes due runs when it is due, and what it sends for later as well."""
        left_us = to_us(duration)
        while True:
            wait_us = self._store.runner.run_ready()
            if wait_us is None or wait_us >= left_us:
                break
            self.advance(wait_us)
            left_us -= wait_us
        self.advance(left_us)
        super().travel(0)


class Runner:
    """Claims and runs jobs in the thread that asks for it."""

    def __init__(self, app: App, store: EagerStore, clock: MovedClock) -> None:
        self._app = app
        self._store = store
        self._clock = clock
        self._worker = new_id()
        self._lock = threading.Lock()
        self._beat = 0
        self._ticket = 0
        self._started = False
        self._has: dict[str, int] = {}
        self._coroutines: Coroutines | None = None
        self._resources = Opened(app.resources, self._run_coroutine)

    def knows(self, task: str) -> bool:
        """Whether the task's code is here."""
        return task in self._app.tasks

    def provide(self, jobs: Sequence[Job]) -> None:
        """Whatever a job needs is there: nothing runs beside it."""
        names = [name for job in jobs for name, _ in job.request.needs]
        with self._lock:
            self._has.update(dict.fromkeys(names, EIB))

    def run_ready(self) -> int | None:
        """Runs jobs until none is ready; gives how long until the next comes due, None where none will."""
        with nullcontext() if self._coroutines is None else self._coroutines.blocking():
            while True:
                claim, wait_us = self._claim()
                if claim is not None:
                    self._run(claim)
                elif wait_us != 0:
                    return wait_us

    def _claim(self) -> tuple[Claim | None, int | None]:
        # Only the claim is locked: a task may send from threads of its own, and wait for them.
        with self._lock:
            tasks = tuple(sorted(self._app.tasks))  # a test may have defined one since the last time
            self._store.renew(Beat(card=Card(worker=self._worker, name="eager", tasks=tasks), beat=self._beat))
            self._beat += 1
            found = self._store.claim(Order(worker=self._worker, ticket=self._ticket + 1, limit=1, free=self._has))
            if not found.claims:
                return None, found.wait_us
            self._ticket += 1
            return found.claims[0], None

    # ── one attempt ─────────────────────────────────────────────────────────────────────────────────────

    def _run(self, claim: Claim) -> None:
        self._start()
        app, desk = self._app, Desk()
        desk.take_in((claim,))
        settler = Settler(self._clock, self._store, desk, lambda: self._worker, app.bus, app.limits)
        settler.on_answer = lambda settlement, verdict: tell(app.stack.after_settle, settlement, verdict)

        spools = Spools(self._clock, desk, settler.note, app.limits)
        executor = Executor(app, app.engine, self._resources, spools, lambda: self._worker, alone=False)
        end, raised = self._attempt(executor, claim)
        spools.finish(claim.id, claim.fence)
        settler.put([app.stack.settling(end)], urgent=True)
        settler.flush()
        again = end.transition.to is State.SCHEDULED and end.outcome is not Outcome.SNOOZE
        if again and end.transition.attempt <= RETRIES_AT_ONCE:
            self._bring_forward(claim.id)
        if raised is not None and _is_for_the_test(raised):
            raise raised

    def _attempt(self, executor: Executor, claim: Claim) -> tuple[Settlement, BaseException | None]:
        started_us = self._clock.monotonic_us()
        try:
            run = executor.load(claim, started_us, lambda _run, _why: None)
        except Refused as refusal:
            return executor.broken(claim, refusal), None
        value, error = self._call(executor, run)
        ran_us = self._clock.monotonic_us() - started_us
        if executor.has_hooks_after:
            executor.tell_after(run, error)
        if error is None:
            return executor.succeeded(run, value, ran_us), None
        return executor.failed(run, error, ran_us), error

    def _call(self, executor: Executor, run: Run) -> tuple[Any, BaseException | None]:
        if run.task.is_async:
            return self._run_coroutine(_awaited(executor, run))
        token = current.set(run.context)
        try:
            args, kwargs = executor.bind(run)
            return run.task.function(*args, **kwargs), None
        except BaseException as error:
            return None, error
        finally:
            current.reset(token)

    def _bring_forward(self, job_id: JobId) -> None:
        """The next try is now. Not by the store's own verb, which would run it inside this one."""
        MemoryEngine.amend(self._store, Amendment(change=Change.RUN_NOW, ids=(job_id,)))

    def _run_coroutine(self, coroutine: Any) -> Any:
        with self._lock:
            if self._coroutines is None:
                from windlass.testing.coroutines import Coroutines

                self._coroutines = Coroutines()
        return self._coroutines.run(coroutine)

    # ── what a worker does besides ──────────────────────────────────────────────────────────────────────

    def _start(self) -> None:
        """Resources are there before a job needs one, and `on_start` hooks run before the first, as in a worker."""
        self._resources.open_all()
        if not self._started:
            self._started = True
            for hook in self._app.starters:
                self._hook(hook)

    def _hook(self, hook: Callable[[], Any]) -> None:
        made = hook()
        if inspect.isawaitable(made):
            self._run_coroutine(made)

    def close(self) -> None:
        """`on_stop` hooks, resources and the loop, as when a worker stops; the first error is raised."""
        try:
            if self._started:
                for hook in self._app.stoppers:
                    self._hook(hook)
        finally:
            try:
                self._resources.close()
            finally:
                if self._coroutines is not None:
                    self._coroutines.close()


def _is_for_the_test(error: BaseException) -> bool:
    """Ctrl-C, or pytest.fail() inside the task, is not the task's own end alone."""
    ends = isinstance(error, (Exception, SystemExit, Interrupted)) or type(error).__name__ == "CancelledError"
    return not ends


async def _awaited(executor: Executor, run: Run) -> tuple[Any, BaseException | None]:
    """The end of a coroutine as a value: an exception such as SystemExit would end the loop."""
    current.set(run.context)  # the asyncio task has a context of its own
    try:
        args, kwargs = executor.bind(run)
        return await run.task.function(*args, **kwargs), None
    except BaseException as error:
        return None, error
