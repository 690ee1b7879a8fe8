"""The state machine: every verb in any order, on an engine and on a model of it, with the same inputs.

Hypothesis makes up a history: jobs come in, workers claim, settle, note, renew and vanish, people cancel and
retry, gates open and shut, the clock moves and is set back. The engine under test and the model (the memory
engine) are told the same things at the same instants, and must give the same answers and show the same
picture after every step. Independently of the model, `invariants.py` looks at every picture. At the end
everything is let go: gates are opened, every job is run to its end, retention passes, and nothing may be left.

What the contract leaves to the engine is not compared: cursors, the hint when to look again, versions of
facts beyond their order, words of refusals, and the order of live jobs in a search.

```python
TestMine = machine_for(lambda limits: MyEngine(limits=limits), name="TestMine")
```
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar
from unittest import TestCase

import msgspec
from hypothesis import HealthCheck, reject, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from windlass.core.errors import WindlassError
from windlass.core.gates import Gate
from windlass.core.ids import JobId, WorkerId, child_id, show_id
from windlass.core.job import (
    ENDED,
    LIVE,
    Attempt,
    Edge,
    Failure,
    Job,
    Outcome,
    Record,
    Request,
    State,
    Unique,
)
from windlass.core.lifecycle import CANCELLED, Standing, decide
from windlass.core.limits import Limits
from windlass.core.rates import Rate
from windlass.engines.memory import MemoryEngine
from windlass.engines.protocol import (
    Amendment,
    Beat,
    Card,
    Change,
    Claim,
    Delta,
    Engine,
    Fact,
    Note,
    Order,
    Put,
    Query,
    Settlement,
    Span,
    Sweep,
    Swept,
    TallyQuery,
    Verdict,
    Written,
)
from windlass.testing.clock import FakeClock, travel
from windlass.testing.conformance import invariants
from windlass.testing.conformance.invariants import Broken, History, Picture

T = TypeVar("T")

Make = Callable[[Limits], Engine]
Kill = Callable[[Engine, WorkerId], None]
Leaks = Callable[[Engine], Sequence[str]]

SECOND_US = 1_000_000
LEASE_US = 15 * SECOND_US
BEAT_US = 7 * SECOND_US
FINE_US = 50
"""Due times lie this far apart, so that no two ranks are equal: the order of equals is the engine's own."""

LIMITS = Limits(
    keep_succeeded_us=120 * SECOND_US,
    keep_result_us=60 * SECOND_US,
    keep_dead_us=300 * SECOND_US,
    keep_cancelled_us=90 * SECOND_US,
    keep_expired_us=60 * SECOND_US,
    log_bytes=200,
)
RANK_SLACK_US = FINE_US // 2
MOST_HANDS = 4
PAST_EVERYTHING_US = 10_000 * SECOND_US

QUEUES = ("default", "mail")
TASKS = ("add", "send", "render")
FLOWS = (b"flow-one--------", b"flow-two--------")
HAS = {"cpu": 8, "memory": 100}
"""What a worker has: jobs of one resource class may or may not fit it."""
NEEDS = ((("cpu", 1),), (("cpu", 3),), (("cpu", 99), ("gpu", 1)), (("memory", 100),), (("cpu", 1), ("memory", 101)))
GATES = ("queue/default", "queue/mail", "gate/g")
Due = Literal["now", "delay", "past", "future"]
SPANS: tuple[Span, ...] = ("minute", "hour", "day")


# ── what Hypothesis makes up ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a job that is imported has behind it."""

    state: State
    fence: int
    counts: tuple[int, int, int]
    rank_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A job to insert. Numbers that name other jobs count backwards from the newest."""

    task: str
    queue: str
    priority: int
    due: Due
    expires_s: int | None
    lane: str | None
    lane_limit: int | None
    unique: tuple[str, Literal["start", "end", "time"]] | None
    gate: str | None
    needs: tuple[tuple[str, int], ...]
    parents: tuple[tuple[int, Literal["succeeded", "ended"]], ...]
    flow: JobId | None
    past: Past | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one claim is settled."""

    outcome: Outcome | None
    again_s: int | None
    follow_ups: tuple[Wish, ...]
    become: bool
    keep_s: int | None
    move: bool
    reason: str | None


# Hypothesis draws jobs and endings from tables made here once: one choice each, so that histories get long,
# and the plainest come first, so that a failing history shrinks to plain jobs.
_random = random.Random(20)


def _some(chance: float, *values: T) -> T | None:
    return _random.choice(values) if _random.random() < chance else None


def _a_past(chance: float) -> Past | None:
    if _random.random() > chance:
        return None
    return Past(
        state=_random.choice(list(State)),
        fence=_random.choice([0, 7, 1 << 60]),
        counts=_random.choice([(1, 0, 0), (2, 0, 1), (3, 2, 2)]),
        rank_s=_random.randint(-100, 100),
    )


def _wish(how_odd: float) -> Wish:
    """A job; the odder, the more it asks for at once."""
    on: tuple[Literal["succeeded", "ended"], ...] = ("succeeded", "ended")
    dues: tuple[Due, ...] = ("delay", "past", "future")
    plain: Due = "now"
    n_parents = _some(how_odd / 2, 1, 1, 2) or 0
    return Wish(
        task=_random.choice(TASKS) if how_odd else TASKS[0],
        queue=_random.choice(QUEUES) if how_odd else QUEUES[0],
        priority=_some(how_odd / 2, 1, 9) or 0,
        due=_random.choice(dues) if _random.random() < how_odd / 2 else plain,
        expires_s=_some(how_odd / 4, -1, 8, 45),
        lane=_some(how_odd, "a", "b"),
        lane_limit=_some(how_odd / 2, 1, 2),
        unique=_some(how_odd / 3, ("k", "start"), ("k", "end"), ("k", "time"), ("l", "end")),
        gate=_some(how_odd / 3, "g"),
        needs=_some(how_odd / 3, *NEEDS) or (),
        parents=tuple((index, _random.choice(on)) for index in _random.sample(range(7), n_parents)),
        flow=_some(how_odd / 4, *FLOWS),
        past=_a_past(how_odd / 6),
    )


