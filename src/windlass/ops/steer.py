"""Changes by people: to the jobs named or to all that a query finds, in steps that hold nobody up.

    found = steer.look(engine, Change.CANCEL, query)                     ask first: found.count
    steered = steer.apply(engine, Change.CANCEL, found, progress=show)   then a hundred at a time

What was counted is what is changed: a job that comes, or ends, while somebody still thinks about the question is not
among them, and never are more changed than were counted.

A step changes at most a hundred jobs. Whoever stops between two steps has changed the jobs so far, and may begin again:
what has been changed is not found any more, or says that there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from windlass.core.clock import SystemClock
from windlass.core.codec import encode_arguments
from windlass.core.errors import BadValue
from windlass.core.gates import OPEN, Gate, read_gate
from windlass.core.ids import JobId, new_id, show_id
from windlass.core.job import ENDED, WAITING, Job, Request, State
from windlass.core.lifecycle import Event, allowed, why_not
from windlass.core.limits import DEFAULT, Limits
from windlass.core.names import check_name
from windlass.core.redact import SECRET_NAMES, masked_at, unmask
from windlass.engines.protocol import BATCH, Amended, Amendment, Change, Engine, Hint, Page, Query, Receipt, Refusal
from windlass.ops.facts import change as change_fact
from windlass.ops.facts import mark_retried
from windlass.ops.lookup import find, record_of
from windlass.ops.view import arguments

Progress = Callable[[int, int], None]
"""Called after each step: how many jobs were gone through, of how many that were counted at first."""

REFUSALS_KEPT: Final = 100

_clock = SystemClock()

# Held before scheduled before ready: what a step frees is met in the states that follow.
_LIVE: Final = (State.HELD, State.SCHEDULED, State.READY, State.RUNNING)
_STATES: Final[dict[Change, tuple[State, ...]]] = {
    Change.CANCEL: _LIVE,
    # Cancelled and expired jobs can be retried too, but only where their state is asked for.
    Change.RETRY: (State.DEAD,),
    Change.RUN_NOW: (State.SCHEDULED,),
    Change.DELETE: tuple(state for state in (*_LIVE, *sorted(ENDED)) if state is not State.RUNNING),
}


class Refused(msgspec.Struct, frozen=True):
    """A job that was left as it is, and why."""

    id: str
    why: str


class Steered(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it: how many were changed, how many not, and why not the first hundred of those."""

    changed: int
    refused: int
    refusals: tuple[Refused, ...]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a query found at one moment: how many, and the queries that find nothing that came or ended later."""

    queries: tuple[Query, ...]
    count: int


Which = Sequence[JobId] | Query | Found


# ── many jobs ───────────────────────────────────────────────────────────────────────────────────────────


def look(engine: Engine, change: Change, which: Query, *, now_us: int | None = None) -> Found:
    """Those that the change would be tried on, as it is now; a query without a state means those that it is for."""
    return _found(engine, _queries(change, which), now_us)


def apply(
    engine: Engine,
    change: Change,
    which: Which,
    *,
    reason: str | None = None,
    progress: Progress | None = None,
) -> Steered:
    """Changes them, a hundred at a time: the jobs named, what was found, or what a query finds now."""
    if isinstance(which, Query):
        which = look(engine, change, which)
    if isinstance(which, Found):
        return _gathered(_steps(engine, Amendment(change=change, reason=reason), which), which.count, progress)
    return _gathered(_named_steps(engine, Amendment(change=change, reason=reason), which), len(which), progress)


def _named_steps(engine: Engine, change: Amendment, ids: Sequence[JobId]) -> Iterator[Amended]:
    return (engine.amend(msgspec.structs.replace(change, ids=batch)) for batch in _batches(ids))


def _batches(ids: Sequence[JobId]) -> Iterator[tuple[JobId, ...]]:
    return (tuple(ids[start : start + BATCH]) for start in range(0, len(ids), BATCH))


def _steps(engine: Engine, change: Amendment, found: Found) -> Iterator[Amended]:
    """The steps, until all were met or as many as were counted: a job may have moved into a state that is changed."""
    left = found.count
    for query in found.queries:
        cursor: str | None = None
        while left > 0:
            step = msgspec.structs.replace(query, limit=min(BATCH, left), cursor=cursor)
            amended = engine.amend(msgspec.structs.replace(change, query=step))
            left -= len(amended.changed) + len(amended.refused)
            cursor = amended.cursor
            yield amended
            if cursor is None:
                break


def _gathered(steps: Iterable[Amended], total: int, progress: Progress | None) -> Steered:
    changed = refused = 0
    refusals: list[Refused] = []
    for amended in steps:
        changed += len(amended.changed)
        refused += len(amended.refused)
        refusals += [Refused(show_id(one.id), one.why) for one in amended.refused]
        del refusals[REFUSALS_KEPT:]
        if progress is not None:
            progress(changed + refused, max(total, changed + refused))
    return Steered(changed=changed, refused=refused, refusals=tuple(refusals))


def bury(engine: Engine, ids: Sequence[JobId]) -> Steered:
    """Deletes those of the jobs named that are dead: one that somebody retries at this moment stays."""
    amendment = Amendment(change=Change.DELETE, state=State.DEAD)
    return _gathered(_named_steps(engine, amendment, ids), len(ids), None)


def judge(engine: Engine, change: Change, ids: Sequence[JobId]) -> Steered:
    """What `apply` would do to the jobs named, as far as their states tell. Nothing is changed."""
    return _gathered(_judged(engine, change, ids), len(ids), None)


def _judged(engine: Engine, change: Change, ids: Sequence[JobId]) -> Iterator[Amended]:
    for batch in _batches(ids):
        jobs = engine.fetch(batch, frozenset())
        whys = [why_not(None if job is None else record_of(job).state, change) for job in jobs]
        refused = (Refusal(id=job_id, why=why) for job_id, why in zip(batch, whys, strict=True) if why is not None)
        changed = (job_id for job_id, why in zip(batch, whys, strict=True) if why is None)
        yield Amended(changed=tuple(changed), refused=tuple(refused))


def _queries(change: Change, which: Query) -> list[Query]:
    """The query for each state that the change is for, so that each is found by its index."""
    query = msgspec.structs.replace(which, limit=BATCH, cursor=None, count=False)
    if query == Query(limit=BATCH):
        raise BadValue(f"To {change} every job of the store is never meant.", "Name a state, a queue, a task or a tag.")
    if query.state is not None:
        return [query]
    return [msgspec.structs.replace(query, state=state) for state in _STATES[change]]


def _found(engine: Engine, queries: Sequence[Query], now_us: int | None) -> Found:
    moment_us = _moment_us(engine, queries, _clock.now_us() if now_us is None else now_us)
    until_us = [moment_us if one.until_us is None else min(moment_us, one.until_us) for one in queries]
    bounded = [msgspec.structs.replace(one, until_us=end_us) for one, end_us in zip(queries, until_us, strict=True)]
    return Found(queries=tuple(bounded), count=_count(engine, bounded))


def _moment_us(engine: Engine, queries: Iterable[Query], now_us: int) -> int:
    """Just after now, and after the newest that is there: the clock of the store may be ahead of ours."""
    ended = [msgspec.structs.replace(one, limit=1) for one in queries if one.state in ENDED]
    newest = [record_of(job) for one in (Query(limit=1), *ended) for job in engine.search(one).jobs]
    return 1 + max(now_us, *(one.ended_us or one.created_us for one in newest), 0)


def _count(engine: Engine, queries: Iterable[Query]) -> int:
    counts = (msgspec.structs.replace(query, count=True) for query in queries)
    return sum(page.count for query in counts for page in _pages(engine, query))


def _pages(engine: Engine, query: Query) -> Iterator[Page]:
    while True:
        page = engine.search(query)
        yield page
        if page.cursor is None:
            return
        query = msgspec.structs.replace(query, cursor=page.cursor)


# ── one job, once more ──────────────────────────────────────────────────────────────────────────────────


def remake(
    engine: Engine,
    job_id: JobId,
    *,
    args: Sequence[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
    as_id: JobId | None = None,
    secret_names: Iterable[str] = SECRET_NAMES,
    limits: Limits = DEFAULT,
) -> Request:
    """A new job for the place of one that ended badly, with other arguments; `resend` sends it.

    What is not given stays as it was, and so does a secret whose mask was left standing. With `as_id`, a repeat after a
    lost answer is one job. The new one runs at once: delay, expiry, parents and flow are not those of the old.
    """
    old = find(engine, job_id)
    state = record_of(old).state
    if not allowed(state, Event.RETRY):
        raise BadValue(
            f"The job {show_id(job_id)} is {state}.",
            "Send again what is dead, cancelled or expired; cancel first what has not ended.",
        )
    payload = old.request.payload
    if args is not None or kwargs is not None:
        payload = _edited(old, args, kwargs, tuple(secret_names), limits)
    return _anew(old.request, as_id or new_id(), payload)


def resend(engine: Engine, request: Request, limits: Limits = DEFAULT) -> Receipt:
    """Sends what `remake` made; the old job stays, and is marked."""
    (receipt,) = engine.insert([Job(request=request)])
    if request.retry_of is not None and receipt.duplicate_of in {None, request.id}:
        mark_retried(engine, request.retry_of, request.id, limits)
    return receipt


def _anew(old: Request, job_id: JobId, payload: bytes) -> Request:
    return msgspec.structs.replace(
        old,
        id=job_id,
        payload=payload,
        retry_of=old.id,
        delay_us=0,
        at_us=None,
        expires_us=None,
        parents=(),
        flow=None,
    )


def _edited(
    old: Job, args: Sequence[Any] | None, kwargs: dict[str, Any] | None, names: tuple[str, ...], limits: Limits
) -> bytes:
    was_args, was_kwargs = arguments(old, limits)
    made: dict[str, Any] = {
        "args": was_args if args is None else unmask(list(args), was_args, names),
        "kwargs": was_kwargs if kwargs is None else unmask(kwargs, was_kwargs, names),
    }
    masked = masked_at({name: made[name] for name, given in (("args", args), ("kwargs", kwargs)) if given is not None})
    if masked is not None:
        raise BadValue(
            f"`{masked}` is still masked, and what it stood for is not known there.",
            "Write the value itself, or leave the mask where it was shown.",
        )
    return encode_arguments(made["args"], made["kwargs"], limits)


# ── queues ──────────────────────────────────────────────────────────────────────────────────────────────


def pause(engine: Engine, queue: str) -> bool:
    """Nothing more of the queue starts, what runs goes on; False where it was paused already.

    It stays paused until it is resumed: a rule that would have expired by itself stays as long.
    """
    return _turn(engine, queue, paused=True)


def resume(engine: Engine, queue: str) -> bool:
    """The queue goes on, its other rules as they were; False where it was not paused."""
    resumed = _turn(engine, queue, paused=False)
    if resumed:
        engine.signal([Hint(kind="work", queue=queue)])  # workers sleep, and a rule wakes nobody
    return resumed


def _turn(engine: Engine, queue: str, *, paused: bool) -> bool:
    def turned(there: bytes | None) -> bytes | None:
        gate = OPEN if there is None else read_gate(there)
        if gate.paused is paused:
            return there
        made: Gate = msgspec.structs.replace(gate, paused=paused)
        return None if made == OPEN else msgspec.json.encode(made)

    return change_fact(engine, f"queue/{check_name('queue', queue)}", turned)


def look_waiting(engine: Engine, queue: str, *, now_us: int | None = None) -> Found:
    """Every job of the queue that waits now; what runs and what has ended is not among them."""
    check_name("queue", queue)
    return _found(engine, [Query(queue=queue, state=state) for state in _LIVE if state in WAITING], now_us)


def purge(engine: Engine, queue: str, *, progress: Progress | None = None) -> Steered:
    """Deletes every job of the queue that waits; what runs and what has ended stays."""
    return apply(engine, Change.DELETE, look_waiting(engine, queue), progress=progress)
