"""insert through the engine: long lists, one by one, and one by one from eight threads at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import bare
from bench.rounds import Contestant, Course, Figure, Round, Stopwatch, alternate, throughput, turn_of_the_wal
from bench.stores import LIMITS, PAYLOAD, PLAIN, TASK, Stock
from windlass.core.ids import new_id
from windlass.core.job import Job, Request
from windlass.engines.protocol import TallyQuery
from windlass.engines.sqlite import SqliteEngine

BULK = 20_000
SINGLE = 1_500
THREADS = 8


def bulk_insert(course: Course) -> list[Round]:
    """Lists of a thousand beside the bare loop in batches of 100, by throughput."""
    jobs = course.size(BULK)
    ours = Contestant("ours", Stock(), insert_bulk, jobs)
    return alternate(course, ours, Contestant("bare", Stock(), bare.insert_bulk, jobs), throughput, rounds=5)


def single_insert(course: Course) -> list[Round]:
    """One by one beside the bare loop, a commit each, by throughput."""
    jobs = course.size(SINGLE)
    ours = Contestant("ours", Stock(), insert_single, jobs)
    return alternate(course, ours, Contestant("bare", Stock(), bare.insert_single, jobs), throughput, rounds=5)


def threads_insert(course: Course) -> list[Round]:
    """Eight threads beside one, by throughput: what group commit brings."""
    jobs = course.size(SINGLE)
    eight = Contestant("eight", Stock(), insert_threads, jobs * 4)
    return alternate(course, eight, Contestant("one", Stock(), insert_single, jobs), throughput, rounds=5)


def insert_bulk(path: Path, sizes: Sequence[int]) -> Iterator[Figure]:
    """Inserts so many jobs in one call."""
    engine = _open(path)
    for jobs in sizes:
        new = _jobs(jobs)
        watch = Stopwatch()
        engine.insert(new)
        yield watch.stop(jobs)
    _check(engine, sum(sizes))


def insert_single(path: Path, sizes: Sequence[int]) -> Iterator[Figure]:
    """Inserts so many jobs, one per call."""
    engine = _open(path)
    turn = turn_of_the_wal(sizes)
    engine.insert(_jobs(turn))
    for jobs in sizes:
        new = _jobs(jobs)
        watch = Stopwatch()
        for job in new:
            engine.insert([job])
        yield watch.stop(jobs)
    _check(engine, turn + sum(sizes))


def insert_threads(path: Path, sizes: Sequence[int]) -> Iterator[Figure]:
    """Inserts so many jobs from eight threads, one per call."""
    engine = _open(path)

    def send(part: Sequence[Job]) -> None:
        for job in part:
            engine.insert([job])

    turn = turn_of_the_wal(sizes)
    engine.insert(_jobs(turn))
    with ThreadPoolExecutor(THREADS) as pool:
        for jobs in sizes:
            new = _jobs(jobs)
            parts = [new[start::THREADS] for start in range(THREADS)]
            watch = Stopwatch()
            for _ in pool.map(send, parts):
                pass
            yield watch.stop(jobs)
    _check(engine, turn + sum(sizes))


def _jobs(count: int) -> list[Job]:
    return [Job(request=Request(id=new_id(), task=TASK, queue=PLAIN, payload=PAYLOAD)) for _ in range(count)]


def _open(path: Path) -> SqliteEngine:
    engine = SqliteEngine(path, LIMITS)
    engine.open()
    return engine


def _check(engine: SqliteEngine, jobs: int) -> None:
    """A contestant that did not do its work has no figure."""
    found = sum(count.n for count in engine.tally(TallyQuery()).counts)
    engine.close()
    if found != jobs:
        raise RuntimeError(f"{found} jobs are in the store instead of {jobs}.")
