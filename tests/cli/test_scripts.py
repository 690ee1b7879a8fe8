"""`windlass script` and `windlass worker --scripts`, as they are typed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.soak.waiting import wait_for


@pytest.fixture
def jobs(shell: Shell) -> Path:
    folder = shell.folder / "jobs"
    folder.mkdir()
    (folder / "report.py").write_text("import sys\nprint('day', *sys.argv[1:])\n")
    (folder / "fails.py").write_text("raise SystemExit(4)\n")
    (folder / "waits.py").write_text(
        "import os, time\nprint('it begins')\nwhile not os.path.exists('go'):\n    time.sleep(0.02)\nprint('it ends')\n"
    )
    return folder


@pytest.mark.usefixtures("jobs")
def test_a_script_is_sent_run_and_shown_with_all_that_was_said_of_it(shell: Shell) -> None:
    words = ("--name", "Daily report", "--memory", "256MB", "--at", "in 1 second", "--timeout", "1h")
    job_id = shell.out("script", "jobs/report.py", *words, "--", "--day", "2026-11-15")
    shown = json.loads(shell.out("jobs", "show", job_id, "--json"))
    assert (shown["state"], shown["task"], shown["script"]) == ("scheduled", "windlass.script", "Daily report")
    assert 0 < shown["due_us"] - shown["created_us"] <= 1_000_000
    with shell.running("worker", "--scripts", "jobs/", "-n", "night") as worker:
        worker.wait_for("has started")
        assert shell.out("result", job_id, "--wait", "--timeout", "60") == "0"
    assert "Daily report" in shell.out("jobs", "list")
    page = shell.out("jobs", "show", job_id)
    for line in ("Name        Daily report", "Script      jobs/report.py --day 2026-11-15", "256MB of memory"):
        assert line in page
    assert "stdout: day --day 2026-11-15" in page
    assert "Arguments" not in page
    shown = json.loads(shell.out("jobs", "show", job_id, "--json"))
    assert shown["kwargs"]["args"] == ["--day", "2026-11-15"]
    assert [line["stream"] for line in shown["log"]] == ["", "", "stdout", ""]


@pytest.mark.usefixtures("jobs")
def test_whoever_waits_learns_by_the_exit_code(shell: Shell) -> None:
    with shell.running("worker", "--scripts", "jobs") as worker:
        worker.wait_for("has started")
        assert shell.out("script", "jobs/report.py", "--wait") == "0"
        done = shell("script", "jobs/fails.py", "--wait", code=1)
    assert "The script jobs/fails.py ended with exit code 4." in done.stderr


@pytest.mark.usefixtures("jobs")
def test_a_log_is_followed_while_the_script_runs(shell: Shell) -> None:
    with shell.running("worker", "--scripts", "jobs", "-n", "night") as worker:
        worker.wait_for("has started")
        job_id = shell.out("script", "jobs/waits.py")
        shown = shell.folder / "shown"
        with shown.open("w") as file:
            follows = subprocess.Popen(
                shell.command("jobs", "logs", "-f", job_id), cwd=shell.folder, env=shell.environ, stdout=file
            )
        wait_for("its first line", lambda: "stdout: it begins" in shown.read_text())
        assert "it ends" not in shown.read_text()
        (shell.folder / "go").touch()
        assert follows.wait(60) == 0
        assert "Picked up by worker night, process " in shown.read_text()
        assert "stdout: it ends" in shown.read_text()


@pytest.mark.usefixtures("jobs")
def test_processes_and_the_reason_for_waiting_name_scripts(shell: Shell) -> None:
    done = shell("script", "jobs/waits.py")
    job_id = done.stdout.strip()
    assert "windlass worker --scripts jobs/" in shell.out("jobs", "show", job_id, "--why")
    with shell.running("worker", "tasks.py", "--scripts", "jobs") as worker:
        worker.wait_for("has started")
        wait_for("it to run", lambda: "it begins" in shell.out("jobs", "logs", job_id))
        wait_for("the spare runner", lambda: _roles(shell) == ["runner", "scripts", "spare", "supervisor"])
        (shell.folder / "go").touch()
        assert shell.out("result", job_id, "--wait", "--timeout", "60") == "0"


def test_what_no_script_can_be_is_refused_before_anything_is_made(shell: Shell) -> None:
    assert "A script cannot be ''." in shell.refused("script", "", code=2)
    assert "The moment 'soon' cannot be read." in shell.refused("script", "a.py", "--at", "soon", code=2)
    assert "either `delay` or `at`" in shell.refused("script", "a.py", "--at", "14:30", "--delay", "5", code=2)
    assert "name another, such as" in shell.refused("script", "a.py", "-u", "memory://", code=2)
    assert not (shell.folder / "windlass.db").exists()
    no_option = shell.refused("script", "a.py", "--day", "1", code=2)
    assert "windlass script has no option --day. What is meant for the script goes after --" in no_option


@pytest.mark.usefixtures("jobs")
def test_what_was_sent_is_told_and_why_nothing_comes(shell: Shell) -> None:
    done = shell("script", "jobs/report.py", "--at", "in 1 hour", "--key", "nightly")
    assert "A new store begins here: sqlite:///windlass.db in " in done.stderr
    assert "It is scheduled for " in done.stderr
    again = shell("script", "jobs/report.py", "--key", "nightly")
    assert again.stdout == done.stdout
    assert "Nothing was sent: this job of the same key or id is there already." in again.stderr
    waits = subprocess.Popen(
        shell.command("jobs", "logs", "-f", shell.out("script", "jobs/report.py")),
        cwd=shell.folder,
        env=shell.environ,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waits.stderr is not None
    assert "windlass worker --scripts jobs/" in waits.stderr.readline()
    waits.terminate()
    waits.wait(60)
    waits.stderr.close()


@pytest.mark.usefixtures("jobs")
def test_whoever_follows_one_that_fails_is_told_why(shell: Shell) -> None:
    job_id = shell.out("script", "jobs/fails.py")
    shell("worker", "--scripts", "jobs", "--until-empty", "-u", "sqlite:///windlass.db")
    done = shell("jobs", "logs", "-f", job_id, code=1)
    assert "The script jobs/fails.py ended with exit code 4." in done.stderr


def test_a_worker_with_neither_an_app_nor_scripts_or_with_a_folder_that_is_not_there_is_refused(shell: Shell) -> None:
    assert "Which app? Give a file or a module" in shell.refused("worker", code=2)
    assert "There is no folder of scripts 'none'. Make it" in shell.refused("worker", "--scripts", "none", code=2)
    assert "Leave --url out" in shell.refused("worker", "tasks.py", "-u", "sqlite:///x.db", code=2)


def _roles(shell: Shell) -> list[str]:
    (told,) = json.loads(shell.out("inspect", "processes", "--json"))
    return sorted(process["role"] for process in told["processes"])
