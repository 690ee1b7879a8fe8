"""What a script has started, wherever that has gone.

A process that leaves its group and loses its parent becomes a child of the script runner, which adopts orphans. Whose
it was is known by the last look at the script's descendants, or by what it was given in its environment. One of which
neither is known hides, and is killed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from windlass.core.system import SIGKILL, Footprint, children, environment_of, footprint, reap_strays

MARK: Final = "WINDLASS_JOB"
"""The variable in which a script, and whatever it starts, has the id of its job."""
ORPHANS_S: Final = 2.0
"""How long those of a dead runner may take to be gone."""
PAUSE_S: Final = 0.005


class Kin(NamedTuple):
    """What lives of a script."""

    living: dict[int, Footprint]

    @property
    def rss(self) -> int:
        """Bytes in memory, of all of them."""
        return sum(seen.rss for seen in self.living.values())


class Descent:
    """The living processes of each script that runs here."""

    def __init__(self) -> None:
        self._known: dict[str, set[int]] = {}
        self.has_strays = False
        """Whether there are some that have left their script, dead or alive."""

    def look(self, scripts: Mapping[str, int]) -> dict[str, Kin]:
        """The processes of each job, by the process that it began with. Strays of nobody are killed."""
        found = {job: {pid, *children(pid, recursive=True)} for job, pid in scripts.items()}
        for stray in self._strays(scripts.values()):
            job = self._job_of(stray)
            if job in found:
                found[job] |= {stray, *children(stray, recursive=True)}
            else:
                kill({stray, *children(stray, recursive=True)})
        reap_strays(set(scripts.values()))
        self.has_strays = bool(self._strays(scripts.values()))
        self._known = found
        return {job: Kin(_living(pids)) for job, pids in found.items()}

    def _job_of(self, stray: int) -> str:
        known = next((job for job, pids in self._known.items() if stray in pids), "")
        return known or environment_of(stray).get(MARK, "")

    @staticmethod
    def _strays(own: Collection[int]) -> list[int]:
        return [pid for pid in children(os.getpid()) if pid not in own]


def _living(pids: Iterable[int]) -> dict[int, Footprint]:
    return {pid: seen for pid in pids if (seen := footprint(pid, alone=True)) is not None}


def kill(pids: Iterable[int]) -> None:
    """All of them, now; one that has ended is no error."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, SIGKILL)


def end_orphans(jobs: Collection[str], own: Collection[int]) -> None:
    """In a supervisor whose script runner is dead: ends what these scripts have started, which is its child now."""
    until_s = time.monotonic() + ORPHANS_S
    while time.monotonic() < until_s:
        strays = [pid for pid in children(os.getpid()) if pid not in own]
        orphans = [pid for pid in _living(strays) if environment_of(pid).get(MARK) in jobs]
        if not orphans:
            break
        for orphan in orphans:
            kill({orphan, *children(orphan, recursive=True)})
        time.sleep(PAUSE_S)
    reap_strays(own)
