"""Questions to the store, put by one thread for those who may not wait for it: it may take longer than they have.

A server that hangs answers no question, and its driver notices that seconds later. So whoever has less time than that
hands the question over and waits for the answer as long as it wants to. An event loop does not wait at all.

The thread starts with the first question and goes when nobody has asked for a while.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from windlass.core.errors import StoreClosed, StoreUnavailable

T = TypeVar("T")

Asked = tuple[Callable[[], Any], Future[Any]]

IDLE_S = 10.0
PATIENCE_S = 2.0
"""A store that has left a question unanswered for so long is silent."""


class Asker:
    """Puts questions one after the other, in the order in which they were asked."""

    def __init__(self) -> None:
        self._questions: SimpleQueue[Asked] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._put_s: float | None = None
        """When the question was put that the store has not answered yet."""
        self._stopped = False

    def ask(self, question: Callable[[], T]) -> Future[T]:
        """Its answer, or its error; a question whose future is cancelled before its turn is not put."""
        answer: Future[T] = Future()
        with self._lock:
            if self._stopped:
                raise closed()
            has_thread = self._has_thread()
            if has_thread:
                self._questions.put((question, answer))
        if not has_thread and answer.set_running_or_notify_cancel():
            self._put(question, answer)
        return answer

    def wait(self, answer: Future[T]) -> T:
        """What the store said, soon; `StoreUnavailable` if it is silent."""
        try:
            return answer.result(self._patience_s())
        except TimeoutError:
            if not answer.cancel() and answer.done():
                return answer.result()  # it came just now
            raise _silent() from None

    async def wait_in_loop(self, answer: Future[T]) -> T:
        """The same for a coroutine."""
        import asyncio

        try:
            return await asyncio.wait_for(asyncio.wrap_future(answer), self._patience_s())
        except TimeoutError:
            raise _silent() from None

    def _patience_s(self) -> float:
        """How long the store may still take: what it owes an answer to already is counted."""
        put_s = self._put_s
        return PATIENCE_S if put_s is None else max(0.0, put_s + PATIENCE_S - time.monotonic())

    def stop(self, last: Callable[[], object]) -> threading.Thread | None:
        """Puts no question any more but this last one; gives the thread, which ends as soon as the store lets it."""
        with self._lock:
            self._stopped = True
            dropped = self._drain()
            thread = self._thread
            if thread is not None:
                self._questions.put((last, Future()))
        if thread is None:
            last()  # here: it would have to be started anew, which at the end of a process cannot be done
        for _, answer in dropped:
            if answer.set_running_or_notify_cancel():
                answer.set_exception(closed())
        return thread

    def _has_thread(self) -> bool:
        """Whether the thread is there; where none can be started, as at the end of a process, who asks does it."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="windlass-waiter-asks", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def _drain(self) -> list[Asked]:
        dropped: list[Asked] = []
        while not self._questions.empty():
            with suppress(Empty):  # the thread may have been quicker
                dropped.append(self._questions.get_nowait())
        return dropped

    # ── the thread ──────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while self._put_next():
            pass

    def _put_next(self) -> bool:
        """Whether there may be another question; the thread ends without one."""
        # Nothing of the last question is kept here while the thread sleeps: a dropped app would live on with it.
        try:
            question, answer = self._questions.get(timeout=IDLE_S)
        except Empty:
            return not self._may_go()
        if answer.set_running_or_notify_cancel():
            self._put(question, answer)
        return not self._stopped or not self._may_go()

    def _may_go(self) -> bool:
        with self._lock:
            if not self._questions.empty():
                return False
            self._thread = None
            return True

    def _put(self, question: Callable[[], T], answer: Future[T]) -> None:
        self._put_s = time.monotonic()
        try:
            said = question()
        except Exception as error:
            self._put_s = None
            answer.set_exception(error)
        else:
            self._put_s = None
            answer.set_result(said)


def closed() -> StoreClosed:
    """The error of whoever asks through an app that is closed."""
    return StoreClosed("The app was closed.", "Keep it open while you wait for results.")


def _silent() -> StoreUnavailable:
    return StoreUnavailable(
        f"The store has not answered within {PATIENCE_S:g} s.", "See what keeps it, then ask again."
    )
