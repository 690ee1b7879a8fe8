"""What the suite needs of an engine under test: how to make one, and how its workers die.

An engine that decides death by lease needs nothing but a constructor. One that decides by an OS lock also
says how a worker of this very process can vanish (`kill`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from threading import Event, Thread

import msgspec

from windlass.core.errors import StoreClosed
from windlass.core.gates import Gate
from windlass.core.ids import JobId, WorkerId, new_id
from windlass.core.job import Edge, Failure, Job, Outcome, Record, Request, State
from windlass.core.lifecycle import Standing, decide
from windlass.core.limits import Limits
from windlass.engines.protocol import (
    SEARCH_RECORDS,
    Amended,
    Amendment,
    Beat,
    Card,
    Change,
    Claim,
    Claims,
    Delta,
    Engine,
    Hint,
    Interest,
    Note,
    Order,
    Orders,
    Page,
    Put,
    Query,
    Receipt,
    Settlement,
    Sweep,
    Swept,
    Verdict,
    Written,
)
from windlass.testing.clock import FakeClock, travel

Make = Callable[[Limits], Engine]
Kill = Callable[[Engine, WorkerId], None]

SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US
DAY_US = 24 * HOUR_US

ERROR = Failure(type="builtins.ValueError", message="no", traceback="line 1", fingerprint="f1")


class Harness:
    """One store under test, with a clock that stands still and workers that can vanish.

    `engine` is the engine most tests use. `another()` opens a second one on the same store.
    """

    def __init__(self, make: Make, *, kill: Kill | None = None, limits: Limits | None = None) -> None:
        self._make = make
        self._kill = kill
        self.limits = limits or Limits()
        self.clock = FakeClock()
        self._opened: list[Engine] = []
        self._beats: dict[WorkerId, Beat] = {}
        self._homes: dict[WorkerId, Engine] = {}
        self._tickets: dict[WorkerId, int] = {}
        self._hand: WorkerId | None = None
        self.engine = self.another()

    @classmethod
    def run(cls, make: Make, *, kill: Kill | None = None, limits: Limits | None = None) -> Iterator[Harness]:
        """The body of a pytest fixture: `yield from Harness.run(make)`."""
        harness = cls(make, kill=kill, limits=limits)
        try:
            yield harness
        finally:
            harness.close()

    def another(self, limits: Limits | None = None) -> Engine:
        """One more engine, opened on the same store and believing the same clock."""
        engine = self._make(limits or self.limits)
        travel(engine, self.clock)
        engine.open()
        self._opened.append(engine)
        return engine

    def close(self) -> None:
        for engine in reversed(self._opened):
            with suppress(StoreClosed):
                engine.close()

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def now_us(self) -> int:
        return self.clock.now_us()

    def pass_time(self, seconds: float) -> None:
        """Lets time pass; living workers renew as they would."""
        left_us = int(seconds * SECOND_US)
        while left_us > 0:
            step_us = min(left_us, 5 * SECOND_US) if self._beats else left_us
            self.clock.advance(step_us)
            left_us -= step_us
            for worker in list(self._beats):
                self.renew(worker)

    def jump(self, seconds: float) -> None:
        """Lets a long time pass at once, as when a machine slept; living workers renew after it."""
        self.clock.advance(int(seconds * SECOND_US))
        for worker in list(self._beats):
            self.renew(worker)

    # ── jobs ────────────────────────────────────────────────────────────────────────────────────────────

    def request(self, task: str = "task", **fields: object) -> Request:
        """A request with an id of its own; `fields` are those of `core.job.Request`."""
        fields.setdefault("id", new_id())
        return Request(task=task, **fields)  # pyright: ignore[reportArgumentType]

    def new(self, task: str = "task", **fields: object) -> Job:
        """A job that has not been sent yet."""
        return Job(request=self.request(task, **fields))

    def insert(self, *requests: Request) -> list[Receipt]:
        return self.engine.insert([Job(request=request) for request in requests])

    def send(self, task: str = "task", **fields: object) -> JobId:
        """Inserts one job and gives its id."""
        request = self.request(task, **fields)
        (receipt,) = self.insert(request)
        assert receipt.duplicate_of is None, receipt
        return request.id

    def record(self, job_id: JobId) -> Record:
        """The record of a job that must be there."""
        (job,) = self.engine.fetch([job_id])
        assert job is not None, "the job is gone"
        assert job.record is not None
        return job.record

    def send_many(self, n: int, task: str = "task", **fields: object) -> list[JobId]:
        """Inserts `n` jobs in batches and gives their ids in order."""
        requests = [self.request(task, **fields) for _ in range(n)]
        self.bulk(Job(request=request) for request in requests)
        return [request.id for request in requests]

    def bulk(self, jobs: Iterable[Job]) -> None:
        """Inserts many new jobs, a thousand at a time."""
        left = list(jobs)
        for start in range(0, len(left), 1_000):
            receipts = self.engine.insert(left[start : start + 1_000])
            assert all(receipt.duplicate_of is None for receipt in receipts)

    def job(self, job_id: JobId) -> Job:
        """A job that must be there, with all its parts."""
        (job,) = self.engine.fetch([job_id])
        assert job is not None, "the job is gone"
        return job

    def state(self, job_id: JobId) -> State | None:
        """Where the job is; None if there is no such job."""
        return self.states([job_id])[0]

    def states(self, ids: Sequence[JobId]) -> list[State | None]:
        jobs = self.engine.fetch(ids, parts=frozenset())
        return [None if job is None or job.record is None else job.record.state for job in jobs]

    def job_in(self, state: State, **fields: object) -> JobId:
        """A new job that has come to this state, on a queue of its own."""
        queue = fields.setdefault("queue", f"q{new_id().hex()}")
        assert isinstance(queue, str)
        match state:
            case State.READY:
                return self.send(**fields)  # pyright: ignore[reportArgumentType]
            case State.SCHEDULED:
                return self.send(**{"delay_us": HOUR_US, **fields})  # pyright: ignore[reportArgumentType]
            case State.HELD:
                parent = self.send("parent", queue="elsewhere")
                return self.send(**{"parents": (Edge(parent),), **fields})  # pyright: ignore[reportArgumentType]
            case State.EXPIRED:
                job_id = self.send(**{"expires_us": self.now_us, **fields})  # pyright: ignore[reportArgumentType]
                assert self.claim(self.hand(), queues=(queue,)) == []
                return job_id
            case State.CANCELLED:
                job_id = self.send(**fields)  # pyright: ignore[reportArgumentType]
                self.amend(Change.CANCEL, job_id)
                return job_id
            case State.RUNNING | State.SUCCEEDED | State.DEAD:
                claim = self.running(**fields)
                if state is not State.RUNNING:
                    self.finish(claim, Outcome.SUCCEEDED if state is State.SUCCEEDED else Outcome.FAILED)
                return claim.id

    def running(self, **fields: object) -> Claim:
        """A new job that runs, on a queue of its own."""
        fields.setdefault("queue", f"q{new_id().hex()}")
        job_id = self.send(**fields)  # pyright: ignore[reportArgumentType]
        (claim,) = self.claim(self.hand(), queues=(fields["queue"],))
        assert claim.id == job_id
        return claim

    def find(self, query: Query) -> list[Job]:
        """Every job the query finds, in order, page by page."""
        return [job for page in self.pages(query) for job in page.jobs]

    def count(self, query: Query) -> int:
        """How many jobs the query finds, counted page by page."""
        return sum(page.count for page in self.pages(msgspec.structs.replace(query, count=True)))

    def pages(self, query: Query) -> Iterator[Page]:
        """The pages of a search, each within the bound."""
        while True:
            page = self.engine.search(query)
            assert page.scanned <= SEARCH_RECORDS
            yield page
            if page.cursor is None:
                return
            assert page.scanned > 0, "a search that hands out a cursor has come further"
            query = msgspec.structs.replace(query, cursor=page.cursor)

    def amend(self, change: Change, *ids: JobId, state: State | None = None, reason: str | None = None) -> Amended:
        return self.engine.amend(Amendment(change=change, ids=ids, state=state, reason=reason))

    def amend_all(self, change: Change, query: Query) -> list[JobId]:
        """Changes everything the query finds, page by page; what was changed, in order."""
        changed: list[JobId] = []
        while True:
            amended = self.engine.amend(Amendment(change=change, query=query))
            changed += amended.changed
            if amended.cursor is None:
                return changed
            query = msgspec.structs.replace(query, cursor=amended.cursor)

    # ── facts ───────────────────────────────────────────────────────────────────────────────────────────

    def put(self, key: str, value: bytes | None, **fields: object) -> Written:
        (written,) = self.engine.write([Put(key=key, value=value, **fields)])  # pyright: ignore[reportArgumentType]
        return written

    def set_gate(self, key: str, ttl_us: int | None = None, **rule: object) -> None:
        """Writes the rule of a gate; `rule` are the fields of `core.gates.Gate`."""
        gate = Gate(**rule)  # pyright: ignore[reportArgumentType]
        assert self.put(key, msgspec.json.encode(gate), ttl_us=ttl_us).done

    def start_flow(self, flow: JobId) -> None:
        assert self.put(f"flow/{flow.hex()}", b"{}").done

    # ── workers ─────────────────────────────────────────────────────────────────────────────────────────

    def worker(self, *, on: Engine | None = None, **fields: object) -> WorkerId:
        """Announces a worker; `fields` are those of `protocol.Card`."""
        worker = new_id()
        card = Card(worker=worker, **fields)  # pyright: ignore[reportArgumentType]
        self._homes[worker] = on or self.engine
        self._beats[worker] = Beat(card=card, beat=0)
        self._tickets[worker] = 0
        self._homes[worker].renew(self._beats[worker])
        return worker

    def hand(self) -> WorkerId:
        """A worker for whatever the harness itself has to run."""
        if self._hand is None or self._hand not in self._beats:
            self._hand = self.worker(name="hand")
        return self._hand

    def renew(self, worker: WorkerId, *deltas: Delta, bye: bool = False) -> Orders:
        """The worker's next beat. After its last one it is no longer kept alive."""
        beat = self._beats[worker]
        self._beats[worker] = Beat(card=beat.card, beat=beat.beat + 1, deltas=deltas, bye=bye)
        orders = self._homes[worker].renew(self._beats[worker])
        if bye:
            del self._beats[worker]
        return orders

    def card(self, worker: WorkerId) -> Card:
        return self._beats[worker].card

    def teach(self, worker: WorkerId, *tasks: str) -> None:
        """The worker's card lists these tasks from now on."""
        card = msgspec.structs.replace(self.card(worker), tasks=tasks)
        self._beats[worker] = msgspec.structs.replace(self._beats[worker], card=card)
        self.renew(worker)

    def claim(self, worker: WorkerId, limit: int = 100, **fields: object) -> list[Claim]:
        """Claims with the worker's next ticket."""
        return list(self.order(worker, limit, **fields).claims)

    def order(self, worker: WorkerId, limit: int = 100, **fields: object) -> Claims:
        """Claims with the worker's next ticket; the whole answer."""
        self._tickets[worker] += 1
        return self.repeat(worker, limit, **fields)

    def repeat(self, worker: WorkerId, limit: int = 100, **fields: object) -> Claims:
        """The last claim once more, as after an answer that was lost."""
        order = Order(worker=worker, ticket=self._tickets[worker], limit=limit, **fields)  # pyright: ignore[reportArgumentType]
        return self._homes[worker].claim(order)

    def claim_all(self, worker: WorkerId, limit: int = 100, **fields: object) -> list[Claim]:
        """Claims until the store says that there is nothing now."""
        taken: list[Claim] = []
        for _ in range(1_000):
            answer = self.order(worker, limit, **fields)
            taken += answer.claims
            if not answer.claims and answer.wait_us != 0:
                return taken
        raise AssertionError("claim says `look again at once` for ever")

    def drain(self, worker: WorkerId, **fields: object) -> list[JobId]:
        """Runs what can run now, one job after another; the ids in the order of their claims."""
        ran: list[JobId] = []
        for _ in range(10_000):
            answer = self.order(worker, 1, **fields)
            for claim in answer.claims:
                assert self.finish(claim) is Verdict.ACCEPTED
                ran.append(claim.id)
            if not answer.claims and answer.wait_us != 0:
                return ran
        raise AssertionError("claim says `look again at once` for ever")

    def finish(
        self,
        claim: Claim,
        outcome: Outcome | None = Outcome.SUCCEEDED,
        *,
        delay_s: float | None = None,
        **fields: object,
    ) -> Verdict:
        """Settles a claim as a worker does: the lifecycle decides what the outcome leads to.

        `outcome=None` gives it back; `delay_s` is what the retry policy or a snooze asks for.
        """
        standing = Standing(attempt=claim.attempt, crashes=claim.crashes, losses=claim.losses, suspect=claim.suspect)
        delay_us = None if delay_s is None else int(delay_s * SECOND_US)
        fields.setdefault("transition", decide(outcome, standing, delay_us=delay_us))
        if outcome is Outcome.SUCCEEDED:  # as of most tasks
            fields.setdefault("result", b"null")
            fields.setdefault("ran_us", 1_000)
        settlement = Settlement(id=claim.id, fence=claim.fence, outcome=outcome, **fields)  # pyright: ignore[reportArgumentType]
        (verdict,) = self.settle(settlement)
        return verdict

    def give_back(self, claim: Claim) -> Verdict:
        return self.finish(claim, None)

    def settle(self, *settlements: Settlement) -> list[Verdict]:
        return self.engine.settle(settlements)

    def note(self, claim: Claim, kind: str, data: bytes = b"", key: str = "") -> Verdict:
        note = Note(id=claim.id, fence=claim.fence, kind=kind, data=data, key=key)  # pyright: ignore[reportArgumentType]
        (verdict,) = self.engine.note([note])
        return verdict

    def vanish(self, worker: WorkerId) -> None:
        """The worker dies without a word. On lease engines this lets the time pass until all can see it."""
        beat = self._beats.pop(worker)
        home = self._homes[worker]
        if home.capabilities.death == "lock":
            assert self._kill is not None, "an engine that decides death by lock needs `kill`"
            self._kill(home, worker)
        else:
            self.pass_time(beat.card.lease_us / SECOND_US + 6)

    def sweep(self, limit: int = 10_000, *, worker: WorkerId | None = None, rest_us: int = 0) -> Swept:
        """One sweep, by a worker that is allowed to call others dead."""
        sweeper = worker or self._sweeper()
        return self._homes[sweeper].sweep(Sweep(worker=sweeper, limit=limit, rest_us=rest_us))

    def sweep_all(self, *, worker: WorkerId | None = None) -> None:
        """Sweeps until there is nothing left to do."""
        for _ in range(10_000):
            if not self.sweep(worker=worker).more:
                return
        raise AssertionError("sweep says that there is more for ever")

    def _sweeper(self) -> WorkerId:
        if self._beats:
            return next(iter(self._beats))
        sweeper = self.worker(name="sweeper", queues=())
        if self.engine.capabilities.death == "lease":
            self.pass_time(16)
        return sweeper


class Listener:
    """A call of `listen` in a thread of its own."""

    LONGEST_S = 60.0

    def __init__(self, engine: Engine, interest: Interest) -> None:
        self._engine = engine
        self._interest = interest
        self._hints: list[Hint] = []
        self._about_to = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._about_to.wait(self.LONGEST_S)

    def _run(self) -> None:
        self._about_to.set()
        try:
            self._hints = self._engine.listen(self._interest, self.LONGEST_S)
        except StoreClosed:
            # Closed before the call came through: the listener knows all the same.
            self._hints = [Hint(kind="closed")]

    def done(self) -> bool:
        """Whether the call has come back."""
        self._thread.join(0.01)
        return not self._thread.is_alive()

    def heard(self) -> set[str]:
        """The kinds of hints that ended the call; it must not last until its own timeout."""
        self._thread.join(self.LONGEST_S / 2)
        assert not self._thread.is_alive(), "the listener was not woken"
        return {hint.kind for hint in self._hints}

    def told(self, engine: Engine, hint: Hint) -> set[str]:
        """Repeats the hint until it is heard: a hint that nobody was there to hear is lost by design."""
        while not self.done():
            engine.signal([hint])
        return self.heard()
