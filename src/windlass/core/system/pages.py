"""Memory that processes share."""

from __future__ import annotations

import mmap
import os
import sys

from windlass.core.system.posix import missing


def shared_page(size: int) -> int:
    """A descriptor of so many zeros in memory that children can share."""
    if sys.platform == "win32":
        missing()
    if sys.platform == "linux" and hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("windlass", os.MFD_CLOEXEC)
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:  # has no name, or loses it at once
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def map_page(descriptor: int, size: int) -> mmap.mmap:
    """The bytes of a shared page: what one process writes, the others read."""
    return mmap.mmap(descriptor, size)
