"""Lines: what it costs that what a task says is kept, when it says nothing, and when it says a lot."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from bench.drains import LOOK_S
from bench.rounds import Course, Round, say
from bench.stores import LIMITS, Stock
from windlass import App, Settings, Worker
from windlass.core.job import State
from windlass.engines.protocol import TallyQuery
from windlass.ops import steer

PAIRS, RUNS = 50, 8
BATCH = 500
T_95 = 1.966
"""Of Student's distribution, for four hundred pairs: 95 in 100 intervals of so many standard errors hold the mean."""
TALK_JOBS = 3_000
TALK_ROUNDS = 5
LINES_PER_S = 10_000


def silent_lines(course: Course) -> list[Round]:
    """Percent of CPU by which a silent job costs more where its lines would be kept: the upper end of the interval.

    Only the slot's thread does anything for it, so only its CPU is compared, with that of the whole process per job as
    the measure: the store's threads vary by more than the bar. Both take turns at coming first, in stores and in pairs.
    """
    runs, pairs, batch = (2, 4, 100) if course.quick else (RUNS, PAIRS, BATCH)
    more: list[float] = []
    for run in range(runs):
        marks: list[float] = []
        with _working(course, "solo", 1, swapped=bool(run % 2), noop=_marking(marks)) as app:
            for number in range(pairs):
                names = ("kept", "unkept") if number % 2 else ("unkept", "kept")
                spent = {name: _spent(app, name, batch, marks) for name in names}
                whole = sum(process_s for _, process_s in spent.values()) / 2
                more.append((spent["kept"][0] - spent["unkept"][0]) / whole * 100)
    mean, error = statistics.fmean(more), statistics.stdev(more) / len(more) ** 0.5
    low, high = (mean + sign * T_95 * error for sign in (-1, 1))
    say(f"  {len(more)} pairs of {batch} jobs: {low:+.2f} % to {high:+.2f} %, mean {mean:+.2f} %")
    return [Round(high, {"mean": mean, "low": low, "high": high})]


def talker(course: Course) -> list[Round]:
    """Throughput of others beside a job that says 10,000 lines a second, kept and not kept."""
    jobs = course.size(TALK_JOBS)
    rounds: list[Round] = []
    for number in range(1, (course.rounds or TALK_ROUNDS) + 1):
        names = ("kept", "unkept") if number % 2 else ("unkept", "kept")
        per_s = {name: _beside(course, name, jobs) for name in names}
        rounds.append(Round(per_s["kept"] / per_s["unkept"], per_s))
        shown = " | ".join(f"{name} {rate:,.0f}/s" for name, rate in per_s.items())
        say(f"  round {number}: {shown} → {rounds[-1].value:.3f}")
    return rounds


@contextmanager
def _working(
    course: Course, pool: Any, slots: int, *, swapped: bool = False, noop: Callable[[str], None] | None = None
) -> Generator[App]:
    """An app with silent tasks and talkers, and a worker on an empty store. Nobody reads what is printed."""
    stopped = threading.Event()
    with course.workshop.copy(Stock()) as path:
        app = App(settings=Settings(url=f"sqlite:///{path}", limits=LIMITS))
        kinds = (("kept", True), ("unkept", False))
        for name, logs in reversed(kinds) if swapped else kinds:
            app.task(name=name, queue=name, logs=logs)(noop or _noop)
            app.task(name=f"talks_{name}", queue="talk", logs=logs)(_talker(stopped.is_set))
        try:
            with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), Worker(app, slots, pool=pool):
                yield app
                stopped.set()
        finally:
            app.close()


def _noop(text: str) -> None:
    """Says nothing."""


def _marking(marks: list[float]) -> Callable[[str], None]:
    def mark(text: str) -> None:
        """Says nothing, and notes what its thread has used by now."""
        marks.append(time.thread_time())

    return mark


def _talker(is_stopped: Callable[[], bool]) -> Callable[[], None]:
    def talk() -> None:
        """A hundred lines every hundredth of a second."""
        while not is_stopped():
            for _ in range(LINES_PER_S // 100):
                print("a line that says little, as most do")
            time.sleep(0.01)

    return talk


def _spent(app: App, name: str, jobs: int, marks: list[float]) -> tuple[float, float]:
    """CPU seconds of the slot, and of the whole process, for so many jobs that lay ready."""
    engine, sent = app.engine, _succeeded(app.engine, name) + jobs
    steer.pause(engine, name)
    app.tasks[name].delay_many([("x" * 100,)] * jobs)
    marks.clear()
    before_s = time.process_time()
    steer.resume(engine, name)
    while _succeeded(engine, name) < sent:
        time.sleep(LOOK_S)
    return marks[-1] - marks[0], time.process_time() - before_s


def _beside(course: Course, name: str, jobs: int) -> float:
    with _working(course, "threads", 2) as app:
        app.tasks[f"talks_{name}"].delay()
        time.sleep(0.5)
        begin_s = time.perf_counter()
        app.tasks["unkept"].delay_many([("x" * 100,)] * jobs)
        while _succeeded(app.engine, "unkept") < jobs:
            time.sleep(LOOK_S)
        return jobs / (time.perf_counter() - begin_s)


def _succeeded(engine: Any, queue: str) -> int:
    counts = engine.tally(TallyQuery()).counts
    return sum(count.n for count in counts if count.state is State.SUCCEEDED and count.queue == queue)