def _ending(how_odd: float) -> Ending:
    """An end of a claim; the plainest succeeds."""
    outcomes = (None, *(outcome for outcome in Outcome if outcome is not Outcome.LOST))
    many = _some(how_odd / 3, 1, 2) or 0
    return Ending(
        outcome=_random.choice(outcomes) if _random.random() < how_odd else Outcome.SUCCEEDED,
        again_s=_some(0.7, 0, 3, 20),
        follow_ups=tuple(_wish(_random.random()) for _ in range(many)),
        become=_random.random() < how_odd,
        keep_s=_some(how_odd / 3, 0, 30),
        move=_random.random() < how_odd,
        reason=_some(0.7, CANCELLED, "of its own"),
    )


WISHES = tuple(_wish(n / 200) for n in range(200))
ENDINGS = tuple(_ending(n / 100) for n in range(100))
_WISHES = st.sampled_from(WISHES)
_ENDINGS = st.tuples(st.integers(0, 5), st.sampled_from([False] * 5 + [True]), st.sampled_from(ENDINGS))
_GATES = st.sampled_from(
    [
        None,
        None,
        Gate(paused=True),
        Gate(limit=0),
        Gate(limit=1),
        Gate(limit=2),
        Gate(rate=Rate(1, 10 * SECOND_US)),
        Gate(rate=Rate(2, SECOND_US, 3)),
        Gate(shut_until_us=20 * SECOND_US, probes=1),
    ]
)
_NOTES = st.tuples(
    st.integers(0, 5), st.booleans(), st.sampled_from(["start", "log", "progress", "step"]), st.sampled_from("xy")
)
_QUERIES = st.builds(
    Query,
    state=st.one_of(st.none(), st.sampled_from(State)),
    queue=st.sampled_from([None, None, *QUEUES]),
    task=st.sampled_from([None, None, *TASKS]),
    lane=st.sampled_from([None, None, "a"]),
    flow=st.sampled_from([None, None, *FLOWS]),
    tag=st.sampled_from([None, None, *TASKS]),
    fingerprint=st.sampled_from([None, None, "boom"]),
    limit=st.sampled_from([1, 3, 100]),
)


_STEPS: dict[str, tuple[int, dict[str, st.SearchStrategy[object]]]] = {
    "insert": (
        4,
        {
            "wishes": st.lists(_WISHES, min_size=1, max_size=4),
            "again": st.one_of(st.none(), st.integers(0, 9)),
            "backwards": st.booleans(),
        },
    ),
    "claim": (
        3,
        {
            "worker": st.integers(0, 3),
            "limit": st.sampled_from([1, 2, 5, 100]),
            "queues": st.sampled_from([None, None, ("default",), ("mail", "default"), ()]),
            "tasks": st.sampled_from([None, None, frozenset({"add"}), frozenset({"send", "none"})]),
            "free": st.sampled_from([0, 2, 8]),
            "suspects": st.sampled_from([False, False, False, True]),
            "how": st.sampled_from(["fresh", "fresh", "as is", "repeat"]),
        },
    ),
    "work": (
        6,
        {
            "worker": st.integers(0, 2),
            "endings": st.lists(st.sampled_from(ENDINGS), min_size=1, max_size=4),
            "asks": st.sampled_from([(), (), (), ("asked",), (None, "asked"), ("asked", None)]),
        },
    ),
    "settle": (4, {"endings": st.lists(_ENDINGS, min_size=1, max_size=3)}),
    "note": (2, {"notes": st.lists(_NOTES, min_size=1, max_size=4)}),
    "live": (
        3,
        {
            "worker": st.integers(0, 3),
            "what": st.sampled_from(["announce", "renew", "repeat", "vanish", "bye"]),
            "tasks": st.sampled_from([None, ("add",), ("add", "send")]),
            "n": st.integers(0, 2),
        },
    ),
    "amend": (
        2,
        {
            "change": st.sampled_from(Change),
            "indexes": st.lists(st.integers(0, 12), max_size=3),
            "state": st.sampled_from(State),
            "queue": st.sampled_from(QUEUES),
            "reason": st.sampled_from([None, "asked", "asked again"]),
        },
    ),
    "search": (1, {"query": _QUERIES}),
    "steer": (2, {"key": st.sampled_from(GATES + FLOWS), "gate": _GATES}),
    "write": (
        1,
        {
            "key": st.sampled_from(["mine", "room/thing"]),
            "value": st.sampled_from([None, b"1", b"2"]),
            "expect": st.sampled_from(["any", "nothing", "this", "other"]),
            "ttl_s": st.sampled_from([None, None, 10]),
        },
    ),
    "time": (
        4,
        {
            "how": st.sampled_from(["passes", "passes", "is due", "stalls", "set back"]),
            "seconds": st.sampled_from([1, 5, 16, 40, 90]),
        },
    ),
    "sweep": (3, {"worker": st.one_of(st.none(), st.integers(0, 3)), "limit": st.sampled_from([1, 2, 7, 100])}),
}
"""Every kind of step: how often it comes, and what Hypothesis makes up for it.

One rule draws from them all. As rules of their own most histories would lack most of them: Hypothesis switches
rules off at random, and a history without inserts or claims shows nothing.
"""


