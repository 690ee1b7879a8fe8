"""The gate: one writer at a time on this host, whatever happens to SQLite's own locks.

SQLite locks a file with POSIX locks, and those vanish from a process as soon as *anything* in it opens and closes the
same file: a script that looks into jobs.db with the standard library, a backup tool, a second copy of SQLite. Then two
writers can write at once, a checkpoint can run under a reader, and the last one to close may delete a WAL that others
still write to. Three things make us independent of that:

1. Every write and every checkpoint holds a blocking `flock` on jobs.db.gate. It belongs to our descriptor alone, it is
   fair enough (SQLite's busy handler sleeps and starves writers), and the kernel frees it at death. Somebody who is
   stopped inside is not waited for without end (patience.py).
2. Two *pins*: shared open-file-description locks (Linux) on the bytes that SQLite locks exclusively before it deletes
   or rebuilds the -wal and the -shm. They conflict with anybody's POSIX locks, our own process included, and do not
   vanish; so nobody can delete or truncate those files while an engine is open.
   A third pin is held during each commit and checkpoint: on the byte that SQLite locks before it rebuilds the index of
   the WAL. A reader that finds the index half written takes the writer's lock to see whether the writer is dead; where
   that lock has vanished, it would rebuild the index under a living writer, and pages of its commit would be lost.
3. Where pins do not exist (macOS) or somebody removes files by hand: the -wal's inode is checked under the gate before
   and after each commit (commit.py), and an epoch in the gate file grows before each checkpoint, so that a reader whose
   lock vanished notices that the ground moved and reads again (readers.py).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, TypeVar

from windlass.core import system
from windlass.core.errors import StoreClosed
from windlass.engines.sqlite.files import Paths, open_safely
from windlass.engines.sqlite.folder import Folder
from windlass.engines.sqlite.patience import Patience

R = TypeVar("R")

_SHARED_BYTES = (0x40000002, 510)
"""The range of the database file that SQLite locks exclusively before it deletes the WAL."""
_DMS_BYTE = (128, 1)
"""The byte of the -shm that SQLite locks exclusively before it truncates the file."""
_RECOVER_BYTE = (122, 1)
"""The byte of the -shm that SQLite locks exclusively before it rebuilds the index of the WAL."""
OFD = system.OFD
"""Whether pins are to be had."""
_STEADY = system.byte_range(system.F_RDLCK, *_RECOVER_BYTE)
_UNSTEADY = system.byte_range(system.F_UNLCK, *_RECOVER_BYTE)


class Gate:
    """The lock of one store, held by one thread of one process at a time."""

    def __init__(self, paths: Paths) -> None:
        self._path = str(paths.gate)
        self.folder = Folder(paths.database.parent)
        """Looked at whenever the gate is passed: the files of the store lie there."""
        self._in_place = -1
        self._descriptor = open_safely(paths.gate)
        self._inode = os.fstat(self._descriptor).st_ino
        # To the kernel all threads that use one descriptor are one holder; among them this lock decides.
        self._thread = threading.Lock()
        self._patience = Patience(self._path)
        # The number of a closed descriptor may be another file's a moment later: whoever changes it holds this.
        self._number = threading.Lock()

    def run(self, work: Callable[[], R]) -> R:
        """What `work` gives, done inside. If somebody removed the file of the gate, everybody moves on to the new one.

        Not a context manager of our own: an interrupt on its way in or out would leave the gate shut for ever.
        """
        with self._thread:
            try:
                try:
                    self._lock(self._opened())
                    while not self._is_in_place():
                        self._move_on()
                        self._lock(self._descriptor)
                    return work()
                finally:
                    self._unlock()
            except BaseException:
                # Perhaps interrupted on the way out: going twice changes nothing, and nobody may be shut out.
                self._unlock()
                raise

    def _unlock(self) -> None:
        if self._descriptor >= 0:
            system.flock(self._descriptor, system.LOCK_UN)

    def _lock(self, descriptor: int) -> None:
        if not self._patience.in_line:
            try:
                return system.flock(descriptor, system.LOCK_EX | system.LOCK_NB)
            except BlockingIOError:
                pass
        return self._patience.wait(descriptor)

    def _opened(self) -> int:
        if self._descriptor < 0:
            raise StoreClosed("The engine was closed.", "Open it again.")
        return self._descriptor

    def _is_in_place(self) -> bool:
        version = self.folder.look()
        if version != self._in_place:
            try:
                if os.lstat(self._path).st_ino != self._inode:
                    return False
            except FileNotFoundError:
                return False
            self._in_place = version
        return True

    def _move_on(self) -> None:
        """The new file is open before the old one is let go: if it cannot be opened, nothing has changed."""
        descriptor = open_safely(Path(self._path))
        with self._number:
            old, self._descriptor = self._descriptor, descriptor
            self._inode = os.fstat(descriptor).st_ino
            os.close(old)

    def hold_still(self) -> None:
        """Before a fork: waits for the thread that is inside, and lets nobody in."""
        self._thread.acquire()
        self._patience.hold_still()

    def go_on(self) -> None:
        """After it."""
        self._patience.go_on()
        self._thread.release()

    def epoch(self) -> int:
        """How many checkpoints there have been."""
        with self._number:
            raw = system.pread(self._opened(), 8, 0)
        return int.from_bytes(raw, "little")

    def begin_epoch(self) -> None:
        """Tells readers that pages are about to move. Only under the gate."""
        after = self.epoch() + 1
        with self._number:
            system.pwrite(self._opened(), after.to_bytes(8, "little"), 0)

    def close(self) -> None:
        """Waits for the thread that is inside; whoever comes later is told that it is closed."""
        with self._thread, self._number:
            self._patience.close()
            self._let_go()

    def forget(self) -> None:
        """In a forked child: the copies of descriptors go. Nobody here would ever free the locks of its threads."""
        self._patience.forget()
        self._let_go()

    def _let_go(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class Steady:
    """The third pin, for the time of a `with`."""

    __slots__ = ("_descriptors",)

    def __init__(self, descriptors: list[int]) -> None:
        self._descriptors = descriptors
        """Those of the pins; empty once they are closed."""

    def __enter__(self) -> None:
        if OFD:
            system.lock_bytes(self._descriptors[1], system.F_OFD_SETLKW, _STEADY)

    def __exit__(self, *_: object) -> None:
        if OFD:
            system.lock_bytes(self._descriptors[1], system.F_OFD_SETLK, _UNSTEADY)


class Pins:
    """Shared locks that keep everybody from deleting the -wal or truncating the -shm under us.

    Closing a descriptor of the database drops the POSIX locks of the whole process on it, those of other engines too.
    So the pins of one file are shared by all engines of the process and closed with the last of them.
    """

    _all: ClassVar[dict[tuple[int, int], tuple[list[int], int]]] = {}
    _lock = threading.Lock()

    def __init__(self, paths: Paths) -> None:
        found = os.stat(paths.database)
        self._key = (found.st_dev, found.st_ino)
        with Pins._lock:
            descriptors, users = Pins._all.get(self._key, ([], 0))
            if not users:
                descriptors = [_pin(paths.database, *_SHARED_BYTES)]
                try:
                    descriptors.append(_pin(paths.shm, *_DMS_BYTE))
                except BaseException:
                    os.close(descriptors[0])
                    raise
            Pins._all[self._key] = (descriptors, users + 1)
        self._steady = Steady(descriptors)

    def steady(self) -> Steady:
        """Nobody rebuilds the index of the WAL meanwhile. Only under the gate: the pin is one for all engines."""
        return self._steady

    def release(self) -> None:
        with Pins._lock:
            descriptors, users = Pins._all.pop(self._key)
            if users > 1:
                Pins._all[self._key] = (descriptors, users - 1)
                return
        _close(descriptors)

    @classmethod
    def forget(cls) -> None:
        """In a forked child: the locks are the parent's; only the copies of its descriptors go."""
        cls._lock = threading.Lock()
        for descriptors, _ in cls._all.values():
            _close(descriptors)
        cls._all.clear()


def _pin(path: Path, start: int, length: int) -> int:
    descriptor = open_safely(path, os.O_RDWR)
    if OFD:
        system.lock_bytes(descriptor, system.F_OFD_SETLK, system.byte_range(system.F_RDLCK, start, length))
    return descriptor


def _close(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


system.at_fork(after_in_child=Pins.forget)
