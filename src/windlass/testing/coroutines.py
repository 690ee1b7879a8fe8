"""Where async tasks run when there is no worker: on a loop in a thread of its own, which starts with the first one.

The test may itself run on a loop, so theirs must be another; and it is one for all of them, because what an async
resource holds belongs to the loop it was made on. One case needs more: an async task that calls `other.delay()` blocks
this loop until the other has ended, so the other, and whatever it sends, gets a loop for itself.

    test ─► a.delay() ─► the loop: a ─► await b.adelay() ─► the loop: b
                                   └──► c.delay()        ─► a loop of its own: c ─► …
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from windlass.worker.pools.aio import Loop


class Coroutines:
    """Runs coroutines and waits for them, from any thread, from inside a loop too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: Loop | None = None
        self._blocked = 0

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """What the coroutine returns, or raises."""
        with self._lock:
            if self._loop is None:
                self._loop = Loop()
                self._loop.start()
            blocked = self._blocked > 0 or _running() is self._loop.loop
        if not blocked:
            return self._loop.run(coroutine)
        with ThreadPoolExecutor(1, thread_name_prefix="windlass-loop") as thread:
            return thread.submit(asyncio.run, coroutine).result()

    @contextmanager
    def blocking(self) -> Generator[None]:
        """Around what may block the loop, if it is called on it."""
        here = self._loop is not None and _running() is self._loop.loop
        with self._lock:
            self._blocked += here
        try:
            yield
        finally:
            with self._lock:
                self._blocked -= here

    def close(self) -> None:
        """Ends the loop."""
        if self._loop is not None:
            self._loop.stop()


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
