"""`windlass dev`: a worker that starts anew when the code changes, and never outlives who started it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.cli.conftest import TASKS, Running, Shell
from tests.soak.waiting import wait_for
from windlass.cli.dev import dev, folder_of, words_of


def started(running: Running, times: int) -> int:
    """The pid of the worker that has started as that one in line."""
    found = r"Worker (\d+) has started"
    wait_for(f"start {times} in {running.text}", lambda: len(re.findall(found, running.text)) >= times)
    return int(re.findall(found, running.text)[times - 1])


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_change_starts_the_worker_anew_and_a_broken_file_is_waited_for(shell: Shell) -> None:
    file = shell.folder / "tasks.py"
    with shell.running("dev", "tasks.py") as running:
        first = started(running, 1)
        assert shell.out("call", "add", "2", "3", "--wait") == "5"
        # Of another size: Python tells what it has compiled before by the size, and by the second of the change.
        file.write_text(TASKS.replace("a + b", "a - 1 * b"))
        second = started(running, 2)
        assert not is_there(first)
        assert shell.out("call", "add", "2", "3", "--wait") == "-1"
        file.write_text("def broken(\n")
        running.wait_for("The worker has ended with exit code 1. It starts again when a file changes.")
        assert "SyntaxError: '(' was never closed" in running.text
        file.write_text(TASKS)
        third = started(running, 3)
        assert shell.out("call", "add", "2", "3", "--wait") == "5"
        assert running.stop(signal.SIGINT) == 0
    assert not any(map(is_there, (second, third)))
    assert running.text.count("exit code") == 1, "a broken file is told of once"
    assert running.text.count("has stopped.") == 3, "each worker that ran has ended gracefully"
    assert "tasks.py changed: the worker starts anew." in running.text
    assert ": succeeded in" in running.text, "jobs are shown"


def test_the_worker_ends_with_a_parent_that_is_killed(shell: Shell) -> None:
    with shell.running("dev", "tasks.py") as running:
        worker = started(running, 1)
        running.process.kill()
        wait_for("the end of the worker", lambda: not is_there(worker))
    assert "has stopped." in running.text, "and gracefully"


def test_the_child_is_told_what_the_parent_was_told() -> None:
    typed: str = (
        "tasks.py -Q a,b -c 3 -P threads --name box --drain 7s -l DEBUG --log-format json -f w.log --no-show-jobs"
    )
    context = dev.make_context("dev", [*typed.split()], **dev.context_settings)
    again = dev.make_context("dev", words_of(context), **dev.context_settings)
    assert again.params == context.params
    assert set(context.params) == {param.name for param in dev.params}
    assert "--show-jobs" in words_of(dev.make_context("dev", ["tasks.py"], **dev.context_settings))


def test_what_is_watched_is_the_folder_of_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "shop" / "parts"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "jobs.py").touch()
    (tmp_path / "tasks.py").touch()
    assert folder_of("tasks.py") == folder_of("tasks:app") == tmp_path
    assert folder_of("shop/parts/jobs.py") == folder_of("shop.parts.jobs:app") == tmp_path / "shop"
    for wrong in ("nope.py", "nope.tasks:app", ":app", ""):
        with pytest.raises(click.UsageError, match="There is no"):
            folder_of(wrong)
    with pytest.raises(click.UsageError, match=r"There is no file 'task\.py'\. Did you mean tasks\.py\?$"):
        folder_of("task.py")


def test_without_the_package_that_watches_the_pip_command_is_named(shell: Shell) -> None:
    """MissingExtra, in a process that has no watchfiles."""
    code = "import sys; sys.modules['watchfiles'] = None; from windlass.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "dev", "tasks.py"],
        cwd=shell.folder,
        env=shell.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "Error: Watching files needs the package watchfiles. Run: pip install watchfiles\n"


def test_dev_needs_an_app(shell: Shell) -> None:
    assert "Which app?" in shell.refused("dev", code=2)
