"""The test door: what tests of Windlass, of its users and of other people's engines stand on.

For users' tests: `plugin.py` (the pytest fixtures), `stage.py` (an app on a store of its own), `eager.py` with
`coroutines.py` (jobs run where they are sent), `in_process.py` (a worker beside the test), `sent.py` (what was sent).
Fake resources need nothing of this room: `app.override`.
For tests of engines: `clock.py`, `faults.py`, `conformance/`.

Nothing outside imports from here, and no production code can be told what time it is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.testing.eager import run_eagerly
    from windlass.testing.in_process import TestWorker, run_in_process
    from windlass.testing.sent import SentJob, SentJobs
    from windlass.testing.stage import Stage, StageClock

# Imported when they are first used: pytest imports this package in every project in which Windlass is installed.
_HOMES = {
    "SentJob": "sent",
    "SentJobs": "sent",
    "Stage": "stage",
    "StageClock": "stage",
    "TestWorker": "in_process",
    "run_eagerly": "eager",
    "run_in_process": "in_process",
}

__all__ = ["SentJob", "SentJobs", "Stage", "StageClock", "TestWorker", "run_eagerly", "run_in_process"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'windlass.testing' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"windlass.testing.{_HOMES[name]}"), name)
    return value
