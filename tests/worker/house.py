"""A worker whose office is in the test's process and whose runners are real processes, on a store in a folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.soak.waiting import wait_for
from windlass.app.app import App
from windlass.app.handle import Handle
from windlass.core.clock import SystemClock
from windlass.core.events import Bus
from windlass.core.info import Process
from windlass.core.job import Job, Outcome, Record
from windlass.engines.connect import connect
from windlass.engines.protocol import Engine
from windlass.worker.asked import Asked
from windlass.worker.crew import Crew
from windlass.worker.kind import Kind
from windlass.worker.plan import Plan
from windlass.worker.runners import Runners

PILLS = Path(__file__).parent / "pills.py"
HANG_S = 60


class Mark(NamedTuple):
    """What a run left in the file: a word, its process, its job."""

    word: str
    pid: int
    job: str


class Staffed:
    """A started worker with runners."""

    def __init__(self, plan: Plan, wrap: Callable[[Engine], Engine] | None = None) -> None:
        clock = SystemClock()
        self.runners = Runners(plan, clock)
        with ExitStack() as undo:
            undo.callback(self.runners.close)
            settings = self.runners.hire(Asked())
            assert settings is not None
            engine = connect(settings.url, settings)
            engine = engine if wrap is None else wrap(engine)
            engine.open()
            undo.callback(engine.close)
            bus = Bus()
            self.crew = Crew(
                engine,
                settings,
                bus,
                clock,
                lambda office: self.runners.serve(office, bus),
                kind=plan.kind,
                queues=None,
                name="staffed",
                resources={},
            )
            self.crew.start()
            wait_for("all runners to work", lambda: len(self.pids()) == plan.processes)
            undo.callback(self.crew.stop, 0)
            self._undo = undo.pop_all()

    def runner_processes(self) -> list[Process]:
        """All of its runners, a suspect's own (number 0) too."""
        return [process for process in self.runners.processes() if process.role == "runner"]

    def pids(self) -> dict[int, int]:
        """The processes of its runners that work, by number; a suspect's own process is not among them."""
        working = [process for process in self.runners.processes() if process.state == "working" and process.number]
        return {process.number: process.pid for process in working}

    def take_jobs_for_short(self) -> None:
        """From now on each runner is given many functions at once, whatever those before took."""
        for runner in self.runners.roster.all():
            runner.rooms[False].mean_us = 100

    def close(self) -> None:
        self._undo.close()


class House:
    """A store, an app that sends to it, the marks of what ran, and workers."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._stack = stack
        self.folder = folder
        self.url = f"sqlite:///{folder}/jobs.db"
        self.app = App(self.url)
        self.marks_file = folder / "marks"
        self.marks_file.touch()

    def worker(
        self,
        app: Path = PILLS,
        *,
        processes: int = 1,
        slots: int = 1,
        kind: Kind = "auto",
        max_jobs: int | None = None,
        max_memory: int | None = None,
        wrap: Callable[[Engine], Engine] | None = None,
    ) -> Staffed:
        """`wrap`: what its office has in the place of the engine."""
        plan = Plan(
            app=str(app),
            processes=processes,
            slots=slots,
            kind=kind,
            name="staffed",
            max_jobs=max_jobs,
            max_memory=max_memory,
        )
        staffed = Staffed(plan, wrap)
        self._stack.callback(staffed.close)
        return staffed

    def write(self, name: str, text: str) -> Path:
        """A file with an app in it."""
        file = self.folder / name
        file.write_text(text)
        return file

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────

    def send(self, task: str, *args: object) -> Handle[Any]:
        return self.app.send(task, *args)

    def let(self, name: str) -> None:
        """Whoever waits for that file goes on."""
        (self.folder / name).touch()

    def marks(self, word: str) -> list[Mark]:
        lines = [line.split() for line in whole_lines(self.marks_file)]
        return [Mark(said, int(pid), job) for said, pid, job in lines if said == word]

    def numbers(self, word: str) -> list[int]:
        """Those that were marked as `word:number`."""
        words = " ".join(whole_lines(self.marks_file)).split()
        return [int(said.removeprefix(f"{word}:")) for said in words if said.startswith(f"{word}:")]

    def begun(self, handle: Handle[Any]) -> list[int]:
        """The processes in which it has begun."""
        return [mark.pid for mark in self.marks("begin") if mark.job == handle.id]

    def wait_begun(self, handle: Handle[Any], runs: int = 1) -> int:
        """The process of its latest run, once it has begun so often."""
        return wait_for(f"run {runs} of {handle.id}", lambda: self.begun(handle)[runs - 1 :])[0]

    # ── what the store says ─────────────────────────────────────────────────────────────────────────────

    def get(self, handle: Handle[Any]) -> Any:
        return handle.get(HANG_S)

    def job(self, handle: Handle[Any]) -> Job:
        return handle.job()

    def record(self, handle: Handle[Any]) -> Record:
        record = handle.job().record
        assert record is not None
        return record

    def faults(self, handle: Handle[Any]) -> tuple[int, int, int]:
        """Its attempt, its crashes and its losses."""
        record = self.record(handle)
        return record.attempt, record.crashes, record.losses

    def outcomes(self, handle: Handle[Any]) -> Counter[Outcome]:
        return Counter(attempt.outcome for attempt in handle.job().attempts)


def whole_lines(file: Path) -> list[str]:
    """Those that are there to the end: one that is being written may be seen in part."""
    return file.read_text().rpartition("\n")[0].splitlines()


@contextmanager
def house_in(folder: Path) -> Generator[House]:
    with ExitStack() as stack:
        house = House(folder, stack)
        stack.callback(house.app.close)
        yield house


def gone(pids: Collection[int]) -> bool:
    """Whether none of these processes is there any more; one that nobody has reaped yet counts as gone."""
    return not any(_lives(pid) for pid in pids)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def environment(house: House) -> dict[str, str]:
    """Of a process that works on that house's store."""
    return {**os.environ, "WINDLASS_URL": house.url, "MARKS_FOLDER": str(house.folder)}
