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

The line behind each field, or under it, is its meaning in docs/reference/protocol.md, which is made from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, Protocol

import msgspec

from windlass.core.ids import JobId, WorkerId
from windlass.core.job import Failure, Job, Outcome, State, Stream
from windlass.core.lifecycle import SUCCESS, Transition
from windlass.core.lifecycle import Change as Change  # noqa: PLC0414 - whoever amends imports all of it from here

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

    name: str  # the engine, as its URL calls it
    settle: Literal["atomic", "chores"]  # whether follow-ups are there with the settle, or as chores soon after
    death: Literal["lock", "lease"]  # how a dead worker is known: a lock that the kernel frees, or a lease
    durable: Literal["process", "host", "server"]
    """What an acknowledged write survives: `process` nothing, it lives with it; `host` kill -9 and power cut; `server`
    what the server is set to survive, which open says."""
    processes: bool
    """Whether several processes may open one store."""
    locks: str = ""
    """A folder of this host for locks of single claims, where the engine heeds them (`locks.py`); empty: it does not.

    A claim of a dead worker stays with it as long as its lock is held, or until the instant that stands in the file.
    """


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """What open found: the schema version, and sentences a person should see."""

    schema: int  # the version of the stored form
    notices: tuple[str, ...] = ()  # also logged as warnings


# ── insert ──────────────────────────────────────────────────────────────────────────────────────────────


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """`duplicate_of` is None for a new job, the same id for one sent twice, another for a blocked key."""

    id: JobId  # of the job that was sent
    duplicate_of: JobId | None = None  # the job that is there instead


# ── claim ───────────────────────────────────────────────────────────────────────────────────────────────


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker wants to run. A repeat of the last ticket is answered with what it already holds.

    A claim that found nothing leaves no trace (an idle worker costs the disk nothing): its ticket may be used again.
    It names tasks where it has slots for one kind of them and none for another.
    """

    worker: WorkerId  # who claims; its card must be there
    ticket: int  # counts up with every new claim
    limit: int = BATCH  # how many claims at most
    queues: tuple[str, ...] | None = None  # from which queues; None: from all
    tasks: frozenset[str] | None = None  # of the tasks on its card only these; None: all
    free: dict[str, int] = {}  # what the worker has left of each resource
    total: dict[str, int] = {}  # what it has of each resource in all
    suspects: bool = False  # one suspect, and nothing else

    def among(self, known: frozenset[str] | None) -> frozenset[str] | None:
        """The tasks that are wanted, of those the card lists; None: all there are."""
        if known is None or self.tasks is None:
            return self.tasks if known is None else known
        return self.tasks & known


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job to run, with the fence that every write in its name must carry."""

    id: JobId  # of the job
    fence: int  # new with this claim
    task: str  # which function
    queue: str  # where it waited
    payload: bytes  # its arguments, sealed
    options: bytes  # what the send said otherwise than the task, as JSON
    attempt: int  # counts from 1
    crashes: int  # deaths that it very likely caused
    losses: int  # deaths of workers that held it
    suspect: bool  # run it with nothing beside it, its start written first
    priority: int  # 0 to 9
    due_us: int  # when it could have run at the earliest
    lane: str | None = None  # the key whose jobs run one after another
    flow: JobId | None = None  # the graph it is a node of
    needs: tuple[tuple[str, int], ...] = ()  # how much of which resource it takes


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """The claims, and how long to wait before looking again (None: until somebody signals).

    Fewer than were asked for are all that there is for this worker now, except in answer to a repeated ticket.
    """

    claims: tuple[Claim, ...]  # smallest rank first
    wait_us: int | None = None  # 0: at once


# ── settle ──────────────────────────────────────────────────────────────────────────────────────────────


