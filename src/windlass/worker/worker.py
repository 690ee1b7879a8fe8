"""A worker inside your process: `with Worker(app, slots=4): …` starts it, works, and stops it gracefully.

start   resources, on_start, the card, then the loops: settler before consumer, receivers before senders
stop    consumer first (nothing new comes in), what has not started goes back, what runs may end within `drain`,
        then its claims go back too; settler, card and loops follow, on_stop and resources last
"""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures.thread import ThreadPoolExecutor
from typing import Any, Literal, Self

from windlass.app.app import App
from windlass.app.context import current
from windlass.app.endings import Duration
from windlass.app.options import refuse_unknown
from windlass.app.resources import Opened
from windlass.core.clock import Clock, SystemClock
from windlass.core.durations import SECOND_US, to_us
from windlass.core.errors import BadValue, StoreError, WouldBlock, WrongPool
from windlass.core.ids import show_id
from windlass.core.names import check_name, near_miss
from windlass.engines.protocol import Claim, Settlement
from windlass.worker.consumer import Consumer
from windlass.worker.desk import Desk
from windlass.worker.executor import Executor, given_back
from windlass.worker.heartbeat import Heartbeat
from windlass.worker.janitor import Janitor
from windlass.worker.pools.pool import Pool
from windlass.worker.pools.threads import ThreadPool
from windlass.worker.service import Service, log
from windlass.worker.settler import Settler
from windlass.worker.stocktaking import Stocktaking
from windlass.worker.watchman import Watchman

Kind = Literal["auto", "solo", "threads", "aio"]
KINDS: tuple[Kind, ...] = ("auto", "solo", "threads", "aio")
ENDING = (signal.SIGINT, signal.SIGTERM)
SETTLE_S = 5.0
"""How long, past the drain, the last settlements are tried."""


