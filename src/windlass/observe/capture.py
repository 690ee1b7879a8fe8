"""What a task prints and logs is kept with its job, and still goes where it went before.

Which job it is follows the code (`current_job`), not the thread: so it is right in every pool, in coroutines, and in
threads to which a context was given. Where no job runs, and in tasks with `logs=False`, nothing is different.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any, Final, Literal, TextIO

from windlass.app.context import JobContext, current

LONGEST_PARTIAL: Final = 16_384
"""So many characters without an end of line are a line."""

OURS: Final = ("windlass.worker", "windlass.job")
"""Loggers of what is no task's."""
Name = Literal["stdout", "stderr"]
STREAMS: tuple[Name, ...] = ("stdout", "stderr")

_lock = threading.Lock()
_users = 0


def start() -> None:
    """From now on, until as many have said `stop`."""
    global _users, _untouched  # noqa: PLW0603 - sys.stdout and the loggers are of the process too
    with _lock:
        _users += 1
        if _users == 1:
            # Not by a handler of the root logger: with one there, warnings of a program that has set up nothing are
            # shown to nobody, and a later basicConfig does nothing.
            _untouched, logging.Logger.callHandlers = logging.Logger.callHandlers, _call_and_keep
            for name in STREAMS:
                stream: TextIO | None = getattr(sys, name)
                if stream is not None:  # a program without a terminal may have none
                    setattr(sys, name, Teed(stream, name))


def stop() -> None:
    """Whoever said `start` needs it no more."""
    global _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        if not _users:
            # Whoever has put something of their own there meanwhile, keeps it.
            if logging.Logger.callHandlers is _call_and_keep:
                logging.Logger.callHandlers = _untouched
            for name in STREAMS:
                stream = getattr(sys, name)
                if isinstance(stream, Teed):
                    setattr(sys, name, stream.stream)


class Keeper(logging.Handler):
    """Keeps what is logged inside of a task, line by line."""

    def emit(self, record: logging.LogRecord) -> None:
        job = current.get()
        if job is None or not job.keeps_lines or record.name.startswith(OURS):
            return
        try:
            lines = self.format(record).splitlines() or [""]
        except Exception:
            self.handleError(record)  # as every handler does: a wrong call of a logger must not stop the task
            return
        for line in lines:
            job.say("log", line)


class _Handling(threading.local):
    """Whether this thread is in a handler, whose output is no print of the task's: the record is kept itself."""

    now = False


_handling = _Handling()


def _call_and_keep(self: logging.Logger, record: logging.LogRecord) -> None:
    before, _handling.now = _handling.now, True
    try:
        _untouched(self, record)
    finally:
        _handling.now = before
    _handler.emit(record)


_untouched = logging.Logger.callHandlers
_handler = Keeper()
_handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))


class Teed:
    """A stream of which a job keeps what its task writes there."""

    def __init__(self, stream: TextIO, name: Name) -> None:
        self.stream = stream
        self._name: Name = name

    def write(self, text: str, /) -> int:
        job = current.get()
        if job is not None and job.keeps_lines and not _handling.now and isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            _keep(job, self._name, text)
        return self.stream.write(text)

    def writelines(self, lines: Any, /) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "stream":  # a copy that is being made has none yet
            raise AttributeError(name)
        return getattr(self.stream, name)


def _keep(job: JobContext, name: Name, text: str) -> None:
    """Whole lines go to the job, the rest waits for its end. Threads of one task do not mix their lines."""
    if job.partial is None:
        job.partial = {}
    key = (name, threading.get_ident())
    *lines, rest = (job.partial.pop(key, "") + text).split("\n")
    for line in lines:
        job.say(name, line.removesuffix("\r"))
    if len(rest) >= LONGEST_PARTIAL:
        job.say(name, rest)
    elif rest:
        job.partial[key] = rest


def finish(job: JobContext) -> None:
    """Its task has ended: what had no end of line was its last line."""
    partial, job.partial = job.partial, None
    for (name, _thread), text in (partial or {}).items():
        job.say(name, text)