class Settlement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of one claim. `outcome=None` gives it back unstarted.

    `ran_us` is how long it ran: the store subtracts it from its own clock. `keep_us` and `keep_result_us`
    say how long the record and its result stay after the end (None: the limits). Follow-ups are inserted with it;
    `become` names the one that takes over the job's dependents. `queue` moves a dead job to another queue.
    """

    id: JobId  # of the job
    fence: int  # of the claim
    outcome: Outcome | None = Outcome.SUCCEEDED  # how the attempt went
    transition: Transition = SUCCESS  # where the job goes from here, by `core.lifecycle.decide`
    result: bytes | None = None  # what the function returned, sealed
    failure: Failure | None = None  # the error as text
    ran_us: int | None = None  # None: it did not run
    keep_us: int | None = None  # of the record
    keep_result_us: int | None = None  # of the result
    queue: str | None = None  # only where it is dead
    follow_ups: tuple[Job, ...] = ()  # jobs to insert
    become: JobId | None = None  # id of a follow-up


class Verdict(StrEnum):
    """`already`: this very write had arrived before. `stale`: the claim is no longer yours; nothing changed."""

    ACCEPTED = "accepted"
    ALREADY = "already"
    STALE = "stale"


# ── workers ─────────────────────────────────────────────────────────────────────────────────────────────


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one worker since its last beat, added to the history."""

    queue: str  # where
    task: str  # of which task
    name: str  # what was counted
    n: int  # how many more


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's record in the store. Its id is new at every start: reused names strand jobs for ever."""

    worker: WorkerId  # its id
    name: str = ""  # for people
    host: str = ""  # where it runs
    pid: int = 0  # its process there
    queues: tuple[str, ...] | None = None  # those it claims from; None: all
    tasks: tuple[str, ...] | None = None
    """The tasks it knows; None: all, as for a worker that runs no user code."""
    slots: int = 1  # how many jobs it runs at once
    lease_us: int = 15_000_000  # how long it may be silent, where a lease decides
    info: bytes = b""  # more for people, as JSON


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """A renewal. Beat 0 announces the worker; a repeated beat adds its deltas once."""

    card: Card  # who it is
    beat: int  # counts up from 0
    deltas: tuple[Delta, ...] = ()  # what it counted since
    bye: bool = False
    """The worker ends and holds nothing: its card goes."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """The store's answer to a beat. `gone`: the card was swept; take a new id, old fences still answer."""

    gone: bool = False  # nothing else is said then
    now_us: int = 0  # the store's clock
    claims: int = 0  # how many jobs the store holds as running here
    cancel: tuple[JobId, ...] = ()  # jobs to stop, at most 100
    command: bytes | None = None  # the fact `worker/<id>`


# ── note ────────────────────────────────────────────────────────────────────────────────────────────────


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """An append to a running job. `start` is written before a suspect runs; a step is kept under its key."""

    id: JobId  # of the job
    fence: int  # of the claim
    kind: Literal["start", "log", "progress", "step"]  # what is appended
    data: bytes = b""  # a line, the progress, or what a step gave
    key: str = ""  # of a step
    stream: Stream = ""  # of a line: where it was said
    at_us: int = 0  # of a line: when it was said; 0: now


