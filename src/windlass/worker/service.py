"""What every loop of a worker is: a name, a thread, and one step at a time.

    start()  starts its thread          ready  is set after its first step that worked
    tick(now_us)  one step; gives how many seconds until the next one, None: until somebody wakes it
    wake()   the next step is now       stop()  no further step; returns when the last one is over

A step that fails because the store cannot be reached is tried again, each time a little later; the loops of a worker
share one `outage`, which is logged once. Tests call `tick` themselves, with a time of their own, and start no thread.
"""

from __future__ import annotations

import logging
import threading
import time

from windlass.core.clock import Clock
from windlass.core.errors import StoreError, WorkerError
from windlass.worker.outage import Outage

log = logging.getLogger("windlass.worker")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 0.5
"""A store that is back is noticed so soon; engines over a network pace their own connecting besides."""
VIGIL_US = 200_000


class Bell:
    """An event for one sleeper, rung by anybody.

    Ringing is one call into C, so it happens whole or not at all. Tasks ring when they log: an interruption that hits
    one inside `threading.Event.set` can leave its lock taken for ever.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            pass  # it rings already

    def clear(self) -> None:
        self._lock.acquire(blocking=False)

    def wait(self, timeout_s: float | None = None) -> None:
        """Sleeps until it rings, and silences it."""
        self._lock.acquire(timeout=-1 if timeout_s is None else timeout_s)


class Vigil:
    """How one who looks again and again while there is work knows when to sleep, and others whether to wake it.

    It goes on for a while after the last work: under a stream of jobs nobody wakes it for each of them, which would
    take the processor from the job just as that is to start.
    """

    def __init__(self, look_s: float) -> None:
        self._look_s = look_s
        self._until_us = 0
        self.is_over = True
        """Whether it has to be woken for what comes now."""

    def look(self) -> None:
        """It looks from now on: whoever brings something after that, and is not seen, wakes it."""
        self.is_over = True

    def next_s(self, now_us: int, *, is_busy: bool) -> float | None:
        """When to look again; None: when somebody wakes it."""
        if is_busy:
            self._until_us = now_us + VIGIL_US
        self.is_over = now_us >= self._until_us
        return None if self.is_over else self._look_s


class Service:
    """One loop of a worker."""

    name = "service"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bell = Bell()
        self._thread: threading.Thread | None = None
        self._pause_s = 0.0
        self.outage = Outage()
        self.stepped_us = 0
        """When its last step began, by the monotonic clock; 0: it has not begun."""
        self.ready = threading.Event()
        self.stopping = False

    def tick(self, now_us: int) -> float | None:
        """One step; the seconds until the next, None: until woken."""
        raise NotImplementedError

    def is_back(self) -> bool:
        """Whether a step that worked shows that the store is there again: not every step asks it."""
        return True

    def rest(self, pause_s: float | None) -> None:
        """Sleeps until the next step is due."""
        self._bell.wait(pause_s)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._loop, name=f"windlass-{self.name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """The next step is now."""
        self._bell.ring()

    def rouse(self) -> None:
        """Wakes it wherever it sleeps."""
        self.wake()

    def stop(self, timeout_s: float | None = None) -> None:
        """No further step; returns when the last one is over."""
        self.stopping = True
        self.rouse()
        if self._thread is None or self._thread is threading.current_thread():
            return
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while self._thread.is_alive() and (until_s is None or time.monotonic() < until_s):
            # Again and again: it may have been on its way to sleep when it was roused.
            self.rouse()
            self._thread.join(0.05)

    @property
    def alive(self) -> bool:
        """Whether its thread still runs."""
        return self._thread is not None and self._thread.is_alive()

    def _loop(self) -> None:
        while not self.stopping:
            self._bell.clear()
            pause_s = self._step()
            if not self.stopping and pause_s != 0:
                self._sleep(pause_s)

    def _sleep(self, pause_s: float | None) -> None:
        try:
            self.rest(pause_s)
        except BaseException as error:  # as of a step: what a store publishes must not end a loop
            if not self.stopping:
                self._bell.wait(self._failed(error))

    def _step(self) -> float | None:
        self.stepped_us = self._clock.monotonic_us()
        try:
            pause_s = self.tick(self.stepped_us)
        except BaseException as error:  # SystemExit of a hook included: the loop must live on
            if self.stopping:
                return 0
            return self._failed(error)
        if self._pause_s and self.is_back():
            self.outage.ends(self.name)
            self._pause_s = 0.0
        self.ready.set()
        return pause_s

    def _failed(self, error: BaseException) -> float:
        if isinstance(error, (StoreError, WorkerError)):
            self.outage.begins(self.name, error)
        elif not self._pause_s:
            # Once: what goes wrong for an hour must not fill the disk with tracebacks.
            log.exception("The %s failed; it tries again.", self.name)
        self._pause_s = min(max(self._pause_s * 2, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        return self._pause_s
