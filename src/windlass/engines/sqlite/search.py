"""search and amend: looking at many jobs within a bound, and changing those that may be changed.

A query picks one index to walk (`_plan`) and filters what it meets there. It stops after so many records or so much
time and hands out a position to go on from, so that a search never holds up the store, whatever it looks for.
"""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from windlass.core.errors import BadValue
from windlass.core.ids import JobId, show_id
from windlass.core.job import ENDED, Job, State
from windlass.core.lifecycle import CANCELLED, asked_reason, why_not
from windlass.core.limits import Limits
from windlass.engines.protocol import (
    BATCH,
    SEARCH_MS,
    SEARCH_RECORDS,
    Amended,
    Amendment,
    Change,
    Page,
    Part,
    Query,
    Refusal,
)
from windlass.engines.sqlite import rows
from windlass.engines.sqlite.admission import RUNNING, Admission
from windlass.engines.sqlite.connection import Database
from windlass.engines.sqlite.rows import Row, decode_extra, job_of
from windlass.engines.sqlite.settle import move_queue
from windlass.engines.sqlite.statements import sql
from windlass.engines.sqlite.sweep import drop
from windlass.engines.sqlite.tx import Tx

NO_PARTS: frozenset[Part] = frozenset()
MOST = (1 << 63) - 1
LOOK_AT_CLOCK = 256
"""Records between two looks at the clock."""

_CURSOR = re.compile(r"(-?[0-9]{1,19})\.(-?[0-9]{1,19})", re.ASCII)


class Walk(NamedTuple):
    """A statement and the key to run it with; `by_end`: its position is the end of a job, the newest first."""

    statement: str
    key: Any
    by_end: bool = False


class Plan(NamedTuple):
    """Walks of one order, which are merged. `stops`: below the time asked for there is nothing to find."""

    walks: list[Walk]
    ascending: bool = False
    stops: bool = False


Met = tuple[Any, ...]


def search(connection: Database, query: Query, now_us: int) -> Page:
    """A page in the order of the index that was walked. Looks at no more than the bound."""
    plan = _plan(connection, query)
    stop_us = query.since_us if plan.stops else None
    limit = max(1, min(query.limit, 1_000))
    found: list[int] = []
    count = scanned = 0
    last: Met | None = None
    more = False
    deadline = time.monotonic() + SEARCH_MS / 1_000
    for met in _merged(connection, plan, query):
        if stop_us is not None and met[0] < stop_us:
            break
        late = scanned % LOOK_AT_CLOCK == LOOK_AT_CLOCK - 1 and time.monotonic() > deadline
        if scanned == SEARCH_RECORDS or late or (len(found) == limit and not query.count):
            more = True
            break
        scanned += 1
        last = met
        if _matches(query, met):
            count += 1
            if not query.count:
                found.append(met[2])
    return Page(
        jobs=tuple(_jobs(connection, found, now_us)),
        count=count if query.count else len(found),
        cursor=f"{last[0]}.{last[1]}" if more and last is not None else None,
        scanned=scanned,
        back_to_us=None if last is None else last[10],
    )


def _plan(connection: Database, query: Query) -> Plan:
    """The index that leads to the fewest records."""
    if query.flow is not None:
        return Plan([Walk(sql("search_flow"), query.flow)])
    if query.lane is not None:
        return Plan([Walk(sql("search_lane"), query.lane)])
    if query.worker is not None:
        return Plan([Walk(sql("search_worker"), query.worker)])
    if query.fingerprint is not None:
        return _by_fingerprint(query.fingerprint, query.state)
    if query.state in ENDED:
        return _by_end(connection, query)
    return _by_state(connection, query)


def _by_fingerprint(fingerprint: str, state: State | None) -> Plan:
    """A job that waits for its next try has the fingerprint of its last error, too."""
    walks: list[Walk] = []
    if state is None or state in ENDED:
        walks.append(Walk(sql("search_fingerprint"), fingerprint, by_end=True))
    if state not in ENDED:
        walks.append(Walk(sql("search_fingerprint_live"), fingerprint))
    return Plan(walks, stops=True)


def _by_end(connection: Database, query: Query) -> Plan:
    state = query.state
    if query.task is not None and query.queue is None:
        return Plan([Walk(sql("search_ended_task"), f"{state}/{query.task}", by_end=True)], stops=True)
    queues = [query.queue] if query.queue is not None else _queues(connection, state)
    return Plan([Walk(sql("search_ended_queue"), f"{state}/{queue}", by_end=True) for queue in queues], stops=True)


def _by_state(connection: Database, query: Query) -> Plan:
    state = query.state
    if state is State.SCHEDULED and query.queue is not None:
        return Plan([Walk(sql("search_scheduled_queue"), query.queue)], ascending=True)
    if state is State.SCHEDULED and query.task is None:
        return Plan([Walk(sql("search_scheduled"), 0)], ascending=True)
    if state is State.RUNNING:
        return Plan([Walk(sql("search_running"), 0)])
    if state is not None and query.task is not None:
        return Plan([Walk(sql("search_live_task"), query.task)])
    if state is State.READY:
        streams = connection.execute(sql("tally_streams"), (query.queue,)).fetchall()
        return Plan([Walk(sql("search_ready"), stream) for (stream,) in streams], ascending=True)
    if state is State.HELD:
        queues = [query.queue] if query.queue is not None else _queues(connection, state)
        return Plan([Walk(sql("search_held"), queue) for queue in queues])
    return Plan([Walk(sql("search_all"), 0)])


