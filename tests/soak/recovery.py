"""Story F: how long until a job runs again whose process was killed, and until one is stopped that hears nothing.

    runner       its runner is killed -9; until the job's next run begins
    supervisor   its supervisor is killed -9, with another worker on the host; until its next run begins
    hard         a loop in C that holds the GIL; from the end of timeout + grace until the store has its end

Settings are those that users have. The whole story has bars; a sample only shows that all of it happens.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from tests.soak.checker import Violation
from tests.soak.fleet import LOOK_S, Fleet, Supervised, payload
from tests.soak.kills import Report
from tests.soak.waiting import wait_for
from windlass.core.ids import new_id
from windlass.core.job import Outcome, Request, State

BARS_MS = {"runner": 1_000.0, "supervisor": 2_000.0, "hard": 1_000.0}
"""What 99 of 100 have to keep."""
SPIN_NS = 500_000_000
"""The timeout and the grace of the task `spin`."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How often each of them happens."""

    runners: int = 200
    supervisors: int = 40
    hard: int = 40


def run_round(folder: Path, shape: Shape) -> Report:
    """All three, one after the other, on one store."""
    report = Report()
    with Fleet(folder) as fleet:
        first = fleet.start("-p", "1", "-c", "1")
        fleet.wait_up(first)
        report.times_ms["runner"] = [_kill_runner(fleet) for _ in range(shape.runners)]
        report.times_ms["hard"] = [_spin(fleet) for _ in range(shape.hard)]
        report.times_ms["supervisor"] = _kill_supervisors(fleet, first, shape.supervisors)
        fleet.wait_up(fleet.workers[-1])
        report.violations += [Violation("progress", "", wrong) for wrong in fleet.stop()]
    report.faults["kill -9 of a runner"] += shape.runners
    report.faults["kill -9 of a supervisor"] += shape.supervisors
    report.faults["hard timeout"] += shape.hard
    report.counts["jobs"] += shape.runners + shape.supervisors + shape.hard
    return report


def _send(fleet: Fleet, task: str) -> str:
    request = Request(id=new_id(), task=task, payload=payload())
    fleet.insert([request])
    return request.id.hex()


def _again_ms(fleet: Fleet, job: str, since_ns: int) -> float:
    """How long until its second run began; then it may end."""
    began_ns = fleet.wait_begun(job, 2)
    fleet.let_go(job)
    wait_for("the job to end", lambda: _state(fleet, job) is State.SUCCEEDED, step_s=LOOK_S)
    return (began_ns - since_ns) / 1e6


def _kill_runner(fleet: Fleet) -> float:
    job = _send(fleet, "hold")
    fleet.wait_begun(job)
    pid, since_ns = fleet.marks.begun(job)[0].pid, time.monotonic_ns()
    os.kill(pid, signal.SIGKILL)
    return _again_ms(fleet, job, since_ns)


def _kill_supervisors(fleet: Fleet, first: Supervised, kills: int) -> list[float]:
    """Two workers; whoever has the job is killed, and another one takes its place."""
    pair = [first, fleet.start("-p", "1", "-c", "1")]
    found: list[float] = []
    for _ in range(kills):
        for worker in pair:
            fleet.wait_up(worker)
        job = _send(fleet, "hold")
        fleet.wait_begun(job)
        pid = fleet.marks.begun(job)[0].pid
        (owner,) = (worker for worker in pair if worker.owns(pid))
        since_ns = time.monotonic_ns()
        owner.kill()
        found.append(_again_ms(fleet, job, since_ns))
        pair.remove(owner)
        pair.append(fleet.start("-p", "1", "-c", "1"))
    return found


def _spin(fleet: Fleet) -> float:
    job = _send(fleet, "spin")
    over_ns = fleet.wait_begun(job) + SPIN_NS
    wait_for("the job to be stopped", lambda: _state(fleet, job) is State.DEAD, step_s=LOOK_S)
    late_ms = (time.monotonic_ns() - over_ns) / 1e6
    (found,) = fleet.engine.fetch([bytes.fromhex(job)])
    assert found is not None
    assert [attempt.outcome for attempt in found.attempts] == [Outcome.TIMED_OUT]
    return late_ms


def _state(fleet: Fleet, job: str) -> State | None:
    (found,) = fleet.engine.fetch([bytes.fromhex(job)])
    return None if found is None or found.record is None else found.record.state


def figures(times_ms: list[float]) -> dict[str, float]:
    """What is shown of many times. p99 is the time that 99 of 100 do not exceed."""
    ordered = sorted(times_ms)
    return {
        "p50": round(statistics.median(ordered), 1),
        "p99": round(ordered[-1 - len(ordered) // 100], 1),
        "max": round(ordered[-1], 1),
    }


def missed(times_ms: dict[str, list[float]]) -> list[Violation]:
    """The bars that were not reached."""
    return [
        Violation("recovery", "", f"{name}: p99 is {p99:.0f} ms, and the bar {BARS_MS[name]:.0f} ms")
        for name, times in times_ms.items()
        if (p99 := figures(times)["p99"]) > BARS_MS[name]
    ]
