"""Locks that the kernel frees when their holder dies: files, each held by the process that it stands for.

A file is removed only by one who holds its lock, and a lock counts only if its file is still in place: so nobody can
take the file of a living holder away, or hold a lock that others do not see.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from windlass.core import system
from windlass.core.ids import JobId, WorkerId


def take(descriptor: int) -> bool:
    """Takes the lock of an open file if it is free."""
    try:
        system.flock(descriptor, system.LOCK_EX | system.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_in_place(path: Path, descriptor: int) -> bool:
    """Whether the file is still the one that its path names: somebody may have removed it before we had its lock."""
    try:
        return os.lstat(path).st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


class Held(NamedTuple):
    """A lock that is held."""

    descriptor: int
    path: Path

    def release(self) -> None:
        """Whoever it stands for has ended."""
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)

    def leave(self) -> None:
        """To those who still hold it."""
        os.close(self.descriptor)


class ClaimLocks:
    """Locks of single claims, for what may go on for a while after its worker's death, as a script may.

    Its file says until when that counts, for one that never ends must not keep its job for ever.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def hold(self, worker: WorkerId, job: JobId, until_us: int | None, now_us: int) -> Held | None:
        """The claim's lock, held by its descriptor and every copy of that; None: somebody holds it already."""
        path = self._folder / f"{worker.hex()}-{job.hex()}.lock"
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | system.O_SAFE, 0o600)
            try:
                if not take(descriptor):
                    if not _is_past(descriptor, now_us):
                        os.close(descriptor)
                        return None
                    path.unlink(missing_ok=True)  # whoever holds it has had its time
                    os.close(descriptor)
                    continue
                if is_in_place(path, descriptor):
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{until_us or 0}\n".encode())
                    return Held(descriptor, path)
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def held(self, worker: WorkerId, now_us: int) -> set[JobId]:
        """The jobs of a dead worker that still go on. The files of the others are removed."""
        found = [name for name in self._names() if name.startswith(worker.hex())]
        return {bytes.fromhex(name[33:65]) for name in found if not self._is_over(self._folder / name, now_us)}

    def clear(self, living: set[WorkerId]) -> None:
        """Removes what workers have left that nobody knows any more."""
        for name in self._names():
            if bytes.fromhex(name[:32]) not in living:
                self._is_over(self._folder / name, 0)

    def _names(self) -> list[str]:
        try:
            found = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        return [name for name in found if len(name) == 70 and name.endswith(".lock")]

    @staticmethod
    def _is_over(path: Path, now_us: int) -> bool:
        """Whether nobody holds it, and so it goes; or its time is over."""
        try:
            descriptor = os.open(path, os.O_RDWR | system.O_SAFE)
        except FileNotFoundError:
            return True
        try:
            if take(descriptor):
                if is_in_place(path, descriptor):
                    path.unlink()
                return True
            return _is_past(descriptor, now_us)
        finally:
            os.close(descriptor)


def _is_past(descriptor: int, now_us: int) -> bool:
    """Whether the time is over that stands in the file; 0: it never is."""
    try:
        until_us = int(system.pread(descriptor, 32, 0))
    except ValueError:  # it is being written
        return False
    return 0 < until_us <= now_us
