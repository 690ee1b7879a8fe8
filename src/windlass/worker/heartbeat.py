"""The heartbeat: one renewal for the whole worker, and what the store has to say to it.

Between beats it sleeps in the store's wait for orders, so a cancel reaches a running task at once. If the store says
that the card is gone (the worker was taken for dead, or the store emptied), it takes a new id: what still runs settles
under its old fences, which the store accepts or calls stale.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import suppress

import msgspec

from windlass.core.clock import Clock
from windlass.core.commands import Do, decode_command
from windlass.core.errors import StoreError
from windlass.core.events import Bus, Renewed
from windlass.core.ids import JobId, WorkerId, new_id
from windlass.core.info import Info, encode_info
from windlass.engines.protocol import Beat, Card, Delta, Engine, Hint, Interest
from windlass.worker.bellman import Bellman
from windlass.worker.lease import Lease
from windlass.worker.service import Service, log
from windlass.worker.staff import Staff


class Heartbeat(Service):
    """A worker's sign of life."""

    name = "heartbeat"

    def __init__(
        self,
        clock: Clock,
        engine: Engine,
        bus: Bus,
        staff: Staff,
        lease: Lease,
        bellman: Bellman,
        *,
        name: str,
        queues: tuple[str, ...] | None,
        info: Callable[[], Info],
        beat_s: float,
        lease_s: float,
    ) -> None:
        super().__init__(clock)
        self._engine = engine
        self._bus = bus
        self._staff = staff
        self._lease = lease
        self._bellman = bellman
        self._info = info
        self._beat_s = beat_s
        self.worker: WorkerId = new_id()
        self._card = Card(
            worker=self.worker,
            name=name,
            host=platform.node(),
            pid=os.getpid(),
            queues=queues,
            tasks=staff.tasks(),
            lease_us=int(lease_s * 1e6),
        )
        self._number = 0
        self._deltas: tuple[Delta, ...] = ()
        self.take_counts: Callable[[], tuple[Delta, ...]] = tuple
        self.on_new_id: Callable[[], None] = lambda: None
        """Called when the store has taken the old id's jobs away."""
        self.on_cancel: Callable[[JobId], None] = lambda _job: None
        """Called for each job that somebody wants to end."""
        self.on_command: Callable[[Do], None] = lambda _do: None
        """Called for each order of somebody, once."""
        self._obeyed = ""
        self.on_claims: Callable[[WorkerId, int], None] = lambda _worker, _claims: None
        """Called with the number of claims that the store says we hold."""

    def announce(self) -> None:
        """The first beat: from now on the worker may claim."""
        self._renew(0)

    def tick(self, now_us: int) -> float | None:
        self._renew(now_us)
        return self._beat_s

    def rest(self, pause_s: float | None) -> None:
        """Until the next beat, or until the store has an order for us."""
        with suppress(StoreError):
            self._engine.listen(Interest(worker=self.worker), pause_s or self._beat_s)
            return
        super().rest(pause_s)

    def rouse(self) -> None:
        self.wake()
        self._bellman.ring(self.worker)

    def _renew(self, now_us: int) -> None:
        if not self._deltas and self._number:
            self._deltas = self.take_counts()
        # Tasks may have been defined since the start, in a notebook for one.
        card = msgspec.structs.replace(
            self._card, tasks=self._staff.tasks(), slots=self._staff.slots, info=encode_info(self._info())
        )
        sent_us = self._clock.monotonic_us()
        orders = self._engine.renew(Beat(card=card, beat=self._number, deltas=self._deltas))
        if orders.gone:
            self._start_anew()
            return
        self._lease.renewed(sent_us)
        self._number += 1
        self._deltas = ()
        if card.tasks != self._card.tasks:
            self._card = msgspec.structs.replace(self._card, tasks=card.tasks)
            # Jobs of a new task may wait already, and our own consumer may sleep.
            self._engine.signal([Hint(kind="order", id=self.worker)])
        for job_id in orders.cancel:
            self.on_cancel(job_id)
        self._obey(orders.command)
        self.on_claims(self.worker, orders.claims)
        if self._bus.wanted(Renewed):
            took_us = self._clock.monotonic_us() - now_us if now_us else 0
            self._bus.publish(
                Renewed(at_us=self._clock.now_us(), worker=self.worker, claims=orders.claims, took_us=took_us)
            )

    def _obey(self, said: bytes | None) -> None:
        """An order is handed over with every beat until it expires, and done once."""
        command = None if said is None else decode_command(said)
        if command is not None and command.token != self._obeyed:
            self._obeyed = command.token
            self.on_command(command.do)

    def _start_anew(self) -> None:
        log.warning("This worker was taken for dead, or its store was emptied; it goes on under a new id.")
        self.worker = new_id()
        self._card = msgspec.structs.replace(self._card, worker=self.worker)
        self._number = 0
        self.on_new_id()
        self._renew(0)

    def leave(self) -> None:
        """The last beat: the card goes."""
        deltas = self._deltas or self.take_counts()
        self._engine.renew(Beat(card=self._card, beat=self._number, deltas=deltas, bye=True))
