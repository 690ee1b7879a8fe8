"""A folder with a store, an app that sends to it, and workers as people start them: `windlass worker …`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.soak.waiting import wait_for
from tests.worker.house import whole_lines
from tests.worker.titles import runners_of, script_runners_of
from windlass.app.handle import Handle
from windlass.core.clock import SystemClock
from windlass.core.events import Bus
from windlass.core.job import ENDED, Failure, Outcome, Record
from windlass.core.system import children
from windlass.engines.connect import connect
from windlass.worker.asked import Asked
from windlass.worker.budget import read_resources
from windlass.worker.crew import Crew
from windlass.worker.plan import Plan
from windlass.worker.runners import Runners

CLOCK = SystemClock()
TASKS = Path(__file__).parent / "limited.py"
HANG_S = 60


def is_there(pid: int) -> bool:
    """Whether such a process runs; one that has ended and was not reaped does not."""
    return state_of(pid) not in ("", "Z")


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def wait_gone(pids: Iterable[int]) -> None:
    for pid in pids:
        wait_for(f"the end of process {pid}", lambda pid=pid: not is_there(pid))


class Line(NamedTuple):
    """What a run wrote down."""

    word: str
    pid: int
    job: str
    more: int


class Started:
    """A worker with processes of its own, and what it has said so far."""

    def __init__(self, words: tuple[str, ...], folder: Path, environ: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(
                [str(Path(sys.executable).parent / "windlass"), "worker", *words],
                cwd=folder,
                env=environ,
                stderr=file,
                start_new_session=True,
            )
        self.pid = self.process.pid
        self.wait_for("has started")

    @property
    def text(self) -> str:
        return self._log.read_text()

    def wait_for(self, text: str) -> None:
        wait_for(f"{text!r} in {self.text!r}", lambda: text in self.text or self.process.poll() is not None)
        assert text in self.text

    @property
    def runners(self) -> set[int]:
        return set(runners_of(self.pid))

    @property
    def script_runner(self) -> int:
        """The process that owns its scripts."""
        wait_for("a script runner", lambda: script_runners_of(self.pid))
        return script_runners_of(self.pid)[0]

    def wait_runners(self, count: int) -> set[int]:
        wait_for(f"{count} runners", lambda: len(self.runners) == count)
        return self.runners

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit code; none of its processes is left."""
        before = self.runners
        self.process.send_signal(number)
        return self.wait_ended(before)

    def wait_ended(self, runners: Iterable[int] = ()) -> int:
        code = self.process.wait(HANG_S)
        wait_gone(runners)
        return code

    @contextmanager
    def frozen(self) -> Generator[None]:
        """Its supervisor stands still, and not in the middle of a write, which would hold up all others."""
        try:
            wait_for("it to stand still", self._stands_still)
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def _stands_still(self) -> bool:
        os.kill(self.pid, signal.SIGSTOP)
        wait_for("it to stop", lambda: state_of(self.pid) == "T")
        if holds_the_gate(self.pid):
            os.kill(self.pid, signal.SIGCONT)
            return False
        return True

    def end(self) -> None:
        """Whatever the test was about: nothing of it is left."""
        runners = {*self.runners, *children(self.pid, recursive=True)}
        self.process.kill()
        self.wait_ended(runners)


def holds_the_gate(pid: int) -> bool:
    """Whether that process writes to a store just now."""
    gates = [link for link in Path(f"/proc/{pid}/fd").iterdir() if os.readlink(link).endswith(".gate")]
    return any("FLOCK" in Path(f"/proc/{pid}/fdinfo/{link.name}").read_text() for link in gates)


