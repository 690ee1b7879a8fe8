"""Jobs as people see them: plain values with ids as text, arguments opened, secrets masked.

`JobLine` is a job in a list, `JobView` a job with everything, `ErrorGroup` the dead jobs that died of one error. Times
are microseconds since 1970. Text is as it was stored, but for secrets: a screen shows it through `core.redact.plain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from windlass.core.clock import SystemClock
from windlass.core.codec import decode_result
from windlass.core.errors import WindlassError
from windlass.core.ids import JobId, WorkerId, show_id
from windlass.core.job import ENDED, Attempt, Failure, Job, LogLine, Outcome, Request, State, Stream
from windlass.core.limits import DEFAULT, Limits
from windlass.core.redact import SECRET_NAMES, redact, redact_text
from windlass.core.scripts import SCRIPT, read_script
from windlass.core.signature import ANYTHING
from windlass.engines.protocol import ALL_PARTS, BATCH, Engine, Part, Query
from windlass.ops.attempts import Tried, by_hand, first_seen_us, retries_of
from windlass.ops.cards import label, take_stock
from windlass.ops.facts import retried_by
from windlass.ops.lookup import find, record_of
from windlass.ops.why import Cause, explain

PAYLOAD: Final = frozenset({Part.PAYLOAD})
MOST_DEAD: Final = 10_000
"""Dead jobs that are looked through for groups, the newest first."""
PAGE: Final = 100
"""So many of them are held at once: each comes with its error, which may be long."""
ERROR_SHOWN: Final = 1_000
"""Of the error of a group so many characters are shown; its example has the whole of it."""

_clock = SystemClock()


class JobLine(msgspec.Struct, frozen=True, kw_only=True):
    """A job in a list."""

    id: str
    task: str
    queue: str
    state: State
    attempt: int
    priority: int
    tags: tuple[str, ...]
    created_us: int
    due_us: int
    claimed_us: int | None
    started_us: int | None
    ended_us: int | None
    worker: str | None
    reason: str | None
    error: str | None
    """The last error in a line: its type and message."""
    fingerprint: str | None
    retry_of: str | None
    retried_by: tuple[str, ...] = ()
    """New jobs that were sent in its place, with other arguments."""
    script: str | None = None
    """Of a script, what people call it, or its path."""


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One finished run."""

    attempt: int
    by_hand: int
    """How many retries by hand came before it: each lets the attempts count from 1 again."""
    outcome: Outcome
    worker: str | None
    worker_name: str | None
    """As people call it, while it lives."""
    started_us: int | None
    ended_us: int
    failure: Failure | None


