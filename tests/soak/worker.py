"""A process that sends, claims, runs and settles until there is nothing left, or until it is killed.

    python -m tests.soak.worker '<JSON of Assignment>'

Each of its threads is a worker with an id of its own and a share of the parcels; what an earlier process of the same
share had acknowledged is read from its files, the rest is sent again. On purpose it does what a bad network would do:
it repeats claims, settles twice, and settles late.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tests.soak.recorder import Entry, Ledger, Recorder, read_lines
from tests.soak.workload import Deed, Parcel, deal, follow_ups
from windlass.core.ids import JobId, new_id
from windlass.core.job import LIVE, Outcome
from windlass.core.lifecycle import Standing, Transition, decide
from windlass.engines.protocol import (
    Amendment,
    Beat,
    Card,
    Change,
    Claim,
    Interest,
    Note,
    Order,
    Put,
    Settlement,
    Sweep,
    TallyQuery,
    Verdict,
)
from windlass.engines.sqlite import SqliteEngine, gate

ROOT = Path(__file__).resolve().parents[2]


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """What a process has to do. `slot` is its share; `generation` counts the processes that had it."""

    database: str
    folder: str
    seed: int
    jobs: int
    slot: int
    slots: int
    generation: int = 0
    threads: int = 1
    rattle: bool = False
    """A thread takes away the process's POSIX locks all the time."""
    pins: bool = True
    """False: as on a system without open-file-description locks."""
    batch: int = 20
    """The most jobs in one claim."""
    stages: int = 1
    """The parcels are let out in so many parts, one for every byte of `release` and one at the start."""

    @property
    def finish(self) -> Path:
        """Appears when everything has been sent: who then finds no live job goes home."""
        return Path(self.folder) / "finish"

    def released(self, number: int, parcels: int) -> bool:
        """Whether a parcel may be sent yet: so that there is work to be hurt until the last fault."""
        try:
            stage = (Path(self.folder) / "release").stat().st_size + 1
        except FileNotFoundError:
            stage = 1
        return number * self.stages < parcels * stage

    def share(self, thread: int) -> str:
        """The name of a thread's share of the parcels."""
        return f"{self.slot}.{thread}"

    def file(self, thread: int) -> Path:
        """Where a thread writes down what it does."""
        return Path(self.folder) / f"{self.share(thread)}.{self.generation}.jsonl"


