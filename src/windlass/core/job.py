"""What a job is: a request that never changes, and a record of how far it has come.

`Request` is written once by the sender and read by whoever runs the job; nothing in the system alters it.
`Record` is a snapshot of the mutable part, which engines own. `Job` is the two together, with the larger
parts (result, failure, log …) filled in only when they were asked for.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from windlass.core.ids import JobId, WorkerId


class State(StrEnum):
    """Where a job is in its life; `core/lifecycle.py` says how it moves on."""

    HELD = "held"
    READY = "ready"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


WAITING = frozenset({State.HELD, State.READY, State.SCHEDULED})
LIVE = WAITING | {State.RUNNING}
ENDED = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED, State.EXPIRED})


class Outcome(StrEnum):
    """How one attempt went."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETRY = "retry"
    SNOOZE = "snooze"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    LOST = "lost"


class Hold(StrEnum):
    """What a held job waits for."""

    FLOW = "flow"
    PARENTS = "parents"
    LANE = "lane"


class Unique(msgspec.Struct, frozen=True):
    """Blocks other jobs of the same key until this one starts, ends, or a period has passed."""

    key: str
    until: Literal["start", "end", "time"] = "end"
    period_us: int = 0


class Edge(msgspec.Struct, frozen=True):
    """A parent to wait for. `on="succeeded"`: any other end of the parent cancels the child."""

    parent: JobId
    on: Literal["succeeded", "ended"] = "succeeded"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for: immutable from the moment it is sent.

    `payload` is a sealed envelope (core/codec.py). `options` is what only the worker and people read
    (timeout, retry policy, headers) as JSON. Engines store both and look into neither.
    """

    id: JobId
    task: str
    queue: str = "default"
    payload: bytes = b""
    priority: int = 0
    delay_us: int = 0
    at_us: int | None = None
    expires_us: int | None = None
    lane: str | None = None
    lane_limit: int | None = None
    unique: Unique | None = None
    gate: str | None = None
    needs: tuple[tuple[str, int], ...] = ()
    parents: tuple[Edge, ...] = ()
    flow: JobId | None = None
    retry_of: JobId | None = None
    tags: tuple[str, ...] = ()
    options: bytes = b""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error as text: never an object that somebody could be made to import."""

    type: str
    message: str = ""
    traceback: str = ""
    fingerprint: str = ""

    @property
    def sentence(self) -> str:
        """Type and message with a full stop, so that another sentence may follow: `ValueError: no such card.`"""
        text = f"{self.type}: {self.message}".rstrip().removesuffix(":")
        return text if text.endswith((".", "!", "?", "…")) else f"{text}."


DAMAGED = Failure(type="CorruptRecord", message="Parts of this record cannot be read.", fingerprint="corrupt")
"""The error of a job of which an engine cannot read everything."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One finished run. A success at the first try is not kept: its record says all there is to say."""

    attempt: int
    fence: int
    outcome: Outcome
    worker: WorkerId | None = None
    started_us: int | None = None
    ended_us: int = 0
    failure: Failure | None = None


Stream = Literal["", "log", "stdout", "stderr"]
STREAMS: tuple[Stream, ...] = ("", "log", "stdout", "stderr")


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a job's log; `number` counts from 1 and never repeats, so a gap shows what was cut."""

    number: int
    attempt: int
    at_us: int
    """When it was said, by the clock of its worker; where that did not say, when it was stored."""
    text: bytes
    stream: Stream = ""
    """Where it was said: `log` by the logging module, `stdout` or `stderr`; empty: by the task to its job."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The last progress a run reported, as the worker wrote it."""

    at_us: int
    data: bytes


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of how far a job has come. Only engines make one; an import may bring one along."""

    state: State
    queue: str
    fence: int = 0
    settled_fence: int = 0
    attempt: int = 1
    crashes: int = 0
    losses: int = 0
    suspect: bool = False
    rank: int = 0
    due_us: int = 0
    created_us: int = 0
    claimed_us: int | None = None
    started_us: int | None = None
    ended_us: int | None = None
    worker: WorkerId | None = None
    hold: Hold | None = None
    reason: str | None = None
    cancel_asked: bool = False
    blocks: bool = False
    """Whether the job's unique key still blocks others."""
    heir: JobId | None = None
    """The follow-up that took over this job's dependents."""
    heir_of: JobId | None = None
    """The job whose dependents wait for this one."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A request and, where there is one, its record; the rest only as far as it was fetched."""

    request: Request
    record: Record | None = None
    result: bytes | None = None
    failure: Failure | None = None
    attempts: tuple[Attempt, ...] = ()
    progress: Progress | None = None
    log: tuple[LogLine, ...] = ()
    steps: tuple[tuple[str, bytes], ...] = ()

    @property
    def id(self) -> JobId:
        return self.request.id


def due_us(request: Request, now_us: int) -> int:
    """When the job may run at the earliest: a delay counts from the store's own clock."""
    return request.at_us if request.at_us is not None else now_us + request.delay_us
