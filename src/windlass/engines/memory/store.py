"""The memory engine's shelves: every job by id, a heap per stream, and the small tables around them.

Nothing here decides anything; it only keeps the shelves consistent with one another. Removal from a heap is
lazy: an entry counts only while its job still says the same, so leaving a stream costs nothing.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from windlass.core.gates import OPEN, Gate, Needs, least_of
from windlass.core.ids import JobId, WorkerId
from windlass.core.job import (
    ENDED,
    Attempt,
    Edge,
    Failure,
    Hold,
    Job,
    LogLine,
    Progress,
    Record,
    Request,
    State,
)
from windlass.engines.protocol import LINE_COST, Beat, Card, Fact, Note, Part

Heap = list[tuple[int, int, "Row"]]


@dataclass(slots=True, eq=False)
class Log:
    """A job's log within its bound: the head stays, the tail moves on, the middle is what is lost."""

    head: list[LogLine] = field(default_factory=list[LogLine])
    tail: deque[LogLine] = field(default_factory=deque[LogLine])
    head_bytes: int = 0
    tail_bytes: int = 0
    number: int = 0

    def append(self, attempt: int, at_us: int, said: Note, bound: int) -> None:
        self.number += 1
        line = LogLine(number=self.number, attempt=attempt, at_us=at_us, text=said.data, stream=said.stream)
        size = len(said.data) + LINE_COST
        if not self.tail and self.head_bytes + size <= bound // 2:
            self.head.append(line)
            self.head_bytes += size
            return
        self.tail.append(line)
        self.tail_bytes += size
        while self.tail_bytes > bound // 2 and len(self.tail) > 1:
            self.tail_bytes -= len(self.tail.popleft().text) + LINE_COST


@dataclass(slots=True, eq=False)
class Row:
    """A job as the engine holds it."""

    seq: int
    request: Request
    state: State | None
    queue: str
    created_us: int
    due_us: int
    expires_us: int | None
    fence: int = 0
    settled_fence: int = 0
    attempt: int = 1
    crashes: int = 0
    losses: int = 0
    suspect: bool = False
    rank: int = 0
    claimed_us: int | None = None
    started_us: int | None = None
    ended_us: int | None = None
    worker: WorkerId | None = None
    ticket: int = 0
    hold: Hold | None = None
    reason: str | None = None
    cancel_asked: bool = False
    key: str | None = None
    key_until_us: int | None = None
    heir: JobId | None = None
    heir_of: JobId | None = None
    place: int = 0
    slot: bool = False
    """Whether it holds one of its lane's places."""
    open_edges: int = 0
    stream: Stream | None = None
    parked: bool = False
    purge_us: int | None = None
    keep_us: int = 0
    result: bytes | None = None
    result_until_us: int = 0
    failure: Failure | None = None
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    progress: Progress | None = None
    log: Log = field(default_factory=Log)
    steps: dict[str, bytes] = field(default_factory=dict[str, bytes])

    @property
    def root(self) -> JobId:
        """The id that this job's dependents wait for."""
        return self.heir_of or self.request.id

    def record(self) -> Record:
        assert self.state is not None
        return Record(
            state=self.state,
            queue=self.queue,
            fence=self.fence,
            settled_fence=self.settled_fence,
            attempt=self.attempt,
            crashes=self.crashes,
            losses=self.losses,
            suspect=self.suspect,
            rank=self.rank,
            due_us=self.due_us,
            created_us=self.created_us,
            claimed_us=self.claimed_us,
            started_us=self.started_us,
            ended_us=self.ended_us,
            worker=self.worker,
            hold=self.hold,
            reason=self.reason,
            cancel_asked=self.cancel_asked,
            blocks=self.key is not None,
            heir=self.heir,
            heir_of=self.heir_of,
        )

    def job(self, parts: frozenset[Part], log_after: int, now_us: int) -> Job:
        request = self.request
        if Part.PAYLOAD not in parts:
            request = msgspec.structs.replace(request, payload=b"")
        shown = self.result if Part.RESULT in parts and now_us < self.result_until_us else None
        lines = (*self.log.head, *self.log.tail) if Part.LOG in parts else ()
        return Job(
            request=request,
            record=self.record(),
            result=shown,
            failure=self.failure,
            attempts=tuple(self.attempts) if Part.ATTEMPTS in parts else (),
            progress=self.progress if Part.PROGRESS in parts else None,
            log=tuple(line for line in lines if line.number > log_after),
            steps=tuple(sorted(self.steps.items())) if Part.STEPS in parts else (),
        )


StreamKey = tuple[str, str | None, Needs, str | None, bool]
"""Queue, shared gate, resource class (where parked the very needs), task (only where parked), suspects."""


class Stream:
    """Ready jobs that share all gates, smallest rank first."""

    __slots__ = ("heap", "key", "ready", "running")

    def __init__(self, key: StreamKey) -> None:
        self.key = key
        self.heap: Heap = []
        self.ready = 0
        self.running = 0

    @property
    def gates(self) -> tuple[str, ...]:
        queue, gate = self.key[0], self.key[1]
        return (f"queue/{queue}",) if gate is None else (f"queue/{queue}", f"gate/{gate}")

    @property
    def least(self) -> Needs:
        """The least that a job of it needs."""
        needs, task = self.key[2], self.key[3]
        return least_of(needs) if task is None else needs

    def heads(self) -> Iterator[tuple[int, Row]]:
        """The ready jobs in order, taken off the heap; what is not claimed is put back by `enter`."""
        while self.heap:
            rank, _, row = heapq.heappop(self.heap)
            if row.state is State.READY and row.stream is self and row.rank == rank:
                yield rank, row


