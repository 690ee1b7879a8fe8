"""One job for people, line by line; what it is made of is redacted already, and made harmless where it is printed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from windlass.cli.output import moment
from windlass.cli.remedy import with_remedy
from windlass.core.clock import SystemClock
from windlass.core.durations import SECOND_US, show, show_instant, show_span
from windlass.core.gates import show_need
from windlass.core.plural import agreeing, number_of
from windlass.core.redact import plain
from windlass.core.scripts import SCRIPT, Script, as_script

if TYPE_CHECKING:
    from windlass.core.job import Failure
    from windlass.ops.view import AttemptView, JobView, LineView

LABEL = 12
GONE = "gone"
"""A worker without a card: its name went with it, and its id is for programs."""


def lines(job: JobView) -> Iterator[str]:
    """The whole page."""
    yield from _head(job)
    yield from _times(job)
    yield from _data(job)
    yield from _ties(job)
    yield from _attempts(job)
    if job.log:
        yield ""
        yield "Log"
        yield from (f"  {line}" for line in log_lines(job.log))


def log_lines(lines: Iterable[LineView], seen: int = 0) -> Iterator[str]:
    """Lines of a log: when, in which attempt, where, what. Each is one line, whatever it holds.

    `seen`: the number of the last one that was shown before. Where some are not kept any more, that is said.
    """
    for line in lines:
        if line.number > seen + 1:
            yield f"… {number_of(line.number - seen - 1, 'line')} not kept: the log is longer than its limit."
        seen = line.number
        where = f"{line.stream}: " if line.stream else ""
        yield f"{show_instant(line.at_us)}  #{line.attempt}  {where}{plain(line.text)}"


def _field(label: str, value: object) -> str:
    return f"{label:<{LABEL}}{plain(str(value))}"


def _head(job: JobView) -> Iterator[str]:
    yield _field("Job", job.id)
    script = _script(job)
    if script is not None:
        if script.name:
            yield _field("Name", script.name)
        yield _field("Script", shlex.join([script.path, *script.args]))
    else:
        yield _field("Task", job.task)
    yield _field("Queue", job.queue)
    reason = f" ({job.reason})" if job.reason else ""
    yield _field("State", f"{job.state}{reason}, attempt {_numbered(job)}")
    yield _field("Why", with_remedy(job.why, job.cause, job.queue))
    if job.cancel_asked:
        yield _field("Cancel", "asked for")
    if job.suspect or job.losses or job.crashes:
        deaths = job.losses + job.crashes
        yield _field("Deaths", f"{number_of(deaths, 'worker')} died while {agreeing(deaths, 'it', 'they')} had it")
    if job.priority:
        yield _field("Priority", job.priority)
    if job.tags:
        yield _field("Tags", ", ".join(job.tags))


def _script(job: JobView) -> Script | None:
    return as_script(job.args, job.kwargs) if job.task == SCRIPT else None


def _times(job: JobView) -> Iterator[str]:
    yield ""
    yield _field("Sent", moment(job.created_us))
    if job.due_us - job.created_us >= SECOND_US:
        yield _field("Due", moment(job.due_us))
    if job.expires_us is not None:
        yield _field("Expires", moment(job.expires_us))
    if job.state == "running":
        yield _field("Started", _running(job.started_us or job.created_us))
    elif job.started_us is not None:
        yield _field("Started", moment(job.started_us))
    if job.ended_us is not None:
        took = "" if job.started_us is None else f", after {_took(job.ended_us - job.started_us)}"
        yield _field("Ended", f"{moment(job.ended_us)}{took}")
    if job.worker is not None:
        yield _field("Worker", job.worker_name or GONE)
    if job.progress is not None:
        yield _field("Progress", _progress(job.progress))


def _running(since_us: int) -> str:
    """Since when: a run's own start is stored with its end, so until then it is when its worker took it."""
    return f"{show_instant(since_us)}, running for {show_span(max(0, SystemClock().now_us() - since_us))}"


def _took(us: int) -> str:
    return show_span(us) if us >= 1_000 else show(us)


def _progress(said: Any) -> str:
    if not isinstance(said, dict) or "done" not in said:
        return _json(said)
    report = cast("dict[str, Any]", said)
    of = f" of {report['total']}" if report.get("total") is not None else ""
    note = f", {report['note']}" if report.get("note") else ""
    return f"{report['done']}{of}{note}"


def _data(job: JobView) -> Iterator[str]:
    yield ""
    if job.unreadable is not None:
        yield _field("Unreadable", job.unreadable)
    given = [(str(place), value) for place, value in enumerate(job.args)] + list(job.kwargs.items())
    script = _script(job)
    if script is not None:
        yield _field("Sent by", script.by or "unknown")
        given = []
    elif not given and job.unreadable is None:
        yield _field("Arguments", "none")
    for number, (name, value) in enumerate(given):
        yield _field("" if number else "Arguments", f"{name} = {_json(value)}")
    if job.has_result:
        yield _field("Result", _json(job.result))
    if job.options:
        yield _field("Options", _json(job.options))


def _ties(job: JobView) -> Iterator[str]:
    for label, value in (
        ("Key", job.key),
        ("Lane", job.lane),
        ("Gate", job.gate),
        ("Needs", ", ".join(show_need(name, amount) for name, amount in job.needs.items())),
        ("Parents", ", ".join(job.parents)),
        ("Flow", job.flow),
        ("Retry of", job.retry_of),
        ("Retried by", ", ".join(job.retried_by)),
    ):
        if value:
            yield _field(label, value)


def _attempts(job: JobView) -> Iterator[str]:
    for one in job.attempts:
        yield ""
        yield _attempt(one)
        if one.worker is not None:
            yield f"  worker {one.worker_name or GONE}"
        if one.failure is not None:
            yield from _failure(one.failure)
    if job.failure is not None and not any(one.failure for one in job.attempts):
        yield ""
        yield "Error"
        yield from _failure(job.failure)


def _attempt(one: AttemptView) -> str:
    took = "" if one.started_us is None else f" after {_took(one.ended_us - one.started_us)}"
    return f"Attempt {_numbered(one)}: {one.outcome}{took}, {moment(one.ended_us)}"


def _numbered(one: JobView | AttemptView) -> str:
    """Its number; after a retry by hand, which counts from 1 again, of which one."""
    return f"{one.attempt} of retry {one.by_hand} by hand" if one.by_hand else str(one.attempt)


def _failure(failure: Failure) -> Iterator[str]:
    message = f"{failure.type}: {failure.message}" if failure.message else failure.type
    yield f"  {plain(message)}"
    if failure.fingerprint:
        yield f"  error {plain(failure.fingerprint)}"
    yield from (f"  | {plain(line)}" for line in failure.traceback.splitlines())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
