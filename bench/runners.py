"""Runners: what it costs that tasks run in processes of their own, and what one has of it.

A drain through a supervisor stands beside one by an embedded worker. The gain of a second process stands beside that
of two bare ones, which do the same work and know of no queue: what two cores have in common is in both.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from bench import drains
from bench.rounds import Contestant, Course, Figure, Round, alternate, say, throughput
from bench.stores import PLAIN, Stock
from bench.supervised import Supervised
from bench.work import UNITS, count
from windlass.core.codec import encode_arguments
from windlass.core.ids import new_id
from windlass.core.job import Job, Request

ROUNDS = 3
WORK_JOBS = 800
IDLE_RUNNERS, IDLE_S = 8, 20.0
PSS_RUNNERS, SETTLE_S = 4, 5.0


def runner_drain(course: Course) -> list[Round]:
    """`-p 1 --pool solo` beside the embedded worker of one slot, by throughput."""
    jobs = course.size(drains.JOBS)
    stock = Stock(plain=jobs)
    ours = Contestant("runner", stock, run_supervised, jobs)
    other = Contestant("embedded", stock, drains.run_solo, jobs)
    return alternate(course, ours, other, throughput, drains.ROUNDS, whole=True)


def run_supervised(path: Path, sizes: Sequence[int]) -> Iterator[Figure]:
    """A supervisor and one runner."""
    (jobs,) = sizes
    with Supervised(path, 1) as worker:
        figure = worker.drain(jobs)
    yield figure


def second_runner(course: Course) -> list[Round]:
    """The gain of `-p 2` over `-p 1` on work for the processor, beside that of two bare processes over one."""
    jobs = 20 if course.quick else WORK_JOBS
    rounds: list[Round] = []
    for number in range(1, (course.rounds or ROUNDS) + 1):
        turns: list[tuple[str, Callable[[], float]]] = [
            ("one", lambda: _worked_s(course, jobs, 1)),
            ("bare_one", lambda: _bare_s(jobs, 1)),
            ("bare_two", lambda: _bare_s(jobs, 2)),
            ("two", lambda: _worked_s(course, jobs, 2)),
        ]
        figures = {f"{name}_s": round(turn(), 3) for name, turn in (turns if number % 2 else reversed(turns))}
        ours, bare = figures["one_s"] / figures["two_s"], figures["bare_one_s"] / figures["bare_two_s"]
        rounds.append(Round(ours / bare, figures | {"gain": round(ours, 3), "bare_gain": round(bare, 3)}))
        say(f"  round {number}: gain {ours:.2f}, of bare processes {bare:.2f} → {rounds[-1].value:.3f}")
    return rounds


def idle_runners(course: Course) -> list[Round]:
    """Percent of a core that a supervisor and its idle runners take in all."""
    seconds, runners = (1.0, 2) if course.quick else (IDLE_S, IDLE_RUNNERS)
    rounds: list[Round] = []
    for number in range(1, (course.rounds or ROUNDS) + 1):
        with course.workshop.copy(Stock()) as path, Supervised(path, runners) as worker:
            time.sleep(seconds / 4)  # after its last runner has started, and what follows that
            cpu_s = worker.cpu_s()
            time.sleep(seconds)
            spent_s = worker.cpu_s() - cpu_s
        rounds.append(Round(spent_s / seconds * 100, {"cpu_s": spent_s, "idle_s": seconds, "runners": runners}))
        say(f"  round {number}: {spent_s:.3f} s CPU in {seconds:.0f} s → {rounds[-1].value:.3f} %")
    return rounds


def runners_pss(course: Course) -> list[Round]:
    """Millions of bytes that a supervisor and four idle runners hold, shared ones counted once."""
    rounds: list[Round] = []
    for number in range(1, (course.rounds or ROUNDS) + 1):
        with course.workshop.copy(Stock()) as path, Supervised(path, PSS_RUNNERS) as worker:
            time.sleep(0.2 if course.quick else SETTLE_S)
            mb = worker.pss_mb()
        rounds.append(Round(mb, {"pss_mb": mb, "runners": PSS_RUNNERS}))
        say(f"  round {number}: {mb:.1f} MB")
    return rounds


# ── the same work, with a queue and without ─────────────────────────────────────────────────────────────────


def _worked_s(course: Course, jobs: int, processes: int) -> float:
    payload = encode_arguments([UNITS], {})
    with course.workshop.copy(Stock()) as path, Supervised(path, processes) as worker:
        requests = [Request(id=new_id(), task="bench.work", queue=PLAIN, payload=payload) for _ in range(jobs)]
        worker.engine.insert([Job(request=request) for request in requests])
        return worker.drain(jobs).wall_s


def _bare_s(jobs: int, processes: int) -> float:
    context, ends = multiprocessing.get_context("spawn"), list[Connection]()
    for _ in range(processes):
        ours, theirs = context.Pipe()
        context.Process(target=_work, args=(theirs, jobs // processes), daemon=True).start()
        theirs.close()
        ends.append(ours)
    for end in ends:
        end.recv()
    start_s = time.perf_counter()
    for end in ends:
        end.send(None)
    for end in ends:
        end.recv()
    return time.perf_counter() - start_s


def _work(asked: Connection, jobs: int) -> None:
    """In a bare process: ready, go, done."""
    asked.send(None)
    asked.recv()
    for _ in range(jobs):
        count(UNITS)
    asked.send(None)