class LineView(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a job's log."""

    number: int
    attempt: int
    at_us: int
    text: str
    stream: Stream
    """Where it was said; empty: by the task to its job."""


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a job's log, and where the job was when they were read: once it has ended no more will come."""

    lines: tuple[LineView, ...]
    state: State
    ended: bool


class JobView(JobLine, frozen=True, kw_only=True):
    """A job with everything that is known of it."""

    why: str
    cause: Cause | None
    """What it waits for, where somebody could do something about it."""
    worker_name: str | None
    """As people call it, while it lives."""
    by_hand: int
    """How often it was retried by hand, as far as the kept attempts tell."""
    args: list[Any]
    kwargs: dict[str, Any]
    result: Any
    has_result: bool
    """Whether there is a result, which may be None, and is kept."""
    unreadable: str | None
    """Why the arguments or the result cannot be shown."""
    options: Any
    """What the send said otherwise than its task."""
    failure: Failure | None
    attempts: tuple[AttemptView, ...]
    log: tuple[LineView, ...]
    progress: Any
    crashes: int
    losses: int
    suspect: bool
    cancel_asked: bool
    expires_us: int | None
    lane: str | None
    key: str | None
    gate: str | None
    needs: dict[str, int]
    parents: tuple[str, ...]
    flow: str | None


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs; go on with the cursor until it is None."""

    jobs: tuple[JobLine, ...]
    cursor: str | None
    scanned: int
    back_to_us: int | None


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead jobs that died of one error in one place."""

    fingerprint: str
    """Empty for those that died without an error of their own, as when they killed their workers."""
    error: str
    """The newest one's type and message, cut where it is long."""
    count: int
    first_us: int
    """When the first of them first failed so, as far as the kept attempts tell."""
    last_us: int
    example: str
    """The newest of them."""
    tasks: tuple[str, ...]


class ErrorGroups(msgspec.Struct, frozen=True, kw_only=True):
    """The groups, the largest first, and whether older dead jobs were left out."""

    groups: tuple[ErrorGroup, ...]
    looked_at: int
    more: bool


# ── looking ─────────────────────────────────────────────────────────────────────────────────────────────


def job(
    engine: Engine,
    job_id: JobId,
    *,
    secret_names: Iterable[str] = SECRET_NAMES,
    limits: Limits = DEFAULT,
    log_after: int = 0,
    now_us: int | None = None,
) -> JobView:
    """The job with everything; of its log what comes behind line `log_after`."""
    living = {card.worker: label(card) for card in take_stock(engine).cards}
    found = find(engine, job_id, ALL_PARTS, log_after)
    names, request, record = tuple(secret_names), found.request, record_of(found)
    args, kwargs, result, unreadable = _opened(found, names, limits)
    (by,) = retried_by(engine, [job_id])
    because = explain(engine, job_id, now_us=_clock.now_us() if now_us is None else now_us)
    return JobView(
        **msgspec.structs.asdict(_line(found, by, _script(found.request) if found.request.task == SCRIPT else None)),
        why=because.said,
        cause=because.cause,
        worker_name=living.get(record.worker or b""),
        by_hand=retries_of(found),
        args=args,
        kwargs=kwargs,
        result=result,
        has_result=found.result is not None,
        unreadable=unreadable,
        options=redact(_plain_json(request.options), names),
        failure=_masked(found.failure),
        attempts=tuple(
            _attempt(one, retries, living) for one, retries in zip(found.attempts, by_hand(found.attempts), strict=True)
        ),
        log=tuple(map(_log_line, found.log)),
        progress=None if found.progress is None else redact(_plain_json(found.progress.data), names),
        crashes=record.crashes,
        losses=record.losses,
        suspect=record.suspect,
        cancel_asked=record.cancel_asked,
        expires_us=request.expires_us,
        lane=request.lane,
        key=None if request.unique is None else request.unique.key,
        gate=request.gate,
        needs=dict(request.needs),
        parents=tuple(show_id(edge.parent) for edge in request.parents),
        flow=_text_id(request.flow),
    )


def log(engine: Engine, job_id: JobId, after: int = 0) -> LogPage:
    """What the job's log holds behind line `after`."""
    found = find(engine, job_id, frozenset({Part.LOG}), after)
    state = record_of(found).state
    return LogPage(lines=tuple(map(_log_line, found.log)), state=state, ended=state in ENDED)


def jobs(engine: Engine, query: Query) -> JobPage:
    """One page of what the query finds."""
    page = engine.search(query)
    return JobPage(jobs=lines(engine, page.jobs), cursor=page.cursor, scanned=page.scanned, back_to_us=page.back_to_us)


def lines(engine: Engine, found: Sequence[Job]) -> tuple[JobLine, ...]:
    """The jobs as a list shows them."""
    ended = [one.id for one in found if record_of(one).state in ENDED]
    marks = dict(zip(ended, retried_by(engine, ended), strict=True)) if ended else {}
    names = _scripts(engine, [one.id for one in found if one.request.task == SCRIPT])
    return tuple(_line(one, marks.get(one.id, ()), names.get(one.id)) for one in found)


def _scripts(engine: Engine, ids: Sequence[JobId]) -> dict[JobId, str]:
    """What these scripts are called: a page of jobs comes without their arguments."""
    parts = (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))
    jobs = [job for part in parts for job in engine.fetch(part, PAYLOAD) if job is not None]
    return {job.id: name for job in jobs if (name := _script(job.request)) is not None}


def error_groups(engine: Engine, query: Query | None = None, most: int = MOST_DEAD) -> ErrorGroups:
    """The newest dead jobs by what they died of; `query` narrows them by queue, task, tag or time."""
    query = msgspec.structs.replace(query or Query(), state=State.DEAD, limit=PAGE, cursor=None, count=False)
    groups: dict[str, _Gathered] = {}
    looked_at = 0
    while True:
        page = engine.search(query)
        for one in page.jobs:
            groups.setdefault(_group(one), _Gathered()).add(one)
        looked_at += len(page.jobs)
        if page.cursor is None or looked_at >= most:
            break
        query = msgspec.structs.replace(query, cursor=page.cursor)
    made = [found.group(engine) for found in groups.values()]
    made.sort(key=lambda group: (-group.count, -group.last_us))
    return ErrorGroups(groups=tuple(made), looked_at=looked_at, more=page.cursor is not None)


def _group(one: Job) -> str:
    return f"without an error: {record_of(one).reason}" if one.failure is None else _error(one.failure)


def _error(failure: Failure) -> str:
    return failure.fingerprint or f"of type {failure.type}"