class Hand:
    """One worker: its card, its claims, its share of the parcels."""

    def __init__(self, given: Assignment, thread: int, engine: SqliteEngine, ledger: Ledger) -> None:
        self._given = given
        self._engine = engine
        self._ledger = ledger
        self._id = new_id()
        self._recorder = Recorder(given.file(thread), self._id.hex())
        self._random = random.Random(f"{given.seed}/{given.share(thread)}/{given.generation}")
        self._all, self._parcels = _still_to_send(given, thread)
        self._beat = 0
        self._ticket = 0
        self._cancel: set[JobId] = set()
        self._settled: list[Settlement] = []
        self._said = False

    def run(self) -> None:
        """Works until everything everybody sent has ended."""
        self._renew()
        self._recorder.say("up")
        turn = 0
        while True:
            turn += 1
            sent = self._send()
            worked = self._work()
            if turn % 8 == 0:
                self._renew()
            if turn % 16 == 0 or (not (sent or worked) and self._random.random() < 0.2):
                self._sweep()
            if self._random.random() < 0.03:
                self._replay()
            if not (sent or worked) and self._rest():
                break
        self._call("bye", (), lambda: self._engine.renew(self._next_beat(bye=True)))
        self._recorder.say("done")
        self._recorder.close()

    # ── one step each ───────────────────────────────────────────────────────────────────────────────────

    def _call(self, op: str, jobs: Sequence[Entry], make: Callable[[], object], note: str = "") -> object:
        """A call whose answer is only that it was done."""
        call = self._recorder.invoke(op, jobs, note)
        answer = make()
        self._recorder.ok(op, call, jobs)
        return answer

    def _send(self) -> bool:
        if not self._parcels:
            if not self._said:
                self._said = True
                self._recorder.say("sent")
            return False
        if not self._given.released(self._parcels[0].number, self._all):
            return False
        if self._random.random() < 0.3:
            return True
        parcel = self._parcels.pop(0)
        call = self._recorder.invoke("insert", [(job.id.hex(), 0, "") for job in parcel.jobs])
        receipts = self._engine.insert(parcel.jobs)
        answers = [(r.id.hex(), 0, r.duplicate_of.hex() if r.duplicate_of else "new") for r in receipts]
        self._recorder.ok("insert", call, answers)
        if parcel.start is not None:
            put = Put(key=f"flow/{parcel.start.hex()}", value=b"{}")
            self._call("start", [(parcel.start.hex(), 0, "")], lambda: self._engine.write([put]))
        if parcel.cancel:
            amendment = Amendment(change=Change.CANCEL, ids=parcel.cancel)
            asked = [(job_id.hex(), 0, "") for job_id in parcel.cancel]
            self._call("cancel", asked, lambda: self._engine.amend(amendment))
        self._recorder.say("parcel", str(parcel.number))
        return True

    def _work(self) -> bool:
        claims = self._claim(suspects=False) or self._claim(suspects=True)
        if not claims:
            return False
        if claims[0].suspect:
            note = Note(id=claims[0].id, fence=claims[0].fence, kind="start")
            self._call("note", [(claims[0].id.hex(), claims[0].fence, "")], lambda: self._engine.note([note]))
        settlements = [self._run(claim) for claim in claims]
        if self._random.random() < 0.3:
            time.sleep(self._random.random() * 0.02)  # work takes time
        cut = self._random.randint(0, len(settlements))
        for part in (settlements[:cut], settlements[cut:]):
            if part:
                self._settle(part)
        return True

    def _claim(self, *, suspects: bool) -> tuple[Claim, ...]:
        self._ticket += 1
        limit = self._random.randint(1, self._given.batch)
        order = Order(worker=self._id, ticket=self._ticket, limit=limit, suspects=suspects)
        claims = self._ask(order)
        if claims and self._random.random() < 0.05:
            # As if the answer had been lost: the same claims, under the same fences.
            claims = self._ask(order)
        return claims

    def _ask(self, order: Order) -> tuple[Claim, ...]:
        call = self._recorder.invoke("claim", note=str(order.ticket))
        claims = self._engine.claim(order).claims
        if claims:
            taken = [(claim.id.hex(), claim.fence, claim.lane or "") for claim in claims]
            self._recorder.ok("claim", call, taken, note=str(order.ticket))
        return claims

    def _run(self, claim: Claim) -> Settlement:
        deed = msgspec.json.decode(claim.payload, type=Deed)
        standing = Standing(attempt=claim.attempt, crashes=claim.crashes, losses=claim.losses, suspect=claim.suspect)
        if self._random.random() < 0.02:
            return _settlement(claim, None, decide(None, standing))
        if claim.id in self._cancel:
            return _settlement(claim, Outcome.CANCELLED, decide(Outcome.CANCELLED, standing))
        if deed.fails < 0 or claim.attempt <= deed.fails:
            delay_us = None if deed.fails < 0 else self._random.randint(0, 10_000)
            return _settlement(claim, Outcome.FAILED, decide(Outcome.FAILED, standing, delay_us=delay_us))
        self._ledger.put([(claim.id, claim.fence)])
        jobs = follow_ups(claim.id, deed)
        return Settlement(
            id=claim.id,
            fence=claim.fence,
            outcome=Outcome.SUCCEEDED,
            transition=decide(Outcome.SUCCEEDED, standing),
            result=claim.fence.to_bytes(8, "big"),
            follow_ups=jobs,
            become=jobs[0].id if deed.become else None,
        )

    def _settle(self, settlements: list[Settlement]) -> None:
        shown = [(s.id.hex(), s.fence, s.transition.to.value) for s in settlements]
        call = self._recorder.invoke("settle", shown)
        verdicts = self._engine.settle(settlements)
        self._recorder.ok("settle", call, _answers(settlements, verdicts))
        self._settled = (self._settled + settlements)[-200:]

    def _replay(self) -> None:
        """Settles once more what was settled before: at once, or long after somebody else had the job."""
        if self._settled:
            again = self._random.choices(self._settled, k=3)
            again = list({(s.id, s.fence): s for s in again}.values())
            shown = [(s.id.hex(), s.fence, s.transition.to.value) for s in again]
            call = self._recorder.invoke("resettle", shown)
            self._recorder.ok("resettle", call, _answers(again, self._engine.settle(again)))

    def _next_beat(self, *, bye: bool = False) -> Beat:
        card = Card(worker=self._id, name="soak", pid=os.getpid())
        beat = Beat(card=card, beat=self._beat, bye=bye)
        self._beat += 1
        return beat

    def _renew(self) -> None:
        orders = self._engine.renew(self._next_beat())
        if orders.gone:
            raise AssertionError("a living worker was swept")
        self._cancel = set(orders.cancel)

    def _sweep(self) -> None:
        call = self._recorder.invoke("sweep")
        swept = self._engine.sweep(Sweep(worker=self._id))
        if swept.lost or swept.workers:
            self._recorder.ok("sweep", call, note=f"{swept.workers} {swept.lost}")

    def _rest(self) -> bool:
        """Nothing to do now: True if that is so for good."""
        if self._given.finish.exists():
            tally = self._engine.tally(TallyQuery())
            if not any(count.n for count in tally.counts if count.state in LIVE):
                return True
        self._engine.listen(Interest(queues=None, worker=self._id), 0.03)
        return False


