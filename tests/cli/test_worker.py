"""`windlass worker`: finds the app, runs its jobs, and ends as it is asked to."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.soak.waiting import wait_for


def test_it_runs_the_jobs_of_a_file_until_it_is_told_to_stop(shell: Shell) -> None:
    with shell.running("worker", "tasks.py", "--name", "box") as worker:
        worker.wait_for("Worker box has started: pool auto, 8 slots, 6 tasks, all queues, sqlite:///windlass.db.")
        assert shell.out("call", "add", "2", "3", "--wait") == "5"
        assert shell.out("call", "tasks.greet", "anne", "loud=true", "--wait") == "ANNE"
        assert worker.stop() == 0
    assert "Worker box has stopped." in worker.text


@pytest.mark.parametrize("name", ["tasks.py", "tasks", "tasks:app", "./tasks.py:app"])
def test_an_app_is_named_by_its_file_or_module(shell: Shell, name: str) -> None:
    shell("call", "-A", name, "add", "1", "1")
    said = shell("worker", name, "--until-empty").stderr
    assert "6 tasks" in said
    assert shell.out("call", "-A", "tasks:app", "add", "1", "1")
    shell("worker", "--until-empty", environ={"WINDLASS_APP": name})


def test_until_empty_leaves_what_is_due_later_and_what_is_on_other_queues(shell: Shell) -> None:
    now = shell.out("call", "-A", "tasks", "add", "1", "2")
    later = shell.out("call", "-A", "tasks", "add", "1", "2", "--delay", "1h")
    mail = shell.out("call", "-A", "tasks", "greet", "anne")
    shell("worker", "tasks.py", "--until-empty", "-Q", "default")
    assert shell.out("result", now) == "3"
    assert "scheduled" in shell.refused("result", later, code=1)
    assert "It is ready" in shell.refused("result", mail, code=1) or "No worker" in shell.refused(
        "result", mail, code=1
    )
    shell("worker", "tasks.py", "--until-empty", environ={"WINDLASS_QUEUES": "mail, other"})
    assert shell.out("result", mail) == "anne"


def test_an_interrupt_lets_running_jobs_end_and_a_second_one_does_not(shell: Shell) -> None:
    with shell.running("worker", "tasks.py", "--show-jobs") as worker:
        worker.wait_for("has started")
        job_id = shell.out("call", "slow", "0.5")
        shell("call", "add", "1", "1", "--wait")
        assert worker.stop(signal.SIGINT) == 0
    assert f"tasks.slow {job_id}: succeeded in" in worker.text
    with shell.running("worker", "tasks.py") as worker:
        worker.wait_for("has started")
        shell("call", "slow", "600")
        shell("call", "add", "1", "1", "--wait")
        worker.process.send_signal(signal.SIGTERM)
        worker.wait_for("is asked to stop")
        assert worker.stop(signal.SIGTERM) == -signal.SIGTERM


def test_a_task_that_outlasts_the_drain_does_not_keep_the_process(shell: Shell) -> None:
    """Not even in a thread of asyncio's, for which Python waits at its end."""
    with shell.running("worker", "tasks.py", "--drain", "0") as worker:
        worker.wait_for("has started")
        job_id = shell.out("call", "hangs")
        wait_for("it to begin", lambda: shell.out("jobs", "logs", job_id))
        assert worker.stop() == 0
    assert "it goes back to the store" in worker.text


@pytest.mark.parametrize("then", ["time.sleep(600)", "pass"], ids=["before it works", "while it starts"])
def test_a_signal_at_the_first_moment_is_heard(shell: Shell, then: str) -> None:
    (shell.folder / "early.py").write_text(
        "import os, signal, time\nfrom windlass import App\napp = App()\n@app.task\ndef one() -> int: return 1\n"
        f"@app.on_start\ndef change_of_mind() -> None:\n    os.kill(os.getppid(), signal.SIGTERM)\n    {then}\n"
    )
    said = shell("worker", "early.py").stderr
    assert ("has stopped" in said) == ("has started" in said), "one that had not started has nothing to stop"
    assert ("ends before its first runner works" in said) != ("has started" in said)


def test_until_empty_ends_beside_a_paused_queue(shell: Shell) -> None:
    mail = shell.out("call", "-A", "tasks", "greet", "anne")
    shell("queues", "pause", "mail")
    shell("worker", "tasks.py", "--until-empty")
    assert "paused" in shell.refused("result", mail, code=1)


