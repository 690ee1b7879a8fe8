"""The engine protocol: sixteen verbs, values in, values out. Frozen; a 17th needs a decision record.

Every verb is synchronous, thread-safe and batch-first. The adverb is in the value: there are no `_many`,
`_async` or `_unique` twins. Every verb may be repeated after an answer that was lost: insert by id, claim by
ticket, settle by fence, renew by beat, write by version.

| verb | takes → gives |
| --- | --- |
| open, close | → `Opened`; checks, migrates; close wakes listeners |
| insert | jobs → `Receipt` each |
| claim | `Order` → `Claims` |
| settle | `Settlement`s → `Verdict` each |
| renew | `Beat` → `Orders` |
| note | `Note`s → `Verdict` each |
| sweep | `Sweep` → `Swept` |
| fetch | ids, parts → jobs |
| search | `Query` → `Page` |
| amend | `Amendment` → `Amended` |
| tally | `TallyQuery` → `Tally` |
| read, write | keys → facts; `Put`s → `Written` each |
| listen, signal | `Interest` → hints; hints → |

Four rooms of facts mean something to an engine: `queue/<name>` and `gate/<name>` hold a `core.gates.Gate`,
`flow/<id>` starts a flow, `worker/<id>` is an order that renew hands to that worker. Every other key is the
writer's own. What a verb refuses before it writes anything is in `checks.py`, the same for every engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, Protocol

import msgspec

from windlass.core.ids import JobId, WorkerId
from windlass.core.job import Failure, Job, Outcome, State
from windlass.core.lifecycle import SUCCESS, Transition

BATCH = 100
"""No statement touches more jobs than about this; what does not fit is written as a chore."""

ATTEMPTS_KEPT = 100
"""The last attempts of a job that are kept: one that snoozes for ever must not grow for ever."""
STEPS_KEPT = 1_000
LINE_COST = 32
"""What a log line counts for besides its text, so that empty lines are bounded too."""

SEARCH_RECORDS = 50_000
SEARCH_MS = 50


# ── what an engine is ───────────────────────────────────────────────────────────────────────────────────


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine can and cannot do, as data: the conformance suite reads it and shows it."""

    name: str
    settle: Literal["atomic", "chores"]
    death: Literal["lock", "lease"]
    durable: Literal["process", "host"]
    """What an acknowledged write survives: `process` nothing, it lives with it; `host` kill -9 and power cut."""
    processes: bool
    """Whether several processes may open one store."""


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """What open found: the schema version, and sentences a person should see."""

    schema: int
    notices: tuple[str, ...] = ()


# ── insert ──────────────────────────────────────────────────────────────────────────────────────────────


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """`duplicate_of` is None for a new job, the same id for one sent twice, another for a blocked key."""

    id: JobId
    duplicate_of: JobId | None = None


# ── claim ───────────────────────────────────────────────────────────────────────────────────────────────


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker wants to run. A repeat of the last ticket is answered with what it already holds.

    A claim that found nothing leaves no trace (an idle worker costs the disk nothing): its ticket may be used again.
    `tasks`: of those on its card only these, where it has slots for one kind of task and none for another.
    """

    worker: WorkerId
    ticket: int
    limit: int = BATCH
    queues: tuple[str, ...] | None = None
    tasks: frozenset[str] | None = None
    free: dict[str, int] = {}
    total: dict[str, int] = {}
    suspects: bool = False

    def among(self, known: frozenset[str] | None) -> frozenset[str] | None:
        """The tasks that are wanted, of those the card lists; None: all there are."""
        if known is None or self.tasks is None:
            return self.tasks if known is None else known
        return self.tasks & known


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A job to run, with the fence that every write in its name must carry."""

    id: JobId
    fence: int
    task: str
    queue: str
    payload: bytes
    options: bytes
    attempt: int
    crashes: int
    losses: int
    suspect: bool
    priority: int
    due_us: int
    lane: str | None = None
    flow: JobId | None = None
    needs: tuple[tuple[str, int], ...] = ()


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """The claims, and how long to wait before looking again (None: until somebody signals)."""

    claims: tuple[Claim, ...]
    wait_us: int | None = None


