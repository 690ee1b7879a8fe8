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

from windlass.core.system import SIGKILL, Footprint, children, environment_of, footprint, is_bound, reap_strays

MARK: Final = "WINDLASS_JOB"
"""The variable in which a script, and whatever it starts, has the id of its job."""
ORPHANS_S: Final = 2.0
"""How long those of a dead runner may take to be gone."""
PAUSE_S: Final = 0.005


class Kin(NamedTuple):
    """What there is of a script."""

    living: dict[int, Footprint]
    has_strays: bool
    """Whether some had left it, dead or alive: then others may have come from them meanwhile."""

    @property
    def rss(self) -> int:
        """Bytes in memory, of all of them."""
        return sum(seen.rss for seen in self.living.values())


class Descent:
    """The processes of each script that runs here."""

    def __init__(self) -> None:
        self._known: dict[int, set[int]] = {}
        self.has_strays = False
        """Whether the last look has found any: whoever found none knows that none is left."""

    def look(self, scripts: Mapping[int, str]) -> dict[int, Kin]:
        """The processes of each script, by the one that it began with; given are their jobs. Strays of nobody die.

        One that forks and ends, and so on, is always there as a child of ours, dead or alive, until it is reaped here.
        """
        found = {leader: {leader, *children(leader, recursive=True)} for leader in scripts}
        strays = [pid for pid in children(os.getpid()) if pid not in scripts]
        left: set[int | None] = set()
        for stray in strays:
            leader = self._leader_of(stray, scripts)
            left.add(leader)
            kin = {stray, *children(stray, recursive=True)}
            if leader is None:
                kill(kin)
            else:
                found[leader] |= kin
        reap_strays(scripts)
        self.has_strays, self._known = bool(strays), found
        return {leader: Kin(_living(pids), leader in left or None in left) for leader, pids in found.items()}

    def _leader_of(self, stray: int, scripts: Mapping[int, str]) -> int | None:
        for leader, pids in self._known.items():
            if stray in pids and leader in scripts:
                return leader
        job = environment_of(stray).get(MARK)
        return next((leader for leader, known in scripts.items() if known == job), None)


def _living(pids: Iterable[int]) -> dict[int, Footprint]:
    return {pid: seen for pid in pids if (seen := footprint(pid, alone=True)) is not None}


def kill(pids: Iterable[int]) -> None:
    """All of them, now; one that has ended is no error."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, SIGKILL)


def end_orphans(own: Collection[int]) -> None:
    """In a supervisor whose script runner is dead: ends what its scripts have started, which is its child now.

    Known by what no process can lay down. A script that is just ending still has its children: so until none is left,
    and then once more.
    """
    until_s, clean = time.monotonic() + ORPHANS_S, 0
    while clean < 2 and time.monotonic() < until_s:
        strays = [pid for pid in children(os.getpid()) if pid not in own]
        orphans = [pid for pid in _living(strays) if is_bound(pid)]
        clean = 0 if orphans else clean + 1
        for orphan in orphans:
            kill({orphan, *children(orphan, recursive=True)})
        time.sleep(PAUSE_S)
    reap_strays(own)
