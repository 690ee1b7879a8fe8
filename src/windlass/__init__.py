"""Windlass: a task queue for Python that starts in a folder and grows to a cluster.

This version has the spine: what a job is (`windlass.core`), where it lives (`windlass.engines`), and the suite that
defines an engine (`windlass.testing.conformance`). Tasks and workers come next.
"""

from __future__ import annotations

from windlass.core.errors import WindlassError
from windlass.core.ids import new_id, read_id, show_id
from windlass.core.job import Edge, Failure, Job, Outcome, Record, Request, State, Unique
from windlass.core.limits import Limits
from windlass.core.retry import Retry
from windlass.core.settings import Settings, load
from windlass.engines.connect import connect

__version__ = "0.1.0"

__all__ = [
    "Edge",
    "Failure",
    "Job",
    "Limits",
    "Outcome",
    "Record",
    "Request",
    "Retry",
    "Settings",
    "State",
    "Unique",
    "WindlassError",
    "connect",
    "load",
    "new_id",
    "read_id",
    "show_id",
]
