"""What somebody wants of a worker with processes of its own."""

from __future__ import annotations

import msgspec

from windlass.core.settings import Settings
from windlass.worker.frames import Scripts, Welcome
from windlass.worker.kind import Kind

APART, SCRIPTS = 0, -1
"""The numbers of a runner that is there for one suspect, and of the one that runs scripts."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Which app, in how many processes, and within which limits."""

    app: str
    """Empty: it runs scripts only."""
    settings: Settings | None = None
    """Where there is no app that says."""
    scripts: tuple[str, ...] = ()
    """Folders with scripts; empty: those of the settings."""
    processes: int = 1
    kind: Kind = "auto"
    slots: int = 4
    name: str = ""
    queues: tuple[str, ...] | None = None
    drain_s: float = 30.0
    max_jobs: int | None = None
    """After so many jobs a runner is replaced."""
    max_memory: int | None = None
    """A runner that has more in memory is replaced when its jobs have ended."""
    resources: dict[str, int] = {}
    """How much of each resource its jobs may use, memory in bytes."""
    level: str = "info"
    form: str = "console"
    file: str | None = None

    @property
    def places(self) -> int:
        """How many slots a runner has in all."""
        return self.slots * (2 if self.kind == "auto" else 1)

    def welcome(self, number: int, scripts: Scripts | None = None) -> Welcome:
        return Welcome(
            app=self.app,
            kind=self.kind,
            slots=self.slots,
            places=self.places,
            number=number,
            others=self.processes > 1 or number == APART,
            worker_name=self.name,
            level=self.level,
            form=self.form,
            file=self.file,
            scripts=scripts,
        )
