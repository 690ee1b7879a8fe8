"""A job's row: its columns in one fixed order, read into a `Row`, changed there, and saved whole.

The hot path (a plain success) never builds one; everything that needs thought does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.gates import Needs, pack_needs, resource_class
from windlass.core.ids import JobId, WorkerId
from windlass.core.job import DAMAGED, Edge, Failure, Hold, Job, Record, Request, State, Unique
from windlass.engines.protocol import Part
from windlass.engines.sqlite.connection import Database
from windlass.engines.sqlite.statements import sql


class Row(msgspec.Struct):
    """The mutable part of a job, as the table has it; the order of fields is that of the columns."""

    seq: int
    id: JobId
    state: str
    queue: str
    task: str
    stream: int | None
    rank: int
    fence: int
    settled_fence: int
    worker: WorkerId | None
    ticket: int
    attempt: int
    crashes: int
    losses: int
    suspect: int
    cancel_asked: int
    priority: int
    created_us: int
    due_us: int
    claimed_us: int | None
    started_us: int | None
    ended_us: int | None
    expires_us: int | None
    purge_us: int | None
    keep_us: int
    reason: str | None
    hold: str | None
    lane: str | None
    lane_limit: int | None
    place: int | None
    slot: int
    ukey: str | None
    ukey_clears: str | None
    ukey_until_us: int | None
    gate: str
    needs: str
    parked: int
    flow: JobId | None
    open_edges: int
    heir: JobId | None
    heir_of: JobId | None
    home: str | None
    noted: int
    failure: bytes | None
    fingerprint: str | None
    result_until_us: int

    @property
    def root(self) -> JobId:
        """The id that this job's dependents wait for."""
        return self.heir_of or self.id

    def record(self) -> Record:
        return Record(
            state=State(self.state),
            queue=self.queue,
            fence=self.fence,
            settled_fence=self.settled_fence,
            attempt=self.attempt,
            crashes=self.crashes,
            losses=self.losses,
            suspect=bool(self.suspect),
            rank=self.rank,
            due_us=self.due_us,
            created_us=self.created_us,
            claimed_us=self.claimed_us,
            started_us=self.started_us,
            ended_us=self.ended_us,
            worker=self.worker,
            hold=None if self.hold is None else Hold(self.hold),
            reason=self.reason,
            cancel_asked=bool(self.cancel_asked),
            blocks=self.ukey is not None,
            heir=self.heir,
            heir_of=self.heir_of,
        )


COLUMNS = ", ".join(Row.__struct_fields__)
ROW_BY_ID = sql("row_by_id")
ROW_BY_SEQ = sql("row_by_seq")
ROW_SAVE = sql("row_save")
WIDTH = len(Row.__struct_fields__)


def by_id(connection: Database, job_id: JobId) -> Row | None:
    """The row of that id."""
    found: tuple[Any, ...] | None = connection.execute(ROW_BY_ID, (job_id,)).fetchone()
    return None if found is None else Row(*found)


def by_seq(connection: Database, seq: int) -> Row | None:
    """The row of that number."""
    found: tuple[Any, ...] | None = connection.execute(ROW_BY_SEQ, (seq,)).fetchone()
    return None if found is None else Row(*found)


def resolve(connection: Database, parent: JobId) -> Row | None:
    """The job that a parent's dependents wait for: itself, or the last of its heirs."""
    row = by_id(connection, parent)
    while row is not None and row.heir is not None:
        row = by_id(connection, row.heir)
    return row


def save(connection: Database, row: Row) -> None:
    """Writes everything about the job that can change."""
    connection.execute(ROW_SAVE, msgspec.structs.astuple(row))


class Extra(msgspec.Struct, omit_defaults=True, frozen=True):
    """The request's fields that few jobs have, kept as JSON so that plain jobs pay nothing for them."""

    delay_us: int = 0
    at_us: int | None = None
    expires_us: int | None = None
    unique: Unique | None = None
    needs: Needs = ()
    parents: tuple[Edge, ...] = ()
    retry_of: JobId | None = None
    tags: tuple[str, ...] = ()


PLAIN = Extra()
_encode = msgspec.json.Encoder().encode
_extra = msgspec.json.Decoder(Extra).decode
_failure = msgspec.json.Decoder(Failure).decode


def encode_extra(request: Request) -> bytes | None:
    """The rare fields, or None where there are none."""
    extra = Extra(
        delay_us=request.delay_us,
        at_us=request.at_us,
        expires_us=request.expires_us,
        unique=request.unique,
        needs=request.needs,
        parents=request.parents,
        retry_of=request.retry_of,
        tags=request.tags,
    )
    return None if extra == PLAIN else _encode(extra)


def decode_extra(data: bytes | None) -> Extra:
    """The rare fields of a stored request."""
    return PLAIN if data is None else _extra(data)


def encode_failure(failure: Failure | None) -> bytes | None:
    """An error as the table keeps it."""
    return None if failure is None else _encode(failure)


def request_of(row: Row, extra: Extra, options: bytes | None, payload: bytes) -> Request:
    """The request as it was sent."""
    return Request(
        id=row.id,
        task=row.task,
        queue=row.home or row.queue,
        payload=payload,
        priority=row.priority,
        delay_us=extra.delay_us,
        at_us=extra.at_us,
        expires_us=extra.expires_us,
        lane=row.lane,
        lane_limit=row.lane_limit,
        unique=extra.unique,
        gate=row.gate or None,
        needs=extra.needs,
        parents=extra.parents,
        flow=row.flow,
        retry_of=extra.retry_of,
        tags=extra.tags,
        options=options or b"",
    )


def job_of(found: Sequence[Any], parts: frozenset[Part], now_us: int) -> Job:
    """A job from a row with extra, options, payload and result behind it; logs and notes are added later."""
    row = Row(*found[:WIDTH])
    extra, options, payload, result = found[WIDTH : WIDTH + 4]
    try:
        rare, failure = decode_extra(extra), None if row.failure is None else _failure(row.failure)
    except msgspec.DecodeError:
        rare, failure = PLAIN, DAMAGED
    shown = Part.RESULT in parts and now_us < row.result_until_us
    return Job(
        request=request_of(row, rare, options, payload if Part.PAYLOAD in parts else b""),
        record=row.record(),
        result=result if shown else None,
        failure=failure,
    )


def needs_of(extra: bytes | None) -> Needs:
    """What a job needs. Nothing where its record is damaged: then any worker finds that out."""
    try:
        return decode_extra(extra).needs
    except msgspec.DecodeError:
        return ()


def needs_text(needs: Needs) -> str:
    """The resource class as a stream's name has it."""
    return pack_needs(resource_class(needs)) if needs else ""


def exact_text(needs: Needs) -> str:
    """The needs as the name of a stream of parked jobs has them."""
    return pack_needs(tuple(sorted(needs)))
