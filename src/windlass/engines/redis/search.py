"""search: which shelves a query walks over, and how far one call goes.

A job stands on one shelf, by its state: the streams, `due`, `held`, those of the workers, those of the ended by queue
and task; besides, on that of its lane, flow or error's fingerprint. The ended are merged, the newest first; other
shelves are walked one after the other. A script looks at some hundred records; this goes on until the page is full or
the bound is reached, and hands out a cursor: the shelf, and the place on it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from windlass.core.errors import BadValue
from windlass.core.job import ENDED, Job, State
from windlass.engines.protocol import SEARCH_MS, SEARCH_RECORDS, Page, Query
from windlass.engines.redis.requests import read_job
from windlass.engines.redis.rows import STATES

Run = Callable[[str, Sequence[bytes | str | int]], Any]

STEP: Final = 250
"""Records that one script looks at: about a millisecond."""

_CURSOR: Final = re.compile(r"([a-z]{1,4}(?::[A-Za-z0-9_.:|=,-]+)?)~(?:(-?[0-9]{1,18})~([0-9a-f]{32})|~)", re.ASCII)

Place = tuple[int, str]
"""A score, and the id of the job there."""


class Walk(NamedTuple):
    """Shelves that are merged; `stops`: outside the time asked for there is nothing to find on them."""

    name: str
    shelves: tuple[str, ...]
    newest_first: bool = False
    stops: bool = False


class Step(NamedTuple):
    """What one script found, and how far it came."""

    scanned: int
    counted: int
    done: bool
    jobs: list[Job]
    place: Place | None = None
    back_to_us: int | None = None


def search(run: Run, query: Query) -> Page:
    """A page in the order of the shelves that were walked over. Looks at no more than the bound."""
    name, place = _position(query.cursor)
    limit = max(1, min(query.limit, 1_000))
    deadline = time.monotonic() + SEARCH_MS / 1_000
    jobs: list[Job] = []
    scanned = counted = 0
    back_to_us: int | None = None
    walks = [walk for walk in _walks(run, query) if walk.name >= name]
    while walks:
        walk = walks[0]
        place = place if walk.name == name else None
        full = len(jobs) == limit and not query.count
        if full or scanned >= SEARCH_RECORDS or (scanned >= STEP and time.monotonic() > deadline):
            where = "~" if place is None else f"{place[0]}~{place[1]}"
            return _page(query, jobs, counted, scanned, back_to_us, f"{walk.name}~{where}")
        left = min(STEP, SEARCH_RECORDS - scanned)
        step = _step(run, query, walk, place, left, 0 if query.count else limit - len(jobs))
        scanned, counted = scanned + step.scanned, counted + step.counted
        jobs += step.jobs
        if step.place is not None:
            name, place, back_to_us = walk.name, step.place, step.back_to_us or back_to_us
        if step.done:
            del walks[0]
    return _page(query, jobs, counted, scanned, back_to_us, None)


def _page(
    query: Query, jobs: list[Job], counted: int, scanned: int, back_to_us: int | None, cursor: str | None
) -> Page:
    count = counted if query.count else len(jobs)
    return Page(jobs=tuple(jobs), count=count, cursor=cursor, scanned=scanned, back_to_us=back_to_us)


def _position(cursor: str | None) -> tuple[str, Place | None]:
    """The walk to go on with, and the place on it, if any."""
    if cursor is None:
        return "", None
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise BadValue(f"{cursor[:40]!a} is not a cursor of this search.", "Pass on the cursor of the page before.")
    return found[1], (int(found[2]), found[3]) if found[3] else None


def _walks(run: Run, query: Query) -> list[Walk]:
    """The shelves that lead to the fewest records, in the order of their names."""
    state = query.state
    if query.flow is not None:
        return [_single(f"fn:{query.flow.hex()}")]
    if query.lane is not None:
        return [_single(f"la:{query.lane}")]
    if query.worker is not None:
        return [_single(f"w:{query.worker.hex()}")]
    if query.fingerprint is not None:
        return [Walk("fp", (f"fp:{query.fingerprint}",), newest_first=True, stops=True)]
    if state is State.SCHEDULED:
        return [_single("due")]
    if state is State.HELD:
        return [_single("held")]
    streams, workers, counted = run("shelves", [])
    if state is not None and state in ENDED:
        return _ended([key.decode() for key in counted], query, state)
    walks: list[Walk] = []
    if state is None or state is State.READY:
        walks += [_single(f"s:{stream.decode()}") for stream in streams if _is_of(stream.decode(), query)]
    if state is None or state is State.RUNNING:
        walks += [_single(f"w:{worker.decode()}") for worker in workers]
    if state is None:
        walks += [_single("due"), _single("held")]
        for each in sorted(ENDED):
            walks += _ended([key.decode() for key in counted], query, each)
    return sorted(walks)


def _single(shelf: str) -> Walk:
    return Walk(shelf, (shelf,))


def _is_of(stream: str, query: Query) -> bool:
    return query.queue is None or stream.partition("|")[0] == query.queue


def _ended(counted: list[str], query: Query, state: State) -> list[Walk]:
    """The ended of one state, all queues and tasks merged."""
    number = STATES[state]
    shelves: list[str] = []
    for key in sorted(counted):
        queue, task, of = key.split("|")
        if of == str(number) and query.queue in {None, queue} and query.task in {None, task}:
            shelves.append(f"e:{number}|{queue}|{task}")
    return [Walk(f"e:{number}", tuple(shelves), newest_first=True, stops=True)] if shelves else []


def _step(run: Run, query: Query, walk: Walk, place: Place | None, most: int, wanted: int) -> Step:
    asked = (
        int(walk.newest_first),
        most,
        wanted,
        False if place is None else place[0],
        False if query.since_us is None else query.since_us,
        False if query.until_us is None else query.until_us,
        int(walk.stops),
        0 if query.state is None else STATES[query.state],
        query.queue or "",
        query.task or "",
        "" if query.worker is None else query.worker.hex(),
        query.lane or "",
        "" if query.flow is None else query.flow.hex(),
        query.fingerprint or "",
        query.tag or "",
    )
    head, after = msgspec.msgpack.encode(asked), b"" if place is None else bytes.fromhex(place[1])
    scanned, counted, done, score, last, time_us, *found = run("search", [head, after, *walk.shelves])
    jobs = [read_job(*each)[0] for each in found]
    if last is None:
        return Step(scanned, counted, bool(done), jobs)
    back_to_us = None if time_us is None else int(time_us)
    return Step(scanned, counted, bool(done), jobs, (int(score), last.hex()), back_to_us)
