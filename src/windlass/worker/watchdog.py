"""The watchdog: notices that work is ready, slots are free and nothing is claimed, says so, and connects anew.

The consumer comes back from the store's wait after half a minute at the latest. One that does not hangs in a call: a
connection may be dead without anybody having been told. Closing the engine ends such a call with an error, which the
consumer takes for an outage; what it may have been given in the lost answer, it asks for again.
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

    def tick(self, now_us: int) -> float | None:
        consumer = self._consumer
        hangs_us = now_us - consumer.stepped_us
        if not consumer.stepped_us or hangs_us <= HUNG_US or consumer.stopping or not self._has_work():
            self._roused = False
        elif not self._roused:
            self._roused = True
            consumer.rouse()
        else:
            self._roused = False
            self._connect_anew(hangs_us)
        return WATCH_S

    def _connect_anew(self, hangs_us: int) -> None:
        log.error(
            "Jobs are ready and slots are free, but nothing has been claimed for %s: the store does not answer. "
            "The connection is made anew.",
            show(hangs_us),
        )
        self._engine.close()
        self._engine.open()
