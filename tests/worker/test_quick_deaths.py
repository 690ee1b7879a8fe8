"""Runners that cannot even start: told once, in a sentence, and not tried for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.waiting import wait_for
from tests.worker.house import House, environment
from windlass.core.clock import SystemClock
from windlass.core.errors import BrokenApp, RunnersDie
from windlass.worker import foreman
from windlass.worker.asked import Asked
from windlass.worker.plan import Plan
from windlass.worker.runners import Runners

GOOD = """
from windlass import App
app = App()
@app.task(name="one")
def one() -> int: return 1
"""
COUNTED = """
import os
from pathlib import Path
with (Path(os.environ["MARKS_FOLDER"]) / "starts").open("a") as file: file.write("x")
"""
ENDS = {
    "exit code 3": "os._exit(3)",
    "SIGSEGV": "import ctypes; ctypes.string_at(0)",
    "SIGKILL": "os.kill(os.getpid(), 9)",
}


def starts(house: House) -> int:
    return len((house.folder / "starts").read_text())


def windlass(house: House, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "windlass"), *words],
        cwd=house.folder,
        env={**environment(house), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("how", ENDS)
def test_an_import_that_ends_its_process_is_tried_five_times(
    house: House, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(foreman, "FIRST_PAUSE_US", 1_000)
    app = house.write("ends.py", COUNTED + ENDS[how])
    with pytest.raises(RunnersDie, match="5 runners ended, one after the other, before they did anything") as raised:
        house.worker(app, processes=2)
    assert how in raised.value.message
    assert starts(house) == 5


def test_a_worker_whose_runners_die_at_once_exits_with_one_sentence(house: House) -> None:
    house.write("ends.py", COUNTED + ENDS["SIGSEGV"])
    done = windlass(house, "worker", "ends.py", "-p", "2")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.count("5 runners ended, one after the other") == 1
    assert starts(house) == 5


def test_an_app_that_raises_is_told_of_once_with_its_traceback(house: House) -> None:
    house.write("raises.py", COUNTED + "def prepare(): return 1 // 0\nprepare()\n")
    done = windlass(house, "worker", "raises.py", "-p", "2")
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == done.stderr.count('raises.py", line 5') == 1
    assert done.stderr.count("The app cannot be loaded: ZeroDivisionError") == 1
    assert "windlass/worker/foreman.py" not in done.stderr
    assert starts(house) == 1


def test_a_broken_app_has_the_traceback_of_its_module(house: House) -> None:
    app = house.write("raises.py", COUNTED + "raise ValueError('no such setting')\n")
    with pytest.raises(BrokenApp, match="The app cannot be loaded: ValueError: no such setting") as raised:
        house.worker(app)
    assert 'raises.py", line 5' in raised.value.traceback
    assert starts(house) == 1


def test_a_module_that_exits_is_a_broken_app(house: House) -> None:
    with pytest.raises(BrokenApp, match="SystemExit: 0"):
        house.worker(house.write("exits.py", "import sys\nsys.exit(0)\n"))


def test_an_app_that_fails_from_some_day_on_ends_the_worker_after_five_tries(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreman, "FIRST_PAUSE_US", 1_000)
    app = house.write("changes.py", COUNTED + GOOD)
    worker = house.worker(app)
    assert house.get(house.send("one")) == 1
    house.write("changes.py", COUNTED + "raise ValueError('it was changed since')\n")
    os.kill(worker.pids()[1], signal.SIGKILL)
    trouble = wait_for("the trouble", lambda: worker.runners.foreman.trouble)
    assert isinstance(trouble, BrokenApp)
    assert "it was changed since" in trouble.message
    assert starts(house) == 6
    waiting = house.send("one")
    worker.crew.stop(0)
    assert house.faults(waiting) == (1, 0, 0)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise ValueError('it was changed since')", "The app cannot be loaded: ValueError: it was changed since."),
        (ENDS["SIGSEGV"], "A fresh runner was killed by SIGSEGV before it did anything."),
    ],
)
def test_a_restart_with_code_that_cannot_run_is_given_up_and_the_old_runners_go_on(
    house: House, caplog: pytest.LogCaptureFixture, code: str, why: str
) -> None:
    app = house.write("changes.py", COUNTED + GOOD)
    worker = house.worker(app, processes=2)
    before = worker.pids()
    house.write("changes.py", COUNTED + code)
    worker.runners.restart()
    setback = wait_for("its end", lambda: worker.runners.foreman.setback)
    assert setback is not None
    assert setback.why == why
    assert worker.runners.processes()[0].setback == setback
    assert caplog.text.count(f"The restart is given up, and the runners go on as they are: {why}") == 1
    assert starts(house) == 3, "one try"
    assert house.get(house.send("one")) == 1
    assert worker.pids() == before
    house.write("changes.py", COUNTED + GOOD)
    worker.runners.restart()
    wait_for("fresh runners", lambda: {process.restarts for process in worker.runner_processes()} == {1})
    assert not set(worker.pids().values()) & set(before.values())
    assert house.get(house.send("one")) == 1


def test_an_import_that_takes_long_is_told_of(
    house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreman, "SLOW_S", 0.2)
    waits = 'import time\nwhile not (Path(os.environ["MARKS_FOLDER"]) / "go").exists(): time.sleep(0.01)\n'
    app = house.write("waits.py", COUNTED + waits + GOOD)
    runners = Runners(Plan(app=str(app), name="slow"), SystemClock())
    try:
        runners.foreman.start()
        wait_for("a word", lambda: "is still loading the app" in caplog.text)
        house.let("go")
        assert runners.foreman.first.wait(60)
    finally:
        runners.close()
    assert caplog.text.count("is still loading the app") == 1


def test_an_app_that_was_broken_for_a_moment_goes_on(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick deaths count where they come one after the other, and not over the days."""
    monkeypatch.setattr(foreman, "FIRST_PAUSE_US", 1_000)
    app = house.write("flickers.py", COUNTED + FLICKERS + GOOD)
    worker = house.worker(app, max_jobs=1)
    for _ in range(foreman.MOST_QUICK + 1):
        assert house.get(house.send("one")) == 1
    assert worker.runners.foreman.trouble is None
    assert starts(house) > 2 * foreman.MOST_QUICK


def test_a_runner_that_dies_before_the_store_is_open_is_replaced(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    runners = Runners(Plan(app=str(house.write("tasks.py", GOOD)), name="early"), SystemClock())
    try:
        assert runners.hire(Asked()) is not None
        (killed,) = runners.roster.all()
        os.kill(killed.pid, signal.SIGKILL)
        wait_for("another", lambda: [one for one in runners.roster.all() if one is not killed])
    finally:
        runners.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"(process {killed.pid}) was killed by SIGKILL" in caplog.text


FLICKERS = """
if len((Path(os.environ["MARKS_FOLDER"]) / "starts").read_text()) % 2 == 0: os._exit(3)
"""


def test_a_store_in_memory_is_refused(house: House) -> None:
    house.write("tasks.py", GOOD)
    done = windlass(house, "worker", "tasks.py", WINDLASS_URL="memory://")
    assert done.returncode == 2
    assert done.stderr.count("A store in memory belongs to one process, and a worker has several.") == 1
    assert "Traceback" not in done.stderr