def _step(name: str) -> st.SearchStrategy[tuple[str, dict[str, object]]]:
    return st.tuples(st.just(name), st.fixed_dictionaries(_STEPS[name][1]))


_ANY_STEP = st.sampled_from([name for name, (often, _) in _STEPS.items() for _ in range(often)]).flatmap(_step)


@dataclass(slots=True)
class Hand:
    """A worker as the test plays it."""

    card: Card
    beat: int = 0
    ticket: int = 0
    order: Order | None = None
    last: Beat | None = None
    alive: bool = True


# ── the machine ─────────────────────────────────────────────────────────────────────────────────────────


class EngineMachine(RuleBasedStateMachine):
    """Drives one engine, or an engine and its model in step. `machine_for` makes a test of it."""

    make: ClassVar[Make]
    model_make: ClassVar[Make | None] = None
    kill: ClassVar[Kill | None] = None
    leaks: ClassVar[Leaks | None] = None

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.count = 0
        self.engines: list[Engine] = []
        self.history = History()
        self.hands: list[Hand] = []
        self.ids: list[JobId] = []
        self.requests: dict[JobId, Job] = {}
        self.claims: list[Claim] = []
        self.keys: set[str] = set()
        self.picture: Picture | None = None
        self.sound = False
        self.tied = False
        """Whether two of a lane came due at one instant, as after the clock was set back: who joins first is open."""

    @initialize(wishes=st.lists(_WISHES, min_size=2, max_size=8))
    def begin(self, wishes: list[Wish]) -> None:
        kind = type(self)
        makes = [kind.make] if kind.model_make is None else [kind.make, kind.model_make]
        for make in makes:
            engine = make(LIMITS)
            travel(engine, self.clock)
            engine.open()
            self.engines.append(engine)
        kinds = {engine.capabilities.death for engine in self.engines}
        assert len(kinds) == 1, "an engine and its model must call workers dead by the same rule"
        self._announce(None)
        self.insert_jobs(wishes, None, backwards=False)
        self.sound = True

    @rule(step=_ANY_STEP)
    def go(self, step: tuple[str, dict[str, object]]) -> None:
        """The next step of the history."""
        name, inputs = step
        method: Callable[..., None] = getattr(self, name)
        self.sound = False
        method(**inputs)
        self.sound = True

    def teardown(self) -> None:
        try:
            # After a failed step a second error from here would hide the first.
            if self.sound:
                self._drain()
        finally:
            for engine in self.engines:
                engine.close()

    # ── telling both, comparing both ────────────────────────────────────────────────────────────────────

    @property
    def now_us(self) -> int:
        return self.clock.now_us()

    def _number(self) -> int:
        self.count += 1
        return self.count

    def _all(self, call: Callable[[Engine], T], fixed: Callable[[T], object] | None = None) -> T | None:
        """Calls every engine; their answers (what the contract fixes of them) or errors must be the same.

        Gives the answer of the engine under test, or None where the call was refused.
        """
        answers: list[T | None] = []
        shown: list[object] = []
        for engine in self.engines:
            try:
                answer = call(engine)
            except WindlassError as error:
                answers.append(None)
                shown.append(type(error))
            else:
                answers.append(answer)
                shown.append(answer if fixed is None else fixed(answer))
        if any(other != shown[0] for other in shown[1:]):
            self._unless_tied()
            raise Broken(f"the engine answered {shown[0]}, its model {shown[1]}")
        return answers[0]

    def _look(self, *, swept: bool = False, claimed: bool = False) -> Picture:
        """Takes a picture of every engine, compares them, and checks the invariants."""
        pictures = [invariants.take(engine, self.history, self.now_us) for engine in self.engines]
        first = pictures[0]
        invariants.check(first, self.history)
        if swept:
            invariants.check_swept(first, self.history)
        for other in pictures[1:]:
            try:
                _compare(first, other)
            except Broken:
                if claimed:
                    self._unless_late()
                if swept:
                    self._unless_late_together()
                self._unless_tied()
                raise
        self.tied = self.tied or _has_ties(first)
        self._all(lambda engine: engine.read(sorted(self.keys)), _facts)
        self.history.look(first)
        self.picture = first
        return first

    # ── jobs come in ────────────────────────────────────────────────────────────────────────────────────

    def _request(self, wish: Wish, job_id: JobId, parents: tuple[Edge, ...]) -> Request:
        fine_us = self._number() * FINE_US
        delay_us, at_us = 0, None
        match wish.due:
            case "now":
                pass
            case "delay":
                delay_us = 6 * SECOND_US + fine_us
            case "past":
                at_us = self.now_us - 40 * SECOND_US + fine_us
            case "future":
                at_us = self.now_us + 25 * SECOND_US + fine_us
        unique = None
        if wish.unique is not None:
            key, until = wish.unique
            unique = Unique(key, until, 40 * SECOND_US if until == "time" else 0)
        return Request(
            id=job_id,
            task=wish.task,
            queue=wish.queue,
            payload=b"payload %d" % self.count,
            priority=wish.priority,
            delay_us=delay_us,
            at_us=at_us,
            expires_us=None if wish.expires_s is None else self.now_us + wish.expires_s * SECOND_US,
            lane=wish.lane,
            lane_limit=wish.lane_limit if wish.lane else None,
            unique=unique,
            gate=wish.gate,
            needs=wish.needs,
            parents=parents,
            flow=wish.flow,
            tags=(wish.task,),
            options=b"{}",
        )

    def _job(self, wish: Wish, job_id: JobId, parents: tuple[Edge, ...]) -> Job:
        request = self._request(wish, job_id, parents)
        if wish.past is None:
            return Job(request=request)
        past, now_us = wish.past, self.now_us
        attempt, crashes, losses = past.counts
        fine_us = self._number() * FINE_US
        ended = past.state in ENDED
        record = Record(
            state=past.state,
            queue=wish.queue,
            fence=past.fence,
            settled_fence=past.fence if ended else 0,
            attempt=attempt,
            crashes=crashes,
            losses=losses,
            suspect=losses > 1,
            rank=now_us + past.rank_s * SECOND_US + fine_us,
            due_us=now_us + (12 * SECOND_US + fine_us if past.state is State.SCHEDULED else -fine_us),
            created_us=now_us - 60 * SECOND_US,
            ended_us=now_us - SECOND_US if ended else None,
            reason="brought" if ended else None,
        )
        failure = Failure(type="Boom", fingerprint="boom") if past.state is State.DEAD else None
        attempts = (
            (Attempt(attempt=1, fence=3, outcome=Outcome.FAILED, ended_us=now_us, failure=failure),)
            if attempt > 1
            else ()
        )
        return Job(request=request, record=record, failure=failure, attempts=attempts)

    def insert(self, wishes: list[Wish], again: int | None, backwards: bool) -> None:
        self.insert_jobs(wishes, again, backwards=backwards)

    def insert_jobs(self, wishes: list[Wish], again: int | None, *, backwards: bool) -> None:
        """Sends new jobs, and perhaps one that was sent before."""
        jobs: list[Job] = []
        for wish in wishes:
            job_id = self._number().to_bytes(16, "big")
            # A job refused for its key is followed by those sent after it, in the holder's name; not by earlier ones.
            batch = [job for job in jobs if not backwards or job.request.unique is None]
            jobs.append(self._job(wish, job_id, self._parents(wish, batch)))
        if backwards:
            jobs.reverse()
        self.ids += [job.id for job in jobs]
        here = [job_id for job_id in self.ids if job_id in self.history.sent]
        if again is not None and here:
            jobs.append(self.requests[here[-1 - again % len(here)]])
        receipts = self._all(lambda engine: engine.insert(jobs))
        for job, receipt in zip(jobs, receipts or (), strict=bool(receipts)):
            assert receipt.id == job.id
            if receipt.duplicate_of is None:
                assert job.id not in self.history.sent, "a job that is there was inserted again"
                self.requests[job.id] = job
                self.history.send(job.request, whole=job.record is not None)
            elif receipt.duplicate_of != job.id:
                self.history.instead[job.id] = receipt.duplicate_of
        if receipts is None:
            self.ids = [job_id for job_id in self.ids if job_id in self.requests]
        self._chores()
        self._look()

    def _parents(self, wish: Wish, batch: list[Job]) -> tuple[Edge, ...]:
        """Earlier jobs, also of the same batch, and also some that are gone: those only outside a flow.

        A node of a flow may come before its parent, so nobody can tell it that its parent will never come.
        """
        ids = [job_id for job_id in self.ids if wish.flow is None or job_id in self.history.sent]
        ids += [job.id for job in batch]
        edges = {(parent := ids[-1 - index % len(ids)]): Edge(parent, on) for index, on in wish.parents if ids}
        return tuple(edges.values())

    def _chores(self) -> None:
        """Lets pending chores be done: when they are done is the engine's own choice."""
        self._all(lambda engine: engine.settle([Settlement(id=bytes(16), fence=1)]))

    # ── workers ─────────────────────────────────────────────────────────────────────────────────────────

    def _announce(self, tasks: tuple[str, ...] | None) -> Hand:
        worker = b"worker" + self._number().to_bytes(10, "big")
        hand = Hand(card=Card(worker=worker, name="hand", tasks=tasks, lease_us=LEASE_US))
        self.hands.append(hand)
        self._beat(hand)
        return hand

    def _beat(self, hand: Hand, deltas: tuple[Delta, ...] = (), *, bye: bool = False) -> None:
        beat = Beat(card=hand.card, beat=hand.beat, deltas=deltas, bye=bye)
        hand.beat, hand.last = hand.beat + 1, beat
        self._send(hand, beat)

    def _send(self, hand: Hand, beat: Beat) -> None:
        orders = self._all(
            lambda engine: engine.renew(beat),
            lambda orders: (orders.gone, orders.now_us, orders.claims, sorted(orders.cancel), orders.command),
        )
        assert orders is not None
        if orders.gone or beat.bye:
            hand.alive = False

    def _hand(self, index: int) -> Hand:
        """One of the living, or any worker there ever was where the index is 3."""
        alive = [hand for hand in self.hands if hand.alive]
        hands = alive if alive and index < 3 else self.hands
        return hands[-1 - index % len(hands)]

    def live(
        self,
        worker: int,
        what: Literal["announce", "renew", "repeat", "vanish", "bye"],
        tasks: tuple[str, ...] | None,
        n: int,
    ) -> None:
        """Workers come, renew with counts, repeat a beat, say goodbye, or die without a word."""
        hand = self._hand(worker)
        deltas = tuple(Delta(queue="default", task="add", name="succeeded", n=i + 1) for i in range(n))
        match what:
            case "announce":
                if sum(hand.alive for hand in self.hands) < MOST_HANDS:
                    self._announce(tasks)
            case "repeat":
                if hand.last is not None:
                    self._send(hand, hand.last)
            case "renew" | "bye":
                if hand.alive:
                    self._beat(hand, deltas, bye=what == "bye")
            case "vanish":
                self._vanish(hand)
        for span in SPANS:
            self._tally(span)
        self._look()

    def _tally(self, span: Span) -> None:
        self._all(
            lambda engine: engine.tally(TallyQuery(span=span)),
            lambda tally: (set(tally.buckets), set(tally.cards)),
        )

    def _vanish(self, hand: Hand) -> None:
        hand.alive = False
        kill = type(self).kill
        for engine in self.engines:
            if engine.capabilities.death == "lock":
                assert kill is not None, "an engine that decides death by lock needs `kill`"
                kill(engine, hand.card.worker)

    def claim(
        self,
        worker: int,
        limit: int,
        queues: tuple[str, ...] | None,
        tasks: frozenset[str] | None,
        free: int,
        suspects: bool,
        how: Literal["fresh", "as is", "repeat"],
    ) -> None:
        hand = self._hand(worker)
        if how == "fresh" and hand.alive:
            self._beat(hand)
        if how != "repeat" or hand.order is None:
            hand.ticket += 1
            hand.order = Order(
                worker=hand.card.worker,
                ticket=hand.ticket,
                limit=1 if suspects else limit,
                queues=queues,
                tasks=tasks,
                free={**HAS, "cpu": free},
                total=HAS,
                suspects=suspects,
            )
        self._claim(hand.order)
        self._look(claimed=True)

    def _claim(self, order: Order) -> tuple[Claim, ...]:
        """Claims on every engine: the same jobs, in the order of rank; the order of equals is the engine's own."""
        found: list[dict[Claim, int]] = []

        def call(engine: Engine) -> tuple[Claim, ...]:
            claims = engine.claim(order).claims
            jobs = engine.fetch([claim.id for claim in claims])
            ranks = [job.record.rank for job in jobs if job is not None and job.record is not None]
            new = all(self.history.claimed.get(claim.id) != claim.fence for claim in claims)
            assert not new or ranks == sorted(ranks), "claims are not in the order of rank"
            assert len(claims) <= order.limit
            found.append(dict(zip(claims, ranks, strict=True)))
            return claims

        claims = self._all(call, lambda _: None)
        if claims is None:
            return ()
        for other in found[1:]:
            self._same_claims(found[0], other)
        self._chores()
        for claim in claims:
            if self.history.claimed.get(claim.id) == claim.fence:
                assert claim in self.claims, "a repeated ticket was answered with something else"
            else:
                self.history.claim(claim)
                self.claims.append(claim)
        return claims

    def _same_claims(self, one: dict[Claim, int], other: dict[Claim, int]) -> None:
        if one.keys() == other.keys():
            return
        odd = {one.get(claim, other.get(claim)) for claim in one.keys() ^ other.keys()}
        if len(one) == len(other) and len(odd) == 1 and odd == {max(one.values())} == {max(other.values())}:
            reject()  # The limit fell between equals: from here on the two have different histories.
        self._unless_late()
        raise Broken(f"the engine claimed {list(one)}, its model {list(other)}")

    def _unless_late(self) -> None:
        """How far ahead a claim looks for what has expired, and so sets others free, is the engine's own."""
        self._unless_tied()
        if self._late():
            reject()

    def _unless_tied(self) -> None:
        if self.tied:
            reject()

    def _unless_late_together(self) -> None:
        """Of two that have expired, which ends first is the engine's own; the other may end because of it instead."""
        late, sent = self._late(), self.history.sent
        lanes = Counter(sent[job_id].lane for job_id in late if sent[job_id].lane is not None)
        if any(late & self._ancestors(job_id) for job_id in late) or any(count > 1 for count in lanes.values()):
            reject()

    def _late(self) -> set[JobId]:
        """What was live when it was last looked at, and has expired."""
        live = {job_id for job_id, record in self.history.last.items() if record.state in LIVE}
        expiries = {job_id: self.history.sent[job_id].expires_us for job_id in live}
        return {
            job_id for job_id, expires_us in expiries.items() if expires_us is not None and expires_us <= self.now_us
        }

    def _ancestors(self, job_id: JobId) -> set[JobId]:
        found: set[JobId] = set()
        left = [job_id]
        while left:
            request = self.history.sent.get(left.pop())
            parents = {edge.parent for edge in request.parents} if request is not None else set[JobId]()
            left += parents - found
            found |= parents
        return found

    # ── writes in the name of a claim ───────────────────────────────────────────────────────────────────

    def _chosen(self, index: int, old: bool) -> Claim | None:
        held = self.claims
        if not old:
            last = self.history.last
            held = [
                claim
                for claim in held
                if claim.id in last and last[claim.id].state is State.RUNNING and last[claim.id].fence == claim.fence
            ]
        return held[-1 - index % len(held)] if held else None

    def _settlement(self, ending: Ending, claim: Claim) -> Settlement:
        again_us = None if ending.again_s is None else ending.again_s * SECOND_US + self._number() * FINE_US
        standing = Standing(attempt=claim.attempt, crashes=claim.crashes, losses=claim.losses, suspect=claim.suspect)
        transition = decide(ending.outcome, standing, delay_us=again_us, reason=ending.reason)
        jobs: list[Job] = []
        for index, wish in enumerate(ending.follow_ups):
            # Its parent is the job that sends it, which may end with this very settle.
            parents = (Edge(claim.id, wish.parents[0][1]),) if wish.parents else ()
            job_id = child_id(claim.id, index)
            job = self.requests.get(job_id) or Job(request=self._request(wish, job_id, parents))
            if job_id not in self.requests:
                self.requests[job_id] = job
                self.ids.append(job_id)
            jobs.append(job)
        ended = transition.to in ENDED
        become = None
        if ending.become and ending.outcome is Outcome.SUCCEEDED and jobs and self._may_become(jobs[0]):
            become = jobs[0].id
        bad = transition.to is State.DEAD or ending.outcome is Outcome.FAILED
        return Settlement(
            id=claim.id,
            fence=claim.fence,
            outcome=ending.outcome,
            transition=transition,
            result=b"42" if ending.outcome is Outcome.SUCCEEDED else None,
            failure=Failure(type="Boom", message="no", fingerprint="boom") if bad else None,
            ran_us=3_000 if ending.outcome is not None else None,
            keep_us=ending.keep_s * SECOND_US if ending.keep_s is not None and ended else None,
            queue="graves" if ending.move and transition.to is State.DEAD else None,
            follow_ups=tuple(jobs),
            become=become,
        )

    def _may_become(self, job: Job) -> bool:
        """A job that waits for the one it takes over from would wait for itself."""
        return not job.request.parents

    def settle(self, endings: list[tuple[int, bool, Ending]]) -> None:
        """Ends claims; the flag takes any claim there ever was, not only one that still holds."""
        settlements = [
            self._settlement(ending, claim)
            for index, old, ending in endings
            if (claim := self._chosen(index, old)) is not None
        ]
        if settlements:
            self._settle(settlements)

    def _frees(self, job_id: JobId) -> bool:
        """Whether others may wait for the end of this job."""
        known = self.history.sent
        heir_of = self.history.last[job_id].heir_of if job_id in self.history.last else None
        return (job_id in known and known[job_id].lane is not None) or any(
            edge.parent in (job_id, heir_of) for request in known.values() for edge in request.parents
        )

    def _settle(self, settlements: list[Settlement]) -> None:
        """Sends a batch. Where two of its ends set others free, one by one: their order is the engine's own."""
        before = self.picture
        assert before is not None
        freeing = {settlement.id for settlement in settlements if self._frees(settlement.id)}
        batches = [[settlement] for settlement in settlements] if len(freeing) > 1 else [settlements]
        accepted: set[JobId] = set()
        for batch in batches:
            verdicts = self._all(lambda engine, batch=batch: engine.settle(batch))
            for settlement, verdict in zip(batch, verdicts or (), strict=bool(verdicts)):
                if verdict is Verdict.ACCEPTED:
                    assert settlement.id not in accepted, "one job was settled twice"
                    accepted.add(settlement.id)
                    for job in settlement.follow_ups:
                        self.history.follow(job.request)
        after = self._look()
        for settlement in settlements:
            was = before.jobs.get(settlement.id)
            held = was is not None and was.record is not None and was.record.state is State.HELD
            if settlement.id not in accepted and not held and not accepted:
                invariants.refused_writes_change_nothing(was, after.jobs.get(settlement.id))

    def work(self, worker: int, endings: list[Ending], asks: tuple[str | None, ...]) -> None:
        """What workers do all day: renew, claim some, end them. Meanwhile somebody may ask for a cancel of it all."""
        hand = self._hand(worker)
        if hand.alive:
            self._beat(hand)
        hand.ticket += 1
        hand.order = Order(worker=hand.card.worker, ticket=hand.ticket, limit=len(endings), free=HAS, total=HAS)
        claims = self._claim(hand.order)
        self._look(claimed=True)
        if claims:
            for reason in asks:
                self._amend(Amendment(change=Change.CANCEL, ids=tuple(claim.id for claim in claims), reason=reason))
                self._look()
            self._settle([self._settlement(*pair) for pair in zip(endings, claims, strict=False)])

    def note(self, notes: list[tuple[int, bool, Literal["start", "log", "progress", "step"], str]]) -> None:
        written = [
            Note(id=claim.id, fence=claim.fence, kind=kind, data=b"note" * 9, key=key if kind == "step" else "")
            for index, old, kind, key in notes
            if (claim := self._chosen(index, old)) is not None
        ]
        self._all(lambda engine: engine.note(written))
        self._look()

    # ── people ──────────────────────────────────────────────────────────────────────────────────────────

    def amend(self, change: Change, indexes: list[int], state: State, queue: str, reason: str | None) -> None:
        """Changes jobs by name, or all that a query finds (where the order of changing them does not show)."""
        if indexes:
            ids = tuple(self.ids[-1 - index % len(self.ids)] for index in indexes)
            only = state if len(ids) % 2 else None
            self._amend(Amendment(change=change, ids=ids, state=only, reason=reason))
        elif change in (Change.CANCEL, Change.DELETE):
            self._amend(Amendment(change=change, query=Query(state=state, queue=queue), reason=reason))
        self._look()

    def _amend(self, amendment: Amendment) -> None:
        amended = self._all(
            lambda engine: engine.amend(amendment),
            lambda amended: (
                sorted(amended.changed),
                sorted(refusal.id for refusal in amended.refused),
                amended.cursor is None,
            ),
        )
        assert amended is not None
        if amendment.change is Change.DELETE:
            self.history.deleted.update(amended.changed)
        if amendment.change is Change.RETRY:
            self.history.retried.update(amended.changed)

    def search(self, query: Query) -> None:
        def walk(engine: Engine) -> tuple[list[Job], int]:
            jobs: list[Job] = []
            cursor: str | None = None
            while True:
                page = engine.search(msgspec.structs.replace(query, cursor=cursor))
                assert len(page.jobs) <= query.limit
                jobs += page.jobs
                cursor = page.cursor
                if cursor is None:
                    return jobs, engine.search(msgspec.structs.replace(query, count=True)).count

        def fixed(found: tuple[list[Job], int]) -> object:
            jobs, count = found
            ends = [job.record.ended_us for job in jobs if job.record is not None]
            # Ended jobs come newest first; the order of those that ended at one instant is the engine's own. The jobs
            # of a lane or a flow come as they were sent.
            by_end = query.state in ENDED and query.lane is None and query.flow is None
            assert not by_end or ends == sorted(ends, key=lambda end: -(end or 0))
            assert len({job.id for job in jobs}) == len(jobs) == count
            return {job.id: job for job in jobs}

        self._all(walk, fixed)

    # ── gates, flows, facts ─────────────────────────────────────────────────────────────────────────────

    def steer(self, key: str | JobId, gate: Gate | None) -> None:
        """Opens or shuts a gate, trips a breaker, or starts a flow."""
        if isinstance(key, bytes):
            self._start(key)
            return
        if gate is not None and gate.shut_until_us:
            gate = msgspec.structs.replace(gate, shut_until_us=self.now_us + gate.shut_until_us)
        self._write(Put(key=key, value=None if gate is None else msgspec.json.encode(gate)))

    def _start(self, flow: JobId) -> None:
        if any(request.flow == flow for request in self.history.sent.values()):
            self._write(Put(key=f"flow/{flow.hex()}", value=b"{}"))
            self.history.started.add(flow)
            self._look()

    def write(self, key: str, value: bytes | None, expect: str, ttl_s: int | None) -> None:
        def put(engine: Engine) -> list[Written]:
            (fact,) = engine.read([key])
            version = 0 if fact is None else fact.version
            wanted = {"any": None, "nothing": 0, "this": version, "other": version + 7}[expect]
            ttl_us = None if ttl_s is None else ttl_s * SECOND_US
            written = engine.write([Put(key=key, value=value, expect=wanted, ttl_us=ttl_us)])
            (after,) = engine.read([key])
            assert written[0].version == (0 if after is None else after.version)
            assert written[0].done or after == fact
            assert fact is None or after is None or not written[0].done or after.version > version
            return written

        self.keys.add(key)
        self._all(put, _written)
        self._look()

    def _write(self, put: Put) -> None:
        self.keys.add(put.key)
        self._all(lambda engine: engine.write([put]), _written)
        self._look()

    # ── time and housekeeping ───────────────────────────────────────────────────────────────────────────

    def time(self, how: Literal["passes", "is due", "stalls", "set back"], seconds: int) -> None:
        """Time passes and the living renew; or nobody does, as in an outage; or somebody sets the clock back.

        Or the clock stands at the very instant at which the next job is due.
        """
        match how:
            case "passes":
                self._pass(seconds * SECOND_US)
            case "stalls":
                self.clock.advance(seconds * SECOND_US)
            case "set back":
                self.clock.set_back(seconds * SECOND_US)
            case "is due":
                waiting = [record for record in self.history.last.values() if record.state is State.SCHEDULED]
                due = [record.due_us for record in waiting if record.due_us > self.now_us]
                self.clock.advance(min(due, default=self.now_us) - self.now_us)
        self._look()

    def _pass(self, left_us: int) -> None:
        while left_us > 0:
            step_us = min(left_us, BEAT_US)
            self.clock.advance(step_us)
            left_us -= step_us
            for hand in self.hands:
                if hand.alive:
                    self._beat(hand)

    def sweep(self, worker: int | None, limit: int) -> None:
        self._sweep(None if worker is None else self._hand(worker).card.worker, limit)
        self._look(swept=True)

    def _sweep(self, worker: WorkerId | None, limit: int) -> None:
        """Sweeps in steps of `limit` until there is no more; in which order within a step is the engine's own."""

        def all_of_it(engine: Engine) -> list[Swept]:
            steps: list[Swept] = []
            while not steps or steps[-1].more:
                steps.append(engine.sweep(Sweep(worker=worker, limit=limit)))
                assert len(steps) < 10_000, "the sweep does not come to an end"
            return steps

        self._all(all_of_it, _swept)
        self._chores()

    # ── the end of every history: nothing is stuck, nothing leaks ───────────────────────────────────────

    def _drain(self) -> None:
        """Opens every gate, starts every flow, runs every job; then lets retention pass."""
        for key in GATES:
            self._write(Put(key=key, value=None))
        for flow in FLOWS:
            self._start(flow)
        hand = self._announce(None)
        for round_ in range(1_000):
            if not self._run_all(hand):
                break
            assert round_ < 900, self._stuck()
        self._forget(hand)

    def _run_all(self, hand: Hand) -> bool:
        """Ends everything that can end now, then lets time pass; whether anything is left."""
        self._sweep(hand.card.worker, 1_000)
        picture = self._look(swept=True)
        settlements = [
            _success(job_id, record) for job_id, _, record in picture.records() if record.state is State.RUNNING
        ]
        for suspects in (False, True):
            while True:
                hand.ticket += 1
                plenty = {"cpu": 1 << 40, "gpu": 1 << 40, "memory": 1 << 40}
                order = Order(worker=hand.card.worker, ticket=hand.ticket, free=plenty, total=plenty, suspects=suspects)
                claims = self._claim(order)
                if not claims:
                    break
                settlements += [_success(claim.id, claim) for claim in claims]
        for settlement in settlements:
            # One by one: in which order two ends of one batch set their dependents free is the engine's own.
            verdicts = self._all(lambda engine, settlement=settlement: engine.settle([settlement]))
            assert verdicts == [Verdict.ACCEPTED]
        live = [record for _, _, record in self._look().records() if record.state in LIVE]
        due = [record.due_us for record in live if record.state is State.SCHEDULED and record.due_us > self.now_us]
        if due:
            self.clock.advance(max(0, min(due) - self.now_us - 1))
        self._pass(SECOND_US)
        return bool(live)

    def _stuck(self) -> str:
        live = [
            f"{show_id(job_id)} {record.state} {record.hold or ''} due {record.due_us - self.now_us} µs from now"
            for job_id, record in self.history.last.items()
            if record.state in LIVE
        ]
        return "these jobs never end: " + "; ".join(live)

    def _forget(self, hand: Hand) -> None:
        """After retention nothing is left but the facts that the test wrote itself."""
        self.clock.advance(PAST_EVERYTHING_US)
        self._beat(hand)
        self._pass(2 * LEASE_US)
        for _ in range(2):
            self._sweep(hand.card.worker, 100)
        picture = self._look(swept=True)
        assert not picture.jobs, f"{len(picture.jobs)} jobs stay for ever"
        assert not picture.counts, f"counters stay for ever: {picture.counts}"
        for other in self.hands:
            if other.alive:
                self._beat(other, bye=True)
        self._sweep(None, 100)
        keys = [f"flow/{flow.hex()}" for flow in FLOWS] + [f"worker/{other.card.worker.hex()}" for other in self.hands]
        for engine in self.engines:
            assert not engine.tally(TallyQuery()).cards, "a card stays for ever"
            assert engine.read(keys) == [None] * len(keys), "a fact outlives what it was about"
        leaks = type(self).leaks
        if leaks is not None:
            left = leaks(self.engines[0])
            assert not left, f"left behind: {', '.join(left)}"


