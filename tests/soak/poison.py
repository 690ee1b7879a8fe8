"""Story E: good jobs among pills that end their process. Each pill is dead after three crashes, and nobody else pays.

Four kinds of pills: a segmentation fault, SIGKILL of itself, memory that the kernel refuses (the process then aborts,
as C++ does), and `os._exit`. What ran beside a pill in the same runner counts a crash too, and runs again by itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.soak.checker import (
    Check,
    Evidence,
    History,
    Violation,
    nothing_leaks,
    nothing_runs_without_an_owner,
    runs_are_paid_for,
    the_store_is_whole,
    written_ends_stay,
)
from tests.soak.fleet import Fleet, payload
from tests.soak.kills import Report, count, judge
from tests.soak.recorder import read_ledger
from tests.soak.runs import begun
from tests.soak.store import look
from tests.soak.waiting import Hangs
from tests.soak.workload import make_id
from windlass.core.job import Job, Outcome, Request, State

KINDS = ("segfault", "sigkill", "memory", "exit")
PILL, GOOD = "pill", "good"
LONGEST_MS = 20


@dataclass(frozen=True, slots=True)
class Shape:
    """How many of each, in how many runners and slots."""

    good: int = 1_000
    pills: int = 100
    processes: int = 2
    slots: int = 4
    hang_s: float = 1_800.0


def run_round(folder: Path, seed: int, shape: Shape) -> Report:
    """One store: all are sent, worked off by one worker, and looked at."""
    report = Report()
    with Fleet(folder, sweep="0.5s") as fleet:
        requests = _mixed(seed, shape)
        fleet.insert(requests)
        fleet.start("-p", f"{shape.processes}", "-c", f"{shape.slots}")
        try:
            fleet.wait_ended(shape.hang_s)
        except Hangs as error:
            report.violations.append(Violation("progress", "", str(error)))
        report.violations += [Violation("progress", "", wrong) for wrong in fleet.stop()]
        marks = fleet.marks.read()
    effects = read_ledger(folder / "ledger")
    plan = {request.id.hex(): request for request in requests}
    evidence = Evidence(plan, History(), look(folder / "jobs.db"), effects, marks=marks)
    judge(report, f"seed {seed}", evidence, [], CHECKS)
    report.faults["crashed runner"] += sum(mark.word == "begin" and plan[mark.job].task == PILL for mark in marks)
    report.counts["runs"] += len(begun(marks))
    count(report, evidence)
    return report


def _mixed(seed: int, shape: Shape) -> list[Request]:
    """The same for the same seed."""
    dice = random.Random(seed)
    tasks = [PILL] * shape.pills + [GOOD] * shape.good
    dice.shuffle(tasks)
    made: list[Request] = []
    pills = 0
    for number, task in enumerate(tasks):
        argument = KINDS[pills % len(KINDS)] if task == PILL else dice.randint(0, LONGEST_MS)
        pills += task == PILL
        made.append(Request(id=make_id(seed, number), task=task, payload=payload(argument)))
    return made


def pills_die_of_three_crashes(evidence: Evidence) -> Iterator[Violation]:
    """Each pill is dead after three crashes, neither more nor less.

    The first may be a neighbour's doing, before the pill has come to its own first line; the others it met alone.
    """
    runs = [mark.job for mark in begun(evidence.marks)]
    for job, found in _of(evidence, PILL):
        record, outcomes = found.record, [attempt.outcome for attempt in found.attempts]
        assert record is not None
        seen, count = (record.state, record.reason, record.crashes, record.losses), runs.count(job)
        if seen != (State.DEAD, "poison", 3, 0) or outcomes != [Outcome.CRASHED] * 3 or count not in (2, 3):
            yield Violation("§3 pills_die_of_three_crashes", job, f"{seen}, {outcomes}, {count} runs")


def good_jobs_succeed(evidence: Evidence) -> Iterator[Violation]:
    """No good job is lost or dead, and its effect is there."""
    done = {job for job, _ in evidence.effects}
    for job in evidence.plan:
        if job not in evidence.store.jobs:
            yield Violation("1 good_jobs_succeed", job, "is gone")
    for job, found in _of(evidence, GOOD):
        assert found.record is not None
        if found.record.state is not State.SUCCEEDED or job not in done:
            yield Violation("1 good_jobs_succeed", job, f"is {found.record.state} ({found.record.reason})")


def _of(evidence: Evidence, task: str) -> Iterator[tuple[str, Job]]:
    return ((job, found) for job, found in evidence.store.jobs.items() if found.request.task == task)


CHECKS: tuple[Check, ...] = (
    pills_die_of_three_crashes,
    good_jobs_succeed,
    runs_are_paid_for,
    written_ends_stay,
    nothing_runs_without_an_owner,
    nothing_leaks,
    the_store_is_whole,
)
