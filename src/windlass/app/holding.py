"""What an app has open: its store, and what hangs on it. Each is made at the first need; all are closed in their order.

While a test lends the app a store, there is a holding of its own for that one, and the app's waits untouched.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from windlass.app.resources import Declared, Opened
from windlass.core.errors import StoreError
from windlass.core.settings import Settings
from windlass.engines.connect import connect
from windlass.engines.protocol import Engine

if TYPE_CHECKING:
    from windlass.app.batching import Batcher, Insert
    from windlass.app.waiter import Waiter

log = logging.getLogger(__name__)

_inherited: list[Opened] = []
"""Resources of the parent in a forked child: neither used nor closed, for closing would act for the parent."""


class Holding:
    """One store, who waits there for ends, who sends there for loops, and the resources of plain calls."""

    def __init__(
        self, settings: Settings, declared: Declared, lock: threading.RLock, lent: Engine | None = None
    ) -> None:
        """`lent`: a store that somebody else opens and closes."""
        self._settings = settings
        self._declared = declared
        self._lock = lock
        self._lent = lent
        self.engine: Engine | None = None
        self.resources: Opened | None = None
        self._waiter: Waiter | None = None
        self._batchers: weakref.WeakKeyDictionary[Any, Batcher] = weakref.WeakKeyDictionary()
        self.before_close: set[Callable[[], None]] = set()
        """Called before the store is closed: whoever works on it stops."""
        self._end: weakref.finalize[..., Any] | None = None

    def open_engine(self) -> Engine:
        with self._lock:
            if self.engine is None and self._lent is not None:
                self.engine = self._lent
            elif self.engine is None:
                engine = connect(self._settings.url, self._settings)
                engine.open()
                self.engine = engine
                self._end = self._finalizer(engine)
            return self.engine

    def open_resources(self) -> Opened:
        with self._lock:
            if self.resources is None:
                self.resources = Opened(self._declared)
            return self.resources

    def waiter(self, engine: Callable[[], Engine]) -> Waiter:
        waiter = self._waiter
        if waiter is not None:
            # Without the lock, which is taken while a store is opened: that may take longer than one waits.
            return waiter
        with self._lock:
            if self._waiter is None:
                from windlass.app.waiter import Waiter

                self._waiter = Waiter(engine)
            return self._waiter

    def batcher(self, insert: Insert) -> Batcher:
        """That of the loop which runs here."""
        import asyncio

        from windlass.app.batching import Batcher

        loop = asyncio.get_running_loop()
        batcher = self._batchers.get(loop)
        if batcher is None:
            with self._lock:
                batcher = self._batchers[loop] = Batcher(insert)
        return batcher

    def close(self) -> None:
        for stop in list(self.before_close):
            stop()
        with self._lock:
            waiter, self._waiter = self._waiter, None
            batchers = list(self._batchers.values())
            self._batchers.clear()
        # These ask for the store until their last moment: gone before them, it would be opened anew.
        if waiter is not None:
            waiter.close()
        for batcher in batchers:
            batcher.close()
        with self._lock:
            resources, self.resources = self.resources, None
            engine, self.engine = self.engine, None
            end, self._end = self._end, None
        try:
            if resources is not None:
                resources.close()
        finally:
            if engine is not None and end is not None:
                end.detach()
                _close(engine, os.getpid())

    def _finalizer(self, engine: Engine) -> weakref.finalize[..., Any]:
        """Closes the store of an app that is dropped without being closed."""
        end: weakref.finalize[..., Any] = weakref.finalize(self, _close, engine, os.getpid())
        end.atexit = False  # there `at_exit` does it, in its order
        return end

    def after_fork(self, lock: threading.RLock) -> None:
        """In a forked child: threads did not come along, and locks may have been held by them."""
        self._lock = lock
        self._waiter = None
        self._batchers = weakref.WeakKeyDictionary()
        self.before_close = set()  # a worker is the parent's
        if self.resources is not None:
            _inherited.append(self.resources)
            self.resources = None
        if self.engine is not None and self._lent is None:
            self._end = self._finalizer(self.engine)

    def at_exit(self) -> None:
        """At the end of the process: closes it, but whoever waits in a thread of the background is left in peace."""
        if self._waiter is not None:
            self._waiter.stop()
        self.close()


def _close(engine: Engine, pid: int) -> None:
    if os.getpid() == pid:
        try:
            engine.close()
        except StoreError as error:  # its folder may be gone: nobody is left who could do anything about it
            log.debug("The store was not closed: %s", error)
