"""Workers as processes on sqlite: killed, stopped and continued, drained. What the rest of the world sees of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.soak.waiting import wait_for
from tests.sqlite.rig import gate_is_held
from tests.worker.house import whole_lines
from windlass.app.app import App
from windlass.core.errors import JobDead
from windlass.core.job import Outcome, Record, State
from windlass.engines.protocol import Query, TallyQuery

HERE = Path(__file__).parent
HANG_S = 60
WORK = """
import sys
import tasks
from windlass import Worker
with Worker(tasks.app, slots=int(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.read()
"""


class Process:
    """A worker in a process of its own."""

    def __init__(self, url: str, slots: int, *, is_doomed: bool = False) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORK, str(slots)],
            env={**os.environ, "WINDLASS_URL": url, "PYTHONPATH": str(HERE)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        # One that is doomed may be dead before it can say so.
        assert self._process.stdout.readline() in ({"ready\n", ""} if is_doomed else {"ready\n"})

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def kill(self) -> None:
        self._process.kill()
        self.wait_died()

    def wait_died(self) -> None:
        assert self._process.wait(HANG_S) == -signal.SIGKILL

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def stop(self) -> None:
        """Gracefully."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(HANG_S) == 0


class Stage:
    """A store, an app that sends to it, a file of marks, and workers."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._stack = stack
        self.folder = folder
        self.url = f"sqlite:///{folder}/jobs.db"
        self.app = App(self.url)
        self.marks = folder / "marks"
        self.marks.touch()
        self.until = folder / "until"

    def worker(self, slots: int = 2, *, is_doomed: bool = False) -> Process:
        return self._stack.enter_context(Process(self.url, slots, is_doomed=is_doomed))

    def send(self, task: str, count: int = 1) -> list[str]:
        args = (str(self.marks), str(self.until)) if task == "hold" else (str(self.marks),)
        return [handle.id for handle in self.app.named(task).delay_many([args] * count)]

    def begun(self) -> Counter[str]:
        return self._marked("begin")

    def ended(self) -> Counter[str]:
        return self._marked("end")

    def _marked(self, word: str) -> Counter[str]:
        lines = [line.split() for line in whole_lines(self.marks)]
        return Counter(job_id for said, _, job_id in lines if said == word)

    def wait_begun(self, runs: int) -> None:
        wait_for(f"{runs} runs to begin", lambda: self.begun().total() >= runs)

    def wait_ended(self, runs: int) -> None:
        wait_for(f"{runs} runs to end", lambda: self.ended().total() >= runs)

    def wait_swept(self) -> None:
        """Until the workers have swept: they are alive and had time to do what they must not."""
        expiring = self.app.named("touch").using(expires=0.01, delay=3_600).delay(str(self.marks))
        wait_for("a sweep", lambda: expiring.state is State.EXPIRED)

    def is_dead(self, job_id: str) -> bool:
        return self.app.result(job_id).state is State.DEAD

    def get(self, job_id: str) -> Any:
        return self.app.result(job_id).get(HANG_S)

    def record(self, job_id: str) -> Record:
        record = self.app.result(job_id).job().record
        assert record is not None
        return record

    def outcomes(self, job_id: str) -> list[Outcome]:
        return [attempt.outcome for attempt in self.app.result(job_id).job().attempts]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with ExitStack() as stack:
        stage = Stage(tmp_path, stack)
        yield stage
        stage.app.close()


def test_jobs_of_a_worker_that_was_killed_run_again_and_settle_once(stage: Stage) -> None:
    first, second = stage.worker(2), stage.worker(1)
    ids = stage.send("hold", 3)
    stage.wait_begun(3)
    first.kill()
    stage.until.touch()
    for job_id in ids:
        assert stage.get(job_id) == second.pid
    again = [job_id for job_id, runs in stage.begun().items() if runs == 2]
    assert len(again) == 2
    assert all(runs == 1 for runs in stage.ended().values()), "of two runs of a job one ended"
    for job_id in ids:
        record = stage.record(job_id)
        assert (record.state, record.losses, record.suspect) == (State.SUCCEEDED, int(job_id in again), False)
        assert stage.outcomes(job_id) == ([Outcome.LOST] if job_id in again else [])


def test_workers_that_are_killed_again_and_again_lose_no_job(stage: Stage) -> None:
    (held,), ids = stage.send("hold"), stage.send("touch", 1_500)
    for round_ in range(1, 4):
        worker = stage.worker(4)
        stage.wait_ended(round_ * 100)
        wait_for("the one that is held to begin", lambda: stage.begun()[held])
        worker.kill()
        stage.until.touch()
    stage.worker(4)
    ids.append(held)
    for job_id in ids:
        assert isinstance(stage.get(job_id), int)
    records = [stage.record(job_id) for job_id in ids]
    assert {record.state for record in records} == {State.SUCCEEDED}
    runs = stage.begun()
    for job_id, record in zip(ids, records, strict=True):
        assert 1 <= runs[job_id] <= 1 + record.losses + record.crashes, "no run without a fault that explains it"
    assert stage.record(held).losses > 0


def test_a_job_that_kills_its_worker_runs_alone_after_two_deaths_and_is_poison_after_three_more(
    stage: Stage,
) -> None:
    (pill,) = stage.send("kills")
    innocents: list[str] = []
    for deaths in range(1, 6):
        worker = stage.worker(4, is_doomed=True)
        innocents += stage.send("touch", 20)
        worker.wait_died()
        assert stage.begun()[pill] == deaths
    stage.worker(4)
    wait_for("the pill to be dead", lambda: stage.is_dead(pill))
    record = stage.record(pill)
    assert (record.reason, record.losses, record.crashes) == ("poison", 2, 3)
    assert stage.begun()[pill] == 5
    with pytest.raises(JobDead, match="poison"):
        stage.get(pill)
    for job_id in innocents:
        stage.get(job_id)
    assert {stage.record(job_id).crashes for job_id in innocents} == {0}, "nobody else is blamed"


def test_while_a_suspect_runs_nothing_else_begins(stage: Stage) -> None:
    (suspect,) = stage.send("hold")
    for deaths in range(2):
        worker = stage.worker()
        stage.wait_begun(deaths + 1)
        worker.kill()
    worker = stage.worker(4)
    stage.wait_begun(3)
    assert stage.record(suspect).suspect
    others = stage.send("touch", 10)
    stage.wait_swept()
    stage.wait_swept()
    assert stage.begun().total() == 3
    stage.until.touch()
    assert stage.get(suspect) == worker.pid
    for job_id in others:
        assert stage.get(job_id) == worker.pid
    lines = [line.split() for line in stage.marks.read_text().splitlines()]
    end = next(place for place, (word, _, job_id) in enumerate(lines) if (word, job_id) == ("end", suspect))
    assert {job_id for _, _, job_id in lines[:end]} == {suspect}


def test_a_worker_that_stands_still_keeps_its_jobs_and_nothing_runs_twice(stage: Stage) -> None:
    stopped = stage.worker(2)
    ids = stage.send("hold", 2)
    stage.wait_begun(2)
    try:
        wait_for("it to stand still between two writes", lambda: _stands_still(stopped, stage))
        other = stage.worker(2)
        # The other one works and sweeps meanwhile: its lock is what says that the first one lives.
        for job_id in stage.send("touch", 20):
            assert stage.get(job_id) == other.pid
        stage.wait_swept()
        stage.wait_swept()
        assert [stage.record(job_id).state for job_id in ids] == [State.RUNNING] * 2
        stage.until.touch()
    finally:
        stopped.signal(signal.SIGCONT)
    for job_id in ids:
        assert stage.get(job_id) == stopped.pid
        assert stage.record(job_id).losses == 0
        assert stage.begun()[job_id] == stage.ended()[job_id] == 1


def test_a_graceful_stop_gives_back_what_has_not_begun_and_leaves_no_file(stage: Stage) -> None:
    worker = stage.worker(2)
    held = stage.send("hold", 2)
    stage.wait_begun(2)
    waiting = stage.send("touch", 50)
    stage.until.touch()
    worker.stop()
    for job_id in held:
        assert stage.get(job_id) == worker.pid
    states = Counter(stage.record(job_id).state for job_id in waiting)
    assert set(states) <= {State.READY, State.SUCCEEDED}
    assert stage.app.engine.search(Query(state=State.RUNNING)).jobs == ()
    assert stage.app.engine.tally(TallyQuery()).cards == ()
    assert list((stage.folder / "jobs.db.d" / "owners").iterdir()) == []
    other = stage.worker(2)
    for job_id in waiting:
        assert stage.get(job_id) in {worker.pid, other.pid}
    assert set(stage.ended().values()) == {1}


def _stands_still(process: Process, stage: Stage) -> bool:
    """Stops it, unless that was in the middle of a write: there it would hold up everybody else."""
    process.signal(signal.SIGSTOP)
    wait_for("it to stop", lambda: _state_of(process.pid) == "T")
    if not gate_is_held(stage.folder / "jobs.db"):
        return True
    process.signal(signal.SIGCONT)
    return False


def _state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
