"""Waiting for ends of jobs: pushed by the store, not polled. One thread per app waits for all its handles.

    handle.get() ─► watch(id) ─► Future          the thread: fetch what is new, then sleep in engine.listen(ends);
    await handle ─► watch(id) ─► Future          a hint wakes it, it fetches those jobs and answers their futures

The thread starts with the first wait and goes when nobody has waited for a while. Whoever adds an id while it sleeps
rings it; should the ring be lost (it may), the thread looks by itself a second later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress

from windlass.core.errors import StoreClosed, StoreError
from windlass.core.ids import JobId, new_id
from windlass.core.job import ENDED, Job
from windlass.engines.protocol import BATCH, Engine, Hint, Interest, Part

LOOK_S = 1.0
IDLE_S = 10.0
RESULT = frozenset({Part.RESULT})

Ended = Future[Job | None]
"""The job once it has ended; None where there is no such job (any more)."""


class Waiter:
    """Knows who waits for which job."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine
        self._token = new_id()
        self._lock = threading.Condition()
        self._waiting: dict[JobId, list[Ended]] = {}
        self._new: list[JobId] = []
        self._thread: threading.Thread | None = None
        self._asleep = False
        self._closed = False

    def watch(self, ids: Iterable[JobId]) -> list[Ended]:
        """A future each, answered when the job has ended."""
        futures: list[Ended] = []
        with self._lock:
            if self._closed:
                raise StoreClosed("The app was closed.", "Keep it open while you wait for results.")
            for job_id in ids:
                future: Ended = Future()
                if job_id not in self._waiting:
                    self._new.append(job_id)
                self._waiting.setdefault(job_id, []).append(future)
                futures.append(future)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="windlass-waiter", daemon=True)
                self._thread.start()
            self._lock.notify()
            asleep = self._asleep
        if asleep:
            self._ring()
        return futures

    def _ring(self) -> None:
        with suppress(StoreError):
            self._engine().signal([Hint(kind="order", id=self._token)])

    def forget(self, job_id: JobId, future: Ended) -> None:
        """Whoever gave up waiting is not answered any more."""
        with self._lock:
            left = [one for one in self._waiting.get(job_id, ()) if one is not future]
            if left:
                self._waiting[job_id] = left
            else:
                self._waiting.pop(job_id, None)

    def close(self) -> None:
        """Sends everybody away who still waits."""
        _refuse(self.stop(), StoreClosed("The app was closed.", "Keep it open while you wait for results."))

    def stop(self) -> Mapping[JobId, list[Ended]]:
        """Ends the thread; gives those who still wait, for nobody will answer them."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, {}
            asleep, thread = self._asleep, self._thread
            self._lock.notify()
        if asleep:
            self._ring()
        if thread is not None and thread is not threading.current_thread():
            thread.join(LOOK_S * 2)
        return waiting

    # ── the thread ──────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting and not self._closed:
                    self._lock.wait(IDLE_S)
                if not self._waiting or self._closed:
                    self._thread = None
                    return
                new, self._new = self._new, []
                self._asleep = not new
                ends = frozenset(self._waiting)
            try:
                if not new:
                    hints = self._engine().listen(Interest(ends=ends, worker=self._token), LOOK_S)
                    self._asleep = False
                    new = [hint.id for hint in hints if hint.kind == "end" and hint.id is not None]
                self._look(new)
            except Exception as error:
                self._fail(error)

    def _look(self, ids: Sequence[JobId]) -> None:
        """Answers for those of the jobs that have ended."""
        for start in range(0, len(ids), BATCH):
            part = ids[start : start + BATCH]
            for job_id, job in zip(part, self._engine().fetch(part, RESULT), strict=True):
                if job is None or (job.record is not None and job.record.state in ENDED):
                    self._answer(job_id, job)

    def _answer(self, job_id: JobId, job: Job | None) -> None:
        with self._lock:
            futures = self._waiting.pop(job_id, [])
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_result(job)

    def _fail(self, error: Exception) -> None:
        """The store cannot be reached: whoever waits is told, rather than left waiting for an outage to end."""
        with self._lock:
            waiting, self._waiting, self._new, self._asleep = self._waiting, {}, [], False
        _refuse(waiting, error)


def _refuse(waiting: Mapping[JobId, list[Ended]], error: Exception) -> None:
    for futures in waiting.values():
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