# ── settle ──────────────────────────────────────────────────────────────────────────────────────────────


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one claim. `outcome=None` gives it back unstarted.

    `ran_us` is how long it ran: the store subtracts it from its own clock. `keep_us` and `keep_result_us`
    say how long the record and its result stay after the end (None: the limits). Follow-ups are inserted with it;
    `become` names the one that takes over the job's dependents. `queue` moves a dead job to another queue.
    """

    id: JobId
    fence: int
    outcome: Outcome | None = Outcome.SUCCEEDED
    transition: Transition = SUCCESS
    result: bytes | None = None
    failure: Failure | None = None
    ran_us: int | None = None
    keep_us: int | None = None
    keep_result_us: int | None = None
    queue: str | None = None
    follow_ups: tuple[Job, ...] = ()
    become: JobId | None = None


class Verdict(StrEnum):
    """`already`: this very write had arrived before. `stale`: the claim is no longer yours; nothing changed."""

    ACCEPTED = "accepted"
    ALREADY = "already"
    STALE = "stale"


# ── workers ─────────────────────────────────────────────────────────────────────────────────────────────


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one worker since its last beat, added to the history."""

    queue: str
    task: str
    name: str
    n: int


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's record in the store. Its id is new at every start: reused names strand jobs for ever."""

    worker: WorkerId
    name: str = ""
    host: str = ""
    pid: int = 0
    queues: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    """The tasks it knows; None: all, as for a worker that runs no user code."""
    slots: int = 1
    lease_us: int = 15_000_000
    info: bytes = b""


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """A renewal. Beat 0 announces the worker; a repeated beat adds its deltas once."""

    card: Card
    beat: int
    deltas: tuple[Delta, ...] = ()
    bye: bool = False
    """The worker ends and holds nothing: its card goes."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """The store's answer to a beat. `gone`: the card was swept; take a new id, old fences still answer."""

    gone: bool = False
    now_us: int = 0
    claims: int = 0
    cancel: tuple[JobId, ...] = ()
    command: bytes | None = None


# ── note ────────────────────────────────────────────────────────────────────────────────────────────────


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """An append to a running job. `start` is written before a suspect runs; a step is kept under its key."""

    id: JobId
    fence: int
    kind: Literal["start", "log", "progress", "step"]
    data: bytes = b""
    key: str = ""


# ── sweep ───────────────────────────────────────────────────────────────────────────────────────────────


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """Housekeeping by anybody, bounded by `limit` records.

    On lease engines only a worker with one unbroken lease behind it may take others' jobs.
    """

    worker: WorkerId | None = None
    limit: int = BATCH


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that a sweep found dead, as its card names it, and how many jobs it held then."""

    worker: WorkerId
    name: str
    host: str
    pid: int
    jobs: int


class Poisoned(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a sweep called dead, because workers died each time it ran alone."""

    id: JobId
    task: str
    crashes: int


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep did; `more` says that its bound was reached. A death is told once, by the sweep that saw it."""

    workers: int = 0
    lost: int = 0
    chores: int = 0
    due: int = 0
    expired: int = 0
    keys: int = 0
    purged: int = 0
    more: bool = False
    deaths: tuple[Death, ...] = ()
    poisoned: tuple[Poisoned, ...] = ()


# ── looking and steering ────────────────────────────────────────────────────────────────────────────────


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs. Indexed: state with queue or task, worker, lane, flow, fingerprint; the rest is filtered.

    Order: ended states newest end first; otherwise the engine's own, stable under the cursor.
    """

    state: State | None = None
    queue: str | None = None
    task: str | None = None
    worker: WorkerId | None = None
    lane: str | None = None
    flow: JobId | None = None
    fingerprint: str | None = None
    tag: str | None = None
    since_us: int | None = None
    until_us: int | None = None
    limit: int = BATCH
    cursor: str | None = None
    count: bool = False


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page, or a count of what was looked at. `cursor` is None when everything has been seen."""

    jobs: tuple[Job, ...] = ()
    count: int = 0
    cursor: str | None = None
    scanned: int = 0
    back_to_us: int | None = None
    """The time of the oldest record looked at: how far back the search has come."""


class Change(StrEnum):
    """What amend can do to a job."""

    CANCEL = "cancel"
    RETRY = "retry"
    RUN_NOW = "run_now"
    DELETE = "delete"


class Amendment(msgspec.Struct, frozen=True, kw_only=True):
    """A change to the jobs named, or to the next page of those a query finds."""

    change: Change
    ids: tuple[JobId, ...] = ()
    query: Query | None = None
    reason: str | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was left as it is, and why, in a sentence."""

    id: JobId
    why: str


