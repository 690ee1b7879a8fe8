"""The watchdog: notices that work is ready, slots are free and nothing is claimed, says so, and connects anew.

The consumer comes back from the store's wait after half a minute at the latest. One that does not hangs in a call: a
connection may be dead without anybody having been told. Closing the engine ends such a call with an error, which the
consumer takes for an outage; what it may have been given in the lost answer, it asks for again.

Where a lock tells who lives, it only says so. There the lock would be let go with the connection, and others take the
worker for dead; and there is no network that could lose an answer.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.core.clock import Clock
from windlass.core.durations import show
from windlass.engines.protocol import Engine
from windlass.worker.consumer import LOOK_S, Consumer
from windlass.worker.service import Service, log

WATCH_S = 5.0
HUNG_US = int(2 * LOOK_S * 1e6)


class Watchdog(Service):
    """Watches over the consumer."""

    name = "watchdog"

    def __init__(self, clock: Clock, engine: Engine, consumer: Consumer, has_work: Callable[[], bool]) -> None:
        super().__init__(clock)
        self._engine = engine
        self._consumer = consumer
        self._has_work = has_work
        self._roused = False
        self._is_closed = False

    def tick(self, now_us: int) -> float | None:
        if self._is_closed:
            self._open()
            return WATCH_S
        consumer = self._consumer
        hangs_us = now_us - consumer.stepped_us
        if not consumer.stepped_us or hangs_us <= HUNG_US or consumer.stopping or not self._has_work():
            self._roused = False
        elif not self._roused:
            self._roused = True
            consumer.rouse()
        else:
            self._roused = False
            self._bark(hangs_us)
        return WATCH_S

    def _bark(self, hangs_us: int) -> None:
        connects = self._engine.capabilities.death == "lease"
        log.error(
            "Jobs are ready and slots are free, but nothing has been claimed for %s: the store does not answer.%s",
            show(hangs_us),
            " The connection is made anew." if connects else "",
        )
        if connects:
            self._engine.close()
            self._is_closed = True
            self._open()

    def _open(self) -> None:
        """Tried at every step until it can be."""
        self._engine.open()
        self._is_closed = False