# ── what the contract fixes ─────────────────────────────────────────────────────────────────────────────


def _success(job_id: JobId, of: Record | Claim) -> Settlement:
    standing = Standing(attempt=of.attempt, crashes=of.crashes, losses=of.losses, suspect=of.suspect)
    return Settlement(id=job_id, fence=of.fence, transition=decide(Outcome.SUCCEEDED, standing))


def _compare(engine: Picture, model: Picture) -> None:
    for job_id in engine.jobs.keys() | model.jobs.keys():
        one, other = engine.jobs.get(job_id), model.jobs.get(job_id)
        if one != other and not _alike(one, other):
            raise Broken(f"the engine shows\n  {one}\nits model\n  {other}")
    if (engine.counts, engine.cards) != (model.counts, model.cards):
        raise Broken(f"the engine counts {engine.counts}, {engine.cards}; its model {model.counts}, {model.cards}")


def _has_ties(picture: Picture) -> bool:
    """Whether two of a lane come due at the same instant."""
    waiting = [
        (request.lane, record.due_us) for _, request, record in picture.records() if record.state is State.SCHEDULED
    ]
    return any(count > 1 for (lane, _), count in Counter(waiting).items() if lane is not None)


def _alike(one: Job | None, other: Job | None) -> bool:
    """Equal, but for what is an engine's own.

    Ranks fix an order, which claims show; how many values an engine takes from its counter is its own. A key
    whose period is over blocks nobody, whether or not the record has been told already.
    """
    if one is None or other is None or one.record is None or other.record is None:
        return False
    if abs(one.record.rank - other.record.rank) > RANK_SLACK_US:
        return False
    unique = one.request.unique
    blocks = other.record.blocks if unique is not None and unique.until == "time" else one.record.blocks
    record = msgspec.structs.replace(one.record, rank=other.record.rank, blocks=blocks)
    return msgspec.structs.replace(one, record=record) == other


