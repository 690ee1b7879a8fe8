"""`windlass worker` as a process: when it is killed, its runners go with it, and another worker takes over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.soak.waiting import wait_for
from tests.worker.house import PILLS, House, environment, gone
from tests.worker.titles import runners_of
from windlass.core.job import State


@contextmanager
def supervisor(house: House, *words: str) -> Generator[subprocess.Popen[bytes]]:
    command = [str(Path(sys.executable).parent / "windlass"), "worker", str(PILLS), "--log-level", "warning", *words]
    process = subprocess.Popen(command, cwd=house.folder, env=environment(house))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("task", ["hold", "hold_later", "holds_the_gil"])
def test_runners_end_with_their_supervisor_and_another_worker_takes_over(house: House, task: str) -> None:
    with supervisor(house, "-p", "2") as killed:
        handle = house.send(task, *([] if task == "holds_the_gil" else ["end"]))
        pid = house.wait_begun(handle)
        wait_for("two runners", lambda: len(runners_of(killed.pid)) == 2)
        runners = runners_of(killed.pid)
        assert pid in runners
        killed.kill()
        wait_for("its runners to end", lambda: gone(runners))
    with supervisor(house):
        assert house.wait_begun(handle, 2) not in runners
        assert house.faults(handle) == (1, 0, 1), "the worker was lost; nobody says that the job is to blame"
        assert handle.state is State.RUNNING
        house.let("end")
        if task != "holds_the_gil":
            house.get(handle)


def test_a_task_that_holds_the_gil_does_not_keep_the_worker_from_its_other_jobs(house: House) -> None:
    with supervisor(house, "-p", "2", "-c", "1", "--drain", "0") as process:
        stuck = house.send("holds_the_gil")
        house.wait_begun(stuck)
        for handle in [house.send("touch") for _ in range(20)]:
            house.get(handle)
        runners = runners_of(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert gone(runners)
    assert (stuck.state, house.faults(stuck)) == (State.READY, (1, 0, 0))


def test_a_signal_to_the_runners_is_left_to_the_supervisor(house: House) -> None:
    """A process manager or a terminal sends it to all of them."""
    with supervisor(house) as process:
        handle = house.send("hold", "end")
        runner = house.wait_begun(handle)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(runner, number)
        house.get(house.send("touch"))
        house.let("end")
        assert house.get(handle) == runner
        assert house.faults(handle) == (1, 0, 0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
