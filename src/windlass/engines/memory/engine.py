"""The memory engine: the rules of a store in plain Python, under one lock, for one process.

It is the definition that other engines are compared with (testing/conformance), and a good engine for tests
and for work that may be lost with the process. Engines opened by the same name in one process share a store.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from windlass.core.clock import Clock, SystemClock
from windlass.core.errors import StoreClosed
from windlass.core.ids import JobId
from windlass.core.intake import check_jobs
from windlass.core.job import Job
from windlass.core.limits import Limits
from windlass.engines.checks import (
    check_amendment,
    check_beat,
    check_ids,
    check_notes,
    check_order,
    check_puts,
    check_query,
    check_settlements,
)
from windlass.engines.looked import Looked
from windlass.engines.memory import claim, facts, renew, search, settle, sweep
from windlass.engines.memory.admission import Admission
from windlass.engines.memory.listen import Switchboard
from windlass.engines.memory.store import Store
from windlass.engines.protocol import (
    ALL_PARTS,
    BATCH,
    Amended,
    Amendment,
    Beat,
    Bucket,
    Capabilities,
    Claims,
    Count,
    Fact,
    Hint,
    Interest,
    Note,
    Opened,
    Order,
    Orders,
    Page,
    Part,
    Put,
    Query,
    Receipt,
    Settlement,
    Sweep,
    Swept,
    Tally,
    TallyQuery,
    Verdict,
    Written,
)

log = logging.getLogger(__name__)

SCHEMA = 1
CLOCK_BEHIND_US = 60_000_000


class Room:
    """One named store with its lock and its listeners, shared by all engines of that name in the process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.store = Store()
        self.switchboard = Switchboard(self.lock)
        self.users = 0
        self.told_behind = False


_rooms: dict[str, Room] = {}
_rooms_lock = threading.Lock()


class MemoryEngine:
    """Jobs that live with the process."""

    capabilities = Capabilities(name="memory", settle="atomic", death="lease", durable="process", processes=False)

    def __init__(self, name: str = "", limits: Limits | None = None) -> None:
        self._name = name
        self._limits = limits or Limits()
        self._clock: Clock = SystemClock()
        self._room: Room | None = None
        self._looked = Looked()

    def open(self) -> Opened:
        with _rooms_lock:
            if self._room is None:
                room = _rooms.setdefault(self._name, Room()) if self._name else Room()
                room.users += 1
                self._room = room
        return Opened(schema=SCHEMA)

    def close(self) -> None:
        with _rooms_lock:
            room, self._room = self._room, None
            if room is None:
                return
            room.users -= 1
            if not room.users:
                _rooms.pop(self._name, None)
        with room.lock:
            room.switchboard.close(self)

    @contextmanager
    def _step(self) -> Generator[tuple[Admission, int]]:
        """One atomic step at one instant; whoever waits for what it brought is rung at its end."""
        room = self._opened()
        with room.lock:
            now_us = self._clock.now_us()
            if room.store.order - now_us > CLOCK_BEHIND_US and not room.told_behind:
                room.told_behind = True
                log.warning("The clock is %.0f s behind the store's own count.", (room.store.order - now_us) / 1e6)
            admission = Admission(room.store, self._limits)
            yield admission, now_us
            room.switchboard.signal(admission.hints())

    def _opened(self) -> Room:
        if self._room is None:
            raise StoreClosed("The memory engine is not open.", "Call open() first.")
        return self._room

    # ── jobs ────────────────────────────────────────────────────────────────────────────────────────────

    def insert(self, jobs: Sequence[Job], /) -> list[Receipt]:
        check_jobs(jobs, self._limits)
        with self._step() as (admission, now_us):
            admission.check_parents(jobs)
            return [admission.insert(job, now_us) for job in jobs]

    def claim(self, order: Order, /) -> Claims:
        check_order(order)
        with self._step() as (admission, now_us):
            claims = claim.claim(admission, order, now_us)
            if not order.suspects:
                # Who looked for suspects has seen none of the others: listening must not take them for seen.
                self._looked.claimed(order.worker, admission.store.version)
            return claims

    def settle(self, settlements: Sequence[Settlement], /) -> list[Verdict]:
        check_settlements(settlements, self._limits)
        follow_ups = [job for settlement in settlements for job in settlement.follow_ups]
        with self._step() as (admission, now_us):
            admission.check_parents(follow_ups)
            return settle.settle(admission, settlements, now_us)

    def renew(self, beat: Beat, /) -> Orders:
        check_beat(beat)
        with self._step() as (admission, now_us):
            orders = renew.renew(admission.store, beat, now_us)
        if orders.gone or beat.bye:
            self._looked.forget(beat.card.worker)
        return orders

    def note(self, notes: Sequence[Note], /) -> list[Verdict]:
        check_notes(notes, self._limits)
        with self._step() as (admission, now_us):
            return settle.note(admission, notes, now_us)

    def sweep(self, sweep_: Sweep, /) -> Swept:
        with self._step() as (admission, now_us):
            return sweep.sweep(admission, sweep_, now_us)

    # ── looking and steering ────────────────────────────────────────────────────────────────────────────

    def fetch(
        self, ids: Sequence[JobId], /, parts: frozenset[Part] = ALL_PARTS, log_after: int = 0
    ) -> list[Job | None]:
        check_ids(ids)
        with self._step() as (admission, now_us):
            rows = [admission.store.rows.get(job_id) for job_id in ids]
            return [None if row is None else row.job(parts, log_after, now_us) for row in rows]

    def search(self, query: Query, /) -> Page:
        check_query(query)
        with self._step() as (admission, now_us):
            return search.search(admission.store, query, now_us)

    def amend(self, amendment: Amendment, /) -> Amended:
        check_amendment(amendment)
        with self._step() as (admission, now_us):
            return search.amend(admission, amendment, now_us)

    def tally(self, query: TallyQuery, /) -> Tally:
        with self._step() as (admission, _):
            store = admission.store
            counts = (
                Count(queue=queue, task=task, state=state, n=n) for (queue, task, state), n in store.counts.items()
            )
            buckets = (
                Bucket(start_us=start_us, queue=queue, task=task, name=name, n=n)
                for (span, start_us, queue, task, name), n in store.history.items()
                if span == query.span and start_us >= query.since_us
            )
            cards = tuple(desk.card for desk in store.desks.values() if not desk.lost)
            return Tally(counts=tuple(counts), buckets=tuple(buckets), cards=cards)

    # ── facts and hints ─────────────────────────────────────────────────────────────────────────────────

    def read(self, keys: Sequence[str], /) -> list[Fact | None]:
        with self._step() as (admission, now_us):
            return [facts.read(admission.store, key, now_us) for key in keys]

    def write(self, puts: Sequence[Put], /) -> list[Written]:
        check_puts(puts, self._limits)
        with self._step() as (admission, now_us):
            written = [facts.write(admission, put, now_us) for put in puts]
            admission.do_chores(now_us, BATCH)
            return written

    def listen(self, interest: Interest, timeout_s: float, /) -> list[Hint]:
        room = self._opened()
        with room.lock:
            return room.switchboard.listen(self, room.store, interest, self._looked.at(interest), timeout_s)

    def signal(self, hints: Sequence[Hint], /) -> None:
        room = self._opened()
        with room.lock:
            room.switchboard.signal(hints)
