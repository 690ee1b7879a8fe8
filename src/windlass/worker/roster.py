"""Which runners there are. Several threads look and write; whatever they do together, they do under its lock."""

from __future__ import annotations

import threading

from windlass.worker.frames import Hello, Scripts
from windlass.worker.page import Mark
from windlass.worker.plan import Plan
from windlass.worker.runner_process import RunnerProcess


class Roster:
    """The runners of one supervisor."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lock = threading.RLock()
        self.living: list[RunnerProcess] = []
        """Those that have not been buried."""
        self.hello: Hello | None = None
        """What the first one said; they all load the same app."""
        self.scripts: Scripts | None = None
        """What runners of scripts go by, once the store is open; None: there are none."""
        self.stopping = False

    def all(self) -> list[RunnerProcess]:
        with self.lock:
            return list(self.living)

    def of_tasks(self) -> list[RunnerProcess]:
        """Those that have loaded the app, or will."""
        with self.lock:
            return [runner for runner in self.living if not runner.for_scripts]

    @staticmethod
    def marks(runner: RunnerProcess) -> list[Mark]:
        """What its slots run, as far as it is among what it was given."""
        return [mark for mark in runner.page.marks() if (mark.job, mark.fence) in runner.claims]