class Worker:
    """Runs an app's jobs in this process, in the background."""

    def __init__(
        self,
        app: App,
        slots: int = 4,
        *,
        pool: Kind = "auto",
        queues: Sequence[str] | None = None,
        name: str = "",
        drain: Duration = 30,
        **unknown: Any,
    ) -> None:
        refuse_unknown("A worker", unknown, ("slots", "pool", "queues", "name", "drain"))
        self._app = app
        _checked(app, slots, pool)
        if isinstance(queues, str):
            raise BadValue(f"The queues are the text {queues!r}.", f"Give a list: [{queues!r}].")
        self._kind: Kind = pool
        self._slots = 1 if pool == "solo" else slots
        self._queues = None if queues is None else tuple(check_name("queue", queue) for queue in queues)
        self._name = name or f"{os.getpid()}"
        self._drain_s = to_us(drain) / SECOND_US
        self._clock: Clock = SystemClock()
        self._crew: Crew | None = None
        self._own = threading.Lock()

    @property
    def id(self) -> str | None:
        """The worker's id while it runs; a new one at every start."""
        return None if self._crew is None else show_id(self._crew.heartbeat.worker)

    @property
    def running(self) -> int:
        """How many tasks run now."""
        return 0 if self._crew is None else len(self._crew.desk.running)

    def start(self) -> Self:
        """Returns once the worker may claim; an error of a resource or of `on_start` is raised here."""
        if self._crew is not None and self._crew.pid != os.getpid():
            self._crew, self._own = None, threading.Lock()  # a forked child: the crew is the parent's
        with self._own:
            if self._crew is None:
                _checked(self._app, self._slots, self._kind)  # again: tasks may have come since
                self._crew = Crew(self._app, self._kind, self._slots, self._queues, self._name, self._clock)
                try:
                    self._crew.start()
                except BaseException:
                    self._crew = None
                    raise
                _at_exit.add(self)
        return self

    def stop(self, drain: Duration | None = None) -> None:
        """Stops gracefully: what has not started goes back to the store, what runs has `drain` to end."""
        here = current.get()
        if here is not None and here.store is self._app and self._crew is not None and self._crew.runs(here.job_id):
            raise WouldBlock("A task cannot stop its own worker and wait for it.", "Stop it from outside.")
        with self._own:
            crew, self._crew = self._crew, None
        # In a forked child the worker is the parent's: its claims and its card are not ours to give away.
        if crew is not None and crew.pid == os.getpid():
            _at_exit.discard(self)
            crew.stop(self._drain_s if drain is None else to_us(drain) / SECOND_US)

    def run(self) -> None:
        """Works until SIGINT or SIGTERM, then stops gracefully; a second signal ends the process at once.

        Only in the main thread: that is where Python hears signals.
        """
        asked = threading.Event()

        def ask(_number: int, _frame: object) -> None:
            asked.set()

        with self:
            before = {number: signal.signal(number, ask) for number in ENDING}
            try:
                asked.wait()
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class Crew:
    """The loops of one started worker."""

    def __init__(
        self, app: App, kind: Kind, slots: int, queues: tuple[str, ...] | None, name: str, clock: Clock
    ) -> None:
        self._app = app
        self._clock = clock
        self.pid = os.getpid()
        engine, settings = app.engine, app.settings
        threads, coroutines = _kinds(app, kind)
        self.desk = Desk(slots * (threads + coroutines))
        self._loop: Any = None
        if coroutines or _wants_a_loop(app, kind):
            from windlass.worker.pools.aio import Loop

            self._loop = Loop()
        self._resources = Opened(app.resources, None if self._loop is None else self._loop.run)
        self.heartbeat = Heartbeat(
            clock,
            engine,
            self.desk,
            app.bus,
            name=name,
            queues=queues,
            tasks=lambda: _those_it_can_run(app, threads=threads, coroutines=coroutines),
            slots=self.desk.slots,
            pool=kind,
            beat_s=settings.beat_s,
            lease_s=settings.lease_s,
        )
        self.settler = Settler(clock, engine, self.desk, self._worker, app.stack, app.bus, app.limits)
        self.consumer = Consumer(clock, engine, self.desk, self.settler, app.bus, self._worker, queues)
        self.janitor = Janitor(clock, engine, app.bus, self._worker, settings.sweep_s)
        self.watchman = Watchman(clock, self.desk, self.consumer, self.settler)
        self.pool = self._make_pool(slots, threads=threads, coroutines=coroutines)
        self.consumer.pool = self.pool
        self.consumer.on_claims = self.watchman.wake
        self.settler.on_settled = self.consumer.wake
        self.heartbeat.take_counts = self.settler.take_counts
        self.heartbeat.on_new_id = self._drop_what_waits
        self.heartbeat.on_claims = Stocktaking(clock, engine, self.desk, self.settler, settings.beat_s).compare

    def _worker(self) -> bytes:
        return self.heartbeat.worker

    def _make_pool(self, slots: int, *, threads: bool, coroutines: bool) -> Pool:
        alone = slots == 1
        executor = Executor(self._app, self._resources, self.settler.write, self._worker(), alone=alone)
        hungry = self.consumer.hungry
        in_threads = ThreadPool(slots, self.desk, executor, self.settle, self._clock, hungry)
        if not coroutines:
            return in_threads
        from windlass.worker.pools.aio import AioPool
        from windlass.worker.pools.both import BothPool

        on_loop = AioPool(slots, self.desk, executor, self.settle, self._clock, hungry, self._loop)
        return BothPool(self._app.tasks, in_threads, on_loop) if threads else on_loop

    def settle(self, settlement: Settlement, claim: Claim) -> None:
        """Takes the end of an attempt from a slot. It is urgent where somebody waits for it."""
        urgent = claim.lane is not None or claim.flow is not None or not self.pool.waiting()
        self.settler.put(settlement, urgent=urgent)

    def _drop_what_waits(self) -> None:
        """The claims of the old id are others' now; those that have not started here must not start."""
        for claim in self.pool.take_back():
            self.desk.let_go(claim.id)

    def runs(self, job_id: bytes) -> bool:
        return job_id in self.desk.running

    # ── start and stop ──────────────────────────────────────────────────────────────────────────────────

    @property
    def services(self) -> tuple[Service, ...]:
        """In the order of starting: whoever receives is there before whoever sends."""
        return (self.settler, self.heartbeat, self.watchman, self.janitor, self.consumer)

    def start(self) -> None:
        if self._loop is not None:
            self._loop.start()
        try:
            self._resources.open_all()
            for hook in self._app.starters:
                self._call(hook)
            self.heartbeat.announce()
        except BaseException:
            self._close_resources()
            raise
        try:
            self.pool.start()
            for service in self.services:
                service.start()
        except BaseException:  # no further thread can be started
            self.stop(0)
            raise

    def stop(self, drain_s: float) -> None:
        """Never takes much longer than the drain, even if the store does not answer: its threads are daemons."""
        until_us = self._clock.monotonic_us() + int((drain_s + SETTLE_S) * 1e6)

        def left_s() -> float:
            return max(0.1, (until_us - self._clock.monotonic_us()) / 1e6)

        self.consumer.stop(left_s())
        for claim in self.pool.take_back():
            self.settler.put(given_back(claim), urgent=True)
        if not self.desk.wait_until_empty(drain_s):
            self._give_up()
        self.watchman.stop(left_s())
        self.pool.stop()
        self.settler.stop(left_s())
        for settlement in [] if self.settler.alive else self.settler.drain(left_s()):
            log.error("The end of job %s was not settled; it will be run again.", show_id(settlement.id))
        self.janitor.stop(left_s())
        self.heartbeat.stop(left_s())
        stuck = [service.name for service in self.services if service.alive]
        try:
            if stuck:
                log.error("The store does not answer; left behind: %s.", ", ".join(stuck))
            else:
                self.heartbeat.leave()
        except StoreError as error:
            log.warning("The worker's card could not be taken away: %s", error)
        for hook in self._app.stoppers:
            try:
                self._call(hook)
            except Exception:
                log.exception("on_stop: %s failed.", getattr(hook, "__qualname__", hook))
        self._close_resources()

    def _give_up(self) -> None:
        """The drain is over: what still runs goes back to the store; its end comes too late to count.

        One whose end lies with the settler goes there twice; the store takes the first, which is its end.
        """
        for claim in list(self.desk.open.values()):
            if claim.id in self.desk.running:
                log.warning("The job %s still runs; it goes back to the store.", show_id(claim.id))
            self.settler.put(given_back(claim), urgent=True)

    def _call(self, hook: Callable[[], Any]) -> None:
        made = hook()
        if inspect.isawaitable(made):
            if self._loop is None:
                raise WrongPool(f"{hook.__qualname__} is async, and the pool has no loop.", "Use pool='auto'.")
            self._loop.run(made)

    def _close_resources(self) -> None:
        try:
            self._resources.close()
        except Exception:
            log.exception("A resource failed to close.")
        if self._loop is not None:
            self._loop.stop()


