"""What may enter a store: every request is checked whole before an engine writes its first byte."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from windlass.core import names
from windlass.core.errors import BadValue, TooLarge
from windlass.core.job import Job, Request
from windlass.core.limits import Limits
from windlass.core.rank import TOP_PRIORITY

FAR_FUTURE_US = 253_402_300_800_000_000
"""The year 10000: a due time past it is a mistake in units, not a plan."""
MOST_PARENTS = 1_000
ID_BYTES = 16

_name = lru_cache(maxsize=8192)(names.check_name)


def check_jobs(jobs: Sequence[Job], limits: Limits) -> None:
    """Raises for the first job that may not enter; nothing has been stored then."""
    for job in jobs:
        check_request(job.request, limits)


def check_request(request: Request, limits: Limits) -> None:
    """Names, sizes and numbers of one request, each refusal saying which and what to do."""
    if len(request.id) != ID_BYTES:
        raise BadValue(f"A job id has 16 bytes, not {len(request.id)}.", "Make it with windlass.new_id().")
    _name("task", request.task)
    _name("queue", request.queue)
    limits.check_payload(len(request.payload))
    if not 0 <= request.priority <= TOP_PRIORITY:
        raise BadValue(f"Priority {request.priority} is not allowed.", "Give 0 to 9; nine runs first.")
    if not 0 <= request.delay_us < FAR_FUTURE_US:
        raise BadValue(f"A delay of {request.delay_us} µs is not allowed.", "Give 0 or more, below 8,000 years.")
    for name in ("at_us", "expires_us"):
        instant = getattr(request, name)
        if instant is not None and not 0 <= instant < FAR_FUTURE_US:
            raise BadValue(f"{name} = {instant} is not an instant in µs since 1970.", "Give a date before 10000.")
    if request.lane is not None or request.gate is not None or request.unique is not None or request.tags:
        _check_keys(request, limits)
    if request.needs or request.parents:
        _check_needs(request)


def _check_keys(request: Request, limits: Limits) -> None:
    if request.lane is not None:
        _name("lane", request.lane)
        if request.lane_limit is not None and not 1 <= request.lane_limit <= 1_000_000:
            raise BadValue(f"A lane cannot run {request.lane_limit} jobs at once.", "Give 1 or more.")
    if request.gate is not None:
        _name("gate", request.gate)
    if request.unique is not None:
        _name("unique key", request.unique.key)
        if request.unique.until == "time" and not 0 < request.unique.period_us < FAR_FUTURE_US:
            raise BadValue(
                f"The unique key {request.unique.key} has a period of {request.unique.period_us} µs.",
                "Give a period above 0, or until='end'.",
            )
    limits.check_tags(len(request.tags))
    for tag in request.tags:
        _name("tag", tag)


def _check_needs(request: Request) -> None:
    for name, amount in request.needs:
        _name("resource", name)
        if not 0 < amount < 1 << 62:
            raise BadValue(f"A need of {amount} {name} is not allowed.", "Give a whole number above 0.")
    if len(request.parents) > MOST_PARENTS:
        raise TooLarge(
            f"{len(request.parents):,} parents are too many; the limit is {MOST_PARENTS:,}.",
            "Gather them in steps: jobs that wait for a thousand each, and one that waits for those.",
        )
    for edge in request.parents:
        if edge.parent == request.id:
            raise BadValue("A job cannot wait for itself.", "Take its own id out of its parents.")
