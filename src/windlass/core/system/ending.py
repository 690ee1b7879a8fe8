"""How a process ends: by a signal to its group, seen at once, and reaped."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from windlass.core.system.posix import SIGKILL, missing
from windlass.core.system.watching import children, own_footprint

if TYPE_CHECKING:
    import subprocess


def signal_group(leader: int, number: int) -> None:
    """To all processes of its group; one that has ended is no error."""
    if sys.platform == "win32":
        missing()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def kill_group(leader: int) -> None:
    """Kills a process that leads a group, and that group; one that has ended is no error."""
    signal_group(leader, SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(leader, SIGKILL)  # it may have left its group


def wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """How a process that leads a group ended. One that was killed or failed takes along whatever it had started."""
    if sys.platform == "linux":
        with suppress(ChildProcessError):
            # Looked at and not reaped: until it is, nobody else can have its number.
            found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            if found is not None and (found.si_code != os.CLD_EXITED or found.si_status):
                kill_group(process.pid)
        return process.wait()
    code = process.wait()
    if code and sys.platform != "win32":
        kill_group(process.pid)
    return code


def end_of(pid: int) -> int | None:
    """A descriptor that becomes readable when that child has ended; None where there is no such thing."""
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def has_ended(pid: int) -> bool:
    """Whether that child has, without reaping it: until it is reaped nobody else can have its number."""
    if sys.platform == "win32" or sys.platform == "darwin":
        return own_footprint(pid) is None
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:
        return True


def reap_strays(own: Collection[int]) -> int:
    """Reaps the dead children that are not among `own`, and gives their number: what a process with the id 1 owes.

    Each is asked for by its id. A wait for any child would take the end of an own one from whoever waits for that.
    """
    if sys.platform == "win32":
        return 0  # there, nobody stays for being waited for
    reaped = 0
    for pid in children(os.getpid()):
        if pid not in own:
            try:
                reaped += os.waitpid(pid, os.WNOHANG)[0] == pid
            except ChildProcessError:
                pass  # another thread was faster
    return reaped
