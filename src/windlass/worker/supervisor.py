"""A worker with processes of its own: this one claims, settles, beats and watches, and runs none of the user's code.

    windlass worker tasks.py -p 2
     ├─ runner 1     tasks run there; whatever they do to their process, this one lives on
     └─ runner 2

As process 1 of a container it also reaps what others leave behind.
"""

from __future__ import annotations

import os

from windlass.core.clock import Clock, SystemClock
from windlass.core.errors import BadValue
from windlass.core.events import Bus
from windlass.core.settings import Settings
from windlass.core.system import reap_strays, set_title
from windlass.engines.connect import connect
from windlass.engines.protocol import Engine
from windlass.worker.asked import EMPTY_LOOK_S, LOOK_S, Asked, hearing_signals
from windlass.worker.crew import Crew
from windlass.worker.plan import Plan
from windlass.worker.runners import Runners
from windlass.worker.scripts.files import check_folders
from windlass.worker.service import log
from windlass.worker.staff import Office


class Supervisor:
    """Keeps a worker going until somebody asks it to stop."""

    def __init__(self, plan: Plan, bus: Bus | None = None) -> None:
        self._plan = plan
        self._clock: Clock = SystemClock()
        self.bus = Bus() if bus is None else bus
        self._runners = Runners(plan, self._clock)
        self._engine: Engine | None = None
        self._crew: Crew | None = None

    def run(self, *, until_empty: bool = False) -> None:
        """Works until SIGINT, SIGTERM or SIGHUP, then stops gracefully; a second signal ends it at once."""
        set_title(f"windlass: supervisor of {self._plan.name}")
        with hearing_signals() as asked:
            self._runners.foreman.on_trouble = lambda: asked.put("trouble")
            try:
                settings = self._runners.hire(asked)
                if settings is None and not self._runners.foreman.trouble:
                    log.info("Worker %s ends before its first runner works.", self._plan.name)
                if settings is not None:
                    crew = self._start(settings, asked)
                    self._wait(crew, asked, until_empty)
                    asked.leave_to_the_kernel()
                    crew.stop(self._plan.drain_s)
            finally:
                self._runners.close()
                if self._engine is not None:
                    self._engine.close()
        if self._runners.foreman.trouble is not None:
            raise self._runners.foreman.trouble

    def _start(self, settings: Settings, asked: Asked) -> Crew:
        engine = connect(settings.url, settings)
        if not engine.capabilities.processes:
            raise BadValue(
                "A store in memory belongs to one process, and a worker has several.",
                "Give the app a URL such as sqlite:///jobs.db, or use Worker(app) in the program itself.",
            )
        self._engine = engine
        engine.open()

        check_folders(self._plan.scripts or settings.scripts)

        def make_staff(office: Office) -> Runners:
            return self._runners.serve(office, self.bus, engine.capabilities.locks)

        crew = Crew(
            engine,
            settings,
            self.bus,
            self._clock,
            make_staff,
            kind=self._plan.kind,
            queues=self._plan.queues,
            name=self._plan.name,
            resources=self._plan.resources,
        )
        crew.on_asked = asked.put
        crew.start()
        return crew

    def _wait(self, crew: Crew, asked: Asked, until_empty: bool) -> None:
        while True:
            word = asked.next(EMPTY_LOOK_S if until_empty or crew.draining else LOOK_S)
            if word == "drain":
                crew.drain()
            elif word is not None:
                return
            if os.getpid() == 1 or self._runners.roster.scripts is not None:
                reap_strays(self._runners.pids())
            if (crew.draining and not crew.desk.open) or (until_empty and crew.has_nothing_to_do()):
                return
