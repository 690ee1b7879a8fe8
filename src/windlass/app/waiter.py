"""Waiting for ends of jobs: pushed by the store, not polled. Two threads per app do it for all its handles.

    handle.get() ─┐                        asker: fetches what is new; the ended are answered ─────────► Future
    await handle ─┼─► watch(id) ─► Future    │ the others
    as_completed ─┘                        listener: sleeps in engine.listen(ends); a hint wakes it, it fetches
                                           those jobs that did not come along and answers for them ────► Future

Whoever waits never calls the store itself, so that a server that hangs takes nobody longer than his own timeout, and no
event loop stands still. The threads start with the first wait and go when nobody has waited for a while. The asker
rings the listener about ids that have come while it slept; should the ring be lost (it may), the listener looks by
itself a second later.

A store that cannot be reached ends no wait: the listener tries again until it is back. That it is away is logged once,
and once that it is there again. Everything else that goes wrong does not pass by waiting, and is told at once. So is a
store that cannot be reached when it is first opened: most likely its URL is wrong.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from windlass.app.asker import Asker, closed
from windlass.core.errors import StoreClosed, StoreError, StoreUnavailable
from windlass.core.ids import JobId, new_id
from windlass.core.job import ENDED, Job
from windlass.engines.protocol import BATCH, Engine, Hint, Interest, Part

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_S = 1.0
IDLE_S = 10.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 0.5
RESULT = frozenset({Part.RESULT})

Ended = Future[Job | None]
"""The job once it has ended; None where there is no such job (any more)."""


class Outage:
    """What the listener knows of a store that cannot be reached."""

    def __init__(self) -> None:
        self.since_s: float | None = None
        """When it was first missed by somebody who still waits."""
        self.lasts = False
        """Whether it was missed, and not seen since."""
        self._is_told = False
        self._pause_s = 0.0

    def failed(self, error: StoreUnavailable) -> float:
        """How long to leave the store alone.

        Its loss is told once, however many come to wait: by the engine if it does that, else when the second try fails.
        A line that is cut and comes about anew at once is not worth a word.
        """
        if self.since_s is None:
            self.since_s, self._pause_s = time.monotonic(), 0.0
        if self.lasts and not self._is_told and not error.logged:
            log.warning("%s Waiting for results goes on until the store is back.", error.message)
            self._is_told = True
        self.lasts = True
        self._pause_s = min(max(self._pause_s * 2, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        return self._pause_s

    def over(self) -> None:
        """The store has answered."""
        if self._is_told:
            log.info("The store is back; waiting for results goes on.")
        self.since_s, self.lasts, self._is_told = None, False, False

    def lose_sight(self) -> None:
        """Nobody waits any more, so nobody knows how long it will be away."""
        self.since_s = None


class Waiter:
    """Knows who waits for which job."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine
        self._opened: Engine | None = None
        self._asker = Asker()
        self._token = new_id()
        self._lock = threading.Condition()
        self._waiting: dict[JobId, list[Ended]] = {}
        self._new: deque[JobId] = deque()
        self._listened_for: set[JobId] = set()
        self._unheard = False
        """Whether there are some among these of which the listener has not been told."""
        self._thread: threading.Thread | None = None
        self._asleep: Engine | None = None
        """The store in which the listener sleeps."""
        self._overhears = False
        """Whether the store may still tell of ends for which nobody waits any more."""
        self._outage = Outage()
        self._closing = threading.Event()

    def watch(self, ids: Iterable[JobId]) -> list[Ended]:
        """A future each, answered when the job has ended. Returns at once, whatever the store does."""
        futures: list[Ended] = []
        with self._lock:
            if self._closing.is_set():
                raise closed()
            for job_id in ids:
                future: Ended = Future()
                if job_id not in self._waiting:
                    self._new.append(job_id)
                self._waiting.setdefault(job_id, []).append(future)
                futures.append(future)
            is_new = bool(self._new)
        if is_new:
            # Asked even where that was done before: whoever was to do it may have been interrupted just here.
            self._asker.ask(self._look_at_new)
        return futures

    def forget(self, job_id: JobId, future: Ended) -> None:
        """Whoever gave up waiting is not answered any more."""
        with self._lock:
            left = [one for one in self._waiting.get(job_id, ()) if one is not future]
            if left:
                self._waiting[job_id] = left
            else:
                self._drop(job_id)

    def last_look(self, ids: Sequence[JobId], then: Callable[[Engine], T]) -> T:
        """Looks at these jobs once more, for whoever has waited long enough, and answers for those that have ended.

        Then asks the store something else. `StoreUnavailable` if it cannot be reached or does not answer soon.
        """
        try:
            return self._asker.wait(self._ask_last(ids, then))
        except StoreUnavailable as error:
            raise self._since(error) from None

    async def last_look_in_loop(self, ids: Sequence[JobId], then: Callable[[Engine], T]) -> T:
        """The same for a coroutine."""
        try:
            return await self._asker.wait_in_loop(self._ask_last(ids, then))
        except StoreUnavailable as error:
            raise self._since(error) from None

    def _ask_last(self, ids: Sequence[JobId], then: Callable[[Engine], T]) -> Future[T]:
        def look() -> T:
            engine = self._store()
            self._look(engine, ids)
            return then(engine)

        return self._asker.ask(look)

    def _since(self, error: StoreUnavailable) -> StoreUnavailable:
        """The error; where it is known since when the store has been away, it says that too."""
        since_s = self._outage.since_s
        if since_s is None:
            return error
        away_s = time.monotonic() - since_s
        return StoreUnavailable(f"The store has been out of reach for {away_s:.1f} s: {error.message}", error.todo)

    def close(self) -> None:
        """Sends everybody away who still waits."""
        for futures in self.stop().values():
            _refuse(futures, closed())

    def stop(self) -> Mapping[JobId, list[Ended]]:
        """Ends the threads; gives those who still wait, for nobody will answer them."""
        with self._lock:
            self._closing.set()
            waiting, self._waiting = self._waiting, {}
            self._listened_for.clear()
            asleep, listener = self._asleep, self._thread
            self._lock.notify()
        asker = self._asker.stop(_nothing if asleep is None else lambda: self._ring(asleep))
        until_s = time.monotonic() + LOOK_S * 2
        for thread in (listener, asker):
            if thread is not None and thread is not threading.current_thread():
                thread.join(max(0.0, until_s - time.monotonic()))
        return waiting

    # ── the asker ───────────────────────────────────────────────────────────────────────────────────────

    def _store(self) -> Engine:
        """Asked for once: after a close it would be opened anew."""
        if self._opened is None:
            self._opened = self._engine()
        return self._opened

    def _look_at_new(self) -> None:
        with self._lock:
            some = [self._new.popleft() for _ in range(min(BATCH, len(self._new)))]
            # Whoever gave up and came back is there twice.
            new = [job_id for job_id in dict.fromkeys(some) if job_id in self._waiting]
            if self._new:
                # Behind those who have asked meanwhile: they must not take many jobs for a silent store.
                with suppress(StoreClosed):
                    self._asker.ask(self._look_at_new)
        if not new and not self._unheard:
            return
        try:
            engine = self._store()
            with suppress(StoreUnavailable):  # the listener waits for it, and hears of all that have ended
                self._look(engine, new)
            self._listen_for(engine, new)
        except Exception as error:
            self._fail(new, error)

    def _listen_for(self, engine: Engine, ids: Sequence[JobId]) -> None:
        """Hands those that have not ended over to the listener."""
        with self._lock:
            left = [job_id for job_id in ids if job_id in self._waiting]
            self._listened_for.update(left)
            self._unheard = self._unheard or bool(left)
            if self._new or not self._unheard:
                return  # it is rung about all of them at once, with the last
            self._unheard = False
            if self._thread is None:
                thread = threading.Thread(target=self._run, args=(engine,), name="windlass-waiter", daemon=True)
                thread.start()
                self._thread = thread
            self._lock.notify()
            asleep = self._asleep
        if asleep is not None:
            self._ring(asleep)

    def _ring(self, engine: Engine) -> None:
        with suppress(StoreError):
            engine.signal([Hint(kind="order", id=self._token)])

    # ── the listener ────────────────────────────────────────────────────────────────────────────────────

    def _run(self, engine: Engine) -> None:
        while (ends := self._next(engine)) is not None:
            try:
                self._hear(engine, ends)
            except StoreUnavailable as error:
                self._closing.wait(self._outage.failed(error))
            except Exception as error:
                self._fail(ends, error)
            else:
                self._outage.over()

    def _next(self, engine: Engine) -> frozenset[JobId] | None:
        """For whose ends to listen; None when nobody has waited for a while."""
        with self._lock:
            if not self._listened_for:
                self._outage.lose_sight()
                if self._overhears and not self._closing.is_set():
                    self._overhears = False
                    return frozenset()
                if not self._closing.is_set():
                    self._lock.wait(IDLE_S)
            if not self._listened_for:
                self._thread = None
                return None
            self._asleep = engine
            return frozenset(self._listened_for)

    def _hear(self, engine: Engine, ends: frozenset[JobId]) -> None:
        # In an outage it does not sleep there: that the store is back is to be known at once. Nor where nobody waits
        # any more: that is only to say so, for ends that nobody reads would be told and kept there.
        wait_s = 0.0 if self._outage.lasts or not ends else LOOK_S
        try:
            hints = engine.listen(Interest(ends=ends, worker=self._token), wait_s)
        finally:
            self._asleep = None
        ended = {hint.id: hint.job for hint in hints if hint.kind == "end" and hint.id is not None}
        self._overhears = not ended.keys() >= ends
        for job_id, job in ended.items():
            if job is not None:
                self._answer(job_id, job)
        self._look(engine, [job_id for job_id, job in ended.items() if job is None])

    # ── answers ─────────────────────────────────────────────────────────────────────────────────────────

    def _look(self, engine: Engine, ids: Sequence[JobId]) -> None:
        """Answers for those of the jobs that have ended."""
        for start in range(0, len(ids), BATCH):
            part = ids[start : start + BATCH]
            for job_id, job in zip(part, engine.fetch(part, RESULT), strict=True):
                if job is None or (job.record is not None and job.record.state in ENDED):
                    self._answer(job_id, job)

    def _answer(self, job_id: JobId, job: Job | None) -> None:
        with self._lock:
            futures = self._drop(job_id)
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_result(job)

    def _fail(self, ids: Collection[JobId], error: Exception) -> None:
        """Whoever waits for one of these is told, rather than left waiting for what will not pass."""
        with self._lock:
            waiting = [self._drop(job_id) for job_id in ids]
        for futures in waiting:
            _refuse(futures, error)

    def _drop(self, job_id: JobId) -> list[Ended]:
        self._listened_for.discard(job_id)
        return self._waiting.pop(job_id, [])


def _nothing() -> None:
    """The asker's last question, where nobody is to be rung."""


def _refuse(futures: Iterable[Ended], error: Exception) -> None:
    for future in futures:
        if future.set_running_or_notify_cancel():
            future.set_exception(error)
