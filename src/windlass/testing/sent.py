"""What was sent in a test: looked up by task, asserted by arguments, and shown when it was something else.

Jobs are noted where they reach the store, so a job counts whoever sent it: the test, the code under test, a task. They
are compared as a task would get them: after `send.delay(7, to="x")`, it does not matter whether the test writes
`to="x"` or `"x"`, a tuple or the list that it became in the store.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from windlass.app.app import App
from windlass.app.handle import Handle
from windlass.app.options import SendOptions, needs_of
from windlass.app.task import USUAL, Sender, Task
from windlass.core.codec import decode_result, encode_result
from windlass.core.durations import SECOND_US, show
from windlass.core.errors import BadValue, WindlassError
from windlass.core.gates import MEMORY, show_need
from windlass.core.job import Job, Request
from windlass.core.limits import show_memory
from windlass.core.signature import ANYTHING
from windlass.engines.protocol import Receipt

SHOWN = 20
"""How many jobs a failing assertion shows."""
SLACK_US = 5 * SECOND_US
"""An expiry is stored as an instant: `expires="1h"` is known by its being about an hour after the send."""


@dataclass(frozen=True)
class SentJob:
    """One send, as a person reads it."""

    task: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    queue: str
    priority: int
    tags: tuple[str, ...]
    delay: float
    """Seconds; 0 for at once."""
    at: datetime | None
    expires: datetime | None
    key: str | None
    handle: Handle[Any] = field(compare=False)
    """The job itself: its state, its result."""
    unusual: tuple[str, ...] = field(default=(), compare=False)
    """The options that are not the task's own, spelled out."""

    def __repr__(self) -> str:
        return ", ".join((spelled(self.task, self.args, self.kwargs), *self.unusual))


@dataclass(frozen=True)
class _Send:
    request: Request
    receipt: Receipt
    at_us: int


class SentJobs:
    """Everything that was sent to one store."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._sends: list[_Send] = []

    def note(self, jobs: Sequence[Job], receipts: Sequence[Receipt]) -> None:
        """The store has these."""
        now_us = self._app.now_us()
        self._sends += [_Send(job.request, receipt, now_us) for job, receipt in zip(jobs, receipts, strict=True)]

    def __call__(self, task: Sender[..., Any] | str | None = None) -> list[SentJob]:
        """What was sent so far, in order: of one task, given itself or by name, or all."""
        name = None if task is None else _name(task)
        return [self._read(send) for send in list(self._sends) if name is None or send.request.task == name]

    def assert_sent(self, task: Sender[..., Any] | str, /, *args: Any, **kwargs: Any) -> SentJob:
        """Gives the first job of that task with these arguments, and fails with what was sent instead.

        Without arguments, any job of the task will do. `task.using(delay=60)` asks for these options too.
        """
        __tracebackhide__ = True
        name, any_call = _name(task), not (args or kwargs)
        known = self._app.tasks.get(name)
        wanted = task.sending if isinstance(task, Sender) else SendOptions()
        if known is not None and not any_call:
            known.signature.check(args, kwargs)
        for send in list(self._sends):
            if send.request.task == name and _has(send, wanted):
                sent = self._read(send)
                if any_call or _same_call(known, sent, args, kwargs):
                    return sent
        raise AssertionError(self._instead(name, args, kwargs, wanted))

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, send: _Send) -> SentJob:
        request, receipt = send.request, send.receipt
        task = self._app.tasks.get(request.task)
        signature = ANYTHING if task is None else task.signature
        args, kwargs = signature.decode(request.payload, self._app.limits)
        known = receipt.duplicate_of
        return SentJob(
            task=request.task,
            args=args,
            kwargs=kwargs,
            queue=request.queue,
            priority=request.priority,
            tags=request.tags,
            delay=request.delay_us / 1e6,
            at=_instant(request.at_us),
            expires=_instant(request.expires_us),
            key=None if request.unique is None else request.unique.key,
            handle=Handle(self._app, known or receipt.id, signature.returns, duplicate=known is not None),
            unusual=self._unusual(request, task),
        )

    def _unusual(self, request: Request, task: Task[..., Any] | None) -> tuple[str, ...]:
        said: dict[str, Any] = {}
        if task is None or request.queue != self._app.queue_of(task.name, task.options):
            said["queue"] = request.queue
        if request.priority != (0 if task is None else task.options.priority):
            said["priority"] = request.priority
        if request.tags != (() if task is None else task.options.tags):
            said["tags"] = list(request.tags)
        said["delay"] = show(request.delay_us) if request.delay_us else None
        said["at"] = _instant(request.at_us)
        said["expires"] = _instant(request.expires_us)
        said["key"] = None if request.unique is None else request.unique.key
        if request.needs != (() if task is None else needs_of(task.options, USUAL)):
            said["needs"] = [show_need(*need) for need in request.needs]
        return tuple(f"{name}={value}" for name, value in said.items() if value is not None)

    def _instead(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], wanted: SendOptions) -> str:
        """The failing assertion: what was missing, and what there was, jobs of the same task first."""
        missing = spelled(name, args, kwargs) if args or kwargs else name
        asked = f" with {', '.join(_asked(wanted))}" if _asked(wanted) else ""
        sent = sorted(self(), key=lambda job: job.task != name)
        if not sent:
            return f"{missing} was not sent{asked}. Nothing was sent in this test."
        lines = [f"  {job!r}" for job in sent[:SHOWN]]
        if len(sent) > SHOWN:
            lines.append(f"  … and {len(sent) - SHOWN} more")
        return "\n".join([f"{missing} was not sent{asked}. What was sent in this test:", *lines])


def spelled(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A call as one writes it."""
    inside = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
    return f"{name}({', '.join(inside)})"


