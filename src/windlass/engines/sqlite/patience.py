"""Waiting for a lock of another process, but not for ever.

`flock` waits without end, and whoever holds the gate may have been stopped: Ctrl-Z in a terminal, a debugger, a frozen
container. Asking again and again instead would starve us beside those who wait. So a thread of its own waits, and we
wait for the thread; it stays in line when we give up, and whoever asks next takes over its place.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

from windlass.core import system
from windlass.core.errors import StoreUnavailable

SHORT_S = 5.0
"""How long somebody who is stopped is waited for."""
LONG_S = 60.0
"""How long somebody is waited for who may only be slow: a check of a large file, a disk that stalls."""
AT_LEAST_S = 0.25


class Turn:
    """Somebody who wants the lock, until it is given or not wanted any more."""

    __slots__ = ("_parked", "error")

    def __init__(self) -> None:
        self.error: OSError | None = None
        self._parked = threading.Lock()
        self._parked.acquire()

    def wait(self, seconds: float) -> bool:
        """Whether the thread has come through the line within that time, with the lock or an error."""
        return self._parked.acquire(timeout=seconds)

    def give(self, error: OSError | None) -> None:
        self.error = error
        self._parked.release()


class Patience:
    """Waits for the exclusive flock of one file. One thread at a time may ask.

    An interrupt may come at any line of the one who asks: what it leaves behind is a turn that nobody waits for.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.in_line = False
        """Whether the thread waits, perhaps for nobody: the lock is then only to be had through it."""
        self._mutex = threading.Lock()
        self._turn: Turn | None = None
        self._since_s = 0.0
        self._asked = threading.Lock()
        self._asked.acquire()
        self._thread: threading.Thread | None = None
        self._descriptor = -1
        self._closed = False

    def wait(self, descriptor: int) -> None:
        """Returns with the lock, or says who holds it. An interrupt may leave it taken: the caller lets go."""
        if not self._has_thread():
            return system.flock(descriptor, system.LOCK_EX)
        turn = Turn()
        try:
            self._line_up(turn, descriptor)
            given = turn.wait(self._left_s(SHORT_S))
            if not given and not is_stopped(holder(descriptor)):
                given = turn.wait(self._left_s(LONG_S))
            given = given or self._step_back(turn)
        except BaseException:
            self._step_back(turn)
            raise
        if not given:
            raise _held_up(self._path, descriptor, time.monotonic() - self._since_s)
        if turn.error is not None:
            raise turn.error
        return None

    def _has_thread(self) -> bool:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._stand_in_line, name="windlass-gate", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                return False  # the interpreter is about to end, or the system has no more
        return True

    def _left_s(self, patience_s: float) -> float:
        """What is left of it: those who come after somebody gave up do not each wait for the whole of it again."""
        return max(AT_LEAST_S, self._since_s + patience_s - time.monotonic())

    def _line_up(self, turn: Turn, descriptor: int) -> None:
        now_s = time.monotonic()
        with self._mutex:
            self._turn = turn
            if not self.in_line:
                self.forget()
                # A number of its own: the gate may be closed, and its number another file's, while the thread waits.
                self._descriptor = os.dup(descriptor)
                self._since_s = now_s
                self._wake()
                self.in_line = True  # last: it is true of a thread that has been woken, and of no other

    def _step_back(self, turn: Turn) -> bool:
        """It is not wanted any more; True if it was given meanwhile."""
        with self._mutex:
            waits = self._turn is turn
            if waits:
                self._turn = None
        return not waits

    def _stand_in_line(self) -> None:
        """The thread: one lock after another, until the gate is closed."""
        while self._is_asked():
            error: OSError | None = None
            try:
                system.flock(self._descriptor, system.LOCK_EX)
            except OSError as refused:
                error = refused
            with self._mutex:
                turn, self._turn = self._turn, None
                if turn is None:
                    system.flock(self._descriptor, system.LOCK_UN)
                self.forget()
                self.in_line = False
                if turn is not None:
                    turn.give(error)
                if self._closed:
                    return

    def _is_asked(self) -> bool:
        """Sleeps until it has to go; False: home."""
        while True:
            self._asked.acquire()
            with self._mutex:
                if self.in_line or self._closed:
                    return self.in_line

    def _wake(self) -> None:
        if self._asked.locked():
            self._asked.release()

    def close(self) -> None:
        """Nobody will ask again. The thread ends, at once or when it gets the lock that it waits for."""
        with self._mutex:
            self._closed = True
            self._wake()

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
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            # By the inode alone: some file systems (btrfs, overlayfs) name another device there than stat does.
            if fields[1] == "FLOCK" and fields[5].endswith(f":{found.st_ino}") and int(fields[4]) > 0:
                return int(fields[4])
    return None


def is_stopped(pid: int | None) -> bool:
    """Whether a signal or a debugger has stopped that process, where the kernel tells."""
    with contextlib.suppress(OSError):
        # The state comes after the name, which may hold anything between its parentheses.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in {"T", "t"}
    return False


def _held_up(path: str, descriptor: int, waited_s: float) -> StoreUnavailable:
    pid = holder(descriptor)
    if is_stopped(pid):
        return StoreUnavailable(
            f"Process {pid} was stopped in the middle of a write, and holds {path}.",
            f"Let it go on (kill -CONT {pid}) or end it.",
        )
    who = "Another process" if pid is None else f"Process {pid}"
    return StoreUnavailable(f"{who} has held {path} for {waited_s:.0f} s.", "Wait for it, or look what keeps it.")
