"""A request as it is stored: once, beside its record, and never changed.

    4 bytes: length of the head   4 bytes: length of the options   head   options   payload

The head is MessagePack, and all of it that scripts read: a list, whose order is that of `Head` and of the numbers R_…
in lua/parts/rows.lua. Options and payload are bytes to everybody but those who made them.
"""

from __future__ import annotations

import struct
from typing import Literal

import msgspec

from windlass.core.gates import pack_needs, read_needs
from windlass.core.ids import JobId
from windlass.core.job import DAMAGED, Edge, Job, Record, Request, State, Unique
from windlass.engines.redis.rows import (
    STATES,
    Row,
    attempt_fields,
    fingerprint,
    read_failure,
    read_row,
    record_of,
)

_LENGTHS = struct.Struct(">II")
_UNTIL: tuple[Literal["start", "end", "time"], ...] = ("start", "end", "time")
_ON: tuple[Literal["succeeded", "ended"], ...] = ("succeeded", "ended")


class Head(msgspec.Struct, array_like=True):
    """What scripts read of a request; numbers below 0 and empty texts stand for nothing."""

    task: str
    queue: str
    priority: int
    delay_us: int
    at_us: int = -1
    expires_us: int = 0
    lane: str = ""
    lane_limit: int = 0
    until: int = 0
    key: str = ""
    period_us: int = 0
    gate: str = ""
    needs: str = ""
    flow: str = ""
    parents: list[tuple[str, int]] = []
    retry_of: str = ""
    tags: list[str] = []
    never: int = 0
    """Whether `expires_us` is the instant 0: it is over from the first day, and is no default."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Head).decode


def pack_request(request: Request) -> bytes:
    """The request as it is stored."""
    if (
        request.at_us is None
        and request.expires_us is None
        and request.lane is request.lane_limit is None
        and request.unique is None
        and request.gate is None
        and request.flow is None
        and request.retry_of is None
        and request.needs == request.parents == request.tags == ()
    ):
        head = _encode((request.task, request.queue, request.priority, request.delay_us))
    else:
        head = _encode(_head(request))
    return b"%b%b%b%b" % (_LENGTHS.pack(len(head), len(request.options)), head, request.options, request.payload)


def _head(request: Request) -> Head:
    unique = request.unique
    return Head(
        task=request.task,
        queue=request.queue,
        priority=request.priority,
        delay_us=request.delay_us,
        at_us=-1 if request.at_us is None else request.at_us,
        expires_us=0 if request.expires_us is None else max(1, request.expires_us),
        lane=request.lane or "",
        lane_limit=request.lane_limit or 0,
        until=0 if unique is None else _UNTIL.index(unique.until) + 1,
        key="" if unique is None else unique.key,
        period_us=0 if unique is None else unique.period_us,
        gate=request.gate or "",
        needs=pack_needs(request.needs),
        flow="" if request.flow is None else request.flow.hex(),
        parents=[(edge.parent.hex(), _ON.index(edge.on)) for edge in request.parents],
        retry_of="" if request.retry_of is None else request.retry_of.hex(),
        tags=list(request.tags),
        never=int(request.expires_us == 0),
    )


def bounds(stored: bytes) -> tuple[int, int]:
    """Where the options of a stored request begin and end; the payload is the rest.

    A request that is damaged has no options, and a payload that nobody can read: its job fails when it runs.
    """
    if len(stored) < _LENGTHS.size:
        return 0, 0
    size, options = _LENGTHS.unpack_from(stored)
    return 8 + size, 8 + size + options


def read_request(job_id: JobId, stored: bytes) -> Request | None:
    """The request that was stored, without its payload where that was cut off; None where it cannot be read."""
    start, end = bounds(stored)
    try:
        head = _decode(memoryview(stored)[8:start])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return Request(
        id=job_id,
        task=head.task,
        queue=head.queue,
        payload=stored[end:],
        priority=head.priority,
        delay_us=head.delay_us,
        at_us=None if head.at_us < 0 else head.at_us,
        expires_us=(head.expires_us or None) if not head.never else 0,
        lane=head.lane or None,
        lane_limit=head.lane_limit or None,
        unique=Unique(head.key, _UNTIL[head.until - 1], head.period_us) if head.until else None,
        gate=head.gate or None,
        needs=read_needs(head.needs),
        parents=tuple(Edge(bytes.fromhex(parent), _ON[on]) for parent, on in head.parents),
        flow=bytes.fromhex(head.flow) if head.flow else None,
        retry_of=bytes.fromhex(head.retry_of) if head.retry_of else None,
        tags=tuple(head.tags),
        options=stored[start:end],
    )


def read_job(job_id: JobId, record: bytes, stored: bytes | None, failure: bytes | None) -> tuple[Job, Row]:
    """A job and its row. Of one that is damaged what can be read is shown, and its error says so."""
    row, request = read_row(record), read_request(job_id, stored or b"")
    whole = row is not None and request is not None
    if row is None:
        task, queue = (request.task, request.queue) if request is not None else ("unknown", "unknown")
        row = Row(state=STATES[State.DEAD], queue=queue, task=task, reason="corrupt")
    if request is None:
        request = Request(id=job_id, task=row.task, queue=row.queue, payload=b"")
    return Job(request=request, record=record_of(row), failure=read_failure(failure) if whole else DAMAGED), row


def pack_job(job: Job) -> tuple[bytes, bytes, bytes, bytes]:
    """What insert takes of a job: its id, its request, what it has behind it, its result."""
    past = b"" if job.record is None else _encode(_past(job, job.record))
    return job.request.id, pack_request(job.request), past, job.result or b""


def _past(job: Job, record: Record) -> list[object]:
    """What an imported job has behind it: `bring_back` in lua/modules/imports.lua reads it by these places."""
    return [
        STATES[record.state],
        record.queue,
        str(record.fence),
        str(record.settled_fence),
        record.attempt,
        record.crashes,
        record.losses,
        int(record.suspect),
        record.rank,
        record.due_us,
        record.created_us,
        -1 if record.ended_us is None else record.ended_us,
        record.reason or "",
        int(record.blocks),
        "" if record.heir is None else record.heir.hex(),
        "" if record.heir_of is None else record.heir_of.hex(),
        "" if job.failure is None else msgspec.json.encode(job.failure).decode(),
        fingerprint(job.failure),
        [attempt_fields(attempt) for attempt in job.attempts],
        int(job.result is not None),
    ]
