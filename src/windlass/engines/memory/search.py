"""search and amend: looking at many jobs within a bound, and changing those that may be changed."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import msgspec

from windlass.core.errors import BadValue
from windlass.core.ids import JobId, show_id
from windlass.core.job import ENDED, WAITING, State
from windlass.core.lifecycle import CANCELLED, asked_reason, why_not
from windlass.engines.memory.admission import Admission
from windlass.engines.memory.settle import move_queue
from windlass.engines.memory.store import Row, Store
from windlass.engines.protocol import (
    BATCH,
    SEARCH_RECORDS,
    Amended,
    Amendment,
    Change,
    Page,
    Part,
    Query,
    Refusal,
)

NO_PARTS: frozenset[Part] = frozenset()


def search(store: Store, query: Query, now_us: int) -> Page:
    """A page, newest first. Looks at no more than the bound, then hands out a cursor to go on."""
    found: list[Row] = []
    scanned, count, last = 0, 0, None
    limit = max(1, min(query.limit, 1_000))
    for row in _walk(store, query):
        if scanned == SEARCH_RECORDS or (len(found) == limit and not query.count):
            return _page(query, found, count, scanned, last, now_us)
        scanned += 1
        last = row
        if matches(query, row):
            count += 1
            if not query.count:
                found.append(row)
    return _page(query, found, count, scanned, None, now_us, back_to=last)


def _page(
    query: Query,
    found: list[Row],
    count: int,
    scanned: int,
    last: Row | None,
    now_us: int,
    back_to: Row | None = None,
) -> Page:
    oldest = last or back_to
    return Page(
        jobs=tuple(row.job(NO_PARTS, 0, now_us) for row in found),
        count=count if query.count else len(found),
        cursor=None if last is None else f"{last.ended_us or 0}.{last.seq}",
        scanned=scanned,
        back_to_us=None if oldest is None else time_of(oldest),
    )


def time_of(row: Row) -> int:
    """The time by which people look for a job: its end, or its coming."""
    return row.ended_us if row.ended_us is not None else row.created_us


def _walk(store: Store, query: Query) -> Iterator[Row]:
    """The rows to look at, downwards from the cursor, which names a row: others may come and go meanwhile."""
    before = read_cursor(query.cursor)
    if query.state in ENDED:
        rows = [row for row in store.ended.values() if row.state is query.state]
        rows.sort(key=_by_end, reverse=True)
        start = 0 if before is None else bisect_right(rows, (-before[0], -before[1]), key=_newest_first)
        for row in rows[start:]:
            if query.since_us is not None and time_of(row) < query.since_us:
                return
            if query.until_us is None or time_of(row) < query.until_us:
                yield row
        return
    seqs = list(store.by_seq)
    end = len(seqs) if before is None else bisect_left(seqs, before[1])
    yield from (store.by_seq[seqs[index]] for index in range(end - 1, -1, -1))


def _by_end(row: Row) -> tuple[int, int]:
    return row.ended_us or 0, row.seq


def _newest_first(row: Row) -> tuple[int, int]:
    return -(row.ended_us or 0), -row.seq


_CURSOR = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})", re.ASCII)


def read_cursor(cursor: str | None) -> tuple[int, int] | None:
    """The end and the number of the row a page stopped at."""
    if cursor is None:
        return None
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise BadValue(f"{cursor[:40]!a} is not a cursor of this search.", "Pass on the cursor of the page before.")
    return int(found[1]), int(found[2])


def matches(query: Query, row: Row) -> bool:
    """Whether a row is what the query asks for."""
    request = row.request
    wanted = (
        (query.state, row.state),
        (query.queue, row.queue),
        (query.task, request.task),
        (query.worker, row.worker if row.state is State.RUNNING else None),
        (query.lane, request.lane),
        (query.flow, request.flow),
        (query.fingerprint, row.failure.fingerprint if row.failure is not None else None),
    )
    if any(value is not None and value != actual for value, actual in wanted):
        return False
    if query.tag is not None and query.tag not in request.tags:
        return False
    at_us = time_of(row)
    return (query.since_us is None or at_us >= query.since_us) and (query.until_us is None or at_us < query.until_us)


def amend(admission: Admission, amendment: Amendment, now_us: int) -> Amended:
    """Changes the jobs named, or the next page of those the query finds; says which it left, and why."""
    ids, cursor = amendment.ids, None
    if amendment.query is not None:
        page = search(admission.store, _bounded(amendment.query), now_us)
        ids, cursor = tuple(job.id for job in page.jobs), page.cursor
    changed: list[JobId] = []
    refused: list[Refusal] = []
    for job_id in ids:
        why = _change(admission, admission.store.rows.get(job_id), amendment, now_us)
        if why is None:
            changed.append(job_id)
        else:
            refused.append(Refusal(id=job_id, why=why))
    admission.do_chores(now_us, BATCH)
    return Amended(changed=tuple(changed), refused=tuple(refused), cursor=cursor)


def _bounded(query: Query) -> Query:
    return msgspec.structs.replace(query, limit=min(query.limit, BATCH), count=False)


def _change(admission: Admission, row: Row | None, amendment: Amendment, now_us: int) -> str | None:
    why = why_not(None if row is None else row.state, amendment.change, amendment.state)
    if row is None or why is not None:
        return why
    match amendment.change:
        case Change.CANCEL:
            _cancel(admission, row, amendment.reason, now_us)
        case Change.RETRY:
            return _retry(admission, row, now_us)
        case Change.RUN_NOW:
            admission.run_now(row, now_us)
        case Change.DELETE:
            _delete(admission, row, now_us)
    return None


def _cancel(admission: Admission, row: Row, reason: str | None, now_us: int) -> None:
    if row.state is State.RUNNING:
        row.reason = asked_reason(row.reason if row.cancel_asked else None, reason)
        row.cancel_asked = True
        admission.asked.add(row.worker or b"")
    else:
        admission.end(row, State.CANCELLED, now_us, reason=reason or CANCELLED)


def _retry(admission: Admission, row: Row, now_us: int) -> str | None:
    unique = row.request.unique
    if unique is not None:
        holder = admission.holder(unique.key, now_us)
        if holder is not None and holder is not row:
            return f"It is a duplicate of {show_id(holder.request.id)}, which holds its unique key."
    row.attempt, row.crashes, row.losses, row.suspect = 1, 0, 0, False
    row.ended_us = row.purge_us = row.expires_us = row.failure = row.reason = row.started_us = None
    row.cancel_asked, row.due_us, row.heir = False, now_us, None
    row.result = None
    if row.queue != row.request.queue:
        move_queue(admission.store, row, row.request.queue)
    if row.request.flow is not None:
        admission.store.flows[row.request.flow].open += 1
    admission.place(row, now_us)
    return None


def _delete(admission: Admission, row: Row, now_us: int) -> None:
    if row.state in WAITING:
        admission.end(row, State.CANCELLED, now_us)
    admission.store.drop(row)
