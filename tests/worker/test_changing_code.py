"""New code takes the place of old, one runner after the other: meanwhile both are there, and jobs of both run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.waiting import wait_for
from tests.worker.house import House, Staffed
from windlass.core.errors import OtherVersion
from windlass.worker import runner_process

OLD = """
import os, time
from pathlib import Path
from windlass import App, Middleware

class Hears(Middleware):
    def after_settle(self, settlement, verdict): pass

app = App(middleware=[Hears()])

@app.task(name="hold")
def hold() -> int:
    folder = Path(os.environ["MARKS_FOLDER"])
    (folder / "held").touch()
    while not (folder / "end").exists(): time.sleep(0.01)
    return os.getpid()

@app.task(name="old")
def old() -> str: return "old"
"""
NEW = """
from windlass import App
app = App()

@app.task(name="new")
async def new() -> str: return "new"

@app.task(name="plain")
def plain() -> int: return 1
"""
HANGS = """
import time
while True: time.sleep(0.1)
"""


@pytest.fixture
def app(house: House) -> Path:
    return house.write("code.py", OLD)


def numbers_that_work(worker: Staffed) -> list[int]:
    return sorted(process.number for process in worker.runner_processes() if process.state == "working")


def test_jobs_of_both_run_while_the_last_old_runner_is_at_work(house: House, app: Path) -> None:
    """The new code has the first async task and no hooks, and the old task is gone from it."""
    worker = house.worker(app, processes=1)
    held = house.send("hold")
    wait_for("it to begin", (house.folder / "held").exists)
    house.write("code.py", NEW)
    worker.runners.restart()
    wait_for("a fresh one", lambda: numbers_that_work(worker) == [1])
    assert house.get(house.send("new")) == "new"
    unknown = house.send("old")
    for _ in range(5):
        assert house.get(house.send("plain")) == 1
    assert house.record(unknown).fence == 0, "nobody who is open knows it: it was not claimed"
    house.let("end")
    house.get(held)
    wait_for("the old one to end", lambda: len(worker.runner_processes()) == 1)


def test_a_new_kind_of_task_runs_beside_old_runners_that_do_not_know_it(house: House, app: Path) -> None:
    """One old runner lets its job end, and until then the other one is open and has no loop."""
    worker = house.worker(app, processes=2)
    held = [house.send("hold") for _ in range(2)]
    wait_for("both to begin", lambda: len(worker.runners.running()) == 2)
    house.write("code.py", NEW)
    worker.runners.restart()
    wait_for("a fresh one", lambda: numbers_that_work(worker) == [1, 2] and len(worker.runner_processes()) == 3)
    assert house.get(house.send("new")) == "new"
    house.let("end")
    for handle in held:
        house.get(handle)
    wait_for("the old ones to end", lambda: {process.restarts for process in worker.runner_processes()} == {1})


def test_a_second_restart_does_not_wait_for_one_that_hangs_in_its_import(house: House, app: Path) -> None:
    worker = house.worker(app, processes=2)
    before = set(worker.pids().values())
    house.write("code.py", HANGS)
    worker.runners.restart()
    wait_for("one that hangs", lambda: any(process.state == "starting" for process in worker.runner_processes()))
    assert house.get(house.send("old")) == "old", "the old ones go on"
    house.write("code.py", NEW)
    worker.runners.restart()
    wait_for("fresh ones", lambda: len(worker.pids()) == 2 and not before & set(worker.pids().values()))
    assert worker.runners.foreman.setback is None
    assert house.get(house.send("new")) == "new"


def test_another_version_of_windlass_is_not_mixed_in(house: House, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_process, "__version__", "0.0.0")
    with pytest.raises(OtherVersion, match=r"is installed now, and the worker was started with 0\.0\.0"):
        house.worker(app)