_at_exit: set[Worker] = set()
"""Workers that run: kept here, for a program need not keep them."""


def _stop_all() -> None:
    """At the end of the process, while threads can still be started: what runs may need some."""
    for worker in list(_at_exit):
        worker.stop()


# After that of concurrent.futures, and so run before it: from then on nobody can start a thread of a pool.
assert ThreadPoolExecutor
threading._register_atexit(_stop_all)  # type: ignore[attr-defined]


def _checked(app: App, slots: object, pool: object) -> None:
    if type(slots) is not int or not 1 <= slots <= 10_000:
        raise BadValue(f"A worker cannot have {slots!r} slots.", "Give a whole number from 1 to 10,000.")
    if pool not in KINDS:
        meant = near_miss(str(pool), KINDS)
        hint = f"Did you mean {meant!r}? " if meant else ""
        raise BadValue(f"There is no pool {pool!r}.", f"{hint}Use one of: {', '.join(KINDS)}.")
    wrong = [task.name for task in app.tasks.values() if task.is_async != (pool == "aio")] if pool != "auto" else []
    if wrong:
        kind = "is no coroutine function" if pool == "aio" else "is a coroutine function"
        raise WrongPool(f"The task {wrong[0]} {kind}, which the pool {pool} cannot run.", "Use pool='auto'.")


def _those_it_can_run(app: App, *, threads: bool, coroutines: bool) -> tuple[str, ...]:
    """A job of another task waits for a worker that can run it."""
    return tuple(sorted(name for name, task in app.tasks.items() if (coroutines if task.is_async else threads)))


def _kinds(app: App, kind: Kind) -> tuple[bool, bool]:
    """Whether threads and whether a loop are needed."""
    if kind != "auto":
        return kind != "aio", kind == "aio"
    coroutines = any(task.is_async for task in app.tasks.values())
    return not coroutines or any(not task.is_async for task in app.tasks.values()), coroutines


def _wants_a_loop(app: App, kind: Kind) -> bool:
    if kind not in {"auto", "aio"}:
        return False
    hooks = [*app.starters, *app.stoppers, *(app.resources.maker(made) for made in app.resources)]
    return any(inspect.iscoroutinefunction(hook) or inspect.isasyncgenfunction(hook) for hook in hooks)
