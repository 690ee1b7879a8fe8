"""What a running task knows of its job: `current_job()`.

The context follows the code, not the thread: it is there in functions the task calls, in coroutines it awaits and in
tasks of its loop. A plain call of a task has one too, so that the same function works without any queue.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Protocol, cast

import msgspec

from windlass.app.resources import Opened
from windlass.core.clock import SystemClock
from windlass.core.errors import BadValue, NotInJob
from windlass.core.ids import JobId, new_id, show_id
from windlass.core.job import Stream
from windlass.core.text import storable
from windlass.engines.protocol import Engine

log = logging.getLogger("windlass.job")

_encode = msgspec.json.Encoder().encode
_clock = SystemClock()

MOST_DONE = 1 << 53
"""Above it JSON numbers are not exact, nor is anybody counting."""
_COUNT = "Give how much is done, and of how much if that is known: progress(3, 10)."


class Scribe(Protocol):
    """Takes what a run says. Returns at once; happens whole or not at all, for it is called inside of tasks."""

    def line(self, job: JobId, fence: int, stream: Stream, text: str, /) -> None:
        """A line of its log."""
        ...

    def progress(self, job: JobId, fence: int, data: bytes, /) -> None:
        """How far it has come."""
        ...


class _Logger:
    """The scribe of a plain call: nothing is stored."""

    def line(self, job: JobId, fence: int, stream: Stream, text: str) -> None:
        log.info("%s log: %s", show_id(job), storable(text))

    def progress(self, job: JobId, fence: int, data: bytes) -> None:
        log.info("%s progress: %s", show_id(job), data.decode(errors="replace"))


_LOGGER = _Logger()


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """Progress as it is stored: how much is done, of how much, and a word about it."""

    done: float
    total: float | None = None
    note: str | None = None


class JobContext:
    """The running job, seen from inside its task."""

    __slots__ = (
        "_scribe",
        "alone",
        "attempt",
        "cancelled",
        "deadline_us",
        "engine",
        "fence",
        "guard",
        "is_async",
        "job_id",
        "keeps_lines",
        "partial",
        "queue",
        "resources",
        "store",
        "task",
    )

    def __init__(
        self,
        job_id: JobId,
        task: str,
        queue: str = "default",
        *,
        attempt: int = 1,
        fence: int = 0,
        scribe: Scribe = _LOGGER,
    ) -> None:
        self.job_id = job_id
        self.task = task
        self.queue = queue
        self.attempt = attempt
        """The number of this attempt, from 1."""
        self.fence = fence
        """Grows with every claim of the job: a write guarded by it happens once."""
        self.cancelled = False
        """Whether somebody asked for the job to be cancelled."""
        self.deadline_us: int | None = None
        self.store: object = None
        self.engine: Engine | None = None
        """The store of the worker that runs the job: what its task sends goes there, whatever becomes of the app."""
        self.guard: Guard | None = None
        self.resources: Opened | None = None
        self.alone = False
        self.is_async = False
        self.keeps_lines = False
        """Whether what its task prints and logs is kept with the job."""
        self.partial: dict[tuple[Stream, int], str] | None = None
        """What was printed and has no end of line yet, by stream and thread."""
        self._scribe = scribe

    @property
    def id(self) -> str:
        """The job's id as people write it."""
        return show_id(self.job_id)

    @property
    def deadline(self) -> datetime | None:
        """When the task's timeout is over; None without one."""
        if self.deadline_us is None:
            return None
        left_us = self.deadline_us - _clock.monotonic_us()
        return datetime.fromtimestamp((_clock.now_us() + left_us) / 1e6, UTC)

    @property
    def seconds_left(self) -> float | None:
        """How long until the deadline; None without one."""
        return None if self.deadline_us is None else (self.deadline_us - _clock.monotonic_us()) / 1e6

    def log(self, text: str) -> None:
        """Adds a line to the job's log, which is kept with its record (bounded: head and tail)."""
        self.say("", str(text))

    def say(self, stream: Stream, text: str) -> None:
        """Adds a line that was said there."""
        self._scribe.line(self.job_id, self.fence, stream, text)

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Says how far the job has come; the last word counts."""
        report = Report(
            _amount("done", done),
            None if total is None else _amount("total", total, 0),
            None if note is None else str(note).encode(errors="replace").decode(),
        )
        self._scribe.progress(self.job_id, self.fence, _encode(report))

    def __repr__(self) -> str:
        return f"<{self.task} {self.id}, attempt {self.attempt}>"


def _amount(name: str, value: object, least: int = -MOST_DONE) -> float:
    """The number as it is stored: plain, whatever kind of int or float it is."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise BadValue(f"The {name} of a progress cannot be {value!r:.60}.", _COUNT)
    if not least <= value <= MOST_DONE:  # NaN too
        raise BadValue(f"The {name} of a progress must lie between {least} and {MOST_DONE}.", _COUNT)
    return int(value) if isinstance(value, int) else float(value)


class Guard(Protocol):
    """While it is held, no interruption reaches the task."""

    def __enter__(self) -> object: ...
    def __exit__(self, *_: object) -> object: ...


_NOTHING = nullcontext()

current: ContextVar[JobContext | None] = ContextVar("windlass_job", default=None)


def current_job() -> JobContext:
    """The job whose task is running here."""
    found = current.get()
    if found is None:
        raise NotInJob("No job is running here.", "Call current_job() inside a task.")
    return found


def shielded() -> AbstractContextManager[object]:
    """Around every call of a store by a task: one that is stopped in the middle would leave its locks taken."""
    here = current.get()
    return _NOTHING if here is None or here.guard is None else cast("AbstractContextManager[object]", here.guard)


def local_context(task: str, queue: str) -> JobContext:
    """The context of a plain call: nothing is stored, lines go to the logger `windlass.job`."""
    return JobContext(new_id(), task, queue)
