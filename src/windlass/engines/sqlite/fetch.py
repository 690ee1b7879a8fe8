"""Fetch: a job by its id, with as much of it as was asked for."""

from __future__ import annotations

import msgspec

from windlass.core.ids import JobId
from windlass.core.job import Attempt, Job, LogLine, Progress
from windlass.engines.protocol import Part
from windlass.engines.sqlite.connection import Database
from windlass.engines.sqlite.rows import WIDTH, Row, job_of
from windlass.engines.sqlite.statements import sql

_attempt = msgspec.json.Decoder(Attempt).decode


def fetch(db: Database, job_id: JobId, parts: frozenset[Part], log_after: int, now_us: int) -> Job | None:
    """The job with those of its parts, its log from there on; None: there is none."""
    found = db.execute(sql("jobs_fetch"), (job_id,)).fetchone()
    if found is None:
        return None
    job = job_of(found, parts, now_us)
    row = Row(*found[:WIDTH])
    if not row.noted:
        return job
    attempts: tuple[Attempt, ...] = ()
    if Part.ATTEMPTS in parts:
        attempts = tuple(_attempt(data) for (data,) in db.execute(sql("attempt_all"), (row.seq,)))
    lines: tuple[LogLine, ...] = ()
    if Part.LOG in parts:
        lines = tuple(
            LogLine(number=number, attempt=attempt, at_us=at_us, text=text, stream=stream)
            for number, attempt, at_us, text, stream in db.execute(sql("log_all"), (row.seq, log_after))
        )
    progress: Progress | None = None
    if Part.PROGRESS in parts:
        last = db.execute(sql("progress_read"), (row.seq,)).fetchone()
        progress = None if last is None else Progress(at_us=last[0], data=last[1])
    steps: tuple[tuple[str, bytes], ...] = ()
    if Part.STEPS in parts:
        steps = tuple(db.execute(sql("step_all"), (row.seq,)))
    return msgspec.structs.replace(job, attempts=attempts, log=lines, progress=progress, steps=steps)
