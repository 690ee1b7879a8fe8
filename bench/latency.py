"""Latency: how soon a job that was sent starts in another process that had nothing to do, and what that idling costs.

The worker is a process of its own, as in life. Sender and worker read the same clock of the machine, so the time from
just before `delay` to the first line of the task is one subtraction, made where the task runs.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.rounds import Course, Round, say
from bench.stores import Stock
from windlass import App, Worker

SENDS = 200
APART_S = 0.025
"""Between two sends: many times what a job takes, so that the worker sleeps again before the next one."""
ROUNDS = 3
IDLE_S = 60.0
LONGEST_S = 10.0
"""How long the last jobs may take to start."""


def start_p50(course: Course) -> list[Round]:
    """Milliseconds from send to start, of every second job."""
    return _starts(course, "p50_ms")


def start_p95(course: Course) -> list[Round]:
    """Milliseconds from send to start, of 19 jobs in 20."""
    return _starts(course, "p95_ms")


def idle_cpu(course: Course) -> list[Round]:
    """Percent of a core that an idle worker takes. The rounds go side by side: whoever idles disturbs nobody."""
    seconds = 1.0 if course.quick else IDLE_S
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Idle(stack.enter_context(course.workshop.copy(Stock()))))
            for _ in range(course.rounds or ROUNDS)
        ]
        before = [worker.cpu_s() for worker in workers]
        time.sleep(seconds)
        spent = [worker.cpu_s() - start_s for worker, start_s in zip(workers, before, strict=True)]
    rounds = [Round(cpu_s / seconds * 100, {"cpu_s": cpu_s, "idle_s": seconds}) for cpu_s in spent]
    for number, round_ in enumerate(rounds, 1):
        say(f"  round {number}: {round_.figures['cpu_s']:.3f} s CPU in {seconds:.0f} s → {round_.value:.3f} %")
    return rounds


def _starts(course: Course, which: str) -> list[Round]:
    rounds: list[Round] = []
    for number in range(1, (course.rounds or ROUNDS) + 1):
        with course.workshop.copy(Stock()) as path, Idle(path) as worker:
            figures = _figures(_send(path, worker, 20 if course.quick else SENDS))
        rounds.append(Round(figures[which], figures))
        say(f"  round {number}: " + ", ".join(f"{name} {value:.2f}" for name, value in figures.items()))
    return rounds


def _send(path: Path, worker: Idle, sends: int) -> Sequence[int]:
    with _app(path) as app:
        stamp = app.tasks["bench.stamp"]
        for _ in range(sends):
            time.sleep(APART_S)
            stamp.delay(time.monotonic_ns())
    return worker.waits_ns(sends)


def _figures(waits_ns: Sequence[int]) -> dict[str, float]:
    hundredths = [at_ns / 1e6 for at_ns in statistics.quantiles(waits_ns, n=100)]
    return {"p50_ms": hundredths[49], "p95_ms": hundredths[94], "most_ms": max(waits_ns) / 1e6}


class Idle:
    """A worker in a process of its own, with nothing to do until somebody sends."""

    def __init__(self, path: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, path), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Idle:
        self._ask(None)
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()
        self._process.join()

    def cpu_s(self) -> float:
        """The CPU time of its whole process so far."""
        return self._ask("cpu")

    def waits_ns(self, expected: int) -> Sequence[int]:
        """How long each job waited for its start; a worker that did not run them all has no figure."""
        until_s = time.monotonic() + LONGEST_S
        waits: Sequence[int] = self._ask("waits")
        while len(waits) < expected and time.monotonic() < until_s:
            time.sleep(0.1)
            waits = self._ask("waits")
        if len(waits) != expected:
            raise RuntimeError(f"The worker ran {len(waits)} jobs instead of {expected}.")
        return waits

    def _ask(self, what: str | None) -> Any:
        try:
            self._ours.send(what)
            return self._ours.recv()
        except (EOFError, OSError):
            raise RuntimeError("The worker failed; its error stands above.") from None


def _serve(asked: Connection, path: Path) -> None:
    """In the worker's process: it answers what it is asked, and sleeps in between."""
    waits_ns: list[int] = []
    with asked, _app(path, waits_ns) as app, Worker(app):
        try:
            while True:
                what = asked.recv()
                asked.send({"cpu": time.process_time, "waits": waits_ns.copy}.get(what, bool)())
        except EOFError:
            return


def _app(path: Path, waits_ns: list[int] | None = None) -> App:
    app = App(f"sqlite:///{path}")
    found = [] if waits_ns is None else waits_ns

    @app.task(name="bench.stamp")
    def stamp(sent_ns: int) -> None:
        found.append(time.monotonic_ns() - sent_ns)

    return app
