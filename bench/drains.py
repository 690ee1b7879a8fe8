"""Drains: a store full of no-ops and one `Worker`, beside the bare loop that claims and settles the same jobs.

The worker is what users have: an app, a task, a pool. Between claim and settle each job is decoded, called in a slot
and its result encoded, by threads that share one interpreter. It cannot be asked to do the next thousand jobs and then
to pause, so a drain is one piece, and who goes first changes from round to round.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from bench import bare
from bench.rounds import Compare, Contestant, Course, Figure, Round, Run, Stopwatch, alternate, own_cpu, throughput
from bench.stores import LIMITS, PLAIN, TASK, Stock
from windlass import App, Settings, Worker
from windlass.core.job import State
from windlass.engines.protocol import TallyQuery

JOBS = 20_000
ROUNDS = 5
THREADS = 4
COROUTINES = 50
LOOK_S = 0.02
"""How often we look whether the store is empty: the clock runs at most so much too long, against us."""
LONGEST_S = 120.0


def drain_solo(course: Course) -> list[Round]:
    """One slot beside the bare loop, by throughput."""
    return _drain(course, run_solo)


def drain_solo_cpu(course: Course) -> list[Round]:
    """The CPU seconds of one slot; the bare loop's are beside them in the figures: they tell the machine."""
    return _drain(course, run_solo, own_cpu)


def drain_threads(course: Course) -> list[Round]:
    """Four threads beside the bare loop, by throughput."""
    return _drain(course, run_threads)


def drain_aio(course: Course) -> list[Round]:
    """Fifty coroutines on one loop beside the bare loop, by throughput."""
    return _drain(course, run_aio)


def _drain(course: Course, run: Run, compare: Compare = throughput) -> list[Round]:
    jobs = course.size(JOBS)
    stock = Stock(plain=jobs)
    ours = Contestant("ours", stock, run, jobs)
    other = Contestant("bare", stock, bare.drain, jobs)
    return alternate(course, ours, other, compare, ROUNDS, whole=True)


def run_solo(path: Path, sizes: Sequence[int]) -> Iterator[Figure]:
    """A worker with one slot."""
    return _work(path, sizes, "solo", 1)


def run_threads(path: Path, sizes: Sequence[int]) -> Iterator[Figure]:
    """A worker with four threads."""
    return _work(path, sizes, "threads", THREADS)


def run_aio(path: Path, sizes: Sequence[int]) -> Iterator[Figure]:
    """A worker with a loop."""
    return _work(path, sizes, "aio", COROUTINES)


def _noop(text: str) -> None:
    """What every job does. Its result, None, is stored as any other."""


async def _anoop(text: str) -> None:
    """The same on a loop."""


def _work(path: Path, sizes: Sequence[int], pool: Literal["solo", "threads", "aio"], slots: int) -> Iterator[Figure]:
    """Starts a worker and waits until the store has the last result."""
    app = App(settings=Settings(url=f"sqlite:///{path}", limits=LIMITS))
    app.task(name=TASK)(_anoop if pool == "aio" else _noop)
    worker = Worker(app, slots, pool=pool)
    engine = app.engine  # opened before the clock starts, as on the other side
    (jobs,) = sizes
    watch = Stopwatch()
    until_s = time.monotonic() + LONGEST_S
    worker.start()
    while (done := _succeeded(engine)) < jobs and time.monotonic() < until_s:
        time.sleep(LOOK_S)
    figure = watch.stop(jobs)
    worker.stop()
    app.close()
    if done != jobs:
        raise RuntimeError(f"The worker left {jobs - done} of {jobs} jobs undone.")
    yield figure


def _succeeded(engine: Any) -> int:
    counts = engine.tally(TallyQuery()).counts
    return sum(count.n for count in counts if count.state is State.SUCCEEDED and count.queue == PLAIN)
