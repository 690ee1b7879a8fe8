"""Files and folders: their disk, their names, and opening what somebody else may have put there."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from pathlib import Path, PurePosixPath

from windlass.core.system.linux import openat2
from windlass.core.system.posix import missing


def free_bytes(folder: str) -> int:
    """What is left for this user on the disk of that folder."""
    if sys.platform == "win32":
        missing()
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def set_aside(descriptor: int, size: int) -> None:
    """Takes so many bytes of the disk for a file, where the system can."""
    if sys.platform == "linux":
        os.posix_fallocate(descriptor, 0, size)


def open_folder(path: Path) -> int:
    """A descriptor of a folder."""
    if sys.platform == "win32":
        missing()
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def sync_folder(path: Path) -> None:
    """Puts the names in a folder on the disk."""
    descriptor = open_folder(path)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_beneath(folder: int, path: str) -> int:
    """A descriptor for reading the file of that path below an opened folder; a link out of it is an `OSError`.

    Linux's `openat2` looks at each part as it goes, so nobody can put a link there meanwhile. Where that cannot be had,
    no part may be a link at all.
    """
    if sys.platform == "win32":
        missing()
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not hang us
    if sys.platform == "linux":
        found = openat2(folder, path, flags)
        if found is not None:
            return found
    here = os.dup(folder)
    try:
        *parts, name = PurePosixPath(path).parts or (".",)
        for part in parts:
            if stat.S_ISLNK(os.stat(part, dir_fd=here, follow_symlinks=False).st_mode):  # to say so; see the flags
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=here)
    finally:
        os.close(here)


def wait_readable(descriptor: int, timeout_s: float) -> bool:
    """Whether anything came. Not by `select`, which knows no descriptor above 1023."""
    if sys.platform == "win32":
        missing()
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout_s * 1_000))
