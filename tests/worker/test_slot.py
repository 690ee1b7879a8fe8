"""Interrupting a task in a thread: the exception hits the task or nothing, at whatever moment it is sent."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.soak.waiting import HANG_S
from windlass.app.context import JobContext
from windlass.app.endings import CancelAsked, Interrupted, TimedOut
from windlass.core.ids import new_id
from windlass.engines.protocol import Claim
from windlass.worker.desk import Run
from windlass.worker.pools.threads import Slot
from windlass.worker.service import Bell

SHOTS = 3_000


def new_run(slot: Slot) -> Run:
    claim = Claim(
        id=new_id(), fence=1, task="t", queue="q", payload=b"", options=b"", attempt=1, crashes=0, losses=0,
        suspect=False, priority=0, due_us=0,
    )  # fmt: skip
    task: Any = None
    return Run(claim, task, JobContext(claim.id, "t"), 0, slot.interrupt, 0)


class Hunter:
    """A thread that sends each run an interruption, at a random moment of its life."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._prey: Run | None = None
        self._over = False
        self.sent = 0
        self._thread = threading.Thread(target=self._hunt)
        self._thread.start()

    def hunt(self, run: Run) -> None:
        self._prey = run

    def _hunt(self) -> None:
        while not self._over:
            run, self._prey = self._prey, None
            if run is None:
                time.sleep(0)  # lets the others go on
                continue
            for _ in range(self._random.randrange(200)):
                pass
            run.stop(TimedOut if self._random.random() < 0.5 else CancelAsked)
            self.sent += 1

    def rest(self) -> None:
        self._over = True
        self._thread.join()


def hammer(body: Callable[[random.Random], object], seed: int) -> tuple[int, int]:
    """Runs the body again and again until thousands of shots have fallen; gives how many ended well, how many not."""
    chance = random.Random(seed)
    slot, hunter = Slot(), Hunter(seed)
    well = hit = 0
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # or the hunter hardly ever gets its turn
    # The interpreter swallows an exception that hits a finaliser or a weakref's callback, which the collector may call
    # inside a task. Then the shot is lost, and no slot can help it: this is about those that are not.
    gc.collect()
    gc.disable()
    try:
        while hunter.sent < SHOTS:
            run = new_run(slot)
            hunter.hunt(run)
            try:
                slot.call(run, body, (chance,), {})
                well += 1
            except Interrupted:
                hit += 1
            # Nothing may arrive here, between two jobs; a pending exception would be raised by one of these.
            assert not slot.taken
            for _ in range(chance.randrange(100)):
                pass
    finally:
        gc.enable()
        sys.setswitchinterval(interval_s)
        hunter.rest()
    return well, hit


def short(chance: random.Random) -> int:
    return sum(range(chance.randrange(20_000)))


def python(chance: random.Random) -> int:
    total = 0
    for number in range(chance.randrange(3_000)):
        total += number
    return total


def cleans_up(chance: random.Random) -> None:
    try:
        python(chance)
    finally:
        python(chance)


def raises(chance: random.Random) -> None:
    python(chance)
    raise Interrupted  # as one that was caught and raised again


@pytest.mark.parametrize("body", [short, python, cleans_up, raises])
@pytest.mark.parametrize("seed", [1, 2])
def test_an_interruption_at_any_moment_hits_its_own_task_or_nothing(
    body: Callable[[random.Random], object], seed: int
) -> None:
    well, hit = hammer(body, seed)
    assert hit > SHOTS // 100, "shots hit"
    assert well > 0 or body is raises, "and some fell too late"


def test_a_run_that_was_asked_to_stop_before_it_was_called_is_not_called() -> None:
    """The arguments were still being decoded, or a hook ran, when its time was over."""
    slot = Slot()
    run = new_run(slot)
    run.stop(TimedOut)
    with pytest.raises(TimedOut):
        slot.call(run, pytest.fail, ("the task was called",), {})
    assert not slot.taken
    assert slot.call(new_run(slot), lambda: 1, (), {}) == 1


def test_an_interruption_for_a_run_that_has_ended_does_nothing() -> None:
    slot = Slot()
    old, new = new_run(slot), new_run(slot)
    slot.call(old, lambda: 1, (), {})
    old.stop(TimedOut)

    def task() -> int:
        old.interrupt(old, TimedOut)
        return sum(range(1_000))

    assert slot.call(new, task, (), {}) == sum(range(1_000))


def test_a_task_is_interrupted_once_and_may_clean_up_in_peace() -> None:
    slot = Slot()
    run = new_run(slot)
    cleaned: list[int] = []

    def task() -> None:
        try:
            run.stop(TimedOut)
            while True:
                pass
        finally:
            run.stop(CancelAsked)
            run.interrupt(run, CancelAsked)
            cleaned.extend(range(100))

    with pytest.raises(TimedOut):
        slot.call(run, task, (), {})
    assert len(cleaned) == 100


def test_what_a_task_returns_and_raises_passes_unchanged() -> None:
    slot = Slot()
    error = KeyError("x")

    def task(*, fail: bool) -> str:
        if fail:
            raise error
        return "value"

    assert slot.call(new_run(slot), task, (), {"fail": False}) == "value"
    with pytest.raises(KeyError) as caught:
        slot.call(new_run(slot), task, (), {"fail": True})
    assert caught.value is error


# ── what tasks share with the worker ────────────────────────────────────────────────────────────────────


def test_a_task_that_is_interrupted_while_it_rings_a_bell_leaves_it_working() -> None:
    """Every log line rings the settler's bell: a lock left behind there would stop the worker."""
    bell = Bell()

    def rings(chance: random.Random) -> None:
        for _ in range(chance.randrange(400)):
            bell.ring()

    _, hit = hammer(rings, 3)
    assert hit > 0
    bell.clear()
    woken = threading.Event()

    def sleeper() -> None:
        bell.wait(HANG_S)
        woken.set()

    thread = threading.Thread(target=sleeper, daemon=True)
    thread.start()
    ringer = threading.Thread(target=bell.ring, daemon=True)
    ringer.start()
    assert woken.wait(HANG_S / 2), "the bell cannot be rung any more"
    thread.join()
    ringer.join()