@dataclass(slots=True, eq=False)
class Lane:
    """A key whose first `limit` jobs are admitted and whose others wait in the order of joining."""

    limit: int = 1
    busy: int = 0
    last_rank: int = 0
    waiting: Heap = field(default_factory=list[tuple[int, int, Row]])


@dataclass(slots=True, eq=False)
class Flow:
    """A graph of jobs: how many are open, and which rows to go through when it starts or ends."""

    started: bool = False
    open: int = 0
    rows: dict[int, Row] = field(default_factory=dict[int, Row])


@dataclass(slots=True, eq=False)
class Desk:
    """A worker's card with what the store adds to it."""

    beat: Beat
    seen_us: int
    unbroken_since_us: int
    lost: bool = False
    ticket: int = 0
    running: dict[JobId, Row] = field(default_factory=dict[JobId, Row])

    @property
    def card(self) -> Card:
        return self.beat.card


@dataclass(slots=True, eq=False)
class Chore:
    """Follow-up work that did not fit its step. `kind` says what, `key` on what, `at` how far."""

    kind: str
    key: object
    at: int = 0
    note: object = None


class Store:
    """All shelves of one namespace."""

    def __init__(self) -> None:
        self.seq = 0
        self.order = 0
        self.version = 0
        self.rows: dict[JobId, Row] = {}
        self.by_seq: dict[int, Row] = {}
        self.ended: dict[int, Row] = {}
        self.streams: dict[StreamKey, Stream] = {}
        self.scheduled: Heap = []
        self.expiring: Heap = []
        self.purging: Heap = []
        self.key_ends: Heap = []
        self.keys: dict[str, Row] = {}
        self.lanes: dict[str, Lane] = {}
        self.edges: dict[JobId, deque[tuple[Row, Edge]]] = {}
        self.flows: dict[JobId, Flow] = {}
        self.desks: dict[WorkerId, Desk] = {}
        self.chores: deque[Chore] = deque()
        self.facts: dict[str, Fact] = {}
        self.gates: dict[str, Gate] = {}
        self.buckets: dict[str, int] = {}
        """The theoretical arrival time of each rated gate's next job (core/rates.py)."""
        self.counts: Counter[tuple[str, str, State]] = Counter()
        self.history: Counter[tuple[str, int, str, str, str]] = Counter()
        self.fact_version = 0

    def add(self, row: Row) -> None:
        self.rows[row.request.id] = row
        self.by_seq[row.seq] = row

    def drop(self, row: Row) -> None:
        """Takes an ended job off every shelf."""
        del self.rows[row.request.id]
        del self.by_seq[row.seq]
        self.ended.pop(row.seq, None)
        self.clear_key(row)
        self.uncount(row)
        if row.request.flow is not None:
            flow = self.flows[row.request.flow]
            del flow.rows[row.seq]
            if not flow.rows:
                del self.flows[row.request.flow]
                self.facts.pop(f"flow/{row.request.flow.hex()}", None)

    def turn(self, row: Row, state: State) -> None:
        """Moves a job to a state and keeps the counters true."""
        if row.state is not None:
            self.uncount(row)
        if row.state in ENDED and state not in ENDED:
            self.ended.pop(row.seq, None)
        row.state = state
        self.recount(row)
        if state in ENDED:
            self.ended[row.seq] = row
        self.version += 1

    def uncount(self, row: Row) -> None:
        self._count(row, -1)

    def recount(self, row: Row) -> None:
        self._count(row, 1)

    def _count(self, row: Row, n: int) -> None:
        assert row.state is not None
        key = (row.queue, row.request.task, row.state)
        self.counts[key] += n
        if not self.counts[key]:
            del self.counts[key]

    def stream(self, key: StreamKey) -> Stream:
        stream = self.streams.get(key)
        if stream is None:
            stream = self.streams[key] = Stream(key)
        return stream

    def enter(self, row: Row, stream: Stream) -> None:
        heapq.heappush(stream.heap, (row.rank, row.seq, row))
        if row.stream is not stream:
            row.stream = stream
            stream.ready += 1

    def leave(self, row: Row, *, running: bool) -> None:
        """Takes a ready or running job out of its stream's count, and the stream away with its last job."""
        stream = row.stream
        assert stream is not None
        if running:
            stream.running -= 1
        else:
            stream.ready -= 1
        row.stream = None
        if not stream.ready and not stream.running:
            self.streams.pop(stream.key, None)

    def take_key(self, row: Row, key: str, until_us: int | None) -> None:
        row.key, row.key_until_us = key, until_us
        self.keys[key] = row
        if until_us is not None:
            heapq.heappush(self.key_ends, (until_us, row.seq, row))

    def clear_key(self, row: Row) -> None:
        if row.key is not None:
            del self.keys[row.key]
            row.key = row.key_until_us = None

    def gate(self, name: str, now_us: int) -> Gate:
        """The rule that holds now: none once its fact has expired, swept or not."""
        fact = self.facts.get(name)
        if fact is None or (fact.expires_us is not None and fact.expires_us <= now_us):
            return OPEN
        return self.gates[name]

    def running_at(self, gate: str) -> int:
        return sum(stream.running for stream in self.streams.values() if gate in stream.gates)
