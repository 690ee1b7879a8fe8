"""Workers with runners, as the stories start, hurt and stop them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import msgspec
import psutil

from tests.soak.recorder import Recorder
from tests.soak.runs import Marks
from tests.soak.supervisor import Assignment
from tests.soak.waiting import HANG_S, Hangs, wait_for
from tests.soak.worker import ROOT
from windlass.core.codec import encode_arguments
from windlass.core.job import LIVE, Job, Request
from windlass.core.settings import Settings
from windlass.engines.connect import connect
from windlass.engines.protocol import TallyQuery
from windlass.worker.plan import Plan

APP = "tests.soak.tasks"
STOP_S = 60.0
LOOK_S = 0.02
"""How often is looked whether something has happened: rarely enough to take nothing from those who do it."""


class Supervised:
    """One supervisor and its runners."""

    def __init__(self, words: Sequence[str], folder: Path, errors: Path, settings: dict[str, str]) -> None:
        self._errors = errors
        with errors.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                cwd=ROOT,
                env={**os.environ, "SOAK_FOLDER": str(folder), **settings},
                stdin=subprocess.DEVNULL,
                stderr=file,
            )
        self.pid = self.process.pid

    def runners(self) -> list[int]:
        """Their process ids, those that are just starting too."""
        try:
            return sorted(child.pid for child in psutil.Process(self.pid).children())
        except psutil.NoSuchProcess:
            return []

    def owns(self, pid: int) -> bool:
        return pid in self.runners()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9 of the supervisor alone; the runners have to see to themselves."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> str:
        """Gracefully; what is wrong with that, or nothing."""
        self.send(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            return "does not stop"
        return f"ended with {code}: {self.said()}" if code else ""

    def lines(self) -> list[str]:
        """What it and its runners have logged."""
        return self._errors.read_text(errors="replace").splitlines()

    def said(self) -> str:
        """The end of its log."""
        return "\n".join(self.lines())[-2_000:]

    def check(self) -> None:
        """It has not ended by itself."""
        if self.process.poll() is not None:
            raise Hangs(f"a supervisor ended with {self.process.returncode}: {self.said()}")

    def end(self) -> None:
        """Nobody outlives the story; runners end with their supervisor."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Fleet:
    """A store in a folder, those who work on it, and one who sends."""

    def __init__(self, folder: Path, url: str | None = None, **settings: str) -> None:
        """The store is a file in the folder, unless a URL names another one."""
        self.folder = folder
        self.url = url or f"sqlite:///{folder}/jobs.db"
        self.marks = Marks(folder / "marks")
        self.recorder = Recorder(folder / "sender.jsonl")
        self.workers: list[Supervised] = []
        self._settings = {f"WINDLASS_{name.upper()}": value for name, value in settings.items()}
        self._stack = ExitStack()
        self.engine = connect(self.url, Settings(disk_floor_bytes=0, disk_reserve_bytes=0))

    def __enter__(self) -> Fleet:
        self.engine.open()
        self._stack.callback(self.engine.close)
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.end()
        self._stack.close()
        self.recorder.close()
        self.marks.close()

    # ── workers ─────────────────────────────────────────────────────────────────────────────────────────

    def start(self, *options: str, url: str | None = None) -> Supervised:
        """`windlass worker` as users start it; with a URL, one that reaches the store another way."""
        return self._begin(["-m", "windlass", "worker", APP, "-l", "warning", *options], url)

    def start_recorded(
        self, processes: int, slots: int, death: Literal["lock", "lease"] = "lock", *, url: str | None = None
    ) -> Supervised:
        """One whose claims and settles are written down."""
        plan = Plan(app=APP, processes=processes, kind="threads", slots=slots, level="warning")
        record = str(self.folder / f"supervisor-{len(self.workers)}.jsonl")
        given = Assignment(plan=plan, record=record, death=death)
        return self._begin(["-m", "tests.soak.supervisor", msgspec.json.encode(given).decode()], url)

    def _begin(self, words: Sequence[str], url: str | None) -> Supervised:
        errors = self.folder / f"supervisor-{len(self.workers)}.stderr"
        settings = {**self._settings, "WINDLASS_URL": url or self.url}
        self.workers.append(Supervised(words, self.folder, errors, settings))
        return self.workers[-1]

    def wait_up(self, worker: Supervised) -> None:
        """Until its first runner can work."""

        def up() -> bool:
            worker.check()
            return any(card.pid == worker.pid for card in self.engine.tally(TallyQuery()).cards)

        wait_for("a worker to come up", up, step_s=0.02)

    def stop(self) -> list[str]:
        """All that still work; what was wrong with it."""
        living = [worker for worker in self.workers if worker.process.returncode is None]
        return [wrong for worker in living if (wrong := worker.stop())]

    def said(self) -> str:
        """What each of them has logged, and how the workers and live jobs stand in the store."""
        tally = self.engine.tally(TallyQuery())
        cards = "\n".join(f"card: {card}" for card in tally.cards)
        counts = "\n".join(f"count: {count}" for count in tally.counts if count.n)
        return "\n".join([*(f"{worker.pid}: {worker.said()}" for worker in self.workers), cards, counts])

    # ── jobs ────────────────────────────────────────────────────────────────────────────────────────────

    def insert(self, requests: Sequence[Request]) -> None:
        """Sends them in one list, and writes that down."""
        call = self.recorder.invoke("insert", [(request.id.hex(), 0, "") for request in requests])
        receipts = self.engine.insert([Job(request=request) for request in requests])
        answers = [(r.id.hex(), 0, r.duplicate_of.hex() if r.duplicate_of else "new") for r in receipts]
        self.recorder.ok("insert", call, answers)

    def wait_begun(self, job: str, runs: int = 1) -> int:
        """Until the job has begun so many times; when that was, in ns."""
        return wait_for(f"run {runs} of {job}", lambda: self.marks.begun(job)[runs - 1 : runs], step_s=LOOK_S)[0].at

    def wait_ended(self, hang_s: float = HANG_S) -> None:
        """Until no job is left to run."""

        def ended() -> bool:
            for worker in self.workers:
                if worker.process.returncode is None:
                    worker.check()
            return not any(count.n for count in self.engine.tally(TallyQuery()).counts if count.state in LIVE)

        wait_for("all jobs to end", ended, hang_s=hang_s, step_s=0.05)

    def let_go(self, name: str) -> None:
        """A task that waits for this may end."""
        (self.folder / f"go-{name}").touch()


def payload(*arguments: Any) -> bytes:
    """Arguments as a sender seals them."""
    return encode_arguments(list(arguments), {})
