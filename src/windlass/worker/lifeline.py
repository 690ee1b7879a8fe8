"""A process that another one has started ends when that process does, in whatever way it ends.

The starter keeps the one end of a pipe and never writes to it; the started one reads from the other. The kernel closes
the starter's end at its death, kill -9 included, and the read returns: no polling, no clock, the same on Linux and
macOS.
"""

from __future__ import annotations

import os
import signal
import threading
import time

from windlass.core import system


def hold_on_to(descriptor: int, patience_s: float) -> None:
    """From now on the end of whoever holds the other end of the pipe is a SIGTERM to this process, then its end."""
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_wait, args=(descriptor, patience_s), name="lifeline", daemon=True).start()


def _wait(descriptor: int, patience_s: float) -> None:
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(patience_s)
    os.kill(os.getpid(), system.SIGKILL)
