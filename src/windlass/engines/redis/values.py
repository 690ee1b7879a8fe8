"""What goes to scripts and what they answer, as values of the protocol."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from windlass.core.gates import read_gate, read_needs
from windlass.core.ids import JobId, show_id
from windlass.core.job import Job, Outcome, Progress, State
from windlass.core.lifecycle import Transition, why_not
from windlass.core.limits import Limits
from windlass.engines.protocol import BATCH, Bucket, Card, Change, Claim, Count, Death, Settlement, Swept
from windlass.engines.redis.requests import bounds, pack_job, read_job
from windlass.engines.redis.rows import (
    STATE_OF,
    STATES,
    fingerprint,
    pack_failure,
    read_attempt,
    read_lines,
    read_row,
)

log = logging.getLogger(__name__)

_pack = msgspec.msgpack.Encoder().encode
_LENGTHS = struct.Struct(">II")
read_card = msgspec.json.Decoder(Card).decode

T = TypeVar("T")


def chunks(values: Sequence[T], weigh: Callable[[T], int] = lambda _: 1) -> Iterator[Sequence[T]]:
    """As many at a time as a script may touch, at least one; `weigh` says how many jobs one stands for."""
    start = touched = 0
    for at, value in enumerate(values):
        weighs = weigh(value)
        if at > start and touched + weighs > BATCH:
            yield values[start:at]
            start, touched = at, 0
        touched += weighs
    if start < len(values):
        yield values[start:]


def weight(job: Job) -> int:
    """How many jobs an insert of it touches: itself and its parents, which only get a line each."""
    return 1 + len(job.request.parents) // 10


def pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """A hash as a server gives it: names and values in turn."""
    return zip(flat[::2], flat[1::2], strict=True)


def pack_limits(limits: Limits) -> bytes:
    """The limits as `limits` in lua/parts/limits.lua reads them."""
    return _pack(
        (
            limits.aging_step_us,
            limits.keep_succeeded_us,
            limits.keep_dead_us,
            limits.keep_cancelled_us,
            limits.keep_expired_us,
            limits.keep_result_us,
            limits.log_bytes,
            limits.keep_succeeded_count,
        )
    )


def read_claim(job_id: JobId, record: bytes, request: bytes | None) -> Claim | None:
    """A claim as claim.lua gives it; None where its record cannot be read."""
    row, stored = read_row(record), request or b""
    if row is None:
        log.warning("The record of job %s cannot be read; the job is passed over.", show_id(job_id))
        return None
    start, end = bounds(stored)
    return Claim(
        id=job_id,
        fence=int(row.fence),
        task=row.task,
        queue=row.queue,
        payload=stored[end:],
        options=stored[start:end],
        attempt=row.attempt,
        crashes=row.crashes,
        losses=row.losses,
        suspect=bool(row.suspect),
        priority=row.priority,
        due_us=row.due_us,
        lane=row.lane or None,
        flow=bytes.fromhex(row.flow) if row.flow else None,
        needs=read_needs(row.needs) if row.needs else (),
    )


def pack_settlement(settlement: Settlement) -> list[bytes]:
    """What settle.lua takes of a settlement and its follow-ups; a plain success says its fence and how long it ran."""
    ran = -1 if settlement.ran_us is None else settlement.ran_us
    if settlement.result is not None and _is_plain_success(settlement):
        return [settlement.id, _pack((str(settlement.fence), ran)), settlement.result, b""]
    follow_ups = [part for job in settlement.follow_ups for part in pack_job(job)]
    head = (
        str(settlement.fence),
        ran,
        "" if settlement.outcome is None else settlement.outcome.value,
        _transition(settlement.transition),
        _given(settlement.keep_us),
        _given(settlement.keep_result_us),
        int(settlement.result is not None),
        settlement.queue or "",
        fingerprint(settlement.failure),
        "" if settlement.become is None else settlement.become.hex(),
        len(settlement.follow_ups),
    )
    return [settlement.id, _pack(head), settlement.result or b"", pack_failure(settlement.failure), *follow_ups]


def _is_plain_success(settlement: Settlement) -> bool:
    transition = settlement.transition
    return (
        settlement.outcome is Outcome.SUCCEEDED
        and transition.to is State.SUCCEEDED
        and not transition.suspect
        and transition.reason is None
        and settlement.keep_us is settlement.keep_result_us is settlement.queue is None
        and settlement.failure is settlement.become is None
        and not settlement.follow_ups
    )


def _given(value: int | None) -> int:
    return -1 if value is None else value


def _transition(transition: Transition) -> tuple[int, int, int, int, int, int, str]:
    return (
        STATES[transition.to],
        transition.attempt,
        transition.crashes,
        transition.losses,
        int(transition.suspect),
        transition.delay_us,
        transition.reason or "",
    )


def read_found(job_id: JobId, found: Sequence[Any], log_after: int, now_us: int) -> Job:
    """A job as fetch.lua gives it, without a result that is kept no longer."""
    record, stored, failure, result, progress, progress_us, attempts, lines, steps = found
    job, row = read_job(job_id, record, stored, failure)
    return msgspec.structs.replace(
        job,
        result=result if result is not None and now_us < row.result_until_us else None,
        attempts=tuple(map(read_attempt, attempts)),
        progress=None if progress is None else Progress(at_us=int(progress_us), data=progress),
        log=read_lines(lines, log_after),
        steps=tuple(sorted((key.decode(), value) for key, value in pairs(steps))),
    )


def read_told(job_id: JobId, told: bytes) -> Job | None:
    """A job that has succeeded, as settle.lua publishes it; None where nothing was said that can be read."""
    if len(told) < _LENGTHS.size:
        return None
    record, request = _LENGTHS.unpack_from(told)
    start, end = _LENGTHS.size + record, _LENGTHS.size + record + request
    job, row = read_job(job_id, told[_LENGTHS.size : start], told[start:end], None)
    if job.failure is not None or STATE_OF.get(row.state) is not State.SUCCEEDED:
        return None
    return msgspec.structs.replace(job, result=told[end:])


def why_refused(answer: bytes | list[int], change: Change, only: Any) -> str:
    """Why amend.lua has left a job as it was."""
    if isinstance(answer, bytes):
        return f"It is a duplicate of {show_id(answer)}, which holds its unique key."
    why = why_not(STATE_OF.get(answer[0]), change, only)
    assert why is not None, "the script refuses what may not be"
    return why


def read_death(card: Card, jobs: int) -> Death:
    """A worker that a sweep has called dead."""
    return Death(worker=card.worker, name=card.name, host=card.host, pid=card.pid, jobs=jobs)


def added(one: Swept, other: Swept) -> Swept:
    """Two steps of a sweep as one."""
    sums = {name: getattr(one, name) + getattr(other, name) for name in one.__struct_fields__ if name != "more"}
    sums["deaths"], sums["poisoned"] = sums["deaths"][:BATCH], sums["poisoned"][:BATCH]
    return Swept(**sums, more=other.more)


def read_count(key: bytes, n: bytes) -> Count:
    """A kept counter."""
    queue, task, state = key.decode().split("|")
    return Count(queue=queue, task=task, state=STATE_OF[int(state)], n=int(n))


def read_bucket(start_us: int, key: bytes, n: bytes) -> Bucket:
    """A counter of the history."""
    queue, task, name = key.decode().split("|")
    return Bucket(start_us=start_us, queue=queue, task=task, name=name, n=int(n))


def pack_rule(value: bytes) -> bytes:
    """A gate's rule as lua/modules/gates.lua reads it."""
    gate = read_gate(value)
    rate = gate.rate
    return _pack(
        (
            int(gate.paused),
            gate.shut_until_us,
            _given(gate.probes),
            _given(gate.limit),
            0 if rate is None else rate.count,
            0 if rate is None else rate.per_us,
            0 if rate is None else rate.burst,
        )
    )
