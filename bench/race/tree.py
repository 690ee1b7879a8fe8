"""A tree of processes: a worker and everything it started, found by the session they share. Linux only: it reads /proc.

A session outlives the parent, so children that were adopted by init are found and counted, and ended, all the same.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Clock(NamedTuple):
    """CPU time of a process; and in coarse ticks, how much of it was in its own code and in the kernel."""

    cpu_s: float
    user: int
    system: int

    def since(self, then: Clock) -> Clock:
        """What has been added since then."""
        return Clock(self.cpu_s - then.cpu_s, self.user - then.user, self.system - then.system)


class Tree:
    """A command in a session of its own; at the end of the `with` nothing of it is left."""

    def __init__(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path, name: str = "worker"
    ) -> None:
        self._log, self._name = log, name
        with log.open("ab") as output:
            self._root = subprocess.Popen(
                command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def cpu_s(self) -> float:
        """CPU time of all its processes, and of those they have already waited for."""
        return sum(
            clock_s(pid) + sum(int(ticks) for ticks in stat[13:15]) / TICKS for pid, stat in self._stats().items()
        )

    def clocks(self) -> dict[int, Clock]:
        """Those of each of its processes; the one that was started, which may have started the others, is first."""
        stats = sorted(self._stats().items(), key=lambda found: found[0] != self._root.pid)
        return {pid: Clock(clock_s(pid), int(stat[11]), int(stat[12])) for pid, stat in stats}

    def memory_mb(self) -> tuple[float, float]:
        """Resident memory of all its processes in millions of bytes: summed up, and with shared pages counted once."""
        rss = pss = 0
        for pid in self._stats():
            try:
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            except OSError:
                continue  # it has ended since
            kib = {line.split()[0]: int(line.split()[1]) for line in lines[1:]}
            rss, pss = rss + kib["Rss:"], pss + kib["Pss:"]
        return rss * 1_024 / 1e6, pss * 1_024 / 1e6

    def check(self) -> None:
        """Raises what it wrote last if it has ended by itself."""
        if self._root.poll() is not None:
            raise RuntimeError(f"The {self._name} ended with {self._root.returncode}: {last_line(self._log)}")

    def kill(self) -> None:
        """kill -9 of all of it. It is stopped first, so that nobody sees another die and starts a new one."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in self._stats():
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass  # it has ended since
        self._root.wait()

    def _stats(self) -> dict[int, list[str]]:
        """The fields of /proc/<pid>/stat from the third on, of every process of the session."""
        found: dict[int, list[str]] = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    fields = (folder / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue  # it has ended since
                if int(fields[3]) == self._root.pid and fields[0] != "Z":
                    found[int(folder.name)] = fields
        return found


def clock_s(pid: int) -> float:
    """The CPU clock of a process. /proc has the same in hundredths of a second, too coarse for the fastest drains."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # what clock_getcpuclockid(3) makes of a pid
    except OSError:
        return 0.0  # it has ended since


def last_line(log: Path) -> str:
    """The last line that says something; of a traceback, its error."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
