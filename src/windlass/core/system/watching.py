"""Processes as others see them: whether they run, what they have started, what they cost."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

from windlass.core.system.linux import read_whole


def is_running(pid: int) -> bool:
    """Whether there is such a process on this host."""
    if sys.platform == "win32":
        import psutil

        return psutil.pid_exists(pid)  # there, signal 0 is Ctrl-C
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True


def children(pid: int, *, recursive: bool = False) -> list[int]:
    """The processes that it has started and not yet reaped; on request also those that they have started."""
    if sys.platform == "linux" and os.path.exists("/proc/thread-self/children"):
        found = list(_children(pid))
        if recursive:
            for child in found:
                found += _children(child)  # and so the loop comes to these too
        return found
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=recursive)]
    except psutil.Error:
        return []


def _children(pid: int) -> Iterator[int]:
    """As Linux keeps them, a list for each thread: a look at every process of the host costs a hundred times more."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        try:
            yield from map(int, read_whole(f"/proc/{pid}/task/{thread}/children").split())
        except OSError:
            pass  # it has ended; another has its children now


def environment_of(pid: int) -> dict[str, str]:
    """The variables that a process was started with; empty where that may not be known."""
    if sys.platform == "linux":
        try:
            words = read_whole(f"/proc/{pid}/environ").split(b"\0")
        except OSError:
            return {}
        pairs = (os.fsdecode(word).partition("=") for word in words if word)
        return {name: value for name, _, value in pairs}
    import psutil

    try:
        return psutil.Process(pid).environ()
    except psutil.Error:
        return {}


class Footprint(NamedTuple):
    """What a process costs: resident bytes, its descendants' included, and its own seconds of CPU."""

    rss: int
    cpu_s: float


def footprint(pid: int, *, alone: bool = False) -> Footprint | None:
    """What that process costs now, or it `alone`, without its descendants; None if it has ended, reaped or not, or
    where this may not be known.
    """
    own = own_footprint(pid)
    if own is None or alone:
        return own
    others = map(own_footprint, children(pid, recursive=True))
    return Footprint(own.rss + sum(other.rss for other in others if other is not None), own.cpu_s)


def own_footprint(pid: int) -> Footprint | None:
    """The same without its descendants."""
    if sys.platform == "linux":
        try:
            # Its name may hold anything; what follows it are a letter and numbers.
            fields = read_whole(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        except OSError:
            return None
        if fields[0] in b"ZX":
            return None
        cpu = int(fields[11]) + int(fields[12])
        return Footprint(int(fields[21]) * mmap.PAGESIZE, cpu / os.sysconf("SC_CLK_TCK"))
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        times = process.cpu_times()
        return Footprint(process.memory_info().rss, times.user + times.system)
    except psutil.Error:
        return None
