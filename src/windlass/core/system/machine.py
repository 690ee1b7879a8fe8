"""How much of the machine this process may use."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath


def cores(root: Path = Path("/")) -> int:
    """How many cores this process may use: those it is bound to, or fewer where a cgroup gives it less time."""
    there = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    said = (line.split() for line in _cgroup_files(root, "cpu", "cpu.max"))
    shares = [int(quota) / int(period) for quota, period in said if quota != "max"]
    return max(1, min([there, *map(math.ceil, shares)]))


def memory_limit(root: Path = Path("/")) -> int:
    """How many bytes this process may use: those of the machine, or fewer where a cgroup above it says so."""
    # "max" is none; the older cgroups say 2**63 for it, which is more than any machine has.
    said = _cgroup_files(root, "memory", "memory.max", "memory.limit_in_bytes")
    return min([_physical(), *(int(limit) for limit in said if limit.isdecimal())])


def _physical() -> int:
    if sys.platform == "win32":
        import psutil

        return psutil.virtual_memory().total
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cgroup_files(root: Path, controller: str, name: str, older: str = "") -> Iterator[str]:
    """What each level above the process says. In a container the path may be the host's: only its top is there then."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    mount = root / "sys/fs/cgroup"
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            top, file = mount, name
        elif older and controller in controllers.split(","):
            top, file = mount / controller, older
        else:
            continue
        parts = PurePosixPath(path).parts[1:]
        for depth in range(len(parts) + 1):
            with suppress(OSError):
                yield top.joinpath(*parts[:depth], file).read_text().strip()
