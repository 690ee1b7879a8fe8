"""One job by its id, or the one error that says that there is none."""

from __future__ import annotations

from windlass.core.errors import JobNotFound
from windlass.core.ids import JobId, show_id
from windlass.core.job import Job, Record
from windlass.engines.protocol import ALL_PARTS, Engine, Part


def find(engine: Engine, job_id: JobId, parts: frozenset[Part] = ALL_PARTS, log_after: int = 0) -> Job:
    """The job with these parts; `JobNotFound` where there is none."""
    (job,) = engine.fetch([job_id], parts, log_after)
    if job is None:
        raise unknown(job_id)
    return job


def unknown(job_id: JobId) -> JobNotFound:
    """The error about a job that is not there."""
    return JobNotFound(
        f"There is no job {show_id(job_id)}: it never was, its time of retention is over, or the store was emptied.",
        "Check the id and the store's URL; keep_succeeded and keep_dead say how long records stay.",
    )


def record_of(job: Job) -> Record:
    """The record, which every stored job has."""
    assert job.record is not None
    return job.record