def _name(task: Sender[..., Any] | str) -> str:
    if isinstance(task, Sender):
        return task.name
    if not isinstance(task, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadValue(f"A task cannot be {task!r}.", "Give the task itself, or its name.")
    return task


def _instant(us: int | None) -> datetime | None:
    return None if us is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)


# ── comparing ───────────────────────────────────────────────────────────────────────────────────────────


def _same_call(task: Task[..., Any] | None, sent: SentJob, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    want, got = _bound(task, args, kwargs), _bound(task, sent.args, sent.kwargs)
    return want.keys() == got.keys() and all(_same(want[name], got[name]) for name in want)


def _bound(task: Task[..., Any] | None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the names of their parameters, defaults included."""
    if task is None:
        return {"args": tuple(args), "kwargs": dict(kwargs)}
    bound = inspect.signature(task.function).bind_partial(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _same(want: Any, got: Any) -> bool:
    return bool(want == got) or _stored(want) == _stored(got)


def _stored(value: Any) -> Any:
    """The value as the store has it; one that cannot be stored (a matcher, such as mock's ANY) is only itself."""
    try:
        return decode_result(encode_result(value))
    except WindlassError:
        return value


def _has(send: _Send, wanted: SendOptions) -> bool:
    """Whether the job was sent with all that was asked for."""
    request = send.request
    return all(
        (
            wanted.queue in {None, request.queue},
            wanted.priority in {None, request.priority},
            wanted.tags in {None, request.tags},
            wanted.delay_us in {0, request.delay_us},
            wanted.at_us in {None, request.at_us},
            wanted.expires_us in {None, request.expires_us},
            wanted.expires_in_us is None or _expires_in(send, wanted.expires_in_us),
            wanted.id in {None, request.id},
            wanted.key in {None, request.unique},
            wanted.memory in {None, dict(request.needs).get(MEMORY)},
            wanted.needs in {None, tuple(need for need in request.needs if need[0] != MEMORY)},
            wanted.stored() in {b"", request.options},
        )
    )


def _expires_in(send: _Send, wanted_us: int) -> bool:
    found_us = send.request.expires_us
    return found_us is not None and abs(found_us - send.at_us - wanted_us) <= SLACK_US


def _asked(wanted: SendOptions) -> list[str]:
    """The options that were asked for, as one reads them."""
    said: dict[str, Any] = {
        "queue": wanted.queue,
        "priority": wanted.priority,
        "tags": None if wanted.tags is None else list(wanted.tags),
        "delay": show(wanted.delay_us) if wanted.delay_us else None,
        "at": _instant(wanted.at_us),
        "expires": show(wanted.expires_in_us) if wanted.expires_in_us else _instant(wanted.expires_us),
        "id": None if wanted.id is None else wanted.id.hex(),
        "key": None if wanted.key is None else wanted.key.key,
        "memory": None if wanted.memory is None else show_memory(wanted.memory),
        "needs": None if wanted.needs is None else dict(wanted.needs),
        "options": wanted.stored().decode() or None,
    }
    return [f"{name}={value}" for name, value in said.items() if value is not None]