class _Gathered:
    """Dead jobs of one error while they are gone through: numbers and ids, but no job, whose error may be long."""

    def __init__(self) -> None:
        self.count = self.last_us = 0
        self.first_us: int | None = None
        self.tasks: set[str] = set()
        self.tried: list[Tried] = []
        self.example = self.fingerprint = self.said = ""
        self.error: str | None = None

    def add(self, one: Job) -> None:
        record = record_of(one)
        ended_us = record.ended_us or 0
        self.first_us = ended_us if self.first_us is None else min(self.first_us, ended_us)
        if not self.count or ended_us > self.last_us:
            self._show(one, ended_us)
        self.count += 1
        self.tasks.add(one.request.task)
        if record.fence > 1:
            self.tried.append((record.created_us, one.id))

    def _show(self, newest: Job, ended_us: int) -> None:
        failure = newest.failure
        self.last_us, self.example = ended_us, show_id(newest.id)
        self.error = None if failure is None else _error(failure)
        self.fingerprint = "" if failure is None else failure.fingerprint
        said = redact_text((record_of(newest).reason or "") if failure is None else _in_a_line(failure))
        self.said = said if len(said) <= ERROR_SHOWN else f"{said[:ERROR_SHOWN]}…"

    def group(self, engine: Engine) -> ErrorGroup:
        first_us, error = self.first_us or 0, self.error
        return ErrorGroup(
            fingerprint=self.fingerprint,
            error=self.said,
            count=self.count,
            first_us=first_us
            if error is None
            else first_seen_us(engine, first_us, self.tried, lambda one: _error(one) == error),
            last_us=self.last_us,
            example=self.example,
            tasks=tuple(sorted(self.tasks)),
        )


# ── opening ─────────────────────────────────────────────────────────────────────────────────────────────


def arguments(found: Job, limits: Limits = DEFAULT) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as plain data, secrets and all; raises where they cannot be read."""
    args, kwargs = ANYTHING.decode(found.request.payload, limits)
    return list(args), kwargs


def _opened(found: Job, names: tuple[str, ...], limits: Limits) -> tuple[list[Any], dict[str, Any], Any, str | None]:
    """Arguments and result, masked, and what kept them from being read."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    result: Any = None
    unreadable: str | None = None
    try:
        args, kwargs = arguments(found, limits)
        result = None if found.result is None else decode_result(found.result, Any, limits)
    except WindlassError as error:
        unreadable = error.message
    return redact(args, names), redact(kwargs, names), redact(result, names), unreadable


def _plain_json(data: bytes) -> Any:
    """What somebody stored as JSON; as text where it is none."""
    try:
        return msgspec.json.decode(data) if data else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return data.decode(errors="replace")


def _line(found: Job, by: tuple[str, ...] = (), script: str | None = None) -> JobLine:
    request, record, failure = found.request, record_of(found), _masked(found.failure)
    return JobLine(
        id=show_id(found.id),
        task=request.task,
        queue=record.queue,
        state=record.state,
        attempt=record.attempt,
        priority=request.priority,
        tags=request.tags,
        created_us=record.created_us,
        due_us=record.due_us,
        claimed_us=record.claimed_us,
        # The start itself is written with the end; until then it is when the worker took it.
        started_us=record.started_us or (record.claimed_us if record.state is State.RUNNING else None),
        ended_us=record.ended_us,
        worker=_text_id(record.worker),
        reason=None if record.reason is None else redact_text(record.reason),
        error=None if failure is None else _in_a_line(failure),
        fingerprint=None if failure is None else failure.fingerprint,
        retry_of=_text_id(request.retry_of),
        retried_by=by,
        script=script,
    )


def _script(request: Request) -> str | None:
    try:
        script = read_script(request.payload)
    except WindlassError:
        return None  # whoever looks at that job alone is told why
    return redact_text(script.name or script.path)


def _in_a_line(failure: Failure) -> str:
    return f"{failure.type}: {failure.message}" if failure.message else failure.type


def _attempt(one: Attempt, retries: int, living: Mapping[WorkerId, str]) -> AttemptView:
    return AttemptView(
        attempt=one.attempt,
        by_hand=retries,
        outcome=one.outcome,
        worker=_text_id(one.worker),
        worker_name=living.get(one.worker or b""),
        started_us=one.started_us,
        ended_us=one.ended_us,
        failure=_masked(one.failure),
    )


def _log_line(one: LogLine) -> LineView:
    text = redact_text(one.text.decode(errors="replace"))
    return LineView(number=one.number, attempt=one.attempt, at_us=one.at_us, text=text, stream=one.stream)


def _masked(failure: Failure | None) -> Failure | None:
    if failure is None:
        return None
    return Failure(
        type=failure.type,
        message=redact_text(failure.message),
        traceback=redact_text(failure.traceback),
        fingerprint=failure.fingerprint,
    )


def _text_id(value: bytes | None) -> str | None:
    return None if value is None else show_id(value)
