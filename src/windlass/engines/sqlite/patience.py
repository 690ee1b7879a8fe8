"""Waiting for a lock of another process, but not for ever.

`flock` waits without end, and whoever holds the gate may have been stopped: Ctrl-Z in a terminal, a debugger, a frozen
container. Asking again and again instead would starve us beside those who wait. So a thread of its own waits, and we
wait for the thread; it stays in line when we give up, and whoever asks next takes over its place.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from pathlib import Path

from windlass.core.errors import StoreUnavailable

SHORT_S = 5.0
"""How long somebody who is stopped is waited for."""
LONG_S = 60.0
"""How long somebody is waited for who may only be slow: a check of a large file, a disk that stalls."""
AT_LEAST_S = 0.25


class Patience:
    """Waits for the exclusive flock of one file. One thread at a time may ask."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.in_line = False
        """Whether the thread waits, perhaps for nobody: the lock is then only to be had through it."""
        self._mutex = threading.Lock()
        self._wanted = self._closed = False
        self._since_s = 0.0
        # Plain locks, held while there is nothing to tell: a semaphore takes three times as long.
        self._asked, self._given = threading.Lock(), threading.Lock()
        self._asked.acquire()
        self._given.acquire()
        self._thread: threading.Thread | None = None
        self._descriptor = -1
        self._error: OSError | None = None

    def wait(self, descriptor: int) -> None:
        """Returns with the lock, or says who holds it. An interrupt may leave it taken: the caller lets go."""
        try:
            self._line_up(descriptor)
            given = self._given.acquire(timeout=self._left(SHORT_S))
            if not given and not is_stopped(holder(descriptor)):
                given = self._given.acquire(timeout=self._left(LONG_S))
        except BaseException:
            self._step_back()
            raise
        if not given and not self._step_back():
            raise _held_up(self._path, descriptor)
        if self._error is not None:
            raise self._error

    def _left(self, patience_s: float) -> float:
        """What is left of it: those who come after somebody gave up do not each wait for the whole of it again."""
        return max(AT_LEAST_S, self._since_s + patience_s - time.monotonic())

    def _line_up(self, descriptor: int) -> None:
        with self._mutex:
            self._wanted, self._error = True, None
            if self.in_line:
                return
            # A number of its own: the gate may be closed, and its number another file's, while the thread waits.
            self._descriptor = os.dup(descriptor)
            self.in_line, self._since_s = True, time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._stand_in_line, name="windlass-gate", daemon=True)
            self._thread.start()
        self._asked.release()

    def _step_back(self) -> bool:
        """Nobody wants it any more; True if it was given meanwhile."""
        with self._mutex:
            self._wanted = False
            return self._given.acquire(blocking=False)

    def _stand_in_line(self) -> None:
        """The thread: one lock after another, until the gate is closed."""
        while self._asked.acquire() and self.in_line:
            error: OSError | None = None
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            except OSError as refused:
                error = refused
            with self._mutex:
                if not self._wanted:
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)
                self.forget()
                self.in_line = False
                if self._wanted:
                    self._wanted, self._error = False, error
                    self._given.release()
                if self._closed:
                    return

    def close(self) -> None:
        """Nobody will ask again. The thread ends, at once or when it gets the lock that it waits for."""
        with self._mutex:
            self._closed = True
            if self._thread is not None and not self.in_line:
                self._asked.release()

    def hold_still(self) -> None:
        """Before a fork: the thread is either in line or has nothing in hand."""
        self._mutex.acquire()

    def go_on(self) -> None:
        """After it."""
        self._mutex.release()

    def forget(self) -> None:
        """Closes the thread's descriptor; in a forked child, where there is no thread, its copy."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def holder(descriptor: int) -> int | None:
    """The process that holds the flock of that file, where the kernel tells."""
    found = os.fstat(descriptor)
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5] == place and int(fields[4]) > 0:
                return int(fields[4])
    return None


def is_stopped(pid: int | None) -> bool:
    """Whether a signal or a debugger has stopped that process, where the kernel tells."""
    with contextlib.suppress(OSError):
        # The state comes after the name, which may hold anything between its parentheses.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in {"T", "t"}
    return False


def _held_up(path: str, descriptor: int) -> StoreUnavailable:
    pid = holder(descriptor)
    if is_stopped(pid):
        return StoreUnavailable(
            f"Process {pid} was stopped in the middle of a write, and holds {path}.",
            f"Let it go on (kill -CONT {pid}) or end it.",
        )
    who = "Another process" if pid is None else f"Process {pid}"
    return StoreUnavailable(f"{who} has held {path} for {LONG_S:.0f} s.", "Wait for it, or look what keeps it.")