def test_a_log_for_machines_is_an_object_per_line(shell: Shell) -> None:
    shell("call", "-A", "tasks", "add", "1", "2")
    shell("call", "-A", "tasks", "fail", "no\x1b[2J")
    shell("worker", "tasks.py", "--until-empty", "--log-format", "json", "--logfile", "w.log", "--show-jobs")
    lines = [json.loads(line) for line in (shell.folder / "w.log").read_text().splitlines()]
    assert {line["logger"] for line in lines} == {"windlass.worker", "windlass.jobs"}
    (ended,) = (line for line in lines if line.get("event") == "settled")
    assert (ended["task"], ended["outcome"], ended["attempt"]) == ("tasks.add", "succeeded", 1)
    assert ended["duration_ms"] >= 0
    (failed,) = (line for line in lines if line["level"] == "warning")
    assert "ValueError: no" in failed["msg"]


def test_a_log_for_people_spells_out_what_a_terminal_would_obey(shell: Shell) -> None:
    shell("call", "-A", "tasks", "fail", "no\x1b[2J")
    said = shell("worker", "tasks.py", "--until-empty").stderr
    assert "\x1b" not in said
    assert "no\\x1b[2J" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Which app? Give a file or a module"),
        (("nope.py",), "There is no file 'nope.py'. Write a file or a module"),
        (("task.py",), "There is no file 'task.py'. Did you mean tasks.py? Write a file or a module"),
        (("./task.py:app",), "There is no file './task.py'. Did you mean tasks.py?"),
        (("nope",), "There is no module 'nope', in which 'nope' is looked for. Check"),
        (("task",), "There is no module 'task', in which 'task' is looked for. Did you mean tasks.py? Check"),
        (("json",), "There is no app in json. Make one there"),
        (("two.py",), "There are several apps in two.py: one, two. Write two.py:one."),
        (("empty.py",), "has no tasks"),
        (("bad-name.py",), "a module's name is a word"),
        (("tasks.py", "--pool", "prefork"), "Processes are a matter of -p"),
        (("tasks.py", "--pool", "async"), "Did you mean aio?"),
        (("tasks.py", "--pool", "solo"), "tasks.later is a coroutine function, which the pool solo cannot run"),
        (("tasks.py", "-c", "0"), "'-c' / '--concurrency': It takes a whole number from 1 to 10,000, not '0'."),
        (("tasks.py", "-c", "abc"), "'-c' / '--concurrency': It takes a whole number from 1 to 10,000, not 'abc'."),
        (("tasks.py", "-c", "1.5"), "It takes a whole number from 1 to 10,000, not '1.5'."),
        (("tasks.py", "-Q", "a b"), "queue"),
        (("tasks.py", "-Q", ","), "No queue is named. Leave the option out for all of them."),
        (("tasks.py", "--drain", "soon"), "soon"),
        (("tasks.py", "--logfile", "no/such/folder"), "cannot be written: No such file or directory"),
        (("tasks.py", "--untilempty"), "Did you mean '--until-empty'?"),
    ],
)
def test_what_is_asked_for_wrongly_is_told(shell: Shell, words: tuple[str, ...], said: str) -> None:
    (shell.folder / "two.py").write_text("from windlass import App\none, two = App(), App('memory://')\n")
    (shell.folder / "empty.py").write_text("from windlass import App\napp = App()\n")
    (shell.folder / "bad-name.py").write_text("")
    assert said in shell.refused("worker", *words, code=2)


def test_a_file_that_python_finds_elsewhere_is_told_of(shell: Shell) -> None:
    (shell.folder / "msgspec.py").write_text("from windlass import App\napp = App()\n")
    assert "is not what Python finds as the module msgspec" in shell.refused("worker", "msgspec.py", code=2)


def test_a_store_that_cannot_be_opened_is_exit_code_3(shell: Shell) -> None:
    (shell.folder / "windlass.db").write_text("this is no database, and much longer than a header would be" * 20)
    assert "windlass.db" in shell.refused("call", "tasks.add", "1", code=3)


def test_an_app_in_a_package_is_named_as_others_import_it(shell: Shell) -> None:
    package = shell.folder / "shop" / "parts"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    Path(package, "jobs.py").write_text(
        "from windlass import App\napp = App()\n@app.task\ndef sell() -> int: return 1\n"
    )
    job_id = shell.out("call", "shop.parts.jobs.sell")
    shell("worker", "shop/parts/jobs.py", "--until-empty")
    assert shell.out("result", job_id) == "1"
