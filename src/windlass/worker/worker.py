"""A worker inside your process: `with Worker(app, slots=4): …` starts it, works, and stops it gracefully."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures.thread import ThreadPoolExecutor
from typing import Any, Self

from windlass.app.app import App
from windlass.app.context import current
from windlass.core.clock import Clock, SystemClock
from windlass.core.commands import Do
from windlass.core.durations import SECOND_US, Duration, to_us
from windlass.core.errors import BadValue, WouldBlock
from windlass.core.ids import show_id
from windlass.core.names import check_label, check_name, near_miss, refuse_unknown
from windlass.worker.asked import EMPTY_LOOK_S, LOOK_S, hearing_signals
from windlass.worker.budget import read_resources
from windlass.worker.crew import Crew
from windlass.worker.in_process import InProcess, check_fit
from windlass.worker.kind import KINDS, Kind
from windlass.worker.service import log
from windlass.worker.staff import Office


class Worker:
    """Runs an app's jobs in this process, in the background."""

    def __init__(
        self,
        app: App,
        slots: int = 4,
        *,
        pool: Kind = "auto",
        queues: Sequence[str] | None = None,
        name: str = "",
        drain: Duration = 30,
        memory: int | str | None = None,
        resources: Mapping[str, int] | None = None,
        **unknown: Any,
    ) -> None:
        refuse_unknown("A worker", unknown, ("slots", "pool", "queues", "name", "drain", "memory", "resources"))
        self._app = app
        _checked(app, slots, pool)
        check_fit(app, pool)
        if isinstance(queues, str):
            raise BadValue(f"The queues are the text {queues!r}.", f"Give a list: [{queues!r}].")
        self._kind: Kind = pool
        self._slots = 1 if pool == "solo" else slots
        self._queues = None if queues is None else tuple(check_name("queue", queue) for queue in queues)
        self._name = check_label("worker name", name) or f"{os.getpid()}"
        self._drain_s = to_us(drain) / SECOND_US
        self._resources = read_resources(memory, resources or {})
        self._clock: Clock = SystemClock()
        self._crew: Crew | None = None
        self.overran = False
        """Whether tasks still ran when its last stop was over; what they run in may keep the process from ending."""
        self._own = threading.Lock()

    @property
    def id(self) -> str | None:
        """The worker's id while it runs; a new one at every start."""
        return None if self._crew is None else show_id(self._crew.heartbeat.worker)

    @property
    def running(self) -> int:
        """How many tasks run now."""
        return 0 if self._crew is None else len(self._crew.staff.running())

    def start(self) -> Self:
        """Returns once the worker may claim; an error of a resource or of `on_start` is raised here."""
        if self._crew is not None and self._crew.pid != os.getpid():
            self._crew, self._own = None, threading.Lock()  # a forked child: the crew is the parent's
        if self._crew is not None and self._crew.stopping:
            self._crew.stop(0)  # somebody is at it: that is waited for
        with self._own:
            if self._crew is None or self._crew.stopping:
                check_fit(self._app, self._kind)  # again: tasks may have come since
                self._crew = self._make_crew()
                self._crew.on_asked = self._obey
                try:
                    self._crew.start()
                except BaseException:
                    self._crew = None
                    raise
                _at_exit.add(self)
                self._app.before_close.add(self.stop)
        return self

    def _make_crew(self) -> Crew:
        app, clock = self._app, self._clock

        def make_staff(office: Office) -> InProcess:
            return InProcess(app, self._kind, self._slots, office, clock, app.engine)

        return Crew(
            app.engine,
            app.settings,
            app.bus,
            clock,
            make_staff,
            kind=self._kind,
            queues=self._queues,
            name=self._name,
            resources=self._resources,
        )

    def stop(self, drain: Duration | None = None) -> None:
        """Stops gracefully: what has not started goes back to the store, what runs has `drain` to end.

        Whoever comes second waits for the stop that is under way.
        """
        crew = self._crew
        # In a forked child the worker is the parent's: its claims and its card are not ours to give away.
        if crew is None or crew.pid != os.getpid():
            return
        here = current.get()
        if here is not None and here.store is self._app and crew.runs(here.job_id):
            raise WouldBlock("A task cannot stop its own worker and wait for it.", "Stop it from outside.")
        self.overran = not crew.stop(self._drain_s if drain is None else to_us(drain) / SECOND_US)
        # Only now: until then the end of the process, and a close of the app, wait for it.
        with self._own:
            if self._crew is crew:
                self._crew = None
                _at_exit.discard(self)
                self._app.before_close.discard(self.stop)

    def _obey(self, do: Do) -> None:
        """Somebody who reaches the store wants it to end; not here, in a loop of its own that would have to wait."""
        threading.Thread(target=self._end, args=(do,), name="windlass-end", daemon=True).start()

    def _end(self, do: Do) -> None:
        crew = self._crew
        if crew is not None and do == "drain":
            crew.drain()
            crew.desk.wait_until_empty(threading.TIMEOUT_MAX)
        self.stop()

    def run(self, *, until_empty: bool = False) -> None:
        """Works until SIGINT or SIGTERM, then stops gracefully; a second signal ends the process at once.

        `until_empty`: or until no job is left that it could run now. Only in the main thread: that is where Python
        hears signals.
        """
        with hearing_signals() as asked, self:
            while asked.next(EMPTY_LOOK_S if until_empty else LOOK_S) is None:
                if self._crew is None or (until_empty and self._crew.has_nothing_to_do()):
                    break
            asked.leave_to_the_kernel()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


_at_exit: set[Worker] = set()
"""Workers that run: kept here, for a program need not keep them."""


def _stop_all() -> None:
    """At the end of the process, while threads can still be started: what runs may need some."""
    for worker in list(_at_exit):
        try:
            worker.stop()
        except Exception:  # one must not keep the others from their end
            log.exception("A worker could not be stopped.")


# After that of concurrent.futures, and so run before it: from then on nobody can start a thread of a pool.
assert ThreadPoolExecutor
threading._register_atexit(_stop_all)  # type: ignore[attr-defined]


def _checked(app: App, slots: object, pool: object) -> None:
    if not isinstance(app, App):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadValue(f"A worker needs an app, and got {app!r:.80}.", "Give the App that has the tasks: Worker(app).")
    if type(slots) is not int or not 1 <= slots <= 10_000:
        raise BadValue(f"A worker cannot have {slots!r} slots.", "Give a whole number from 1 to 10,000.")
    if pool not in KINDS:
        meant = near_miss(str(pool), KINDS)
        hint = f"Did you mean {meant!r}? " if meant else ""
        raise BadValue(f"There is no pool {pool!r}.", f"{hint}Use one of: {', '.join(KINDS)}.")
