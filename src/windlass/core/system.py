"""What differs between operating systems, in one file.

Everybody else asks here. What Windows lacks raises `UnsupportedPlatform` when it is called, never when it is imported:
a process that needs none of it runs there.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from windlass.core.errors import UnsupportedPlatform


def _missing(*_: object) -> NoReturn:
    raise UnsupportedPlatform(
        "This needs locks, FIFOs or processes as POSIX has them, and Windows has not.",
        "Use Linux (or macOS, best effort), or memory://.",
    )


# ── names: those of POSIX itself, without a step between, for some are called at every commit ───────────────

if sys.platform == "win32":
    SIGKILL = int(signal.SIGTERM)  # which no process there can refuse
    O_SAFE = 0
    LOCK_SH = LOCK_EX = LOCK_NB = LOCK_UN = 0
    F_RDLCK = F_UNLCK = 0
    flock: Callable[[int, int], None] = _missing
    pread: Callable[[int, int, int], bytes] = _missing
    pwrite: Callable[[int, bytes, int], int] = _missing
    make_fifo: Callable[[Path, int], None] = _missing
    user_id: Callable[[], int] = _missing

    def at_fork(**_hooks: Callable[[], object]) -> None:
        """There is no fork."""

else:
    import fcntl
    import select

    SIGKILL = int(signal.SIGKILL)
    O_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK
    """For opening what somebody may have put there: follows no link, and no FIFO can hang us.

    O_CLOEXEC is not needed: Python opens every file so that what it starts does not inherit it.
    """
    LOCK_SH, LOCK_EX, LOCK_NB, LOCK_UN = fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_NB, fcntl.LOCK_UN
    F_RDLCK, F_UNLCK = fcntl.F_RDLCK, fcntl.F_UNLCK
    flock, pread, pwrite, make_fifo, user_id = fcntl.flock, os.pread, os.pwrite, os.mkfifo, os.geteuid
    at_fork = os.register_at_fork

if sys.platform == "linux":
    OFD = hasattr(fcntl, "F_OFD_SETLK")
    """Whether there are locks of open file descriptions: a Python that was built long ago may not know of them."""
    F_OFD_SETLK: int = getattr(fcntl, "F_OFD_SETLK", 0)
    F_OFD_SETLKW: int = getattr(fcntl, "F_OFD_SETLKW", 0)
    lock_bytes: Callable[[int, int, bytes], object] = fcntl.fcntl
else:
    OFD = False
    F_OFD_SETLK = F_OFD_SETLKW = 0
    lock_bytes: Callable[[int, int, bytes], object] = _missing


def byte_range(kind: int, start: int, length: int) -> bytes:
    """What `lock_bytes` takes: the kernel's struct flock."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────


def free_bytes(folder: str) -> int:
    """What is left for this user on the disk of that folder."""
    if sys.platform == "win32":
        _missing()
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def set_aside(descriptor: int, size: int) -> None:
    """Takes so many bytes of the disk for a file, where the system can."""
    if sys.platform == "linux":
        os.posix_fallocate(descriptor, 0, size)


def sync_folder(path: Path) -> None:
    """Puts the names in a folder on the disk."""
    if sys.platform == "win32":
        _missing()
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def wait_readable(descriptor: int, timeout_s: float) -> bool:
    """Whether anything came. Not by `select`, which knows no descriptor above 1023."""
    if sys.platform == "win32":
        _missing()
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout_s * 1_000))


# ── processes ───────────────────────────────────────────────────────────────────────────────────────────────


def is_running(pid: int) -> bool:
    """Whether there is such a process on this host."""
    if sys.platform == "win32":
        _missing()  # there, signal 0 is Ctrl-C
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True
