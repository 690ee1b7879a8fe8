"""Lines and progress of running jobs, on their way to the store."""

from __future__ import annotations

from windlass.app.context import Kind
from windlass.core.ids import JobId
from windlass.core.limits import Limits
from windlass.engines.protocol import Note

MOST_NOTES = 10_000
"""How many may wait; what comes beyond is dropped and counted."""
DROPPED = "%d lines of jobs' logs were dropped: they came faster than they can be stored."


def as_note(job: JobId, fence: int, kind: Kind, data: bytes, limits: Limits) -> Note:
    """What the store gets, cut to what it takes."""
    if len(data) > limits.note_bytes:
        data = data[: limits.note_bytes - 3] + "…".encode() if kind == "log" else b"{}"
    return Note(id=job, fence=fence, kind=kind, data=data)
