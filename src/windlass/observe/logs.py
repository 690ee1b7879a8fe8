"""Logs of a process that works: a line for people, or a JSON object per line for machines.

A job's own lines go with the job (`current_job().log`); these are the worker's. With `tell_jobs` each end of an attempt
is a line too. Passwords in URLs are masked, and what would act on a terminal is spelled out.
"""

from __future__ import annotations

import logging
import sys
import time
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from windlass.core.durations import show
from windlass.core.events import Bus, Settled
from windlass.core.ids import show_id
from windlass.core.redact import plain, redact_text

EXTRAS: Final = ("event", "job_id", "task", "queue", "attempt", "worker", "outcome", "duration_ms")
"""What a record may bring along, by these names, in `extra`."""

_COLOURS: Final = {logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31;1"}

jobs = logging.getLogger("windlass.jobs")


class Console(logging.Formatter):
    """A line for people: the time, the level where it matters, the text."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = "" if record.levelno == logging.INFO else f" {record.levelname}"
        text = plain(redact_text(record.getMessage()))
        if record.exc_info:
            text += "\n" + plain(redact_text(self.formatException(record.exc_info)), lines=True)
        line = f"{at}{level} {text}"
        colour = _COLOURS.get(record.levelno) if self._colour else None
        return line if colour is None else f"\x1b[{colour}m{line}\x1b[0m"


class Json(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": redact_text(record.getMessage()),
        }
        fields |= {name: value for name in EXTRAS if (value := record.__dict__.get(name)) is not None}
        if record.exc_info and record.exc_info[0] is not None:
            fields["error.type"] = record.exc_info[0].__qualname__
            fields["error.stack"] = redact_text(self.formatException(record.exc_info))
        # Half a character, as a file name may bring along, is no text that JSON could hold.
        whole = {name: _whole(value) if isinstance(value, str) else value for name, value in fields.items()}
        return msgspec.json.encode(whole, enc_hook=str).decode()


def _whole(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def set_up(level: str = "info", form: str = "console", file: str | None = None) -> logging.Handler:
    """Lets every logger of the process write there: to stderr, or to a file that may be moved away and is made anew."""
    handler: logging.Handler
    if file is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        from logging.handlers import WatchedFileHandler

        handler = WatchedFileHandler(file, encoding="utf-8")
    colour = file is None and sys.stderr.isatty()
    handler.setFormatter(Json() if form == "json" else Console(colour=colour))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    return handler


def tell_jobs(bus: Bus) -> None:
    """A line for each end of an attempt that went well or was cancelled; a failed one has a line of its own already."""
    bus.subscribe(Settled, _tell)


def _tell(settled: Settled) -> None:
    if settled.outcome in {"failed", "timed_out", "retry", "given_back"} or settled.answer == "stale":
        return
    job_id = show_id(settled.job)
    jobs.info(
        "%s %s: %s in %s.",
        settled.task,
        job_id,
        settled.state,
        show(settled.ran_us),
        extra={
            "event": "settled",
            "job_id": job_id,
            "task": settled.task,
            "attempt": settled.attempt,
            "outcome": settled.outcome,
            "duration_ms": round(settled.ran_us / 1_000, 3),
        },
    )
