"""A task is never stopped inside its store's own code: locks would stay taken, and the process would stand still."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.soak.waiting import wait_for
from tests.sqlite.rig import gate_held
from tests.worker.test_slot import new_run
from windlass import App, TimedOut, Worker
from windlass.app.endings import CancelAsked, Interrupted
from windlass.core.errors import JobDead
from windlass.worker.pools.threads import Slot

HANG_S = 30


def test_a_timeout_that_comes_while_a_task_sends_leaves_the_store_usable(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    app = App(f"sqlite:///{path}")
    begun, gate_is_shut = threading.Event(), threading.Event()

    @app.task(name="child")
    def child() -> int:
        return 1

    @app.task(name="parent", timeout=1)
    def parent() -> None:
        begun.set()
        gate_is_shut.wait(HANG_S)
        child.delay()
        while True:
            pass

    with Worker(app, slots=2) as worker:
        handle = parent.delay()
        assert begun.wait(HANG_S)
        runs = getattr(worker, "_crew").desk.running  # noqa: B009 - what it has been asked
        with gate_held(path):
            # The timeout falls into the time in which the send waits for the gate.
            gate_is_shut.set()
            wait_for("the timeout", lambda: runs[handle.job_id].asked)
        with pytest.raises(JobDead, match="timeout"):
            handle.get(HANG_S)
        assert child.delay().get(HANG_S) == 1
    app.close()


def test_an_interruption_waits_until_the_shield_is_down() -> None:
    slot = Slot()
    run = new_run(slot)
    seen: list[str] = []

    def task() -> None:
        with slot:
            run.stop(TimedOut)
            seen.extend(str(number) for number in range(1_000))
        seen.append("never")

    with pytest.raises(TimedOut):
        slot.call(run, task, (), {})
    assert len(seen) == 1_000
    assert slot.call(new_run(slot), lambda: 1, (), {}) == 1


def test_shields_inside_shields_hold_until_the_last_is_down() -> None:
    slot = Slot()
    run = new_run(slot)
    seen: list[str] = []

    def task() -> None:
        with slot:
            with slot:
                run.stop(CancelAsked)
            seen.append("inside")
        seen.append("never")

    with pytest.raises(Interrupted):
        slot.call(run, task, (), {})
    assert seen == ["inside"]
