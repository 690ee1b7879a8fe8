"""The loops of one started worker, and the order in which they start and stop.

start   resources, on_start, the pool, the card, then the loops: settler before consumer, receivers before senders
stop    consumer first (nothing new comes in), what has not started goes back, what runs may end within `drain`,
        then its claims go back too; settler, card and loops follow, on_stop and resources last
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from windlass.app.app import App
from windlass.app.resources import Opened
from windlass.core.clock import Clock
from windlass.core.errors import StoreError, WrongPool
from windlass.core.gates import read_gate
from windlass.core.ids import show_id
from windlass.core.job import State
from windlass.core.plural import agreeing, number_of
from windlass.core.redact import redact_url
from windlass.engines.protocol import Claim, Settlement, TallyQuery
from windlass.worker.consumer import Consumer
from windlass.worker.desk import Desk
from windlass.worker.executor import Executor, given_back
from windlass.worker.heartbeat import Heartbeat
from windlass.worker.janitor import Janitor
from windlass.worker.kind import Kind
from windlass.worker.pools.pool import Pool
from windlass.worker.pools.threads import ThreadPool
from windlass.worker.service import Service, log
from windlass.worker.settler import Settler
from windlass.worker.stocktaking import Stocktaking
from windlass.worker.watchman import Watchman

if TYPE_CHECKING:
    from windlass.worker.pools.aio import AioPool, Loop

WITH_A_LOOP: tuple[Kind, ...] = ("auto", "aio")
SETTLE_S = 5.0
"""How long, past the drain, the last settlements are tried."""


class Crew:
    """The loops of one started worker."""

    def __init__(
        self, app: App, kind: Kind, slots: int, queues: tuple[str, ...] | None, name: str, clock: Clock
    ) -> None:
        self._app = app
        self._clock = clock
        self.pid = os.getpid()
        engine, settings = app.engine, app.settings
        self._kind = kind
        self._name = name
        self._queues = queues
        self._loop: Loop | None = None
        self._making = threading.Lock()
        self.stopping = False
        self._ending = threading.Lock()
        self._ended: bool | None = None
        self._told: set[str] = set()
        self._resources = Opened(app.resources, self._await if kind in WITH_A_LOOP else None)
        self.desk = Desk()
        self.heartbeat = Heartbeat(
            clock,
            engine,
            self.desk,
            app.bus,
            name=name,
            queues=queues,
            tasks=self._tasks,
            slots=lambda: self.pool.slots,
            pool=kind,
            beat_s=settings.beat_s,
            lease_s=settings.lease_s,
        )
        self.settler = Settler(clock, engine, self.desk, self._worker, app.stack, app.bus, app.limits)
        self.consumer = Consumer(clock, engine, self.desk, self.settler, app.bus, self._worker, queues)
        self.janitor = Janitor(clock, engine, app.bus, self._worker, settings.sweep_s)
        self.watchman = Watchman(clock, self.desk, self.consumer, self.settler)
        self.executor = Executor(app, self._resources, self.settler.write, self._worker, alone=slots == 1)
        self.pool = self._make_pool(slots)
        self.consumer.pool = self.pool
        self.consumer.on_claims = self.watchman.wake
        self.settler.on_settled = self.consumer.wake
        self.heartbeat.take_counts = self.settler.take_counts
        self.heartbeat.on_new_id = self._drop_what_waits
        self.heartbeat.on_claims = Stocktaking(
            clock, engine, self.desk, self.settler, lambda: self.consumer.asking, settings.beat_s
        ).compare

    def _worker(self) -> bytes:
        return self.heartbeat.worker

    def _tasks(self) -> tuple[str, ...]:
        """Those it can run. A job of another task waits for a worker that can."""
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
        parts = (slots, self.desk, self.executor, self.settle, self._clock, self.consumer.hungry)
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

    def has_nothing_to_do(self) -> bool:
        """Whether it holds nothing, and no job waits that it could run now; what is due later does not count."""
        ticket = self.consumer.ticket
        try:
            waits = bool(self._queues_with_work())
        except StoreError:
            return False  # not known now
        # Looked at last: what was claimed meanwhile was not counted as waiting.
        return not waits and not self.desk.open and not self.consumer.asking and ticket == self.consumer.ticket

    def _queues_with_work(self) -> list[str]:
        """Queues with ready jobs that it could run: it takes the queue, knows the task, and nobody paused it."""
        tasks, engine = set(self._tasks()), self._app.engine
        queues = sorted(
            {
                count.queue
                for count in engine.tally(TallyQuery()).counts
                if count.n and count.state is State.READY and count.task in tasks
                if self._queues is None or count.queue in self._queues
            }
        )
        rules = engine.read([f"queue/{queue}" for queue in queues]) if queues else []
        return [
            queue for queue, rule in zip(queues, rules, strict=True) if rule is None or not read_gate(rule.value).paused
        ]

    # ── start and stop ──────────────────────────────────────────────────────────────────────────────────

    @property
    def services(self) -> tuple[Service, ...]:
        """In the order of starting: whoever receives is there before whoever sends."""
        return (self.settler, self.heartbeat, self.watchman, self.janitor, self.consumer)

    def start(self) -> None:
        try:
            self._resources.open_all()
            for hook in self._app.starters:
                self._call(hook)
            self.pool.start()
            self.heartbeat.announce()
        except BaseException:
            self.pool.stop()
            self._close_resources()
            raise
        try:
            for service in self.services:
                service.start()
        except BaseException:  # no further thread can be started
            self.stop(0)
            raise
        log.info(
            "Worker %s has started: pool %s, %s, %s, %s, %s.",
            self._name,
            self._kind,
            number_of(self.pool.slots, "slot"),
            number_of(len(self._tasks()), "task"),
            "all queues" if self._queues is None else f"queues {', '.join(self._queues)}",
            redact_url(self._app.settings.url),
        )

    def stop(self, drain_s: float) -> bool:
        """Whether everything had ended within the drain. A second call waits for the first, and says the same.

        It never takes much longer than the drain, even if the store does not answer: its threads are daemons.
        """
        if not self.stopping:
            self.stopping = True
            running = len(self.desk.running)
            still = f"{number_of(running, 'task')} {agreeing(running)} running"
            log.info("Worker %s is asked to stop; %s.", self._name, still)
        with self._ending:
            if self._ended is None:
                self._ended = self._stop(drain_s)
            return self._ended

    def _stop(self, drain_s: float) -> bool:
        until_us = self._clock.monotonic_us() + int((drain_s + SETTLE_S) * 1e6)

        def left_s() -> float:
            return max(0.1, (until_us - self._clock.monotonic_us()) / 1e6)

        self.consumer.stop(left_s())
        for claim in self.pool.take_back():
            self.settler.put(given_back(claim), urgent=True)
        in_time = self.desk.wait_until_empty(drain_s)
        if not in_time:
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
        log.info("Worker %s has stopped.", self._name)
        return in_time

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
        if inspect.iscoroutine(made):
            if self._kind not in WITH_A_LOOP:
                made.close()
                raise WrongPool(f"{hook.__qualname__} is async, and the pool has no loop.", "Use pool='auto'.")
            self._await(made)

    def _close_resources(self) -> None:
        try:
            self._resources.close()
        except Exception:
            log.exception("A resource failed to close.")
        if self._loop is not None:
            self._loop.stop()
