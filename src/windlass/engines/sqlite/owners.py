"""Which workers live: each holds an OS lock on a file of its own, and the kernel frees it at death.

No clock and no false alarm: a stopped worker still holds its lock, a killed one has lost it a millisecond later. The
lock is taken before the worker's card is written, so a card without a held lock is a dead worker.
How such files are held and removed: engines/locks.py.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from windlass.core import system
from windlass.core.errors import StoreClosed, WorkerGone
from windlass.core.ids import WorkerId
from windlass.engines.locks import is_in_place, take
from windlass.engines.sqlite.files import Paths, open_safely

PATIENCE_S = 1.0
"""How long a worker waits for its lock: a sweeper that looks whether it is dead holds it for some microseconds."""
PAUSE_S = 0.001


class Owners:
    """The locks of this engine's own workers, and a look at those of others."""

    def __init__(self, paths: Paths) -> None:
        self._folder = paths.owners
        self._held: dict[WorkerId, int] = {}
        self._lock = threading.Lock()
        self._closed = False

    def _path(self, worker: WorkerId) -> Path:
        return self._folder / f"{worker.hex()}.lock"

    def hold(self, worker: WorkerId) -> None:
        """Takes the worker's lock; the same worker may ask again, and does at every beat."""
        if worker in self._held:
            return
        with self._lock:
            if self._closed:
                raise StoreClosed("The engine was closed.", "Open it again.")
            if worker not in self._held:
                self._held[worker] = self._take(worker)

    def _take(self, worker: WorkerId) -> int:
        path, deadline = self._path(worker), time.monotonic() + PATIENCE_S
        while True:
            descriptor = open_safely(path)
            try:
                if take(descriptor) and is_in_place(path, descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
            if time.monotonic() > deadline:
                raise WorkerGone(f"Another process holds this worker id: {worker.hex()}.", "Take a new id.")
            time.sleep(PAUSE_S)

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
        return self._probe(worker, bury=False)

    def bury(self, worker: WorkerId) -> None:
        """Removes a dead worker's file."""
        self._probe(worker, bury=True)

    def _probe(self, worker: WorkerId, *, bury: bool) -> bool:
        """Whether the worker is dead; if so, its file may go while we hold its lock."""
        if worker in self._held:
            return False
        path = self._path(worker)
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | system.O_SAFE)
            except FileNotFoundError:
                return True
            try:
                if not take(descriptor):
                    return False
                if is_in_place(path, descriptor):
                    if bury:
                        path.unlink()
                    return True
            finally:
                os.close(descriptor)

    def bury_strays(self, known: set[WorkerId]) -> None:
        """Removes files of workers that died before they had a card, or whose sweeper died before it removed them."""
        for name in os.listdir(self._folder):
            stem = name.removesuffix(".lock")
            worker = bytes.fromhex(stem) if len(stem) == 32 else b""
            if worker and worker not in known:
                self.bury(worker)

    def close(self) -> None:
        """Ends this engine's hold; cards of its workers are swept by others."""
        with self._lock:
            self._closed = True
            for worker in list(self._held):
                self.drop(worker)

    def forget(self) -> None:
        """In a forked child: the locks are the parent's, and must not outlive it here."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()
