"""The processes of workers, as the workers themselves report them with each beat."""

from __future__ import annotations

import time
from collections.abc import Container
from typing import Final

import msgspec

from windlass.core.clock import SystemClock
from windlass.core.ids import WorkerId
from windlass.core.info import Active, Info, Process
from windlass.engines.protocol import Engine, Hint, TallyQuery
from windlass.ops.cards import info, is_late, take_stock

PATIENCE_S: Final = 0.5
STEP_S: Final = 0.02

_clock = SystemClock()


class ActiveView(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a slot runs."""

    id: str
    task: str
    started_us: int
    elapsed_us: int


class ProcessView(msgspec.Struct, frozen=True, kw_only=True):
    """A supervisor, a runner, or a program that a worker is part of."""

    role: str
    number: int
    state: str
    pid: int
    started_us: int
    slots: int
    rss: int
    """Bytes in memory, its children's too."""
    cpu_s: float
    """Seconds of CPU since its start."""
    cpu_percent: float | None
    """Of one core, on average since its start, as `ps` counts it; None: it does not say when that was."""
    ended: int
    """How many jobs have ended in it."""
    restarts: int
    """How many processes this one came after in its place."""
    active: tuple[ActiveView, ...]

    @property
    def label(self) -> str:
        """As people call it within its worker."""
        return f"{self.role} {self.number}" if self.number else self.role


def processes(said: Info, now_us: int) -> tuple[ProcessView, ...]:
    """The processes of a worker: the supervisor, then its runners by number; none where it does not say."""
    ordered = sorted(said.processes, key=lambda one: one.number)
    return tuple(_process(one, said.beat_us, now_us) for one in ordered)


def _process(one: Process, beat_us: int, now_us: int) -> ProcessView:
    lived_us = beat_us - one.started_us if one.started_us else 0
    return ProcessView(
        role=one.role,
        number=one.number,
        state=one.state,
        pid=one.pid,
        started_us=one.started_us,
        slots=one.slots,
        rss=one.rss,
        cpu_s=one.cpu_s,
        cpu_percent=round(one.cpu_s * 1e8 / lived_us, 1) if lived_us > 0 else None,
        ended=one.ended,
        restarts=one.restarts,
        active=tuple(_active(job, now_us) for job in one.active),
    )


def _active(job: Active, now_us: int) -> ActiveView:
    elapsed_us = max(0, now_us - job.started_us)
    return ActiveView(id=job.id, task=job.task, started_us=job.started_us, elapsed_us=elapsed_us)


# ── a fresh report ──────────────────────────────────────────────────────────────────────────────────────


def call_roll(engine: Engine, workers: Container[WorkerId] | None = None, patience_s: float = PATIENCE_S) -> bool:
    """Lets these workers (None: all) beat now, and waits a moment for it; whether all did. Nothing is written for it.

    Whoever is late already, or does not say when it beat, is not waited for.
    """
    now_us = _clock.now_us()
    asked = [card for card in take_stock(engine).cards if workers is None or card.worker in workers]
    before = {card.worker: beat_us for card in asked if (beat_us := info(card).beat_us) and not is_late(card, now_us)}
    engine.signal([Hint(kind="order", id=worker) for worker in before])
    end_s = time.monotonic() + patience_s
    while not _have_beaten(engine, before):
        if time.monotonic() >= end_s:
            return False
        time.sleep(STEP_S)
    return True


def _have_beaten(engine: Engine, before: dict[WorkerId, int]) -> bool:
    """Whether those that are still there have all beaten since."""
    cards = engine.tally(TallyQuery()).cards if before else ()
    return all(info(card).beat_us > before[card.worker] for card in cards if card.worker in before)