class Amended(msgspec.Struct, frozen=True, kw_only=True):
    """What was changed; go on with the cursor until it is None."""

    changed: tuple[JobId, ...] = ()
    refused: tuple[Refusal, ...] = ()
    cursor: str | None = None


Span = Literal["minute", "hour", "day"]
SPANS_US: dict[Span, int] = {"minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
HISTORY_KEPT: dict[Span, int] = {"minute": 360, "hour": 336, "day": 400}
"""How many buckets of each span are kept: six hours, two weeks, thirteen months."""


class TallyQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Counts now, and the history of one span since an instant where asked for."""

    span: Span | None = None
    since_us: int = 0


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of a task are in a state on a queue."""

    queue: str
    task: str
    state: State
    n: int


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """What workers counted under a name during one minute, hour or day."""

    start_us: int
    queue: str
    task: str
    name: str
    n: int


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Kept counters; they may lag a second."""

    counts: tuple[Count, ...] = ()
    buckets: tuple[Bucket, ...] = ()
    cards: tuple[Card, ...] = ()


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A small shared value. Its version grows with every write."""

    key: str
    value: bytes
    version: int
    expires_us: int | None = None


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """A write. `expect`: None whatever is there, 0 nothing may be there, n exactly that version."""

    key: str
    value: bytes | None
    expect: int | None = None
    ttl_us: int | None = None


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the write was done, and the version that is there now (0: none)."""

    done: bool
    version: int


class Part(StrEnum):
    """The parts of a job that are fetched only when asked for."""

    PAYLOAD = "payload"
    RESULT = "result"
    ATTEMPTS = "attempts"
    PROGRESS = "progress"
    LOG = "log"
    STEPS = "steps"


ALL_PARTS = frozenset(Part)


class Interest(msgspec.Struct, frozen=True, kw_only=True):
    """What a listener waits for: work on queues (None: any; (): none), ends of jobs, orders to a worker."""

    queues: tuple[str, ...] | None = ()
    ends: frozenset[JobId] = frozenset()
    worker: WorkerId | None = None


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """Only ever a hint: losing one costs at most a second."""

    kind: Literal["work", "end", "order", "closed"]
    queue: str | None = None
    id: JobId | None = None


class Engine(Protocol):
    """Where jobs live."""

    @property
    def capabilities(self) -> Capabilities: ...

    def open(self) -> Opened: ...
    def close(self) -> None: ...
    def insert(self, jobs: Sequence[Job], /) -> list[Receipt]: ...
    def claim(self, order: Order, /) -> Claims: ...
    def settle(self, settlements: Sequence[Settlement], /) -> list[Verdict]: ...
    def renew(self, beat: Beat, /) -> Orders: ...
    def note(self, notes: Sequence[Note], /) -> list[Verdict]: ...
    def sweep(self, sweep: Sweep, /) -> Swept: ...
    def fetch(
        self, ids: Sequence[JobId], /, parts: frozenset[Part] = ALL_PARTS, log_after: int = 0
    ) -> list[Job | None]: ...
    def search(self, query: Query, /) -> Page: ...
    def amend(self, amendment: Amendment, /) -> Amended: ...
    def tally(self, query: TallyQuery, /) -> Tally: ...
    def read(self, keys: Sequence[str], /) -> list[Fact | None]: ...
    def write(self, puts: Sequence[Put], /) -> list[Written]: ...
    def listen(self, interest: Interest, timeout_s: float, /) -> list[Hint]: ...
    def signal(self, hints: Sequence[Hint], /) -> None: ...
