"""Whether a folder is as it was: one look at it instead of one at each file that must still be in its place.

Making, removing and renaming a file changes the ctime of its folder. A look at the files themselves would be dear where
it happens most: since Linux 6.13 a kernel whose times of a file were asked for gives the file's next write a time of
its own, and so a look at the -wal between two commits costs the second one a third of its sync.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

GRAIN_NS = 20_000_000
"""File times move in steps of the kernel's clock, some milliseconds long."""


class Folder:
    """Watches the names in one folder. Used by one thread at a time."""

    __slots__ = ("_changed_ns", "_inode", "_path", "version")

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._inode: int = 0
        self._changed_ns: int = 0
        self.version = 0
        """As of the last look."""

    def look(self) -> int:
        """The version: another one whenever a name in the folder may have changed since the last look."""
        now_ns = time.time_ns()
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            self._changed_ns = 0
            self.version += 1
            return self.version
        if found.st_ctime_ns != self._changed_ns or found.st_ino != self._inode:
            # The next change within the clock's grain would have the same time: not trusted until it is older.
            settled = now_ns - found.st_ctime_ns > GRAIN_NS
            self._changed_ns = found.st_ctime_ns if settled else 0
            self._inode = found.st_ino
            self.version += 1
        return self.version
