"""The app: tasks, routes, and one store. It opens the store at the first send and closes it when the process ends.

    app = App()                                   # WINDLASS_URL, else sqlite:///windlass.db beside you
    app = App("memory://", routes={"mail.*": "mail"}, middleware=[Tenant()])

An app may be used by any number of threads, and by children that are forked from its process.
"""

from __future__ import annotations

import atexit
import fnmatch
import logging
import re
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from windlass.app import scripts
from windlass.app.context import current, shielded
from windlass.app.discovery import discover
from windlass.app.functions import is_interactive, refuse_what_is_none, task_name, where
from windlass.app.handle import Handle
from windlass.app.holding import Holding
from windlass.app.middleware import Middleware, Stack, listed, tell
from windlass.app.options import OnCut, TaskOptions, read_task_options
from windlass.app.resources import Declared, Opened
from windlass.app.scripts import Sending
from windlass.app.task import AsyncTask, Sender, Task
from windlass.core.clock import Clock, SystemClock
from windlass.core.durations import Duration
from windlass.core.errors import BadValue, DuplicateTask, UnknownOption
from windlass.core.events import Bus, Sent
from windlass.core.ids import JobId, read_id
from windlass.core.job import Job
from windlass.core.limits import Limits
from windlass.core.names import check_name, near_miss
from windlass.core.plural import number_of
from windlass.core.retry import Retry
from windlass.core.settings import Settings, load
from windlass.core.system import at_fork
from windlass.engines.protocol import Engine, Receipt

if TYPE_CHECKING:
    from windlass.app.waiter import Waiter

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=Callable[..., Any])
F = TypeVar("F")

DEFAULT_QUEUE = "default"
ANY = TaskOptions()

_apps: weakref.WeakSet[App] = weakref.WeakSet()