# ── sweep ───────────────────────────────────────────────────────────────────────────────────────────────


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """Housekeeping by anybody, bounded by `limit` records.

    On lease engines only a worker with one unbroken lease behind it may take others' jobs.
    """

    worker: WorkerId | None = None  # who sweeps
    limit: int = BATCH  # how many records at most
    rest_us: int = 0  # it may be skipped if about so long ago one that could take others' jobs left nothing


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that a sweep found dead, as its card names it, and how many jobs it held then."""

    worker: WorkerId  # its id
    name: str  # for people
    host: str  # where it ran
    pid: int  # its process there
    jobs: int  # how many jobs it held


class Poisoned(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a sweep called dead, because workers died each time it ran alone."""

    id: JobId  # of the job
    task: str  # which function
    crashes: int  # how many deaths


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep did; `more` says that its bound was reached. A death is told once, by the sweep that saw it."""

    workers: int = 0  # cards that went
    lost: int = 0  # jobs taken back
    chores: int = 0  # steps of chores done
    due: int = 0  # jobs whose time has come
    expired: int = 0  # jobs ended unstarted
    keys: int = 0  # unique keys set free
    purged: int = 0  # records past their time
    more: bool = False  # sweep again
    deaths: tuple[Death, ...] = ()  # at most 100
    poisoned: tuple[Poisoned, ...] = ()  # at most 100


# ── looking and steering ────────────────────────────────────────────────────────────────────────────────


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs. Indexed: state with queue or task, worker, lane, flow, fingerprint; the rest is filtered.

    Order: ended states newest end first; otherwise, and within a lane or a flow, the engine's own, stable under the
    cursor.
    """

    state: State | None = None  # in this state
    queue: str | None = None  # on this queue
    task: str | None = None  # of this task
    worker: WorkerId | None = None  # running at this worker
    lane: str | None = None  # in this lane
    flow: JobId | None = None  # nodes of this flow
    fingerprint: str | None = None  # whose last error has this fingerprint
    tag: str | None = None  # that bear this tag
    since_us: int | None = None  # ended, or sent where they have not, at this time or later
    until_us: int | None = None  # and before this time
    limit: int = BATCH  # of jobs on a page
    cursor: str | None = None  # where the page before stopped
    count: bool = False  # count them, give none


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page, or a count of what was looked at. `cursor` is None when everything has been seen."""

    jobs: tuple[Job, ...] = ()  # without their larger parts
    count: int = 0  # of this page
    cursor: str | None = None  # where to go on
    scanned: int = 0  # how many records were looked at
    back_to_us: int | None = None
    """The time of the oldest record looked at: how far back the search has come."""


class Amendment(msgspec.Struct, frozen=True, kw_only=True):
    """A change to the jobs named, or to the next page of those a query finds."""

    change: Change  # what to do
    ids: tuple[JobId, ...] = ()  # to these, at most 100
    query: Query | None = None  # or to those it finds
    state: State | None = None  # only where the job is in this state now; the others are refused
    reason: str | None = None  # of a cancel; kept with the job


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was left as it is, and why, in a sentence."""

    id: JobId  # of the job
    why: str  # for people


class Amended(msgspec.Struct, frozen=True, kw_only=True):
    """What was changed; go on with the cursor until it is None."""

    changed: tuple[JobId, ...] = ()  # in the order given
    refused: tuple[Refusal, ...] = ()  # the others
    cursor: str | None = None  # of the query


Span = Literal["minute", "hour", "day"]
SPANS_US: dict[Span, int] = {"minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
HISTORY_KEPT: dict[Span, int] = {"minute": 360, "hour": 336, "day": 400}
"""How many buckets of each span are kept: six hours, two weeks, thirteen months."""


class TallyQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Counts now, and the history of one span since an instant where asked for."""

    span: Span | None = None  # None: no history
    since_us: int = 0  # the oldest bucket wanted


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of a task are in a state on a queue."""

    queue: str  # on which queue
    task: str  # of which task
    state: State  # in which state
    n: int  # how many, never 0


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """What workers counted under a name during one minute, hour or day."""

    start_us: int  # when it begins
    queue: str  # on which queue
    task: str  # of which task
    name: str  # what was counted
    n: int  # how many


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Kept counters; they may lag a second."""

    counts: tuple[Count, ...] = ()  # now
    buckets: tuple[Bucket, ...] = ()  # the history that was asked for
    cards: tuple[Card, ...] = ()  # of the workers that live


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A small shared value. Its version grows with every write."""

    key: str  # a path of names
    value: bytes  # what was written
    version: int  # of this write
    expires_us: int | None = None  # when it is gone


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """A write. `expect`: None whatever is there, 0 nothing may be there, n exactly that version."""

    key: str  # a path of names
    value: bytes | None  # None: delete it
    expect: int | None = None  # compare before writing
    ttl_us: int | None = None  # how long it stays; None: for good


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the write was done, and the version that is there now (0: none)."""

    done: bool  # whether what was expected was there
    version: int  # now


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

    queues: tuple[str, ...] | None = ()  # where there is work
    ends: frozenset[JobId] = frozenset()  # any of these jobs
    worker: WorkerId | None = None  # for whom orders are
    bell: bytes | None = None  # an id of the listener's own: an order to it wakes this listener alone


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """Only ever a hint: losing one costs at most two seconds."""

    kind: Literal["work", "end", "order", "closed"]  # what happened
    queue: str | None = None  # where there is work
    id: JobId | None = None  # of the job that ended, or the worker that has an order
    job: Job | None = None  # the one that ended, with its result; None: it has to be fetched


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
