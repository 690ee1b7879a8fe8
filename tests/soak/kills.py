"""Story A: processes share one file, and are killed -9 at random moments, until every job has ended."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tests.soak.checker import ALL, Check, Evidence, Violation, check, digest, guard, story_of
from tests.soak.recorder import Line, Recorder, Watch, read_folder, read_ledger
from tests.soak.store import look
from tests.soak.waiting import HANG_S, Hangs, wait_for
from tests.soak.worker import ROOT, Assignment
from tests.soak.workload import deal
from windlass.core.job import Request


@dataclass(frozen=True, slots=True)
class Shape:
    """How big a round is and what is done to it."""

    jobs: int = 2_000
    processes: int = 4
    threads: int = 2
    kills: int = 16
    rattle: bool = False
    pins: bool = True
    batch: int = 20
    hang_s: float = 3 * HANG_S


@dataclass(slots=True)
class Report:
    """What a round, or many, came to."""

    counts: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    violations: list[Violation] = field(default_factory=list[Violation])
    stories: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    times_ms: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def add(self, other: Report) -> None:
        self.counts += other.counts
        self.faults += other.faults
        self.violations += other.violations
        self.stories += other.stories
        self.notes += other.notes
        for name, times in other.times_ms.items():
            self.times_ms.setdefault(name, []).extend(times)


class Crew:
    """The processes of one round: each slot has one, and a new one when it was killed."""

    def __init__(self, folder: Path, seed: int, shape: Shape) -> None:
        self._folder = folder
        self._seed = seed
        self._shape = shape
        self._generations = [0] * shape.processes
        self.processes: list[subprocess.Popen[bytes]] = [self._spawn(slot) for slot in range(shape.processes)]

    def given(self, slot: int) -> Assignment:
        """What the slot's current process was told."""
        shape = self._shape
        return Assignment(
            database=str(self._folder / "jobs.db"),
            folder=str(self._folder),
            seed=self._seed,
            jobs=shape.jobs,
            slot=slot,
            slots=shape.processes,
            generation=self._generations[slot],
            threads=shape.threads,
            rattle=shape.rattle,
            pins=shape.pins,
            batch=shape.batch,
            stages=shape.kills + 1,
        )

    def _spawn(self, slot: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.soak.worker", msgspec.json.encode(self.given(slot)).decode()]
        errors = (self._folder / f"{slot}.{self._generations[slot]}.stderr").open("wb")
        with errors:
            return subprocess.Popen(command, cwd=ROOT, stderr=errors, stdin=subprocess.DEVNULL)

    def kill(self, slot: int) -> None:
        """kill -9, at whatever it is doing."""
        process = self.processes[slot]
        process.send_signal(signal.SIGKILL)
        process.wait()

    def release(self) -> None:
        """Lets the next part of the parcels out."""
        with (self._folder / "release").open("ab") as file:
            file.write(b".")

    def renew(self, slot: int) -> None:
        """A new process takes the slot over, with new worker ids."""
        self._generations[slot] += 1
        self.processes[slot] = self._spawn(slot)

    def end(self) -> None:
        """Nobody outlives the round."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def complaints(self) -> list[str]:
        """What processes wrote to stderr: a healthy one writes nothing."""
        found: list[str] = []
        for path in sorted(self._folder.glob("*.stderr")):
            if text := path.read_text(errors="replace").strip():
                found.append(f"{path.stem}: {text[-2_000:]}")
        return found


def run_round(folder: Path, seed: int, shape: Shape, checks: Sequence[Check] = ALL) -> Report:
    """One round in an empty folder: work under fire, drain, check."""
    report = Report()
    nemesis = random.Random(f"nemesis {seed}")
    recorder = Recorder(folder / "nemesis.jsonl")
    crew = Crew(folder, seed, shape)
    try:
        _hurt(crew, nemesis, recorder, shape, report)
        wait_for("all parcels to be sent", lambda: _all_sent(crew, shape), hang_s=shape.hang_s, step_s=0.01)
        (folder / "finish").touch()
        for process in crew.processes:
            process.wait(timeout=shape.hang_s)
    except (Hangs, subprocess.TimeoutExpired) as error:
        report.violations.append(Violation("progress", "", str(error)))
    finally:
        crew.end()
        recorder.close()
    codes = [process.returncode for process in crew.processes]
    if any(codes) or (report.violations and crew.complaints()):
        report.violations.append(Violation("progress", "", f"exit codes {codes}: {crew.complaints()}"))
    _judge(folder, seed, shape, report, checks)
    return report


def _hurt(crew: Crew, nemesis: random.Random, recorder: Recorder, shape: Shape, report: Report) -> None:
    """Kills a random process after random progress: from before its first step to deep in its work."""
    for _ in range(shape.kills):
        slot = nemesis.randrange(shape.processes)
        watch = Watch(crew.given(slot).file(0))
        process = crew.processes[slot]
        early, target = nemesis.random() < 0.25, nemesis.randrange(12_000)
        patience_s = nemesis.random() * 0.25
        if not early:
            _wait_until_up(watch, process, shape)
        began = time.monotonic()
        while watch.size() < target and time.monotonic() - began < patience_s:
            time.sleep(0.0005)
        if process.poll() is not None:
            raise Hangs(f"process of slot {slot} ended by itself: {crew.complaints()}")
        recorder.say("kill", f"slot {slot} pid {process.pid}")
        crew.kill(slot)
        report.faults["kill -9"] += 1
        crew.release()
        crew.renew(slot)


def _wait_until_up(watch: Watch, process: subprocess.Popen[bytes], shape: Shape) -> None:
    wait_for("a process to come up", lambda: watch.size() or process.poll(), hang_s=shape.hang_s)


def _all_sent(crew: Crew, shape: Shape) -> bool:
    for slot in range(shape.processes):
        if crew.processes[slot].poll():
            raise Hangs(f"process of slot {slot} ended: {crew.complaints()}")
        given = crew.given(slot)
        for thread in range(shape.threads):
            path = given.file(thread)
            if not path.exists() or b'"op":"sent"' not in path.read_bytes():
                return False
    return True


def _judge(folder: Path, seed: int, shape: Shape, report: Report, checks: Sequence[Check]) -> None:
    lines = read_folder(folder)
    history = digest(lines)
    for broken in history.broken:
        report.violations.append(Violation("progress", "", broken))
    try:
        store = look(folder / "jobs.db")
    except Exception as error:
        report.violations.append(Violation("12 the_store_is_whole", "", f"cannot be read: {error!r}"))
        return
    effects = read_ledger(folder / "ledger")
    evidence = Evidence(plan_of(seed, shape.jobs), history, store, effects)
    judge(report, f"seed {seed}", evidence, lines, checks)
    report.faults["rattles"] += sum(int(line.note) for line in lines if line.op == "rattled")
    report.faults += Counter()
    count(report, evidence)


def plan_of(seed: int, jobs: int) -> dict[str, Request]:
    """What was to be sent, by id."""
    return {job.id.hex(): job.request for parcel in deal(seed, jobs) for job in parcel.jobs}


def judge(report: Report, where: str, evidence: Evidence, lines: Sequence[Line], checks: Sequence[Check]) -> None:
    """Adds the violations, and for the first of them the history of the job that shows it."""
    found = check(evidence, checks)
    report.violations += found
    for violation in found[:3]:
        report.stories += [f"{where}: {violation}", *story_of(violation.job, lines)]


def count(report: Report, evidence: Evidence) -> None:
    """Adds what happened, in figures."""
    report.counts += evidence.history.counts
    jobs, effects = evidence.store.jobs.values(), evidence.effects
    report.counts["jobs"] += len(jobs)
    report.counts["effects_raw"] += len(effects)
    report.counts["effects_raw_repeats"] += len(effects) - len({job for job, _ in effects})
    report.counts["effects_guarded"] += len(guard(effects))
    for job in jobs:
        if job.record is not None:
            report.counts[f"{job.record.state}"] += 1
            report.counts["losses"] += job.record.losses
            report.counts["crashes"] += job.record.crashes
            report.counts["poison"] += job.record.reason == "poison"
    report.counts += Counter()
