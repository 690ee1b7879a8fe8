"""Windlass: a task queue for Python that starts in a folder and grows to a cluster.

Define tasks on an `App`, send them, and run them with a `Worker`. What a job is lies in `windlass.core`, where it lives
in `windlass.engines`, how you define and send in `windlass.app`, how jobs run in `windlass.worker`, how people steer in
`windlass.ops`.

Names are imported when they are first used: `import windlass` costs next to nothing, whatever you use of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.app.app import App
    from windlass.app.context import JobContext, current_job
    from windlass.app.endings import Cancel, CancelAsked, Cut, Dead, RetryAfter, Snooze, TimedOut
    from windlass.app.handle import Handle
    from windlass.app.handles import Handles, as_completed, gather
    from windlass.app.middleware import Middleware
    from windlass.app.resources import injected
    from windlass.app.task import AsyncTask, Task
    from windlass.core.errors import (
        Crashed,
        JobCancelled,
        JobDead,
        JobExpired,
        MemoryLimit,
        NotFinished,
        WindlassError,
    )
    from windlass.core.ids import new_id, read_id, show_id
    from windlass.core.job import Edge, Failure, Job, Outcome, Record, Request, State, Unique
    from windlass.core.limits import Limits
    from windlass.core.retry import Retry
    from windlass.core.secret import Secret
    from windlass.core.settings import Settings, load
    from windlass.engines.connect import connect
    from windlass.worker.worker import Worker

__version__ = "0.1.0"

_HOMES = {
    "app.app": ("App",),
    "app.context": ("JobContext", "current_job"),
    "app.endings": ("Cancel", "CancelAsked", "Cut", "Dead", "RetryAfter", "Snooze", "TimedOut"),
    "app.handle": ("Handle",),
    "app.handles": ("Handles", "as_completed", "gather"),
    "app.middleware": ("Middleware",),
    "app.resources": ("injected",),
    "app.task": ("AsyncTask", "Task"),
    "core.errors": (
        "Crashed",
        "JobCancelled",
        "JobDead",
        "JobExpired",
        "MemoryLimit",
        "NotFinished",
        "WindlassError",
    ),
    "core.ids": ("new_id", "read_id", "show_id"),
    "core.job": ("Edge", "Failure", "Job", "Outcome", "Record", "Request", "State", "Unique"),
    "core.limits": ("Limits",),
    "core.retry": ("Retry",),
    "core.secret": ("Secret",),
    "core.settings": ("Settings", "load"),
    "engines.connect": ("connect",),
    "worker.worker": ("Worker",),
}
_HOME_OF = {name: f"windlass.{home}" for home, names in _HOMES.items() for name in names}

__all__ = [
    "App",
    "AsyncTask",
    "Cancel",
    "CancelAsked",
    "Crashed",
    "Cut",
    "Dead",
    "Edge",
    "Failure",
    "Handle",
    "Handles",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobDead",
    "JobExpired",
    "Limits",
    "MemoryLimit",
    "Middleware",
    "NotFinished",
    "Outcome",
    "Record",
    "Request",
    "Retry",
    "RetryAfter",
    "Secret",
    "Settings",
    "Snooze",
    "State",
    "Task",
    "TimedOut",
    "Unique",
    "WindlassError",
    "Worker",
    "as_completed",
    "connect",
    "current_job",
    "gather",
    "injected",
    "load",
    "new_id",
    "read_id",
    "show_id",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
