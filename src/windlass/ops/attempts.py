"""What the kept attempts tell: which of them came after a retry by hand, and when an error was first seen.

A retry by hand lets a job count its attempts from 1 again and clears its error. Nothing is stored about it: it shows in
that the numbers do not go on as they do by themselves. A store keeps the last attempts of a job only, so that both
answers go as far back as those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from windlass.core.job import Attempt, Failure, Job, Outcome
from windlass.engines.protocol import BATCH, Engine, Part
from windlass.ops.lookup import record_of

_COUNTED: Final = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.RETRY})
"""After one of these a job goes on with the next number by itself, or not at all."""


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


def first_seen_us(engine: Engine, found: Sequence[Job], is_it: Callable[[Failure], bool]) -> int:
    """When one of these ended jobs first had the error that they died of.

    The oldest are looked at first: a job that was sent later than the error was seen cannot have seen it before.
    """
    first_us = min(record_of(one).ended_us or 0 for one in found)
    again = sorted((one for one in found if record_of(one).fence > 1), key=lambda one: record_of(one).created_us)
    for start in range(0, len(again), BATCH):
        batch = [one.id for one in again[start : start + BATCH] if record_of(one).created_us < first_us]
        if not batch:
            break
        for job in engine.fetch(batch, frozenset({Part.ATTEMPTS})):
            for one in () if job is None else job.attempts:
                if one.failure is not None and is_it(one.failure):
                    first_us = min(first_us, one.ended_us)
    return first_us
