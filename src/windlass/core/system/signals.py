"""Signals that ask a process to end: which they are, and how a process leaves them to another."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Collection


def ending_signals() -> list[signal.Signals]:
    """What asks a process to end: a person, a process manager, and a terminal that is closed unless that is ignored, as
    under nohup. The others count even so: a shell starts what runs in its background with SIGINT ignored.
    """
    found = [signal.SIGINT, signal.SIGTERM]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        found.append(signal.SIGHUP)
    return found


def leave_unheeded(numbers: Collection[signal.Signals]) -> None:
    """These signals do nothing in this process from now on, but all in processes that are forked or started by it.

    So they are not ignored, which programs would inherit. A forked process is given the usual handlers before any
    signal can reach it: `multiprocessing` ends its processes by one as soon as it likes.
    """
    for number in numbers:
        signal.signal(number, _do_nothing)
    if sys.platform == "win32":
        return
    masks: dict[int, set[int | signal.Signals]] = {}

    def block() -> None:
        masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop(threading.get_ident(), set()))

    def heed() -> None:
        for number in numbers:
            if signal.getsignal(number) is _do_nothing:
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=heed)


def _do_nothing(_number: int, _frame: object) -> None:
    """Somebody else hears it, and says what to do."""