class App:
    """Tasks, and where their jobs live."""

    def __init__(
        self,
        url: str | None = None,
        *,
        routes: Mapping[str, str] | None = None,
        middleware: Sequence[Middleware] = (),
        settings: Settings | None = None,
        **more: Any,
    ) -> None:
        self.settings = _settings(url, settings, more)
        self.bus = Bus()
        self.tasks: dict[str, Task[..., Any]] = {}
        """The tasks by name."""
        self.resources = Declared()
        self.starters: list[Callable[[], Any]] = []
        self.stoppers: list[Callable[[], Any]] = []
        self._routes = [
            (re.compile(fnmatch.translate(pattern)).match, check_name("queue", queue))
            for pattern, queue in (routes or {}).items()
        ]
        self._middleware = listed(middleware)
        self.stack = Stack(self._middleware)
        self._clock: Clock = SystemClock()
        self._own = threading.RLock()
        self._held = Holding(self.settings, self.resources, self._own)
        _apps.add(self)

    # ── tasks ───────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        retry: Retry | int | None = None,
        timeout: Duration | None = None,
        grace: Duration | None = None,
        memory: int | str | None = None,
        needs: Mapping[str, int] | None = None,
        on_cut: OnCut = "finish",
        priority: int = 0,
        tags: Sequence[str] = (),
        keep_result: bool | Duration | None = None,
        dead_queue: str | None = None,
        logs: bool = True,
        **more: Any,
    ) -> Decorator: ...
    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Makes a function a task: `@app.task`, or `@app.task(queue="mail", retry=5, timeout="30s")`.

        `retry`: a `Retry` or a number of retries; without it, one failure is the end. `timeout`: how long one attempt
        may run; `grace`: how long it may take to heed that before its process is killed, 5 s if not given. `memory`:
        how much it may use, `"512MB"`; `needs`: what else it takes of its worker, `{"browser": 1}`. It runs where as
        much is free. `on_cut`: whether a run goes on to its end ("finish") or is stopped ("stop") when its worker has
        lost touch with the store. `keep_result`: False, or how long. `dead_queue`: where its dead jobs go. `logs`:
        whether what it prints and logs is kept with the job. `name`: module.function if not given.
        """
        if function is None:

            def decorate(function: Callable[..., Any]) -> Task[..., Any]:
                return self._add(function, options)

            return decorate
        if not callable(function):
            raise BadValue(f"A task cannot be made of {function!r}.", "Decorate a function.")
        return self._add(function, options)

    def _add(self, function: Callable[..., Any], options: dict[str, Any]) -> Task[..., Any]:
        import inspect

        refuse_what_is_none(function)
        name = check_name("task", options.get("name") or task_name(function))
        extra = [option for one in self._middleware for option in one.options]
        known = self.tasks.get(name)
        if known is not None and not is_interactive(function):
            raise DuplicateTask(
                f"There are two tasks {name}: {where(known.function)} and {where(function)}.",
                "Give one of them another name: @app.task(name=…).",
            )
        kind: Any = AsyncTask if inspect.iscoroutinefunction(function) else Task
        task: Task[..., Any] = kind(self, name, read_task_options(name, options, extra), function)
        self.tasks[name] = task
        return task

    def discover(self, *packages: str, only: str | None = None) -> list[str]:
        """Imports packages with all their modules, or those called `only`, so that their tasks are known."""
        return [name for package in packages for name in discover(package, only)]

    def queue_of(self, task: str, options: TaskOptions) -> str:
        """The queue of a task: its own, else that of the first route that fits its name, else `default`."""
        if options.queue is not None:
            return options.queue
        # Not remembered by name: names that are only ever sent have no end.
        for fits, queue in self._routes:
            if fits(task):
                return queue
        return DEFAULT_QUEUE

    # ── what a worker does besides ──────────────────────────────────────────────────────────────────────

    def on_start(self, function: T) -> T:
        """The function runs when a worker starts, before it claims; may be async."""
        self.starters.append(function)
        return function

    def on_stop(self, function: T) -> T:
        """The function runs when a worker has stopped; may be async."""
        self.stoppers.append(function)
        return function

    def resource(self, function: T) -> T:
        """What the function makes is made once per worker and given to tasks that ask for its type."""
        self.resources.add(function)
        for task in self.tasks.values():
            task.__dict__.pop("injected", None)
            task.__dict__.pop("signature", None)
        return function

    @property
    def opened(self) -> Opened:
        """The resources of this process, for plain calls."""
        return self._held.open_resources()

    # ── sending ─────────────────────────────────────────────────────────────────────────────────────────

    def send(self, task: str, /, *args: Any, **kwargs: Any) -> Handle[Any]:
        """Sends a job by its task's name; the task's code need not be here."""
        return self.named(task).delay(*args, **kwargs)

    def named(self, task: str) -> Sender[..., Any]:
        """A sender for a task of that name: `app.named("tasks.crawl").using(delay=60).delay(url)`."""
        return self.tasks.get(task) or Sender(self, check_name("task", task), ANY)

    def script(
        self,
        path: str | Path,
        *,
        args: Sequence[str] = (),
        name: str = "",
        retry: Retry | int | None = None,
        **how: Unpack[Sending],
    ) -> Handle[int]:
        """Sends a file to be run as a process of its own: `app.script("jobs/report.py", args=["--day", "2026-11-15"])`.

        The path is one of a worker that was given its folder. Exit code 0 is success. `memory`, `at`, `timeout` and so
        on as with `using`; without `memory` it may use what the setting `script_memory_bytes` says.
        """
        return scripts.sender(self, retry, how).delay(**scripts.arguments(self, path, args, name))

    async def ascript(
        self,
        path: str | Path,
        *,
        args: Sequence[str] = (),
        name: str = "",
        retry: Retry | int | None = None,
        **how: Unpack[Sending],
    ) -> Handle[int]:
        """The same from asyncio."""
        return await scripts.sender(self, retry, how).adelay(**scripts.arguments(self, path, args, name))

    def result(self, job_id: str | JobId) -> Handle[Any]:
        """A handle of any job."""
        return Handle(self, read_id(job_id.hex() if isinstance(job_id, bytes) else str(job_id)))

    def insert(self, jobs: Sequence[Job]) -> list[Receipt]:
        """Hands jobs to the store, through the middleware."""
        stack = self.stack
        if stack.before_send:
            jobs = [stack.changed(job) for job in jobs]
        with shielded():
            receipts = self.engine.insert(jobs)
        if stack.after_send or self.bus.wanted(Sent):
            self._tell(jobs, receipts)
        return receipts

    def _tell(self, jobs: Sequence[Job], receipts: Sequence[Receipt]) -> None:
        for job, receipt in zip(jobs, receipts, strict=True):
            request = job.request
            tell(self.stack.after_send, request, receipt)
            sent = Sent(
                at_us=self.now_us(),
                job=request.id,
                task=request.task,
                queue=request.queue,
                duplicate_of=receipt.duplicate_of,
            )
            self.bus.publish(sent)

    def insert_soon(self, jobs: Sequence[Job]) -> Awaitable[list[Receipt]]:
        """The same for a coroutine: with whatever its loop sends in the same tick."""
        return self._held.batcher(self.insert).send(jobs)

    # ── the store ───────────────────────────────────────────────────────────────────────────────────────

    def now_us(self) -> int:
        """What time it is for whoever sends."""
        return self._clock.now_us()

    @property
    def limits(self) -> Limits:
        """The bounds of what may be sent and stored."""
        return self.settings.limits

    @property
    def engine(self) -> Engine:
        """The store, opened at the first call. Inside a task it is that of its worker."""
        here = current.get()
        if here is not None and here.engine is not None and here.store is self:
            return here.engine
        engine = self._held.engine
        return self._held.open_engine() if engine is None else engine

    @property
    def waiter(self) -> Waiter:
        """Who waits for ends of jobs."""
        return self._held.waiter(lambda: self.engine)

    @property
    def before_close(self) -> set[Callable[[], None]]:
        """Called before the store is closed: whoever works on it stops."""
        return self._held.before_close

    @contextmanager
    def on(self, engine: Engine) -> Generator[App]:
        """Within `with app.on(engine):` the app's jobs live in that store; afterwards the app is as it was before.

        For tests. Whoever made the engine opens and closes it; the app's own store is neither opened nor closed nor
        seen meanwhile, not even by a `close` of the app. It holds for all threads. A worker stays on the store on which
        it was started.
        """
        own, self._held = self._held, Holding(self.settings, self.resources, self._own, engine)
        try:
            yield self
        finally:
            # While it is still lent: what is on its way must not arrive in the app's own store.
            self.close()
            self._held = own

    @contextmanager
    def override(self, kind: type, fake: F) -> Generator[F]:
        """Within `with app.override(Bank, FakeBank()):` tasks that ask for a `Bank` get that one.

        For tests. `fake` is the thing itself, or a function or a class that makes it, as a resource function does: once
        per worker, eager run or process. It holds for all threads, for plain calls, and for workers and eager runs that
        start inside. Those that go on already get it from the next attempt on. Overrides may be nested.
        """
        with self._own:
            maker = self.resources.stand_in(kind, fake)
        try:
            yield fake
        finally:
            with self._own:
                self.resources.step_aside(kind, maker)
                opened = self._held.resources
            if opened is not None:
                opened.let_go(maker)

    def close(self) -> None:
        """Stops the workers that run on the app, and closes the store; the next send opens it again.

        Not needed at the end of a process.
        """
        self._held.close()

    def __enter__(self) -> App:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def after_fork(self) -> None:
        """In a forked child: threads did not come along, and locks may have been held by them."""
        self._own = threading.RLock()
        self._held.after_fork(self._own)

    def at_exit(self) -> None:
        """At the end of the process."""
        self._held.at_exit()

    def __repr__(self) -> str:
        return f"<App {number_of(len(self.tasks), 'task')}, {self.settings!r}>"


class Decorator:
    """What `@app.task(…)` gives: makes a function a task. For type checkers only."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    def __call__(self, function: Any, /) -> Any:
        raise NotImplementedError


def _settings(url: str | None, settings: Settings | None, more: Mapping[str, Any]) -> Settings:
    if settings is not None:
        if url is not None or more:
            raise BadValue("An app has either `settings` or single ones.", "Leave one of them out.")
        return settings
    words = ("routes", "middleware", "settings")
    for name in more:
        if name not in Settings.__struct_fields__ and near_miss(name, words) is not None:
            raise UnknownOption(f"An app has no option `{name}`.", f"Did you mean `{near_miss(name, words)}`?")
    return load({"url": url, **more}).settings


def _after_fork() -> None:
    for app in list(_apps):
        app.after_fork()


def _at_exit() -> None:
    """The store is told that the end was a clean one, and keeps no files of those who slept."""
    for app in list(_apps):
        try:
            app.at_exit()
        except Exception:
            log.exception("%r was not closed cleanly.", app)


at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
