"""Story G: two supervisors share a stream of jobs, most in lanes, while whatever runs them is killed and stopped.

A fault hits a runner (kill -9, or SIGSTOP and after a while SIGCONT) or a supervisor (likewise). What a killed
supervisor held is lost and runs elsewhere; what a killed runner ran counts a crash. The invariants are those of the
story of kills, over what both supervisors asked of the store, and what the tasks themselves wrote down.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.soak.checker import ALL, Evidence, Violation, digest
from tests.soak.fleet import LOOK_S, Fleet, Supervised, payload
from tests.soak.kills import Report, count, judge
from tests.soak.recorder import read_folder, read_ledger
from tests.soak.runs import begun
from tests.soak.store import look
from tests.soak.waiting import Hangs, wait_for
from tests.soak.workload import Deed, make_id
from windlass.core.job import Request

FAULTS = {"kill -9 of a runner": 5, "stop of a runner": 2, "kill -9 of a supervisor": 2, "stop of a supervisor": 1}
LONGEST_STOP_S = 0.6
LONGEST_MS = 40


@dataclass(frozen=True, slots=True)
class Shape:
    """How big a round is and what is done to it."""

    jobs: int = 600
    faults: int = 20
    supervisors: int = 2
    processes: int = 2
    slots: int = 2
    hang_s: float = 300.0


def run_round(folder: Path, seed: int, shape: Shape) -> Report:
    """One round in an empty folder: work under fire, drain, check."""
    report = Report()
    requests = list(_mixture(seed, shape.jobs))
    with Fleet(folder, sweep="0.5s") as fleet:
        try:
            _hurt(fleet, random.Random(f"nemesis {seed}"), requests, shape, report)
            fleet.wait_ended(shape.hang_s)
            for worker in _living(fleet):
                fleet.wait_up(worker)
        except Hangs as error:
            report.violations.append(Violation("progress", "", str(error)))
        report.violations += [Violation("progress", "", wrong) for wrong in fleet.stop()]
        marks = fleet.marks.read()
    lines = read_folder(folder)
    plan = {request.id.hex(): request for request in requests}
    effects = read_ledger(folder / "ledger")
    store = look(folder / "jobs.db")
    evidence = Evidence(plan, digest(lines), store, effects, marks=marks, read_deed=lambda _: Deed())
    judge(report, f"seed {seed}", evidence, lines, ALL)
    report.counts["runs"] += len(begun(marks))
    count(report, evidence)
    return report


def _mixture(seed: int, jobs: int) -> Iterator[Request]:
    """Three jobs in five are in one of four lanes."""
    dice = random.Random(seed)
    for number in range(jobs):
        lane = f"lane-{dice.randint(1, 4)}" if dice.random() < 0.6 else None
        work = payload(dice.randint(0, LONGEST_MS))
        yield Request(id=make_id(seed, number), task="good", payload=work, lane=lane, queue="lanes" if lane else "free")


def _hurt(fleet: Fleet, nemesis: random.Random, requests: list[Request], shape: Shape, report: Report) -> None:
    """A part of the jobs, some progress, a fault; again and again."""
    for _ in range(shape.supervisors):
        fleet.start_recorded(shape.processes, shape.slots)
    part = -(-len(requests) // shape.faults)
    for start in range(0, len(requests), part):
        some = len(fleet.marks.read()) + nemesis.randint(1, part)
        fleet.insert(requests[start : start + part])
        _wait_for_marks(fleet, some, shape)
        time.sleep(nemesis.random() * 0.1)
        (kind,) = nemesis.choices(list(FAULTS), list(FAULTS.values()))
        while not _strike(kind, fleet, nemesis):
            pass
        report.faults[kind] += 1
        if len(_living(fleet)) < shape.supervisors:
            fleet.start_recorded(shape.processes, shape.slots)


def _wait_for_marks(fleet: Fleet, marks: int, shape: Shape) -> None:
    """Until tasks have written so many."""

    def written() -> bool:
        for worker in _living(fleet):
            worker.check()
        return len(fleet.marks.read()) >= marks

    wait_for("jobs to run", written, hang_s=shape.hang_s, step_s=LOOK_S)


def _living(fleet: Fleet) -> list[Supervised]:
    return [worker for worker in fleet.workers if worker.process.returncode is None]


def _strike(kind: str, fleet: Fleet, nemesis: random.Random) -> bool:
    """One fault; False where its victim had just gone by itself."""
    workers = _living(fleet)
    if kind == "kill -9 of a supervisor":
        nemesis.choice(workers).kill()
        return True
    if kind.endswith("supervisor"):
        victims = [worker.pid for worker in workers]
    else:
        victims = wait_for("a runner", lambda: [pid for worker in workers for pid in worker.runners()], step_s=LOOK_S)
    with suppress(ProcessLookupError):
        return _hit(nemesis.choice(victims), kind, nemesis)
    return False


def _hit(victim: int, kind: str, nemesis: random.Random) -> bool:
    if kind.startswith("kill"):
        os.kill(victim, signal.SIGKILL)
    else:
        os.kill(victim, signal.SIGSTOP)
        time.sleep(nemesis.random() * LONGEST_STOP_S)
        os.kill(victim, signal.SIGCONT)
    return True
