"""The sqlite engine: jobs in a file, safe from kill -9 and power cuts, shared by all processes of one host.

An acknowledged write has been synced to the disk (WAL, synchronous=FULL). Writes are gathered into group commits
(`commit.py`) behind a lock that nothing in the process can take away (`gate.py`); reads go beside them (`readers.py`).
A worker is alive while it holds its lock (`owners.py`); sleepers are woken through FIFOs (`listen.py`).
"""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from windlass.core.clock import Clock, SystemClock
from windlass.core.errors import StoreClosed, StoreCorrupt, StoreError, StoreFull
from windlass.core.ids import JobId, WorkerId
from windlass.core.intake import check_jobs
from windlass.core.job import Job
from windlass.core.limits import MIB, Limits
from windlass.core.system import at_fork
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
from windlass.engines.findings import Finding
from windlass.engines.looked import Looked
from windlass.engines.protocol import (
    ALL_PARTS,
    BATCH,
    Amended,
    Amendment,
    Beat,
    Capabilities,
    Claims,
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
from windlass.engines.sqlite import backup, claim, connection, facts, fetch, insert, renew, search, settle, sweep, tally
from windlass.engines.sqlite.connection import Database
from windlass.engines.sqlite.examine import examine
from windlass.engines.sqlite.files import Paths, check_platform, network_file_system
from windlass.engines.sqlite.hands import Hands
from windlass.engines.sqlite.line import Operation
from windlass.engines.sqlite.listen import NET_S
from windlass.engines.sqlite.statements import SCHEMA, sql
from windlass.engines.sqlite.tx import Tx

log = logging.getLogger(__name__)

R = TypeVar("R")

CLOCK_BEHIND_US = 60_000_000
DISK_FLOOR = 32 * MIB
LOOK_AT_DISK_S = 0.1
"""How long a look at the free space counts: the reserve is there for what fills up in between."""
DISK_RESERVE = 4 * MIB


_graveyard: list[Hands] = []
"""What a forked child inherited: never used and never closed, because closing would act for the parent."""
_engines: weakref.WeakSet[SqliteEngine] = weakref.WeakSet()


class SqliteEngine:
    """Jobs in one file."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        limits: Limits | None = None,
        *,
        death: Literal["lock", "lease"] = "lock",
        disk_floor: int = DISK_FLOOR,
        disk_reserve: int = DISK_RESERVE,
    ) -> None:
        # Now and not at open: the process may work in another folder by then.
        self._path = Path(path).absolute()
        self.capabilities = Capabilities(
            name="sqlite",
            settle="atomic",
            death=death,
            durable="host",
            processes=True,
            locks=str(Paths(self._path).claims),
        )
        self._limits = limits or Limits()
        self._clock: Clock = SystemClock()
        self._disk_floor = disk_floor
        self._disk_reserve = disk_reserve
        self._hands: Hands | None = None
        self._reopen = False
        self._told_behind = False
        self._looked_at_disk_s = -1.0
        self._looked = Looked()
        _engines.add(self)

    # ── open, close ─────────────────────────────────────────────────────────────────────────────────────

    def open(self) -> Opened:
        if self._hands is not None:
            return Opened(schema=SCHEMA)
        check_platform()
        paths = Paths(self._path)
        notices = paths.prepare()
        hands = Hands(
            paths, lambda: self._clock, self._disk_reserve, lambda tx, jobs: insert.insert_plain(tx, jobs, self._limits)
        )
        unclean = True

        def enter() -> None:
            nonlocal unclean
            unclean = hands.presence.enter()
            hands.committer.open()
            if unclean:
                self._check(paths)
                notices.append(f"{paths.database} was not closed cleanly; its integrity check passed.")

        try:
            hands.gate.run(enter)
        except BaseException:
            hands.close(clean=not unclean)
            raise
        hands.reserve.keep(paths.free_bytes() - self._disk_floor)
        kind = network_file_system(paths.database)
        if kind is not None:
            notices.append(
                f"{paths.database} lies on a network file system ({kind}); SQLite is only safe on a local disk. "
                "Move the store, or use a server engine."
            )
        for notice in notices:
            log.warning("%s", notice)
        self._hands, self._reopen = hands, False
        return Opened(schema=SCHEMA, notices=tuple(notices))

    def _check(self, paths: Paths) -> None:
        """After an unclean end: the whole file is looked at before anybody writes to it."""
        found = connection.quick_check(paths)
        if found != ["ok"]:
            raise StoreCorrupt(
                f"{paths.database} fails its integrity check: {'; '.join(found)}.",
                "Stop all workers and restore a backup; keep the damaged file for study.",
            )

    def close(self) -> None:
        hands, self._hands = self._hands, None
        self._reopen = False
        if hands is not None:
            hands.close()

    @property
    def hands(self) -> Hands | None:
        """What the engine holds while it is open."""
        return self._hands

    def after_fork(self) -> None:
        """In a forked child: what the parent holds is let go unclosed; the next verb opens anew."""
        hands, self._hands = self._hands, None
        if hands is not None:
            hands.forget()
            _graveyard.append(hands)
            self._reopen = True
            self._looked = Looked()

    def _held(self) -> Hands:
        if self._hands is None:
            if not self._reopen:
                raise StoreClosed("The sqlite engine is not open.", "Call open() first.")
            self.open()
        assert self._hands is not None
        return self._hands

    def _write(self, work: Callable[[Tx], R], *, essential: bool = True, plain: Sequence[Job] | None = None) -> R:
        """One atomic step, on the disk when this returns; whoever waits for what it brought is rung."""
        hands = self._held()
        try:
            result = hands.committer.write(Operation(work, essential=essential, plain=plain))
        except StoreError:
            hands.readers.check_in_place()
            raise
        self._watch_clock(hands.committer.order)
        return result

    def _read(self, look: Callable[[Database], R]) -> R:
        hands = self._held()
        try:
            return hands.readers.read(look)
        except StoreError:
            hands.readers.check_in_place()
            raise

    def _watch_clock(self, order: int) -> None:
        behind_us = order - self._clock.now_us()
        if behind_us > CLOCK_BEHIND_US and not self._told_behind:
            self._told_behind = True
            log.warning("The clock is %.0f s behind the store's own count.", behind_us / 1e6)

    # ── jobs ────────────────────────────────────────────────────────────────────────────────────────────

    def insert(self, jobs: Sequence[Job], /) -> list[Receipt]:
        check_jobs(jobs, self._limits)
        self._check_room()
        if len(jobs) <= BATCH and all(map(insert.is_plain, jobs)):
            return self._insert_plain(jobs)
        receipts: list[Receipt] = []
        stand_ins: dict[JobId, JobId] = {}
        coming = frozenset(job.id for job in jobs)
        checked = len(jobs) > BATCH
        if checked:
            # Edges may point anywhere in the whole list, so they are looked at before its first part goes in.
            self._read(lambda db: insert.check_parents(db, jobs))
        for start in range(0, len(jobs), BATCH):
            part = jobs[start : start + BATCH]
            if all(map(insert.is_plain, part)):
                receipts += self._insert_plain(part)
                continue
            receipts += self._write(
                lambda tx, part=part: insert.insert(tx, part, self._limits, stand_ins, coming, checked=checked),
                essential=False,
            )
        return receipts

    def _insert_plain(self, jobs: Sequence[Job]) -> list[Receipt]:
        return self._write(lambda tx: insert.insert_plain(tx, jobs, self._limits), essential=False, plain=jobs)

    def _check_room(self) -> None:
        hands, now_s = self._held(), time.monotonic()
        if now_s - self._looked_at_disk_s < LOOK_AT_DISK_S:
            return
        free = hands.paths.free_bytes()
        if free < self._disk_floor:
            raise StoreFull(
                f"Only {free // MIB} MiB are left on the disk of {hands.paths.database}; "
                f"new jobs are refused below {self._disk_floor // MIB} MiB.",
                "Free some space, then send again.",
            )
        self._looked_at_disk_s = now_s

    def claim(self, order: Order, /) -> Claims:
        check_order(order)
        leased = self.capabilities.death == "lease"

        def work(tx: Tx) -> tuple[Claims, int]:
            return claim.claim(tx, order, self._limits, leased=leased), tx.commits

        claims, commits = self._write(work)
        if not order.suspects:
            # Who looked for suspects has seen none of the others: listening must not take them for seen.
            self._looked.claimed(order.worker, commits)
        return claims

    def settle(self, settlements: Sequence[Settlement], /) -> list[Verdict]:
        self._held()
        check_settlements(settlements, self._limits)
        if len(settlements) > BATCH:
            # Refused whole or not at all: parents of all follow-ups are looked at before the first part is written.
            follow_ups = [job for settlement in settlements for job in settlement.follow_ups]
            self._read(lambda db: insert.check_parents(db, follow_ups))
        verdicts: list[Verdict] = []
        for start in range(0, len(settlements), BATCH):
            part = settlements[start : start + BATCH]
            verdicts += self._write(lambda tx, part=part: settle.settle(tx, part, self._limits))
        return verdicts

    def renew(self, beat: Beat, /) -> Orders:
        check_beat(beat)
        worker, hands = beat.card.worker, self._held()
        by_lock = self.capabilities.death == "lock"
        if by_lock:
            # At every beat: after close and open the card is still there, and the lock is not.
            hands.owners.hold(worker)
        orders = self._write(lambda tx: renew.renew(tx, beat))
        if orders.gone or beat.bye:
            hands.bells.forget(worker)
            self._looked.forget(worker)
            if by_lock:
                hands.owners.release(worker)
        return orders

    def note(self, notes: Sequence[Note], /) -> list[Verdict]:
        check_notes(notes, self._limits)
        return self._write(lambda tx: settle.note(tx, notes, self._limits))

    def sweep(self, sweep_: Sweep, /) -> Swept:
        hands = self._held()
        hands.reserve.keep(hands.paths.free_bytes() - self._disk_floor)
        known: set[WorkerId] = set()

        def judge(tx: Tx) -> list[WorkerId]:
            if self.capabilities.death == "lease":
                return sweep.by_lease(tx, sweep_.worker)
            cards = tx.run(sql("card_all")).fetchall()
            dead = [worker for (worker, _, _, _, lost) in cards if not lost and hands.owners.is_dead(worker)]
            known.update(worker for (worker, *_) in cards)
            known.difference_update(dead)
            return dead

        swept = self._write(lambda tx: sweep.sweep(tx, sweep_, self._limits, judge, hands.claim_locks.held))
        if self.capabilities.death == "lock":
            hands.owners.bury_strays(known)
            hands.claim_locks.clear(known)
        hands.bells.clear_strays()
        return swept

    # ── looking and steering ────────────────────────────────────────────────────────────────────────────

    def fetch(
        self, ids: Sequence[JobId], /, parts: frozenset[Part] = ALL_PARTS, log_after: int = 0
    ) -> list[Job | None]:
        check_ids(ids)
        now_us = self._clock.now_us()

        def look(db: Database) -> list[Job | None]:
            return [fetch.fetch(db, job_id, parts, log_after, now_us) for job_id in ids]

        return self._read(look)

    def search(self, query: Query, /) -> Page:
        check_query(query)
        return self._read(lambda db: search.search(db, query, self._clock.now_us()))

    def amend(self, amendment: Amendment, /) -> Amended:
        check_amendment(amendment)
        return self._write(lambda tx: search.amend(tx, amendment, self._limits))

    def tally(self, query: TallyQuery, /) -> Tally:
        return self._read(lambda db: tally.tally(db, query))

    # ── facts and hints ─────────────────────────────────────────────────────────────────────────────────

    def read(self, keys: Sequence[str], /) -> list[Fact | None]:
        now_us = self._clock.now_us()
        return self._read(lambda db: [facts.read(db, key, now_us) for key in keys])

    def write(self, puts: Sequence[Put], /) -> list[Written]:
        check_puts(puts, self._limits)
        return self._write(lambda tx: facts.write(tx, puts, self._limits))

    def listen(self, interest: Interest, timeout_s: float, /) -> list[Hint]:
        hands = self._held()
        try:
            looked = self._looked.at(interest)
            return hands.bells.listen(interest, timeout_s, lambda: self._missed(interest, looked))
        except StoreError:
            hands.readers.check_in_place()
            raise

    def _missed(self, interest: Interest, looked: int | None) -> list[Hint]:
        """What happened between the listener's last look and now, so that nobody sleeps on it."""
        if self._hands is None:
            return []
        ends = msgspec.json.encode([job_id.hex() for job_id in interest.ends]).decode()
        queues = None if interest.queues is None else msgspec.json.encode(interest.queues).decode()
        soon_us = self._clock.now_us() + int(NET_S * 1e6)  # what is due later is seen by a later look

        def look(db: Database) -> list[Hint]:
            hints: list[Hint] = []
            if interest.ends:
                found = db.execute(sql("ended_among"), (ends,)).fetchall()
                hints += [Hint(kind="end", id=bytes.fromhex(str(text))) for (text,) in found]
            moved = looked is not None and db.execute(sql("meta_commits")).get != looked
            if (
                interest.queues != ()
                and moved
                and db.execute(sql("work_waits"), (queues, soon_us)).fetchone() is not None
            ):
                hints.append(Hint(kind="work"))
            return hints

        return self._read(look)

    def signal(self, hints: Sequence[Hint], /) -> None:
        self._held().bells.signal(hints)

    # ── beyond the protocol ─────────────────────────────────────────────────────────────────────────────

    def kill_for_tests(self, worker: WorkerId) -> None:
        """What the kernel does when a worker dies: its lock is free. There is no other way to die in-process."""
        self._held().owners.drop(worker)

    def examine(self) -> list[Finding]:
        """A look at the store's file, its disk and its content, in sentences."""
        hands = self._held()
        return list(examine(hands.paths, self._disk_floor, hands.committer.order - self._clock.now_us()))

    def backup(self, target: str | os.PathLike[str]) -> Path:
        """Writes a free-standing copy of the store, as it is now, into a new file that is on the disk on return."""
        return backup.backup(self._held(), target)


_still: list[Hands] = []


def _before_fork() -> None:
    for engine in list(_engines):
        if (hands := engine.hands) is not None:
            hands.hold_still()
            _still.append(hands)


def _after_fork_in_parent() -> None:
    while _still:
        _still.pop().go_on()


def _after_fork() -> None:
    _still.clear()
    for engine in list(_engines):
        engine.after_fork()


at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork)
