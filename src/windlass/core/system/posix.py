"""Names of POSIX itself, without a step between, for some are called at every commit."""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from windlass.core.errors import UnsupportedPlatform


def missing(*_: object) -> NoReturn:
    """Stands for what Windows lacks."""
    raise UnsupportedPlatform(
        "This needs locks, FIFOs or processes as POSIX has them, and Windows has not.",
        "Use Linux (or macOS, best effort), or memory://.",
    )


if sys.platform == "win32":
    SIGKILL = int(signal.SIGTERM)  # which no process there can refuse
    SIGXCPU = SIGXFSZ = 0
    O_SAFE = 0
    LOCK_SH = LOCK_EX = LOCK_NB = LOCK_UN = 0
    F_RDLCK = F_UNLCK = 0
    flock: Callable[[int, int], None] = missing
    pread: Callable[[int, int, int], bytes] = missing
    pwrite: Callable[[int, bytes, int], int] = missing
    make_fifo: Callable[[Path, int], None] = missing
    user_id: Callable[[], int] = missing

    def at_fork(**_hooks: Callable[[], object]) -> None:
        """There is no fork."""

else:
    import fcntl

    SIGKILL, SIGXCPU, SIGXFSZ = int(signal.SIGKILL), int(signal.SIGXCPU), int(signal.SIGXFSZ)
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
    lock_bytes: Callable[[int, int, bytes], object] = missing


def byte_range(kind: int, start: int, length: int) -> bytes:
    """What `lock_bytes` takes: the kernel's struct flock."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)
