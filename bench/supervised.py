"""A supervisor and its runners, as `windlass worker -p N` starts them, and what they take of the machine (Linux)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from bench.report import ROOT
from bench.rounds import Figure
from bench.stores import LIMITS, PLAIN
from windlass.core.job import State
from windlass.engines.protocol import TallyQuery
from windlass.engines.sqlite import SqliteEngine
from windlass.ops.cards import info
from windlass.ops.processes import call_roll
from windlass.ops.steer import pause, resume

START_S = 60.0
LOOK_S = 0.02
"""How often we look whether the store is empty: the clock runs at most so much too long, against us."""
LONGEST_S = 120.0
CPU_CLOCK = 2
"""Linux: the clock of a process that counts the time it had a core."""


class Supervised:
    """A worker whose runners are ready, and whose queue is paused until somebody says go; stopped at the end.

    So its start, of several interpreters, is not part of what is measured, as it is not for an embedded worker.
    """

    def __init__(self, path: Path, processes: int) -> None:
        self.engine = SqliteEngine(path, LIMITS)
        self.engine.open()
        pause(self.engine, PLAIN)
        self._runners = processes
        words = ["-m", "windlass", "worker", "bench.tasks", "-l", "warning", "-p", f"{processes}", "--pool", "solo"]
        environment = {**os.environ, "WINDLASS_URL": f"sqlite:///{path}"}
        self._supervisor = subprocess.Popen([sys.executable, *words], cwd=ROOT, env=environment)

    def __enter__(self) -> Supervised:
        until_s = time.monotonic() + START_S
        while self._working() < self._runners:
            if self._supervisor.poll() is not None or time.monotonic() > until_s:
                raise RuntimeError("The worker did not start; its error stands above.")
            time.sleep(LOOK_S)
        return self

    def _working(self) -> int:
        call_roll(self.engine)
        cards = self.engine.tally(TallyQuery()).cards
        return sum(process.state == "working" for card in cards for process in info(card).processes)

    def __exit__(self, *_: object) -> None:
        self._supervisor.send_signal(signal.SIGTERM)
        code = self._supervisor.wait()
        self.engine.close()
        if code:
            raise RuntimeError("The worker failed while it stopped; its error stands above.")

    def drain(self, jobs: int) -> Figure:
        """Lets it work until the store has the last end. One that did not do it all has no figure."""
        start_s, cpu_s = time.perf_counter(), self.cpu_s()
        until_s = start_s + LONGEST_S
        resume(self.engine, PLAIN)
        while (done := self._succeeded()) < jobs and time.perf_counter() < until_s:
            time.sleep(LOOK_S)
        if done != jobs:
            raise RuntimeError(f"The worker left {jobs - done} of {jobs} jobs undone.")
        return Figure(jobs=jobs, wall_s=time.perf_counter() - start_s, cpu_s=self.cpu_s() - cpu_s)

    def _succeeded(self) -> int:
        counts = self.engine.tally(TallyQuery()).counts
        return sum(count.n for count in counts if count.state is State.SUCCEEDED and count.queue == PLAIN)

    # ── what they take ──────────────────────────────────────────────────────────────────────────────────

    def _pids(self) -> list[int]:
        children = psutil.Process(self._supervisor.pid).children(recursive=True)
        return [self._supervisor.pid, *(child.pid for child in children)]

    def cpu_s(self) -> float:
        """CPU time of all of them so far."""
        return sum(time.clock_gettime((~pid << 3) | CPU_CLOCK) for pid in self._pids())

    def pss_mb(self) -> float:
        """Their memory in millions of bytes; each has its part of what several share."""
        return sum(_pss(pid) for pid in self._pids()) / 1e6


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) * 1_024
