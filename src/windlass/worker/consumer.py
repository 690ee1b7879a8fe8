"""The consumer: asks the store for work, about 50 ms of it for each slot, and sleeps when there is none.

    room in the slots? ── no ──► sleeps until one is free
          │ yes
    claim ── some ──► to the pool, and at once the next question
          └─ none ──► sleeps in the store's own wait, until there is work or something comes due

A *suspect* (a job during which workers died) runs alone: it is asked for now and then, the others are let finish first,
and its start is written before it starts, so that another death has one possible cause.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from windlass.core.clock import Clock
from windlass.core.errors import StoreError
from windlass.core.events import Bus, Claimed
from windlass.core.ids import WorkerId
from windlass.engines.protocol import BATCH, Claim, Engine, Hint, Interest, Note, Order, Settlement
from windlass.engines.protocol import Verdict as Answer
from windlass.worker.desk import Desk
from windlass.worker.executor import given_back
from windlass.worker.pools.pool import Pool
from windlass.worker.service import Service
from windlass.worker.settler import MOST_UNSETTLED, Settler

LOOK_S = 30.0
SUSPECTS_US = 1_000_000
BACK_OFF_US = 1_000_000
"""How long claims that had to be given back are left to others, unless a slot becomes free before."""


class Consumer(Service):
    """From the store to the slots."""

    name = "consumer"

    def __init__(
        self,
        clock: Clock,
        engine: Engine,
        desk: Desk,
        settler: Settler,
        bus: Bus,
        worker: Callable[[], WorkerId],
        queues: tuple[str, ...] | None,
    ) -> None:
        super().__init__(clock)
        self._engine = engine
        self._desk = desk
        self._settler = settler
        self._bus = bus
        self._worker = worker
        self._queues = queues
        self.pool: Pool | None = None
        self.ticket = 0
        self._listen_s: float | None = None
        self._suspects_at_us = 0
        self._not_before_us = 0
        self.on_claims: Callable[[], None] = lambda: None
        """Called for each batch: there is something to look after."""

    # ── one step ────────────────────────────────────────────────────────────────────────────────────────

    def tick(self, now_us: int) -> float | None:
        self._listen_s = None
        pool = self.pool
        assert pool is not None
        if now_us >= self._suspects_at_us:
            self._suspects_at_us = now_us + SUSPECTS_US
            if self._run_suspect(pool):
                return 0
        if self._settler.unsettled > MOST_UNSETTLED:
            return None
        if now_us < self._not_before_us:
            return (self._not_before_us - now_us) / 1e6
        room = self._desk.appetite() - pool.waiting() - len(self._desk.running)
        if room <= 0:
            return None
        claims, wait_us = self._claim(min(room, BATCH), suspects=False)
        if claims:
            pool.put(claims)
            return 0
        self._listen_s = LOOK_S if wait_us is None else min(LOOK_S, wait_us / 1e6)
        return self._listen_s

    def _claim(self, limit: int, *, suspects: bool) -> tuple[tuple[Claim, ...], int | None]:
        order = Order(
            worker=self._worker(), ticket=self.ticket + 1, limit=limit, queues=self._queues, suspects=suspects
        )
        found = self._engine.claim(order)
        if found.claims:
            self.ticket += 1
            self._desk.take_in(found.claims)
            self.on_claims()
            if self._bus.wanted(Claimed):
                self._tell(found.claims)
        return found.claims, found.wait_us

    def _tell(self, claims: tuple[Claim, ...]) -> None:
        now_us = self._clock.now_us()
        for claim in claims:
            self._bus.publish(
                Claimed(
                    at_us=now_us,
                    job=claim.id,
                    task=claim.task,
                    queue=claim.queue,
                    worker=self._worker(),
                    fence=claim.fence,
                    waited_us=max(0, now_us - claim.due_us),
                )
            )

    # ── suspects ────────────────────────────────────────────────────────────────────────────────────────

    def _run_suspect(self, pool: Pool) -> bool:
        """Runs one suspect with nothing beside it; False if there is none."""
        claims, _ = self._claim(1, suspects=True)
        if not claims:
            return False
        (suspect,) = claims
        while not self.stopping and len(self._desk.open) > 1:
            self._bell.wait(0.01)
            self._bell.clear()
        if self.stopping:
            self._settler.put(given_back(suspect), urgent=True)
            return True
        (answer,) = self._engine.note([Note(id=suspect.id, fence=suspect.fence, kind="start")])
        if answer is Answer.STALE:
            self._desk.let_go(suspect.id)
            return True
        pool.put(claims)
        while not self.stopping and suspect.id in self._desk.open:
            self._bell.wait(0.05)
            self._bell.clear()
        return True

    # ── sleeping ────────────────────────────────────────────────────────────────────────────────────────

    def rest(self, pause_s: float | None) -> None:
        if self._listen_s is None or pause_s is None:
            super().rest(pause_s)
            return
        interest = Interest(queues=self._queues, worker=self._worker())
        with suppress(StoreError):
            self._engine.listen(interest, pause_s)

    def rouse(self) -> None:
        self.wake()
        # It may sleep in the store's wait: an order to its worker wakes it there.
        with suppress(StoreError):
            self._engine.signal([Hint(kind="order", id=self._worker())])

    def hungry(self) -> None:
        """A slot is free."""
        self._not_before_us = 0
        self.wake()

    def give_back(self) -> list[Settlement]:
        """Claims that found no slot in time go back, at their old rank: others may have one free."""
        assert self.pool is not None
        back = [given_back(claim) for claim in self.pool.take_back()]
        if back:
            self._not_before_us = self._clock.monotonic_us() + BACK_OFF_US
            for settlement in back:
                self._settler.put(settlement, urgent=True)
        return back