def _settlement(claim: Claim, outcome: Outcome | None, transition: Transition) -> Settlement:
    return Settlement(id=claim.id, fence=claim.fence, outcome=outcome, transition=transition)


def _answers(settlements: Sequence[Settlement], verdicts: Sequence[Verdict]) -> list[Entry]:
    return [(s.id.hex(), s.fence, v.value) for s, v in zip(settlements, verdicts, strict=True)]


def _still_to_send(given: Assignment, thread: int) -> tuple[int, list[Parcel]]:
    """How many parcels there are, and those of this share that no earlier process finished sending."""
    shares = given.slots * given.threads
    number = given.slot * given.threads + thread
    sent: set[str] = set()
    for path in Path(given.folder).glob(f"{given.share(thread)}.*.jsonl"):
        sent |= {line.note for line in read_lines(path) if line.op == "parcel"}
    parcels = deal(given.seed, given.jobs)
    mine = [p for p in parcels if p.number % shares == number and str(p.number) not in sent]
    return len(parcels), mine


# ── taking the locks away ───────────────────────────────────────────────────────────────────────────────


def rattle(database: Path, stop: threading.Event) -> int:
    """Opens and closes the store's files in every way that makes a process lose its POSIX locks."""
    rounds = 0
    while not stop.is_set():
        sqlite3.connect(database).close()
        reader = sqlite3.connect(database)
        try:
            reader.execute("SELECT count(*) FROM meta").fetchone()
        except sqlite3.Error:
            pass  # it is only here to hurt
        finally:
            reader.close()
        for path in (database, Path(f"{database}-shm"), Path(f"{database}-wal")):
            try:
                os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
            except FileNotFoundError:
                pass
        rounds += 1
        time.sleep(0.0005)  # leaves the GIL to those who work
    return rounds


def main() -> int:
    """Runs the assignment; anything unexpected is written down and ends the process with 1."""
    given = msgspec.json.decode(sys.argv[1], type=Assignment)
    if not given.pins:
        gate.OFD = False
    engine = SqliteEngine(given.database, disk_floor=0, disk_reserve=0)
    engine.open()
    ledger = Ledger(Path(given.folder) / "ledger")
    stop, broken = threading.Event(), threading.Event()
    rounds: list[int] = []
    rattler = threading.Thread(target=lambda: rounds.append(rattle(Path(given.database), stop)))
    hands = [Hand(given, thread, engine, ledger) for thread in range(given.threads)]

    def guarded(thread: int) -> None:
        try:
            hands[thread].run()
        except BaseException as error:
            Recorder(given.file(thread)).say("broke", f"{type(error).__name__}: {error}")
            broken.set()
            raise

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(1, given.threads)]
    if given.rattle:
        rattler.start()
    for thread in threads:
        thread.start()
    try:
        guarded(0)
    finally:
        for thread in threads:
            thread.join()
        stop.set()
        if given.rattle:
            rattler.join()
            Recorder(given.file(0)).say("rattled", str(rounds[0] if rounds else 0))
    engine.close()
    return int(broken.is_set())


if __name__ == "__main__":
    sys.exit(main())