def _queues(connection: Database, state: State | None) -> list[str]:
    return [str(queue) for (queue,) in connection.execute(sql("tally_queues"), (state,)).fetchall()]


def _merged(connection: Database, plan: Plan, query: Query) -> Iterator[Met]:
    """The records in order, from the cursor on; walks along the ends begin below the time asked for."""
    edge = -MOST if plan.ascending else MOST
    start = (edge, edge) if query.cursor is None else _position(query.cursor)
    ended = start if query.until_us is None else min(start, (max(-MOST, query.until_us), -MOST))
    walks = [connection.execute(walk.statement, (walk.key, *(ended if walk.by_end else start))) for walk in plan.walks]
    return heapq.merge(*walks, key=lambda met: (met[0], met[1]), reverse=not plan.ascending)


def _position(cursor: str) -> tuple[int, int]:
    found = _CURSOR.fullmatch(cursor)
    first, second = (int(found[1]), int(found[2])) if found is not None else (MOST + 1, 0)
    if max(abs(first), abs(second)) > MOST:
        raise BadValue(f"{cursor[:40]!a} is not a cursor of this search.", "Pass on the cursor of the page before.")
    return first, second


def _matches(query: Query, met: Met) -> bool:
    _, _, _, state, queue, task, worker, lane, flow, fingerprint, at_us, extra = met
    if (
        (query.state is not None and query.state != state)
        or (query.queue is not None and query.queue != queue)
        or (query.task is not None and query.task != task)
        or (query.worker is not None and (query.worker != worker or state != RUNNING))
        or (query.lane is not None and query.lane != lane)
        or (query.flow is not None and query.flow != flow)
        or (query.fingerprint is not None and query.fingerprint != fingerprint)
        or (query.since_us is not None and at_us < query.since_us)
        or (query.until_us is not None and at_us >= query.until_us)
    ):
        return False
    return query.tag is None or (extra is not None and query.tag in _tags(extra))


def _tags(extra: bytes) -> tuple[str, ...]:
    try:
        return decode_extra(extra).tags
    except msgspec.DecodeError:
        return ()


def _jobs(connection: Database, seqs: list[int], now_us: int) -> Iterator[Job]:
    for seq in seqs:
        found = connection.execute(sql("search_job"), (seq,)).fetchone()
        yield job_of(found, NO_PARTS, now_us)


def amend(tx: Tx, amendment: Amendment, limits: Limits) -> Amended:
    """Changes the jobs named, or the next page of those the query finds; says which it left, and why."""
    admission, ids, cursor = Admission(tx, limits), amendment.ids, None
    if amendment.query is not None:
        tx.flush()
        query = msgspec.structs.replace(amendment.query, limit=min(amendment.query.limit, BATCH), count=False)
        page = search(tx.connection, query, tx.now_us)
        ids, cursor = tuple(job.id for job in page.jobs), page.cursor
    changed: list[JobId] = []
    refused: list[Refusal] = []
    for job_id in ids:
        why = _change(admission, rows.by_id(tx.connection, job_id), amendment)
        if why is None:
            changed.append(job_id)
        else:
            refused.append(Refusal(id=job_id, why=why))
    admission.do_chores(BATCH)
    return Amended(changed=tuple(changed), refused=tuple(refused), cursor=cursor)


def _change(admission: Admission, row: Row | None, amendment: Amendment) -> str | None:
    why = why_not(None if row is None else State(row.state), amendment.change, amendment.state)
    if row is None or why is not None:
        return why
    match amendment.change:
        case Change.CANCEL:
            _cancel(admission, row, amendment.reason)
        case Change.RETRY:
            return _retry(admission, row)
        case Change.RUN_NOW:
            row.due_us = admission.tx.now_us
            admission.place(row)
        case Change.DELETE:
            _delete(admission, row)
    return None


def _cancel(admission: Admission, row: Row, reason: str | None) -> None:
    if row.state == RUNNING:
        row.reason = asked_reason(row.reason if row.cancel_asked else None, reason)
        row.cancel_asked = 1
        rows.save(admission.tx.connection, row)
        admission.tx.asked.add(row.worker or b"")
    else:
        admission.end(row, State.CANCELLED.value, reason=reason or CANCELLED)


def _retry(admission: Admission, row: Row) -> str | None:
    tx = admission.tx
    try:
        extra = decode_extra(tx.run(sql("extra_read"), (row.id,)).get)
    except msgspec.DecodeError:
        return "Its record is damaged; send the job again."
    if extra.unique is not None:
        holder = admission.holder(extra.unique.key)
        if holder is not None and holder != row.id:
            return f"It is a duplicate of {show_id(holder)}, which holds its unique key."
    row.attempt, row.crashes, row.losses, row.suspect = 1, 0, 0, 0
    row.ended_us = row.purge_us = row.expires_us = row.failure = row.fingerprint = row.reason = None
    row.started_us, row.cancel_asked, row.due_us, row.heir = None, 0, tx.now_us, None
    if row.home is not None:
        move_queue(admission, row, row.home)
    tx.run(sql("result_write"), (row.seq, None))
    if row.flow is not None:
        tx.run(sql("flow_add"), (row.flow, 1, 0)).fetchone()
    admission.place(row)
    return None


def _delete(admission: Admission, row: Row) -> None:
    if row.ended_us is None:
        admission.end(row, State.CANCELLED.value)
    drop(admission, row)
