"""Story H: a supervisor stands still, or is cut off, for three leases while its runner works on a job of a lane.

Where a lock tells of deaths (sqlite), the kernel keeps the lock, so nobody takes the job; the late settle is accepted
and the job ran once. Where a lease does (redis, or sqlite by a test setting), another worker takes the job; its first
run, deaf to being told that its worker was cut off, ends later: its settle is stale, and of two effects under two
fences the guarded sink takes one.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.servers.proxy import Proxy
from tests.soak.checker import Violation
from tests.soak.fleet import LOOK_S, Fleet, Supervised, payload
from tests.soak.kills import Report
from tests.soak.recorder import read_ledger, read_lines
from tests.soak.runs import Mark
from tests.soak.waiting import Hangs, wait_for
from tests.worker.yard import holds_the_gate
from windlass.core.ids import new_id
from windlass.core.job import Job, Request, State

LEASE_S = 1.5
STOPPED_S = 0.05
"""How soon a process has stopped that was told to."""
FROZEN_S = 3 * LEASE_S
Death = Literal["lock", "lease"]


@dataclass(slots=True)
class Scene:
    """Two workers, a job of a lane that the first one runs, and one behind it."""

    fleet: Fleet
    first: Supervised
    second: Supervised
    job: str
    behind: str
    proxy: Proxy | None = None
    """Where it stands, the first supervisor is cut off there instead of stopped."""

    def stand_still(self) -> None:
        """The first supervisor, for three leases; its runner goes on."""
        if self.proxy is None:
            self._stop()
        else:
            self.proxy.black_hole()
        time.sleep(FROZEN_S)

    def _stop(self) -> None:
        self.first.send(signal.SIGSTOP)
        time.sleep(STOPPED_S)
        while holds_the_gate(self.first.process.pid):  # in the middle of a write it would hold up all others
            self.first.send(signal.SIGCONT)
            time.sleep(STOPPED_S)
            self.first.send(signal.SIGSTOP)
            time.sleep(STOPPED_S)

    def go_on(self) -> None:
        if self.proxy is None:
            self.first.send(signal.SIGCONT)
        else:
            self.proxy.pass_on()

    def runs(self) -> list[Mark]:
        return self.fleet.marks.begun(self.job)

    def found(self, job: str) -> Job:
        (found,) = self.fleet.engine.fetch([bytes.fromhex(job)])
        assert found is not None
        return found

    def answers(self, fence: int) -> list[str]:
        """What the store said to the first supervisor about the job under that fence."""
        lines = read_lines(self.fleet.folder / "supervisor-0.jsonl")
        said = [entry for line in lines if line.op == "settle" and line.what == "ok" for entry in line.jobs]
        return [verdict for job, its, verdict in said if (job, its) == (self.job, fence)]

    def wait_done(self) -> None:
        for job in (self.job, self.behind):
            wait_for("a job to end", lambda job=job: _state(self.found(job)) is State.SUCCEEDED, step_s=LOOK_S)


def run_round(folder: Path, death: Death, url: str | None = None, proxy: Proxy | None = None) -> Report:
    """One such standstill. `url`: the store, if it is no file; `proxy`: on the way from the first supervisor to it."""
    report = Report()
    with Fleet(folder, url, lease=f"{LEASE_S}s", beat=f"{LEASE_S / 5}s", sweep="0.2s") as fleet:
        try:
            scene = _set(fleet, death, proxy)
            found = _by_lock(scene) if death == "lock" else _by_lease(scene)
            report.violations += [Violation(f"frozen, {death}", scene.job, text) for text in found]
            report.violations += [Violation("progress", "", wrong) for wrong in fleet.stop()]
        except Hangs as error:  # one may be stopped and hear no other signal: they are killed
            report.violations.append(Violation("progress", "", f"{error}\n{fleet.said()}"))
    report.faults[f"standstill, {death}"] += 1
    report.counts["jobs"] += 2
    return report


def _set(fleet: Fleet, death: Death, proxy: Proxy | None) -> Scene:
    first = fleet.start_recorded(1, 1, death, url=None if proxy is None else proxy.url(fleet.url))
    fleet.wait_up(first)
    ids = [new_id(), new_id()]
    fleet.insert([Request(id=job, task="deaf", payload=payload(), lane="lane") for job in ids])
    fleet.wait_begun(ids[0].hex())
    second = fleet.start_recorded(1, 1, death)
    fleet.wait_up(second)
    return Scene(fleet, first, second, ids[0].hex(), ids[1].hex(), proxy)


def _by_lock(scene: Scene) -> list[str]:
    fence = scene.runs()[0].fence
    scene.stand_still()
    state = _state(scene.found(scene.job))
    scene.fleet.let_go(f"{fence}")
    wait_for("the run to end", lambda: _ended(scene, fence), step_s=LOOK_S)
    wrong = [] if state is State.RUNNING else [f"was {state} while its worker stood still"]
    scene.go_on()
    _let_behind_go(scene)
    wait_for("the late settle to be answered", lambda: scene.answers(fence), step_s=LOOK_S)
    record = scene.found(scene.job).record
    assert record is not None
    effects = [effect for effect in read_ledger(scene.fleet.folder / "ledger") if effect[0] == scene.job]
    seen = (scene.answers(fence), len(scene.runs()), record.losses, len(effects))
    if seen != (["accepted"], 1, 0, 1):
        wrong.append(f"answers, runs, losses, effects: {seen}")
    return wrong


def _by_lease(scene: Scene) -> list[str]:
    old = scene.runs()[0].fence
    scene.stand_still()
    scene.fleet.wait_begun(scene.job, 2)
    new = scene.runs()[1].fence
    scene.fleet.let_go(f"{new}")
    wait_for("the second run to end", lambda: _ended(scene, new), step_s=LOOK_S)
    scene.fleet.let_go(f"{old}")
    wait_for("the first run to end", lambda: _ended(scene, old), step_s=LOOK_S)
    scene.go_on()
    _let_behind_go(scene)
    wait_for("the late settle to be answered", lambda: scene.answers(old), step_s=LOOK_S)
    record = scene.found(scene.job).record
    assert record is not None
    effects = [fence for job, fence in read_ledger(scene.fleet.folder / "ledger") if job == scene.job]
    taken = [fence for place, fence in enumerate(effects) if all(fence > earlier for earlier in effects[:place])]
    told = any(mark.word == "told" and mark.fence == old for mark in scene.fleet.marks.read())
    seen = (scene.answers(old), len(scene.runs()), record.settled_fence == new, effects, taken, told)
    if seen != (["stale"], 2, True, [new, old], [new], True):
        return [f"answers, runs, settled by the second, effects, taken, told that it was cut off: {seen}"]
    return []


def _let_behind_go(scene: Scene) -> None:
    """The job behind it in the lane runs now, and not before."""
    scene.fleet.wait_begun(scene.behind)
    scene.fleet.let_go(f"{scene.fleet.marks.begun(scene.behind)[0].fence}")
    scene.wait_done()


def _ended(scene: Scene, fence: int) -> bool:
    return any(mark.word == "end" and mark.fence == fence for mark in scene.fleet.marks.read())


def _state(job: Job) -> State | None:
    return None if job.record is None else job.record.state
