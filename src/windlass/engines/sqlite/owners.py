"""Which workers live: each holds an OS lock on a file of its own, and the kernel frees it at death.

No clock and no false alarm: a stopped worker still holds its lock, a killed one has lost it a millisecond later. The
lock is taken before the worker's card is written, so a card without a held lock is a dead worker.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from windlass.core.ids import WorkerId
from windlass.engines.sqlite.files import Paths, open_safely


class Owners:
    """The locks of this engine's own workers, and a look at those of others."""

    def __init__(self, paths: Paths) -> None:
        self._folder = paths.owners
        self._held: dict[WorkerId, int] = {}

    def _path(self, worker: WorkerId) -> Path:
        return self._folder / f"{worker.hex()}.lock"

    def hold(self, worker: WorkerId) -> None:
        """Takes the worker's lock; the same worker may ask again."""
        if worker in self._held:
            return
        path = self._path(worker)
        while True:
            descriptor = open_safely(path)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # A sweeper may have unlinked the file between opening and locking it.
            try:
                in_place = os.stat(path).st_ino == os.fstat(descriptor).st_ino
            except FileNotFoundError:
                in_place = False
            if in_place:
                self._held[worker] = descriptor
                return
            os.close(descriptor)

    def release(self, worker: WorkerId) -> None:
        """The worker ends by itself: its lock and its file go."""
        descriptor = self._held.pop(worker, None)
        if descriptor is not None:
            self._path(worker).unlink(missing_ok=True)
            os.close(descriptor)

    def drop(self, worker: WorkerId) -> None:
        """What the kernel does at death: the lock is free, the file stays. For tests of death."""
        os.close(self._held.pop(worker))

    def is_dead(self, worker: WorkerId) -> bool:
        """Whether nobody holds the worker's lock."""
        if worker in self._held:
            return False
        try:
            descriptor = os.open(self._path(worker), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    def bury(self, worker: WorkerId) -> None:
        """Removes a dead worker's file."""
        if self.is_dead(worker):
            self._path(worker).unlink(missing_ok=True)

    def bury_strays(self, known: set[WorkerId]) -> None:
        """Removes files of workers that died before they had a card, or whose sweeper died before it removed them."""
        for name in os.listdir(self._folder):
            stem = name.removesuffix(".lock")
            worker = bytes.fromhex(stem) if len(stem) == 32 else b""
            if worker and worker not in known:
                self.bury(worker)

    def close(self) -> None:
        """Ends this engine's hold; cards of its workers are swept by others."""
        for worker in list(self._held):
            self.drop(worker)

    def forget(self) -> None:
        """In a forked child: the locks are the parent's, and must not outlive it here."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()