def _written(written: list[Written]) -> object:
    return [(entry.done, entry.version > 0) for entry in written]


def _facts(facts: list[Fact | None]) -> object:
    return [None if fact is None else (fact.key, fact.value, fact.expires_us) for fact in facts]


def _swept(steps: list[Swept]) -> object:
    """How much was done in all; chores and freed keys are counted as each engine cuts them.

    So are those that expired: of two in a lane, one may end because the other has, before it is its turn.
    """
    sums = [sum(getattr(step, name) for step in steps) for name in ("workers", "lost", "due", "purged")]
    told = [*(death for step in steps for death in step.deaths), *(job for step in steps for job in step.poisoned)]
    assert len(set(told)) == len(told), "a death was told twice"
    return sums, set(told)


# ── making tests of it ──────────────────────────────────────────────────────────────────────────────────

SAMPLE = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
"""For every run of the tests: small, and the same histories every time."""


def memory_model(limits: Limits) -> Engine:
    """The definition of an engine that calls workers dead by their lease."""
    return MemoryEngine(limits=limits)


def machine_for(
    make: Make,
    *,
    model_make: Make | None = memory_model,
    name: str,
    kill: Kill | None = None,
    leaks: Leaks | None = None,
    profile: settings = SAMPLE,
) -> type[TestCase]:
    """A test of the engine that `make` makes. `model_make=None`: by invariants alone.

    `kill` lets a worker vanish where death is decided by a lock; `leaks` names what is left in the store
    after everything was purged, as far as only the engine itself can see it.
    """
    machine = _machine(make, model_make, name, kill, leaks)
    case: type[TestCase] = machine.TestCase
    setattr(case, "settings", profile)  # noqa: B010 - Hypothesis reads it from the class
    case.__name__ = case.__qualname__ = name
    return case


def soak_machine(
    make: Make,
    *,
    model_make: Make | None = memory_model,
    name: str,
    seed: int,
    examples: int = 2_000,
    steps: int = 80,
    kill: Kill | None = None,
    leaks: Leaks | None = None,
) -> None:
    """Runs many long histories from a seed; a failure says which, so that it can be had again."""
    machine = _machine(make, model_make, name, kill, leaks)
    profile = settings(SAMPLE, max_examples=examples, stateful_step_count=steps, derandomize=False)
    try:
        run_state_machine_as_test(seeded(seed)(machine), settings=profile)
    except BaseException as error:
        error.add_note(f"soak_machine({name!r}) with seed={seed}, examples={examples}, steps={steps}")
        raise


def _machine(
    make: Make, model_make: Make | None, name: str, kill: Kill | None, leaks: Leaks | None
) -> type[EngineMachine]:
    members: dict[str, object] = {
        "__doc__": f"The state machine of {name}.",
        "make": staticmethod(make),
        "model_make": None if model_make is None else staticmethod(model_make),
        "kill": None if kill is None else staticmethod(kill),
        "leaks": None if leaks is None else staticmethod(leaks),
    }
    return type(name, (EngineMachine,), members)