class Yard:
    """Where workers work."""

    def __init__(self, folder: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._stack = stack
        self.monkeypatch = monkeypatch
        self.url = f"sqlite:///{folder}/jobs.db"
        for name, value in {
            "WINDLASS_URL": self.url,
            "WINDLASS_SWEEP": "0.2s",
            "WINDLASS_BEAT": "0.5s",
            "YARD": str(folder),
        }.items():
            monkeypatch.setenv(name, value)
        self._count = 0
        (folder / "marks").touch()
        shutil.copy(TASKS, folder)

    def worker(self, *words: str, **environ: str) -> Started:
        return self._start("limited.py", *words, **environ)

    def script_worker(self, *words: str, **environ: str) -> Started:
        """One without an app, for the scripts in jobs/."""
        return self._start("--scripts", "jobs", *words, **environ)

    def _start(self, *words: str, **environ: str) -> Started:
        self._count += 1
        log = self.folder / f"worker-{self._count}.log"
        started = Started(words, self.folder, {**os.environ, **environ}, log)
        self._stack.callback(started.end)
        return started

    def script(self, name: str, text: str, mode: int = 0o755) -> str:
        """A script in jobs/, and what its path is for a worker."""
        path = self.folder / "jobs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return f"jobs/{name}"

    @contextmanager
    def in_process(self, **plan: Any) -> Generator[Runners]:
        """The parts of a supervisor in this process, with runners of their own, for what no option sets."""
        runners, resources = Runners(Plan(app=str(self.folder / "limited.py"), **plan), CLOCK), read_resources(None, {})
        with ExitStack() as stack:
            stack.callback(runners.close)
            settings = runners.hire(Asked())
            assert settings is not None
            engine, bus = connect(settings.url, settings), Bus()
            engine.open()
            stack.callback(engine.close)
            crew = Crew(
                engine,
                settings,
                bus,
                CLOCK,
                lambda office: runners.serve(office, bus),
                kind="auto",
                queues=None,
                name="here",
                resources=resources,
            )
            crew.start()
            stack.callback(crew.stop, 0)
            yield runners

    def load(self) -> Any:
        """The tasks, imported as a fresh process would; `yard.load().touch.delay()`."""
        spec = importlib.util.spec_from_file_location("limited", TASKS)
        assert spec is not None
        assert spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self._stack.callback(module.app.close)
        return module

    def go(self, name: str) -> None:
        """Lets the tasks go on that wait for that file."""
        (self.folder / name).touch()

    # ── what tasks have marked ──────────────────────────────────────────────────────────────────────────

    def lines(self, word: str | None = None, job: Handle[Any] | None = None) -> list[Line]:
        found = [line.split() for line in whole_lines(self.folder / "marks")]
        lines = [Line(said, int(pid), job_id, int(more[0]) if more else 0) for said, pid, job_id, *more in found]
        return [line for line in lines if word in (None, line.word) and (job is None or line.job == job.id)]

    def wait_lines(self, word: str, count: int = 1, job: Handle[Any] | None = None) -> list[Line]:
        wait_for(f"{count} × {word}", lambda: len(self.lines(word, job)) >= count)
        return self.lines(word, job)

    def most_at_once(self) -> int:
        """The largest sum of what tasks had that ran at the same time."""
        sums = [0]
        for line in self.lines():
            sums.append(sums[-1] + (line.more if line.word == "begin" else -line.more))
        return max(sums)

    def shared_a_process(self) -> bool:
        """Whether one that had something of its own ever ran in a process beside another."""
        running: dict[int, Counter[str]] = {}
        for line in self.lines():
            here = running.setdefault(line.pid, Counter())
            if line.word == "end":
                here -= Counter({line.job: 1})
                running[line.pid] = here
            elif here and (line.more or any(beside.more for beside in self.lines("begin") if beside.job in here)):
                return True
            else:
                here[line.job] += 1
        return False


def record(handle: Handle[Any]) -> Record:
    found = handle.job().record
    assert found is not None
    return found


def outcomes(handle: Handle[Any]) -> list[Outcome]:
    return [attempt.outcome for attempt in handle.job().attempts]


def failure(handle: Handle[Any]) -> Failure:
    found = handle.job().failure
    assert found is not None
    return found


def wait_ended(*handles: Handle[Any]) -> None:
    for handle in handles:
        wait_for(f"the end of {handle.id}", lambda handle=handle: handle.state in ENDED)


def counts(handle: Handle[Any]) -> tuple[int, int, int]:
    """What counts against it: its attempt, crashes, losses."""
    found = record(handle)
    return found.attempt, found.crashes, found.losses
