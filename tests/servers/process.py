"""The process of a server: started, stopped, killed, frozen. It never outlives the one that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.soak.waiting import HANG_S
from windlass.core.system import start_apart

# A process of ours becomes the server: between fork and exec nothing may be run in a process with threads.
LAUNCH = """
import os, sys
from windlass.core.system import die_with_parent
die_with_parent(int(sys.argv[1]))
os.execv(sys.argv[2], sys.argv[2:])
"""
# Linux kills the server when the thread that started it ends, so all are started by one that never does.
_starter = ThreadPoolExecutor(1, "servers")


class ServerProcess:
    """One running process, known by its pid alone."""

    def __init__(self, command: Sequence[str]) -> None:
        whole = [sys.executable, "-c", LAUNCH, str(os.getpid()), *command]
        self._process: subprocess.Popen[bytes] = _starter.submit(start_apart, whole, fds=()).result()
        self._is_frozen = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def is_awake(self) -> bool:
        """Neither ended nor frozen."""
        return not self._is_frozen and not self.has_ended()

    def stop(self) -> None:
        """Asks it to end, and waits; what it was going to write is written."""
        self.thaw()
        self._end_by(signal.SIGTERM)

    def kill(self) -> None:
        self._end_by(signal.SIGKILL)

    def freeze(self) -> None:
        """It keeps its sockets and answers nothing."""
        self._is_frozen = True
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self._is_frozen = False

    def _end_by(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        self._process.wait(HANG_S)
