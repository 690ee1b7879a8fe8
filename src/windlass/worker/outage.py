"""What keeps the loops of one worker from its store: said once for all of them, and so is its end."""

from __future__ import annotations

import logging
import threading

from windlass.core.errors import StoreError, WindlassError

log = logging.getLogger("windlass.worker")


class Outage:
    """Which loops wait, and for what. What the engine has logged itself, it also ends itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, str] = {}
        """The code of the error that each loop waits for to be over."""

    def begins(self, loop: str, error: WindlassError) -> None:
        """A step of this loop has failed, for the first time or again."""
        if isinstance(error, StoreError) and error.logged:
            return
        with self._lock:
            is_known = error.code in self._waiting.values()
            self._waiting[loop] = error.code
        if not is_known:
            log.warning("The worker has to wait: %s", error)

    def ends(self, loop: str) -> None:
        """A step of this loop has worked."""
        with self._lock:
            is_last = self._waiting.pop(loop, None) is not None and not self._waiting
        if is_last:
            log.info("The worker goes on.")
