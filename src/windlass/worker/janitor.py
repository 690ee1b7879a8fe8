"""The janitor: sweeps now and then, a bounded piece at a time. Any worker may; doing it twice changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from windlass.core.clock import Clock
from windlass.core.events import Bus, Swept
from windlass.core.ids import WorkerId, show_id
from windlass.core.plural import number_of
from windlass.engines.protocol import Death, Engine, Sweep
from windlass.worker.service import Service, log

ENOUGH = 0.9
"""Of the pause between sweeps: for so long after a whole one, by whichever worker, the engine may leave it at that."""


class Janitor(Service):
    """Takes back what dead workers held, goes on with chores, removes what is past its time."""

    name = "janitor"

    def __init__(self, clock: Clock, engine: Engine, bus: Bus, worker: Callable[[], WorkerId], sweep_s: float) -> None:
        super().__init__(clock)
        self._engine = engine
        self._bus = bus
        self._worker = worker
        self._sweep_s = sweep_s
        self._rest_us = int(ENOUGH * sweep_s * 1e6)

    def tick(self, now_us: int) -> float | None:
        swept = self._engine.sweep(Sweep(worker=self._worker(), rest_us=self._rest_us))
        for death in swept.deaths:
            log.warning("%s", _obituary(death))
        for job in swept.poisoned:
            log.warning(
                "%s %s has ended %s that ran it alone. It is dead (poison) and is not tried again.",
                job.task,
                show_id(job.id),
                number_of(job.crashes, "worker"),
            )
        done = swept.lost or swept.chores or swept.expired or swept.purged
        if done and self._bus.wanted(Swept):
            self._bus.publish(
                Swept(
                    at_us=self._clock.now_us(),
                    worker=self._worker(),
                    lost=swept.lost,
                    chores=swept.chores,
                    expired=swept.expired,
                    removed=swept.purged,
                )
            )
        return 0.0 if swept.more else self._sweep_s


def _obituary(death: Death) -> str:
    """A dead worker in a sentence."""
    held = {0: "it held no job", 1: "its job goes back"}.get(death.jobs, f"its {number_of(death.jobs)} go back")
    return f"Worker {death.name or show_id(death.worker)} ({death.host}, {death.pid}) has died; {held}."
