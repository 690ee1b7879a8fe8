"""Tasks in threads: as many slots as threads. With one slot it is the pool `solo`.

Stopping a task in a thread is possible in one way only: an exception that the interpreter raises at the thread's next
bytecode. It must hit the task and nothing else. So a slot is *armed* only while the function runs, and the exception is
set under the slot's lock, only while it is armed; after the function the slot takes the lock, disarms, and withdraws an
exception that has not arrived yet. One that arrives in between is caught and counts as the end of the task. A task that
sits in C code, in a sleep or a socket, gets it when it comes back: until then its slot stays taken. One that was asked
for before the slot was armed, while arguments were decoded, is raised instead of calling the function.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from windlass.app.context import current
from windlass.app.endings import Interrupted
from windlass.core.clock import Clock
from windlass.engines.protocol import Claim, Settlement
from windlass.worker.desk import Run
from windlass.worker.executor import Executor
from windlass.worker.pools.pool import OneKind, Settle
from windlass.worker.staff import Office

LAST_STEPS_S = 1.0
"""How long a thread without a task may take to end: it only has to hand over what it has."""

_set_async_exc = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_async_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)
_clear_async_exc = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)(
    ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
)


class Slot:
    """One thread's place for a running task."""

    __slots__ = ("_lock", "_pending", "_run", "_sent", "_shields", "_thread")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._run: Run | None = None
        self._sent = False
        self._shields = 0
        self._pending: type[Interrupted] | None = None

    # ── the shield: inside a store's own code a task must not be hit, or locks stay taken for ever ──────

    def __enter__(self) -> None:
        with self._lock:
            self._shields += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._shields -= 1
            pending = None if self._shields else self._pending
            self._pending = self._pending if self._shields else None
        if pending is not None:
            raise pending

    # ── the call ────────────────────────────────────────────────────────────────────────────────────────

    def call(self, run: Run, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Calls the function; an interruption can reach it from its first to its last bytecode, and nothing after."""
        error: BaseException | None = None
        value: Any = None
        try:
            try:
                self._arm(run)
                value = function(*args, **kwargs)
            except BaseException as raised:
                error = raised
            self._disarm()
        except Interrupted as late:
            # It came at the last moment. A run is sent one at most, so this time nothing can come between.
            error = error or late
            self._disarm()
        if error is not None:
            raise error
        return value

    def _arm(self, run: Run) -> None:
        with self._lock:
            if run.asked is not None:
                raise run.asked
            self._run = run
            self._shields, self._pending = 0, None

    def _disarm(self) -> None:
        with self._lock:
            self._run = None
            sent, self._sent = self._sent, False
        if sent:
            _clear_async_exc(self._thread, None)

    def interrupt(self, run: Run, why: type[Interrupted]) -> None:
        """Raises the exception in the task, if it still runs here."""
        with self._lock:
            if self._run is run and not self._sent:
                self._sent = True
                if self._shields:
                    self._pending = why
                else:
                    _set_async_exc(self._thread, why)

    @property
    def taken(self) -> bool:
        """Whether a task runs here."""
        return self._run is not None


class ThreadPool(OneKind):
    """So many threads, each calling one task at a time."""

    kind = False

    def __init__(self, slots: int, office: Office, executor: Executor, settle: Settle, clock: Clock) -> None:
        super().__init__(slots, office, executor, settle, clock)
        self._queue: SimpleQueue[Claim | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._slots: dict[threading.Thread, Slot] = {}
        self._low = -1

    def start(self) -> None:
        for number in range(self.slots):
            thread = threading.Thread(target=self._loop, name=f"windlass-slot-{number + 1}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def put(self, claims: tuple[Claim, ...]) -> None:
        self.room.enter(claims)
        # Asked for more when half of these are taken.
        self._low = len(claims) // 2
        for claim in claims:
            self._queue.put(claim)

    def waiting(self) -> int:
        return self._queue.qsize()

    def take_back(self) -> list[Claim]:
        taken: list[Claim] = []
        while True:
            try:
                claim = self._queue.get_nowait()
            except Empty:
                return taken
            if claim is None:
                self._queue.put(None)
                return taken
            self.room.leave(claim)
            taken.append(claim)

    def stop(self) -> None:
        """Ends the threads and waits for those that are free; one whose task still runs ends after it."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            slot = self._slots.get(thread)
            if slot is None or not slot.taken:
                thread.join(LAST_STEPS_S)

    # ── a slot ──────────────────────────────────────────────────────────────────────────────────────────

    def _loop(self) -> None:
        slot, queue = Slot(), self._queue
        self._slots[threading.current_thread()] = slot
        while True:
            try:
                claim = queue.get_nowait()
            except Empty:
                self._office.hungry()
                claim = queue.get()
            if claim is None:
                return
            if queue.qsize() == self._low:
                self._office.hungry()
            self._run(slot, claim)

    def _run(self, slot: Slot, claim: Claim) -> None:
        """One claim from its start to its settlement; whatever fails, the slot lives on and the claim has an end."""
        try:
            end = self._attempt(slot, claim)
        except BaseException as error:
            end = self._executor.broken(claim, error)
        self._hand_over(end, claim)

    def _attempt(self, slot: Slot, claim: Claim) -> Settlement:
        run = self._begin(claim, slot.interrupt, slot)
        if not isinstance(run, Run):
            return run
        token = current.set(run.context)
        error: BaseException | None = None
        value: Any = None
        try:
            args, kwargs = self._executor.bind(run)
            value = slot.call(run, run.task.function, args, kwargs)
        except BaseException as raised:
            error = raised
        current.reset(token)
        return self._end(run, value, error)
