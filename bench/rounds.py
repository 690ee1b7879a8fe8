"""Rounds: two contestants in turn, each in a fresh process, and one ratio per round.

Absolute figures wander by a factor of two on a shared machine, and a disk's by more, within seconds. What two
neighbours in time have in common cancels in their ratio. So a round is cut into slices of a tenth of a second or so,
which the two do in turn, one working while the other waits. A ratio is taken of the sums within a round; the median
over the rounds counts.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import msgspec

from bench.stores import Stock, Workshop


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """What one contestant did in one round: jobs, wall time, and CPU time of its whole process."""

    jobs: int
    wall_s: float
    cpu_s: float

    @property
    def per_second(self) -> float:
        return self.jobs / self.wall_s

    @property
    def cpu_per_10k(self) -> float:
        return self.cpu_s * 10_000 / self.jobs


def total(figures: Sequence[Figure]) -> Figure:
    """The slices of a round together."""
    return Figure(
        jobs=sum(figure.jobs for figure in figures),
        wall_s=sum(figure.wall_s for figure in figures),
        cpu_s=sum(figure.cpu_s for figure in figures),
    )


class Stopwatch:
    """Wall and CPU time since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def stop(self, jobs: int) -> Figure:
        """The figure of the jobs done since then."""
        return Figure(jobs=jobs, wall_s=time.perf_counter() - self._wall, cpu_s=time.process_time() - self._cpu)


def turn_of_the_wal(sizes: Sequence[int]) -> int:
    """How many jobs go in before the clock starts, so that the WAL has its full size on both sides.

    A sync of a file that grows costs the file system a commit of its own; a store does that once in its life, for its
    first 16 MiB. Without it, a run of single inserts would measure how many bytes each side has written by then.
    """
    return 30_000 if sum(sizes) >= 1_000 else 0


Run = Callable[[Path, Sequence[int]], Iterator[Figure]]
"""A contestant's work: opens the store, does the next so many jobs whenever it is asked for a figure, then checks."""


class Contestant(msgspec.Struct, frozen=True):
    """Who runs, on a copy of which store. `run` is a function of a module, so that a fresh process finds it."""

    name: str
    stock: Stock
    run: Run
    jobs: int


class Round(msgspec.Struct, frozen=True):
    """One round's value, and the figures it was made of."""

    value: float
    figures: dict[str, float]


class Course(msgspec.Struct, frozen=True):
    """Where and how long to measure. `rounds=None`: as many as the measurement itself finds right."""

    workshop: Workshop
    rounds: int | None = None
    quick: bool = False

    @property
    def slices(self) -> int:
        """Into how many parts a round is cut."""
        return 2 if self.quick else 20

    def size(self, jobs: int) -> int:
        """A number of jobs, or a tiny one where only the structure is tried out."""
        return max(400, jobs // 1_000) // 100 * 100 if self.quick else jobs


def throughput(ours: Figure, other: Figure) -> float:
    """How many times the other's jobs per second."""
    return ours.per_second / other.per_second


def cpu(ours: Figure, other: Figure) -> float:
    """How many times the other's CPU time per job."""
    return ours.cpu_per_10k / other.cpu_per_10k


def own_cpu(ours: Figure, _other: Figure) -> float:
    """The CPU seconds per 10,000 jobs; the other's are in the figures."""
    return ours.cpu_per_10k


Compare = Callable[[Figure, Figure], float]
"""Makes one value of the figures of two contestants."""


def alternate(
    course: Course, first: Contestant, second: Contestant, compare: Compare, rounds: int, *, whole: bool = False
) -> list[Round]:
    """Runs both, slice by slice in turn; a round's value is the first compared with the second.

    `whole`: each does its work in one piece, because it cannot pause; they take turns by the round.
    """
    done: list[Round] = []
    for number in range(1, (course.rounds or rounds) + 1):
        one, two = _round(course.workshop, (first, second), 1 if whole else course.slices, number)
        done.append(Round(compare(one, two), _details(first.name, one) | _details(second.name, two)))
        say(f"  round {number}: {_shown(first.name, one)} | {_shown(second.name, two)} → {done[-1].value:.3f}")
    return done


def _round(workshop: Workshop, pair: tuple[Contestant, Contestant], slices: int, number: int) -> tuple[Figure, Figure]:
    with ExitStack() as stack:
        lanes = [stack.enter_context(Apart(c, stack.enter_context(workshop.copy(c.stock)), slices)) for c in pair]
        found: list[list[Figure]] = [[], []]
        for turn in range(slices):
            # ABBA: who goes first changes, so that whatever drifts falls on both alike.
            for index in (0, 1) if (number + turn) % 2 else (1, 0):
                found[index].append(lanes[index].go())
        for lane in lanes:
            lane.finish()
        return total(found[0]), total(found[1])


def median(rounds: list[Round]) -> float:
    """The value that counts."""
    return statistics.median(round_.value for round_ in rounds)


class Apart:
    """A contestant in a process of its own: caches, heap and threads of one cannot help or hinder another."""

    def __init__(self, contestant: Contestant, path: Path, slices: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._name = contestant.name
        self._ours, theirs = context.Pipe()
        share, rest = divmod(contestant.jobs, slices)
        sizes = [share + (number < rest) for number in range(slices)]
        self._process = context.Process(target=_serve, args=(theirs, contestant.run, path, sizes), daemon=True)
        self._process.start()
        theirs.close()

    def go(self) -> Figure:
        """Has it do its next slice while everybody else waits."""
        answer = self._ask()
        assert isinstance(answer, Figure)
        return answer

    def finish(self) -> None:
        """Has it check its own work."""
        if self._ask() is not None:
            raise RuntimeError(f"{self._name} has more to do than it was asked for.")

    def _ask(self) -> Figure | None:
        try:
            self._ours.send(None)
            return self._ours.recv()
        except (EOFError, OSError):
            raise RuntimeError(f"The contestant {self._name} failed; its error stands above.") from None

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()
        self._process.join()


def _serve(asked: Connection, run: Run, path: Path, sizes: list[int]) -> None:
    """In the contestant's process: a slice for every question, until nobody asks any more."""
    figures = run(path, sizes)
    with asked:
        try:
            while True:
                asked.recv()
                asked.send(next(figures, None))
        except EOFError:
            return


def _details(name: str, figure: Figure) -> dict[str, float]:
    return {
        f"{name}_jobs_per_s": round(figure.per_second, 1),
        f"{name}_cpu_s_per_10k": round(figure.cpu_per_10k, 4),
    }


def _shown(name: str, figure: Figure) -> str:
    return f"{name} {figure.per_second:,.0f}/s, {figure.cpu_per_10k:.3f} s CPU/10k"


def say(line: str, end: Literal["\n", ""] = "\n") -> None:
    """A line of progress; the table alone goes to stdout."""
    print(line, end=end, file=sys.stderr, flush=True)
