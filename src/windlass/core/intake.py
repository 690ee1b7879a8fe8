"""What may enter a store: every request is checked whole before an engine writes its first byte."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from windlass.core import names
from windlass.core.errors import BadValue, TooLarge
from windlass.core.job import Edge, Job, Request, Unique
from windlass.core.limits import Limits
from windlass.core.rank import TOP_PRIORITY

FAR_FUTURE_US = 253_402_300_800_000_000
"""The year 10000: a due time past it is a mistake in units, not a plan."""
MOST_PARENTS = 1_000
ID_BYTES = 16

# Only for what is a plain str already: to the cache, a look-alike is the str it equals.
_name = lru_cache(maxsize=8192)(names.check_name)

_NAMES = (("task", "task"), ("queue", "queue"))
_KEYS = (("lane", "lane"), ("gate", "gate"))
_BYTES = ("payload", "options")
_NUMBERS = ("priority", "delay_us")
_MAYBE_NUMBERS = ("at_us", "expires_us", "lane_limit")
_MAYBE_IDS = ("flow", "retry_of")
_TUPLES = ("needs", "parents", "tags")
_UNTIL = ("start", "end", "time")
_ON = ("succeeded", "ended")


def check_jobs(jobs: Sequence[Job], limits: Limits) -> None:
    """Raises for the first job that may not enter; nothing has been stored then."""
    if not isinstance(jobs, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
        raise _wrong("What is inserted", jobs, "Give a list of jobs.")
    for job in jobs:
        if type(job) is not Job or type(job.request) is not Request:
            raise _wrong("A job to insert", job, "Give windlass.core.job.Job(request=Request(…)).")
        check_request(job.request, limits)


def check_request(request: Request, limits: Limits) -> None:
    """Types, names, sizes and numbers of one request, each refusal saying which and what to do."""
    _check_types(request)
    if len(request.id) != ID_BYTES:
        raise BadValue(f"A job id has 16 bytes, not {len(request.id)}.", "Make it with windlass.new_id().")
    _name("task", request.task)
    _name("queue", request.queue)
    limits.check_payload(len(request.payload))
    if not 0 <= request.priority <= TOP_PRIORITY:
        raise BadValue(f"Priority {request.priority} is not allowed.", "Give 0 to 9; nine runs first.")
    if not 0 <= request.delay_us < FAR_FUTURE_US:
        raise BadValue(f"A delay of {request.delay_us} µs is not allowed.", "Give 0 or more, below 8,000 years.")
    for name, instant in (("at_us", request.at_us), ("expires_us", request.expires_us)):
        if instant is not None and not 0 <= instant < FAR_FUTURE_US:
            raise BadValue(f"{name} = {instant} is not an instant in µs since 1970.", "Give a date before 10000.")
    if request.lane_limit is not None and not 1 <= request.lane_limit <= 1_000_000:
        raise BadValue(f"A lane cannot run {request.lane_limit} jobs at once.", "Give 1 or more.")
    if request.lane is not None or request.gate is not None or request.unique is not None or request.tags:
        _check_keys(request, limits)
    if request.needs or request.parents:
        _check_needs(request)


def _check_keys(request: Request, limits: Limits) -> None:
    if request.lane is not None:
        _name("lane", request.lane)
    if request.gate is not None:
        _name("gate", request.gate)
    if request.unique is not None:
        _name("unique key", request.unique.key)
        least_us = 1 if request.unique.until == "time" else 0
        if not least_us <= request.unique.period_us < FAR_FUTURE_US:
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


# ── types ───────────────────────────────────────────────────────────────────────────────────────────────


def _check_types(request: Request) -> None:
    """Plain values only: a subclass, or a bool where a number belongs, would come back as something else."""
    if (
        type(request.id) is bytes
        and type(request.task) is str
        and type(request.queue) is str
        and type(request.payload) is bytes
        and type(request.options) is bytes
        and type(request.priority) is int
        and type(request.delay_us) is int
    ):
        if (
            request.at_us is None
            and request.expires_us is None
            and request.lane is None
            and request.lane_limit is None
            and request.gate is None
            and request.unique is None
            and request.flow is None
            and request.retry_of is None
            and request.needs == request.parents == request.tags == ()
        ):
            return
    else:
        _check_plain_types(request)
    _check_rare_types(request)


def _check_plain_types(request: Request) -> None:
    if not _is(request.id, bytes):
        raise _wrong("A job id", request.id, "Make it with windlass.new_id().")
    for name, kind in _NAMES:
        value: object = getattr(request, name)
        if not _is(value, str):
            names.check_name(kind, value)  # pyright: ignore[reportArgumentType]
    for name in _BYTES:
        value = getattr(request, name)
        if not _is(value, bytes):
            raise _wrong(f"The {name} of a job", value, "Give bytes; a sender encodes its arguments first.")
    for name in _NUMBERS:
        value = getattr(request, name)
        if not _is(value, int):
            raise _wrong(f"The {name} of a job", value, "Give a whole number.")


def _check_rare_types(request: Request) -> None:
    for name, kind in _KEYS:
        value: object = getattr(request, name)
        if value is not None and not _is(value, str):
            names.check_name(kind, value)  # pyright: ignore[reportArgumentType]
    for name in _MAYBE_NUMBERS:
        value = getattr(request, name)
        if value is not None and not _is(value, int):
            raise _wrong(f"The {name} of a job", value, "Give a whole number, or None.")
    for name in _MAYBE_IDS:
        value = getattr(request, name)
        if value is not None:
            _check_id(f"The {name} of a job", value)
    for name in _TUPLES:
        value = getattr(request, name)
        if not _is(value, tuple):
            raise _wrong(f"The {name} of a job", value, "Give a tuple.")
    if request.unique is not None:
        _check_unique(request.unique)
    for need in request.needs:
        if not _is(need, tuple) or len(need) != 2 or not _is(need[1], int):
            raise BadValue("A need is a resource and a whole number.", 'Write needs=(("gpu", 1),).')
        if not _is(need[0], str):
            names.check_name("resource", need[0])
    for edge in request.parents:
        if not _is(edge, Edge):
            raise _wrong("A parent", edge, "Give windlass.core.job.Edge(parent).")
        _check_id("A parent", edge.parent)
        if edge.on not in _ON:
            raise BadValue(f"A parent cannot be waited for until {edge.on!a:.40}.", "Give 'succeeded' or 'ended'.")
    for tag in request.tags:
        if not _is(tag, str):
            names.check_name("tag", tag)


def _check_unique(unique: Unique) -> None:
    if not _is(unique, Unique):
        raise _wrong("The unique rule of a job", unique, "Give windlass.core.job.Unique(key).")
    if not _is(unique.key, str):
        names.check_name("unique key", unique.key)
    if unique.until not in _UNTIL:
        raise BadValue(f"A unique key cannot end at {unique.until!a:.40}.", "Give 'start', 'end' or 'time'.")
    if not _is(unique.period_us, int):
        raise _wrong("The period of a unique key", unique.period_us, "Give a whole number of µs.")


def _check_id(subject: str, value: object) -> None:
    if not isinstance(value, bytes) or not _is(value, bytes):
        raise _wrong(subject, value, "Give the id of a job, as windlass.new_id() makes it.")
    if len(value) != ID_BYTES:
        raise BadValue(f"{subject} has 16 bytes, not {len(value)}.", "Give an id as windlass.new_id() makes it.")


def _is(value: object, kind: type) -> bool:
    return type(value) is kind


def _wrong(subject: str, value: object, todo: str) -> BadValue:
    return BadValue(f"{subject} cannot be a {type(value).__name__}.", todo)
