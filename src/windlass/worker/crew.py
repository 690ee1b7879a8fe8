"""The office of one started worker, its loops, and the order in which they start and stop.

start   the staff, the card, then the loops: settler before consumer, receivers before senders
stop    consumer first (nothing new comes in), what has not started goes back, what runs may end within `drain`,
        then its claims go back too; settler, card and loops follow, and last what the staff has to close
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Container, Mapping, Sequence

from windlass import __version__
from windlass.core.clock import Clock
from windlass.core.commands import Do
from windlass.core.errors import StoreError
from windlass.core.events import Bus
from windlass.core.gates import fits, read_gate
from windlass.core.ids import JobId, WorkerId, show_id
from windlass.core.info import Info
from windlass.core.job import State
from windlass.core.plural import agreeing, number_of
from windlass.core.redact import redact_url
from windlass.core.settings import Settings
from windlass.engines.protocol import Claim, Engine, Note, Query, Settlement, TallyQuery, Verdict
from windlass.worker.bellman import Bellman
from windlass.worker.budget import Budget
from windlass.worker.consumer import Consumer
from windlass.worker.desk import Desk
from windlass.worker.executor import given_back
from windlass.worker.heartbeat import Heartbeat
from windlass.worker.janitor import Janitor
from windlass.worker.kind import Kind
from windlass.worker.lease import Lease
from windlass.worker.outage import Outage
from windlass.worker.service import Service, log
from windlass.worker.settler import Settler
from windlass.worker.staff import End, Office, Staff
from windlass.worker.stocktaking import Stocktaking
from windlass.worker.watchdog import Watchdog

SETTLE_S = 5.0
"""How long, past the drain, the last settlements are tried."""


class Crew:
    """The loops of one started worker. It knows the store and no task: those are with its staff."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        bus: Bus,
        clock: Clock,
        make_staff: Callable[[Office], Staff],
        *,
        kind: Kind,
        queues: tuple[str, ...] | None,
        name: str,
        resources: Mapping[str, int],
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._clock = clock
        self.pid = os.getpid()
        self._kind: Kind = kind
        self._name = name
        self._queues = queues
        self.stopping = False
        self.draining = False
        self.on_asked: Callable[[Do], None] = lambda _do: None
        """Called when somebody who reaches the store wants it to drain or to stop."""
        self._ending = threading.Lock()
        self._ended: bool | None = None
        self.desk = Desk()
        self.page = None
        self._budget = Budget(resources)
        self.lease = Lease(int(settings.lease_s * 1e6) if engine.capabilities.death == "lease" else None)
        self.settler = Settler(clock, engine, self.desk, self.worker, bus, settings.limits)
        self.bellman = Bellman(clock, engine)
        self.consumer = Consumer(
            clock, engine, self.desk, self.settler, bus, self.worker, queues, self.lease, self._budget, self.bellman
        )
        self.janitor = Janitor(clock, engine, bus, self.worker, settings.sweep_s)
        self.staff = make_staff(self)
        self.watchdog = Watchdog(clock, engine, self.consumer, self._could_work)
        self.heartbeat = Heartbeat(
            clock,
            engine,
            bus,
            self.staff,
            self.lease,
            self.bellman,
            name=name,
            queues=queues,
            info=self._info,
            beat_s=settings.beat_s,
            lease_s=settings.lease_s,
        )
        outage = Outage()
        for service in self.services:
            service.outage = outage
        self.consumer.staff = self.staff
        self.consumer.on_lapse = self.heartbeat.rouse
        self.settler.on_settled = self.consumer.hungry
        self.settler.on_answer = self._answered
        self.lease.on_change = self.staff.cut_at
        self.heartbeat.take_counts = self.settler.take_counts
        self.heartbeat.on_cancel = self._cancel
        self.heartbeat.on_command = self._obey
        self.heartbeat.on_new_id = self._drop_what_waits
        self.heartbeat.on_claims = Stocktaking(
            clock, engine, self.desk, self.settler, lambda: self.consumer.asking, self.staff.running, settings.beat_s
        ).compare

    def _info(self) -> Info:
        return Info(
            pool=self._kind,
            version=__version__,
            beat_us=self._clock.now_us(),
            state="stopping" if self.stopping else "draining" if self.draining else "",
            stuck=self.staff.stuck(),
            resources=self._budget.totals,
            free=self._budget.free(list(self.desk.open.values())),
            processes=self.staff.processes(),
        )

    # ── what the staff asks for ─────────────────────────────────────────────────────────────────────────

    def worker(self) -> WorkerId:
        return self.heartbeat.worker

    def settle(self, ends: Sequence[End]) -> None:
        """They are urgent where somebody waits for one of them."""
        waited_for = any(claim.lane is not None or claim.flow is not None for _, claim in ends)
        self.settler.put([end for end, _ in ends], urgent=waited_for or not self.staff.has_waiting())

    def give_back(self, claims: Sequence[Claim]) -> None:
        self.settler.put([given_back(claim) for claim in claims], urgent=True)

    def note(self, note: Note) -> None:
        self.settler.note(note)

    def overran(self, claim: Claim) -> None:
        self.settler.count(claim.queue, claim.task, "overrun")

    def is_cut(self, now_us: int) -> bool:
        return self.lease.is_cut(now_us)

    def hungry(self) -> None:
        self.consumer.hungry()

    def expect_a_suspect(self) -> None:
        self.consumer.expect_a_suspect()

    def _answered(self, settlement: Settlement, verdict: Verdict) -> None:
        self.staff.answered(settlement, verdict)
        if settlement.transition.suspect and self.staff.apart is not None:
            self.expect_a_suspect()

    # ── what the store says ─────────────────────────────────────────────────────────────────────────────

    def _cancel(self, job_id: JobId) -> None:
        self.desk.cancel(job_id)
        self.staff.cancel(job_id)

    def _obey(self, do: Do) -> None:
        if do == "restart":
            log.info("Worker %s is asked for fresh processes.", self._name)
            self.staff.restart()
        elif do in ("drain", "stop"):
            if do == "drain":  # a stop says so itself
                log.info("Worker %s is asked to drain.", self._name)
            self.on_asked(do)

    def _drop_what_waits(self) -> None:
        """The claims of the old id are others' now; those that have not started here must not start."""
        for claim in self.staff.take_back():
            self.desk.let_go(claim.id)

    # ── whether anything is left to do ──────────────────────────────────────────────────────────────────

    def runs(self, job_id: JobId) -> bool:
        return job_id in self.staff.running()

    def has_nothing_to_do(self) -> bool:
        """Whether it holds nothing, and no job waits that it could run now; what is due later does not count."""
        ticket = self.consumer.ticket
        try:
            waits = bool(self._queues_with_work())
        except StoreError:
            return False  # not known now
        # Looked at last: what was claimed meanwhile was not counted as waiting.
        return not waits and not self.desk.open and not self.consumer.asking and ticket == self.consumer.ticket

    def _could_work(self) -> bool:
        """Whether slots are free, and jobs wait for them."""
        return bool(self.staff.wishes()) and bool(self._queues_with_work())

    def _queues_with_work(self) -> list[str]:
        """Queues that it takes and nobody paused, with ready jobs that it knows and is large enough for."""
        tasks, engine = set(self.staff.tasks()), self._engine
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
            queue
            for queue, rule in zip(queues, rules, strict=True)
            if rule is None or not read_gate(rule.value).paused
            if self._has_some_that_fits(queue, tasks)
        ]

    def _has_some_that_fits(self, queue: str, tasks: Container[str]) -> bool:
        """Whether one of its ready jobs is not too big for this worker."""
        cursor = None
        while True:
            page = self._engine.search(Query(state=State.READY, queue=queue, cursor=cursor))
            if any(job.request.task in tasks and fits(job.request.needs, self._budget.totals) for job in page.jobs):
                return True
            cursor = page.cursor
            if cursor is None:
                return False

    # ── start and stop ──────────────────────────────────────────────────────────────────────────────────

    @property
    def services(self) -> tuple[Service, ...]:
        """In the order of starting: whoever receives is there before whoever sends."""
        watchdog = (self.watchdog,) if self._engine.capabilities.processes else ()
        return (self.bellman, self.settler, self.heartbeat, self.janitor, self.consumer, *watchdog)

    def start(self) -> None:
        self.staff.start()
        try:
            self.heartbeat.announce()
        except BaseException:
            self.staff.stop(SETTLE_S)
            self.staff.close()
            raise
        log.info(  # before its first job says anything
            "Worker %s has started: pool %s, %s, %s, %s, %s.",
            self._name,
            self._kind,
            number_of(self.staff.slots, "slot"),
            number_of(len(self.staff.tasks()), "task"),
            "all queues" if self._queues is None else f"queues {', '.join(self._queues)}",
            redact_url(self._settings.url),
        )
        try:
            for service in self.services:
                service.start()
        except BaseException:  # no further thread can be started
            self.stop(0)
            raise

    def drain(self) -> None:
        """Takes no more jobs; what runs may end, however long it takes."""
        self.draining = True
        self.consumer.stop(SETTLE_S)
        self.give_back(self.staff.take_back())
        self.heartbeat.rouse()  # others learn of it now

    def stop(self, drain_s: float) -> bool:
        """Whether everything had ended within the drain. A second call waits for the first, and says the same.

        It never takes much longer than the drain, even if the store does not answer: its threads are daemons.
        """
        if not self.stopping:
            self.stopping = True
            running = len(self.staff.running())
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

        self.consumer.stop(SETTLE_S)
        self.give_back(self.staff.take_back())
        in_time = self.desk.wait_until_empty(drain_s)
        if not in_time:
            self._tell_of_those_that_run()  # before the staff ends: its claims go back with it
        self.staff.stop(left_s())
        if not in_time:
            self._give_up()
        self.settler.stop(left_s())
        for settlement in [] if self.settler.alive else self.settler.drain(left_s()):
            log.error("The end of job %s was not settled; it will be run again.", show_id(settlement.id))
        self.watchdog.stop(left_s())
        self.janitor.stop(left_s())
        self.heartbeat.stop(left_s())
        self.bellman.stop(left_s())
        stuck = [service.name for service in self.services if service.alive]
        try:
            if stuck:
                log.error("The store does not answer; left behind: %s.", ", ".join(stuck))
            else:
                self.heartbeat.leave()
        except StoreError as error:
            log.warning("The worker's card could not be taken away: %s", error)
        self.staff.close()
        log.info("Worker %s has stopped.", self._name)
        return in_time

    def _tell_of_those_that_run(self) -> None:
        running = self.staff.running()
        for claim in list(self.desk.open.values()):
            if claim.id in running:
                log.warning("The job %s still runs; it goes back to the store.", show_id(claim.id))

    def _give_up(self) -> None:
        """The drain is over: what still runs goes back to the store; its end comes too late to count.

        One whose end lies with the settler goes there twice; the store takes the first, which is its end.
        """
        self.settler.put([given_back(claim) for claim in list(self.desk.open.values())], urgent=True)
