"""What a working process is asked to do: by signals, or by whoever reaches its store."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from windlass.core.errors import BadValue
from windlass.core.system import ending_signals

EMPTY_LOOK_S = 0.2
"""How often a worker that stops when nothing is left looks whether that is so."""
LOOK_S = 1.0
"""How long a signal may go unheard. The kernel may give it to any thread, and does after a stop (SIGSTOP, Ctrl-Z, a
frozen container); Python acts on it in the main thread, which sleeps on unless it looks by itself."""


class Asked:
    """Words, one after the other. A signal handler may put one: the queue's own code is C, and whole."""

    def __init__(self) -> None:
        self._words: SimpleQueue[str] = SimpleQueue()

    def put(self, word: str) -> None:
        self._words.put(word)

    @property
    def has_words(self) -> bool:
        return not self._words.empty()

    def next(self, timeout_s: float) -> str | None:
        """The next word; None: none came in time."""
        try:
            return self._words.get(timeout=timeout_s)
        except Empty:
            return None

    def leave_to_the_kernel(self) -> None:
        """From now on a signal ends the process at once, whatever Python waits for."""
        # The kernel gives process 1 no signal that it does not handle itself.
        handler = signal.SIG_DFL if os.getpid() != 1 else _end_at_once
        for number in ending_signals():
            signal.signal(number, handler)


def _end_at_once(number: int, _frame: object) -> None:
    os._exit(128 + number)


@contextmanager
def hearing_signals() -> Generator[Asked]:
    """Within it, SIGINT, SIGTERM and SIGHUP (but not under nohup) are the word `stop`."""
    if threading.current_thread() is not threading.main_thread():
        raise BadValue(
            "Worker.run() works until a signal comes, and Python hears signals in the main thread only.",
            "Call it there; in another thread use `with Worker(app):`, or start() and stop().",
        )
    asked = Asked()
    before = {number: signal.getsignal(number) for number in ending_signals()}
    for number in before:
        signal.signal(number, lambda _number, _frame: asked.put("stop"))
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
