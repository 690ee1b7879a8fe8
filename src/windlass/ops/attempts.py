"""What the kept attempts tell: which of them came after a retry by hand, and when an error was first seen.

A retry by hand lets a job count its attempts from 1 again and clears its error. Nothing is stored about it: it shows in
that the numbers do not go on as they do by themselves. A store keeps the last attempts of a job only, so that both
answers go as far back as those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from windlass.core.ids import JobId
from windlass.core.job import Attempt, Failure, Job, Outcome
from windlass.engines.protocol import Engine, Part
from windlass.ops.lookup import record_of

_COUNTED: Final = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.RETRY})
"""After one of these a job goes on with the next number by itself, or not at all."""

STEP: Final = 10
"""The attempts of so many jobs are fetched at once: each may have a hundred, and each of these a long error."""

Tried = tuple[int, JobId]
"""A job, and before it when it was sent."""


def by_hand(attempts: Iterable[Attempt]) -> Iterator[int]:
    """For each attempt, how many retries by hand came before it."""
    retries, before = 0, None
    for one in attempts:
        retries += before is not None and _begun_anew(before, one.attempt)
        yield retries
        before = one


def retries_of(job: Job) -> int:
    """How many retries by hand came before where the job is now."""
    record = record_of(job)
    if not job.attempts:
        return 0
    *_, retries = by_hand(job.attempts)
    last = job.attempts[-1]
    if record.ended_us == last.ended_us:
        return retries  # it ended with that attempt
    return retries + _begun_anew(last, record.attempt)


def _begun_anew(before: Attempt, attempt: int) -> bool:
    if before.outcome in _COUNTED:
        return attempt <= before.attempt
    return attempt < before.attempt or before.outcome is Outcome.CANCELLED


def first_seen_us(engine: Engine, first_us: int, tried: list[Tried], is_it: Callable[[Failure], bool]) -> int:
    """When one of these jobs, which ran more than once, first had the error; `first_us` where none had it before.

    The oldest are looked at first: a job that was sent later than the error was seen cannot have seen it before.
    """
    tried = sorted(tried)
    for start in range(0, len(tried), STEP):
        step = [job_id for created_us, job_id in tried[start : start + STEP] if created_us < first_us]
        if not step:
            break
        for job in engine.fetch(step, frozenset({Part.ATTEMPTS})):
            for one in () if job is None else job.attempts:
                if one.failure is not None and is_it(one.failure):
                    first_us = min(first_us, one.ended_us)
    return first_us
