"""The terminal, and what is pressed there: Ctrl-C reaches the demo and nobody else."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def can_draw() -> bool:
    """Whether somebody looks at a screen that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in {"dumb", "unknown", ""}


@contextmanager
def asked_to_stop() -> Generator[threading.Event]:
    """Set when a signal asks for the end."""
    asked = threading.Event()

    def ask(_number: int, _frame: object) -> None:
        asked.set()

    heard = [*ENDING]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        heard.remove(signal.SIGHUP)  # nohup
    before = {number: signal.signal(number, ask) for number in heard}
    try:
        with _in_front():
            yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _in_front() -> Generator[None]:
    """Makes us the terminal's foreground group of our own.

    Ctrl-C goes to everybody of that group. `make` would end with an error after it, however well we end.
    """
    theirs = os.getpgrp()
    if not _is_in_front(theirs) or theirs == os.getpid():
        yield
        return
    # Whoever is not in front may not move who is; and stopped by Ctrl-Z alone, we would leave `make` waiting.
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTTOU, signal.SIGTSTP)}
    os.setpgid(0, 0)
    os.tcsetpgrp(sys.stdin.fileno(), os.getpgrp())
    try:
        yield
    finally:
        with suppress(OSError):  # the terminal may be gone, or they
            os.tcsetpgrp(sys.stdin.fileno(), theirs)
            os.setpgid(0, theirs)
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_in_front(group: int) -> bool:
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == group
    except (OSError, ValueError):  # no terminal, or no stdin at all
        return False
