"""What Linux alone has, and Python has no name for."""

from __future__ import annotations

import errno
import os
import struct

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 15, 36, 38
"""Linux's numbers for `prctl`."""
OPENAT2 = 437
"""The number of that system call, the same on all of Linux's machines."""
RESOLVE_NO_MAGICLINKS, RESOLVE_BENEATH = 0x02, 0x08


def prctl(option: int, value: int | bytes) -> None:
    """Asks Linux for something for this process; where Python cannot ask, nothing comes of it."""
    try:
        import ctypes

        call = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return
    none = ctypes.c_ulong(0)
    call(option, value if isinstance(value, bytes) else ctypes.c_ulong(value), none, none, none)


def openat2(folder: int, path: str, flags: int) -> int | None:
    """A descriptor, as `os.open` gives it. None: this kernel, or whoever filters its calls, does not let us."""
    try:
        import ctypes

        syscall = ctypes.CDLL(None, use_errno=True).syscall
    except (ImportError, OSError, AttributeError):
        return None
    how = struct.pack("QQQ", flags, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
    while True:
        found = syscall(ctypes.c_long(OPENAT2), ctypes.c_int(folder), os.fsencode(path), how, ctypes.c_size_t(len(how)))
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number in (errno.ENOSYS, errno.EPERM):
            return None
        if number != errno.EAGAIN:  # something was renamed meanwhile
            raise OSError(number, os.strerror(number), path)


def read_whole(path: str) -> bytes:
    """What a file says, of /proc as a rule."""
    with open(path, "rb", buffering=0) as file:
        return file.read()
