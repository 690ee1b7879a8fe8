"""What the processes of a worker do, for people."""

from __future__ import annotations

import os

import msgspec

from windlass.core.clock import Clock
from windlass.core.ids import show_id
from windlass.core.info import Active, Process
from windlass.core.system import footprint
from windlass.worker.foreman import Foreman
from windlass.worker.roster import Roster
from windlass.worker.runner_process import RunnerProcess


class Census:
    """Counts the supervisor and its runners."""

    def __init__(self, clock: Clock, roster: Roster, foreman: Foreman) -> None:
        self._clock = clock
        self._roster = roster
        self._foreman = foreman
        self._started_us = clock.now_us()

    def processes(self) -> tuple[Process, ...]:
        """Each as it is now, the supervisor first."""
        seen = footprint(os.getpid(), alone=True)
        here = Process(
            role="supervisor",
            pid=os.getpid(),
            started_us=self._started_us,
            rss=0 if seen is None else seen.rss,
            cpu_s=0.0 if seen is None else seen.cpu_s,
            setback=self._foreman.setback,
        )
        spare = self._foreman.spare
        waits = () if spare is None else (msgspec.structs.replace(self._described(spare), role="spare", state=""),)
        return (here, *(self._described(runner) for runner in self._roster.all()), *waits)

    def _described(self, runner: RunnerProcess) -> Process:
        seen = footprint(runner.pid)
        shift_us = self._clock.now_us() - self._clock.monotonic_us()
        marks = self._roster.marks(runner)
        active = [
            Active(id=show_id(mark.job), task=claim.task, started_us=mark.started_us + shift_us)
            for mark in marks
            if (claim := runner.claims.get((mark.job, mark.fence))) is not None
        ]
        return Process(
            role="scripts" if runner.for_scripts else "runner",
            pid=runner.pid,
            number=max(0, runner.number),
            state=runner.state,
            started_us=runner.started_us,
            rss=0 if seen is None else seen.rss,
            cpu_s=0.0 if seen is None else seen.cpu_s,
            slots=sum(room.slots for room in runner.rooms.values()),
            ended=runner.ended,
            restarts=runner.restarts,
            active=tuple(active),
        )
