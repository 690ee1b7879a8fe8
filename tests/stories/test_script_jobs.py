"""Scripts as jobs: the example, run as its page says, by a worker in a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shell
from tests.worker.yard import Started
from windlass import App
from windlass.core.errors import JobDead

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "script_jobs"
HANG_S = 60
MINUTE_S = "3"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Stage:
    """The example in a folder of its own, its jobs sent, a worker at work."""

    def __init__(self, folder: Path) -> None:
        self.shell = Shell(folder)
        sent = subprocess.run(
            [sys.executable, "producer.py", "--minute", MINUTE_S, "--chance", "1"],
            cwd=folder,
            env=self.shell.environ,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=True,
        )
        self.now, self.later, self.risky = (line.split("\t") for line in sent.stdout.splitlines())
        # Only now, so that starting it takes some of the minute.
        self.worker = Started(("--scripts", "jobs/", "-n", "ann"), folder, self.shell.environ, folder / "worker.log")
        self.app = App(f"sqlite:///{folder}/windlass.db")

    def close(self) -> None:
        self.app.close()
        self.worker.end()

    def exit_code(self, sent: list[str]) -> int:
        return self.app.result(sent[0]).get(timeout=HANG_S)

    def page(self, sent: list[str]) -> dict[str, str]:
        """What `windlass jobs show` says, by its labels; its log by itself."""
        head, _, log = self.shell.out("jobs", "show", sent[0]).partition("\nLog\n")
        return {line[:12].rstrip(): line[12:] for line in head.splitlines()} | {"Log": log}

    def data(self, sent: list[str]) -> dict[str, Any]:
        return json.loads(self.shell.out("jobs", "show", sent[0], "--json"))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    folder = tmp_path / "script_jobs"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "windlass.db*"))
    stage = Stage(folder)
    yield stage
    stage.close()


def said(job: dict[str, Any], stream: str) -> list[str]:
    return [line["text"] for line in job["log"] if line["stream"] == stream]


def test_the_example_sends_three_scripts_and_shows_what_becomes_of_them(stage: Stage) -> None:
    assert stage.exit_code(stage.now) == 0
    _the_immediate_one(stage)
    with pytest.raises(
        JobDead, match=r"The script jobs/sometimes\.py ended with exit code 1\. Its log says what it wrote"
    ):
        stage.exit_code(stage.risky)
    _the_one_that_fails(stage)
    assert stage.exit_code(stage.later) == 0
    _the_one_of_a_minute_later(stage)
    assert stage.worker.stop() == 0


def _the_immediate_one(stage: Stage) -> None:
    page, job = stage.page(stage.now), stage.data(stage.now)
    assert page["Name"] == job["kwargs"]["name"] == "Immediate analysis"
    assert page["Script"] == "jobs/analyse.py orders.csv 5"
    assert (job["kwargs"]["path"], job["kwargs"]["args"]) == ("jobs/analyse.py", ["orders.csv", "5"])
    assert page["State"] == "succeeded, attempt 1"
    assert page["Needs"] == "256MB of memory"
    assert job["needs"] == {"memory": 256_000_000}
    assert (page["Result"], job["result"]) == ("0", 0)
    assert job["created_us"] == job["due_us"] <= job["started_us"] <= job["ended_us"]
    assert {"Sent", "Started", "Ended"} <= page.keys()
    assert "Due" not in page
    steps = [f"step {number} of 5" for number in range(1, 6)]
    assert said(job, "stdout") == ["analysing orders.csv", *steps, "done"]
    assert said(job, "stderr") == ["orders.csv has no header"]
    _has_the_lines_of_its_life(job, "Ended with exit code 0 after ")
    for line in ("stdout: step 3 of 5", "stderr: orders.csv has no header", "Picked up by worker ann, process "):
        assert f"#1  {line}" in page["Log"]


def _has_the_lines_of_its_life(job: dict[str, Any], last: str) -> None:
    by = job["kwargs"]["by"]
    created, picked_up, ended = said(job, "")
    assert created == f"Created by {by}."
    assert picked_up.startswith("Picked up by worker ann, process ")
    assert ended.startswith(last)
    assert [job["log"][place]["text"] for place in (0, 1, -1)] == [created, picked_up, ended]


def _the_one_that_fails(stage: Stage) -> None:
    page, job = stage.page(stage.risky), stage.data(stage.risky)
    assert (page["Name"], page["Script"]) == ("Risky check", "jobs/sometimes.py --chance 1")
    assert page["State"] == "dead (failed), attempt 1"
    assert page["Needs"] == "128MB of memory"
    assert job["failure"]["type"].endswith("ScriptFailed")
    assert job["failure"]["traceback"] == "the dice say no", "what it last wrote to stderr"
    assert said(job, "stdout") == ["it may fail: 100%"]
    assert said(job, "stderr") == ["the dice say no"]
    _has_the_lines_of_its_life(job, "Ended with exit code 1 after ")


def _the_one_of_a_minute_later(stage: Stage) -> None:
    page, job = stage.page(stage.later), stage.data(stage.later)
    assert (page["Name"], page["Script"]) == ("Scheduled report", "jobs/report.py --type daily")
    assert page["Needs"] == "512MB of memory"
    due = EPOCH + timedelta(microseconds=job["due_us"])
    assert due == datetime.fromisoformat(stage.later[1]), "the instant that the producer asked for"
    assert page["Due"].startswith(f"{due:%Y-%m-%d %H:%M:%S} UTC")
    assert job["due_us"] <= job["claimed_us"] <= job["started_us"]
    assert said(job, "stdout") == ["The shop by the bay", "the daily report"]
    _has_the_lines_of_its_life(job, "Ended with exit code 0 after ")


def test_the_producer_needs_neither_a_worker_nor_the_scripts(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "producer.py", tmp_path)
    shell = Shell(tmp_path)
    subprocess.run([sys.executable, "producer.py"], cwd=tmp_path, env=shell.environ, check=True, timeout=HANG_S)
    jobs = {job["state"]: job["id"] for job in json.loads(shell.out("jobs", "list", "--json"))}
    assert jobs.keys() == {"ready", "scheduled"}
    assert "windlass worker --scripts jobs/" in shell.out("jobs", "show", jobs["ready"], "--why")
