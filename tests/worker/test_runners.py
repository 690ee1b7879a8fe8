"""Jobs in processes of their own: they run, fail, are retried and tell of it as they do in one process."""

from __future__ import annotations

import os
import signal

import pytest

from tests.soak.waiting import wait_for
from tests.worker.house import House, gone
from windlass.core.errors import JobDead
from windlass.core.job import Outcome, State
from windlass.worker import warden
from windlass.worker.kind import Kind


def test_a_job_runs_in_a_runner_and_its_result_comes_back(house: House) -> None:
    worker = house.worker()
    assert house.get(house.send("touch")) == worker.pids()[1]


def test_a_failure_is_told_as_the_task_raised_it(house: House) -> None:
    house.worker()
    handle = house.send("fails", "no such card")
    with pytest.raises(JobDead, match="ValueError: no such card"):
        house.get(handle)
    failure = house.job(handle).failure
    assert failure is not None
    assert "pills.py" in failure.traceback
    assert house.faults(handle) == (1, 0, 0)


def test_a_retry_policy_is_that_of_the_task(house: House) -> None:
    house.worker()
    handle = house.send("fails_once")
    assert house.get(handle) == 2
    assert house.outcomes(handle) == {Outcome.FAILED: 1, Outcome.SUCCEEDED: 1}


def test_lines_and_progress_are_there_before_the_job_has_ended(house: House) -> None:
    house.worker()
    handle = house.send("tell", "end")
    wait_for("its progress", lambda: house.job(handle).progress)
    wait_for("its first line", lambda: [line.text for line in house.job(handle).log] == [b"half of it"])
    assert handle.state is State.RUNNING
    house.let("end")
    house.get(handle)
    assert [line.text for line in house.job(handle).log] == [b"half of it", b"all of it"]


def test_a_task_sends_by_a_connection_of_its_runner(house: House) -> None:
    house.worker(slots=2)
    sent = house.get(house.send("send"))
    assert isinstance(house.get(house.app.result(sent)), int)


HOLD = """
import asyncio, os, time
from pathlib import Path
from windlass import App, current_job
app, folder = App(), Path(os.environ["MARKS_FOLDER"])
@app.task(name="hold")
"""
IN_A_THREAD = """
def hold() -> int:
    with (folder / "marks").open("a") as file:
        file.write(f"begin {os.getpid()} {current_job().id}\\n")
    while not (folder / "end").exists():
        time.sleep(0.005)
    return os.getpid()
"""
ON_A_LOOP = IN_A_THREAD.replace("def", "async def").replace("time.sleep", "await asyncio.sleep")


@pytest.mark.parametrize(
    ("kind", "slots", "how"), [("solo", 1, IN_A_THREAD), ("threads", 3, IN_A_THREAD), ("aio", 3, ON_A_LOOP)]
)
def test_a_pool_runs_as_many_jobs_at_once_as_it_has_slots(house: House, kind: Kind, slots: int, how: str) -> None:
    """And no more: a page has one place for each of them."""
    worker = house.worker(house.write("holding.py", HOLD + how.lstrip()), kind=kind, slots=slots)
    held = [house.send("hold") for _ in range(slots)]
    for handle in held:
        assert house.wait_begun(handle) == worker.pids()[1]
    more = [house.send("hold") for _ in range(50)]
    assert len(worker.runners.running()) == slots
    house.let("end")
    assert {house.get(handle) for handle in [*held, *more]} == {worker.pids()[1]}


def test_the_pool_auto_has_slots_for_both_kinds(house: House) -> None:
    worker = house.worker(kind="auto", slots=2)
    held = [house.send(task, "end") for task in ("hold", "hold_later") for _ in range(2)]
    for handle in held:
        assert house.wait_begun(handle) == worker.pids()[1]
    house.let("end")
    quick = [house.send(task) for task in ("touch", "touch_later") for _ in range(100)]
    assert {house.get(handle) for handle in [*held, *quick]} == {worker.pids()[1]}


def test_several_runners_work_at_once(house: House) -> None:
    worker = house.worker(processes=3)
    held = [house.send("hold", "end") for _ in range(3)]
    assert {house.wait_begun(handle) for handle in held} == set(worker.pids().values())
    house.let("end")
    for handle in held:
        house.get(handle)


def test_a_job_that_wants_to_exit_fails_and_its_process_lives_on(house: House) -> None:
    worker = house.worker()
    with pytest.raises(JobDead, match="SystemExit: 3"):
        house.get(house.send("exits"))
    assert house.get(house.send("touch")) == worker.pids()[1]


def test_an_error_in_a_thread_of_a_task_is_no_end_of_its_process(house: House) -> None:
    worker = house.worker()
    assert house.get(house.send("raises_in_a_thread")) == house.get(house.send("touch")) == worker.pids()[1]


def test_the_child_of_a_task_that_forks_ends_with_the_task_and_runs_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes back into a copy of the slot, with a copy of what waits there."""
    monkeypatch.setattr(warden, "HOARD_US", 600_000_000)
    worker = house.worker()
    worker.take_jobs_for_short()
    pid = worker.pids()[1]
    os.kill(pid, signal.SIGSTOP)
    try:
        forks, behind = house.send("forks"), [house.send("touch") for _ in range(10)]
        wait_for("all of them to be with it", lambda: len(worker.crew.desk.open) == 11)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert {house.get(handle) for handle in [forks, *behind]} == {pid}
    wait_for("its child to end", lambda: gone(house.numbers("child")))
    assert len(house.numbers("child")) == 1
    assert {(len(house.begun(handle)), house.faults(handle)) for handle in behind} == {(1, (1, 0, 0))}
    assert house.get(house.send("touch")) == pid


def test_a_stop_gives_back_what_has_not_started_and_leaves_no_process(house: House) -> None:
    worker = house.worker()
    running = house.send("hold", "end")
    house.wait_begun(running)
    waiting = [house.send("touch") for _ in range(20)]
    house.let("end")
    pids = worker.runners.pids()
    assert worker.crew.stop(30)
    assert gone(pids)
    assert running.state is State.SUCCEEDED
    assert {handle.state for handle in waiting} <= {State.READY, State.SUCCEEDED}
    assert all(house.faults(handle) == (1, 0, 0) for handle in waiting)
