"""The pools with real threads and a real loop: where tasks run, how they end, and that nothing brings a slot down."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from tests.soak.waiting import wait_for
from windlass.app.app import App
from windlass.app.context import JobContext, current_job
from windlass.app.endings import Interrupted
from windlass.app.handle import Handle
from windlass.app.middleware import Middleware
from windlass.core.errors import JobCancelled, WrongPool
from windlass.core.ids import new_id
from windlass.core.job import Failure, Job, Record, Request, State
from windlass.core.retry import Retry
from windlass.worker.worker import Worker

Kind = Literal["auto", "solo", "threads", "aio"]

HANG_S = 30


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory://")
    yield app
    app.close()


def failure_of(handle: Handle[Any]) -> Failure:
    assert handle.wait(HANG_S)
    assert handle.state is State.DEAD
    failure = handle.job().failure
    assert failure is not None
    return failure


def record_of(handle: Handle[Any]) -> Record:
    record = handle.job().record
    assert record is not None
    return record


# ── where ───────────────────────────────────────────────────────────────────────────────────────────────


def test_auto_runs_coroutines_on_one_loop_and_functions_in_threads(app: App) -> None:
    @app.task(name="sync")
    def sync() -> str:
        return threading.current_thread().name

    @app.task(name="on_loop")
    async def on_loop() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    with Worker(app, slots=2):
        assert set(app.named("on_loop").delay_many([()] * 5).get(HANG_S)) == {"windlass-loop"}
        assert {name[:13] for name in app.named("sync").delay_many([()] * 5).get(HANG_S)} == {"windlass-slot"}


def test_solo_runs_one_job_at_a_time_in_the_order_of_sending(app: App) -> None:
    seen: list[int] = []

    @app.task(name="note")
    def note(number: int) -> None:
        seen.append(number)

    with Worker(app, slots=8, pool="solo"):
        app.named("note").delay_many([(number,) for number in range(300)]).get(HANG_S)
    assert seen == list(range(300))


@pytest.mark.parametrize("pool", ["threads", "aio"])
def test_as_many_jobs_run_at_once_as_there_are_slots(app: App, pool: Kind) -> None:
    together = threading.Barrier(3)

    async def meet_async() -> None:
        await asyncio.to_thread(together.wait, HANG_S)

    def meet() -> None:
        together.wait(HANG_S)

    app.task(name="meet")(meet_async if pool == "aio" else meet)
    with Worker(app, slots=3, pool=pool):
        app.named("meet").delay_many([()] * 6).get(HANG_S)


def test_aio_never_runs_more_coroutines_than_slots(app: App) -> None:
    running, most = 0, 0

    @app.task(name="count")
    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        while most < 3:  # until they have come together once
            await asyncio.sleep(0)
        running -= 1

    with Worker(app, slots=3, pool="aio"):
        app.named("count").delay_many([()] * 300).get(HANG_S)
    assert most == 3


def test_the_job_is_known_in_threads_on_the_loop_and_in_what_the_loop_starts(app: App) -> None:
    @app.task(name="sync")
    def sync() -> str:
        return current_job().id

    @app.task(name="on_loop")
    async def on_loop() -> list[str]:
        async def inner() -> str:
            return current_job().id

        return [current_job().id, *await asyncio.gather(inner(), inner())]

    with Worker(app):
        one, other = app.send("sync"), app.send("on_loop")
        assert one.get(HANG_S) == one.id
        assert other.get(HANG_S) == [other.id] * 3


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_a_coroutine_function_in_a_pool_without_a_loop_is_refused_by_name(app: App, pool: Kind) -> None:
    worker = Worker(app, pool=pool)

    @app.task(name="crawl")
    async def crawl() -> None: ...

    with pytest.raises(WrongPool, match=f"crawl is a coroutine function, which the pool {pool} cannot run"):
        Worker(app, pool=pool)
    with pytest.raises(WrongPool, match="crawl"):
        worker.start()


def test_a_plain_function_in_the_pool_aio_is_refused_by_name(app: App) -> None:
    @app.task(name="plain")
    def plain() -> None: ...

    with pytest.raises(WrongPool, match="The task plain is no coroutine function"):
        Worker(app, pool="aio")


# ── tasks that end in odd ways ──────────────────────────────────────────────────────────────────────────


class Unspeakable(Exception):
    """An error whose own text raises."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Unprintable(Exception):
    """An error whose own text raises what is no Exception."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


class Strange(BaseException):
    """No Exception."""


def recurse() -> None:
    recurse()


def odd(how: str) -> Any:
    match how:
        case "SystemExit":
            raise SystemExit(3)
        case "KeyboardInterrupt":
            raise KeyboardInterrupt
        case "BaseException":
            raise Strange("odd")
        case "no text":
            raise Unspeakable
        case "no text at all":
            raise Unprintable
        case "huge message":
            raise ValueError("x" * 10_000_000)
        case "half a character":
            raise ValueError("file \udcff.txt")
        case "recursion":
            recurse()
        case "result too large":
            return "x" * 2_000_000
        case "result without a stored form":
            return object()
        case "result that holds itself":
            held: list[Any] = []
            held.append(held)
            return held
        case "group":
            raise BaseExceptionGroup("many", [SystemExit(1), ValueError("x")])
        case "stop iteration":
            raise StopIteration(3)
        case _:
            return how


ODD = [
    ("SystemExit", "SystemExit", "3", "failed"),
    ("KeyboardInterrupt", "KeyboardInterrupt", "", "failed"),
    ("BaseException", "Strange", "odd", "failed"),
    ("no text", "Unspeakable", "(its text cannot be shown)", "failed"),
    ("no text at all", "Unprintable", "(its text cannot be shown)", "failed"),
    ("huge message", "ValueError", "xxx", "failed"),
    ("half a character", "ValueError", r"file \udcff.txt", "failed"),
    ("recursion", "RecursionError", "maximum recursion depth exceeded", "failed"),
    ("result too large", "TooLarge", "1 MiB are allowed", "result"),
    ("result without a stored form", "NotSerialisable", "object", "result"),
    ("result that holds itself", "TooLarge", "holds itself", "result"),
    ("group", "BaseExceptionGroup", "many", "failed"),
]


@pytest.mark.parametrize("pool", ["solo", "aio"])
@pytest.mark.parametrize(("how", "kind", "said", "reason"), ODD)
def test_whatever_a_task_raises_or_returns_becomes_an_end_and_the_slot_lives_on(
    app: App, pool: Kind, how: str, kind: str, said: str, reason: str
) -> None:
    if pool == "aio":

        @app.task(name="odd", retry=Retry(3, base=0, on=LookupError))
        async def _(how: str) -> Any:
            await asyncio.sleep(0)
            return odd(how)
    else:

        @app.task(name="odd", retry=Retry(3, base=0, on=LookupError))
        def _(how: str) -> Any:
            return odd(how)

    with Worker(app, slots=1, pool=pool):
        handle = app.send("odd", how)
        failure = failure_of(handle)
        assert failure.type.rpartition(".")[2] == kind
        assert said in failure.message
        assert len(failure.message) <= 2_001
        assert len(failure.traceback.encode()) <= app.limits.error_bytes
        assert record_of(handle).reason == reason
        assert app.send("odd", "well").get(HANG_S) == "well"


def test_the_loop_lives_on_after_a_coroutine_that_cancels_itself(app: App) -> None:
    runs: list[int] = []

    @app.task(name="gives_up")
    async def gives_up() -> None:
        runs.append(1)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(HANG_S)

    @app.task(name="well")
    async def well() -> int:
        return 1

    with Worker(app, slots=1):
        assert failure_of(app.send("gives_up")).type.endswith("CancelledError")
        assert app.send("well").get(HANG_S) == 1
    assert runs == [1], "it is an error of the task, not a reason to run it again and again"


# ── stored things that do not fit ───────────────────────────────────────────────────────────────────────


def stored(task: str, payload: bytes, options: bytes = b"") -> Job:
    return Job(request=Request(id=new_id(), task=task, queue="default", payload=payload, options=options))


@pytest.mark.parametrize("pool", ["solo", "aio"])
def test_stored_arguments_that_do_not_fit_make_the_job_dead_with_a_readable_reason(app: App, pool: Kind) -> None:
    # Sent before the task is known here, as by a process without its code: nothing checks them.
    wrong, missing, good = app.send("add", "three"), app.send("add"), app.send("add", 3)
    (broken,) = app.insert([stored("add", b"not an envelope")])
    if pool == "aio":

        @app.task(name="add", retry=5)
        async def _(number: int) -> int:
            return number + 1
    else:

        @app.task(name="add", retry=5)
        def _(number: int) -> int:
            return number + 1

    with Worker(app, slots=1, pool=pool):
        assert good.get(HANG_S) == 4
        assert "number" in failure_of(wrong).message
        assert "number" in failure_of(missing).message
        assert failure_of(app.result(broken.id)).type.endswith("CorruptRecord")
        for handle in (wrong, missing, app.result(broken.id)):
            assert record_of(handle).reason == "arguments"
            assert record_of(handle).attempt == 1, "no retry makes them fit"


@pytest.mark.parametrize("options", [b"{", b'{"timeout_us":"soon"}', b"\xff"])
def test_stored_options_that_cannot_be_read_make_the_job_dead_with_a_readable_reason(app: App, options: bytes) -> None:
    @app.task(name="add")
    def add(number: int) -> int:
        return number + 1

    job = app.named("add").job((1,), {})
    (sent,) = app.insert([stored("add", job.request.payload, options)])
    with Worker(app, slots=1):
        failure = failure_of(app.result(sent.id))
        assert failure.message.startswith("The job's options cannot be read")
        assert record_of(app.result(sent.id)).reason == "options"
        assert app.send("add", 1).get(HANG_S) == 2


def test_a_job_of_an_unknown_task_waits_for_a_worker_that_knows_it(app: App) -> None:
    @app.task(name="known")
    def known() -> int:
        return 1

    handle = app.send("later")
    with Worker(app):
        assert app.send("known").get(HANG_S) == 1
        assert handle.state is State.READY

        @app.task(name="later")
        def later() -> int:
            return 2

        with Worker(app):
            assert handle.get(HANG_S) == 2


# ── middleware around a run ─────────────────────────────────────────────────────────────────────────────


class Around(Middleware):
    """Fails before or after a run, as it is told."""

    def __init__(self) -> None:
        self.before: BaseException | None = None
        self.after: BaseException | None = None
        self.seen: list[BaseException | None] = []

    def before_run(self, job: JobContext) -> None:
        if self.before is not None:
            raise self.before

    def after_run(self, job: JobContext, error: BaseException | None) -> None:
        self.seen.append(error)
        if self.after is not None:
            raise self.after


@pytest.mark.parametrize("error", [RuntimeError("hook"), SystemExit(1)])
def test_a_hook_that_raises_before_a_run_fails_the_attempt(error: BaseException) -> None:
    around = Around()
    app = App("memory://", middleware=[around])
    runs: list[int] = []
    app.task(name="well")(lambda: runs.append(1))
    with Worker(app, slots=1):
        around.before = error
        assert failure_of(app.send("well")).type == type(error).__name__
        assert around.seen == [error]
        assert runs == []
        around.before = None
        app.send("well").get(HANG_S)
    assert runs == [1]
    app.close()


def test_a_hook_that_raises_after_a_run_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    around = Around()
    app = App("memory://", middleware=[around])
    app.task(name="well")(lambda: 1)
    around.after = RuntimeError("hook")
    with Worker(app, slots=1):
        assert app.send("well").get(HANG_S) == 1
    assert "A middleware failed in Around.after_run" in caplog.text
    app.close()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_hook_that_wants_to_end_the_process_ends_neither_a_slot_nor_its_job(is_async: bool) -> None:
    around = Around()
    app = App("memory://", middleware=[around])

    @app.task(name="sync")
    def sync() -> int:
        return 1

    @app.task(name="on_loop")
    async def on_loop() -> int:
        return 1

    name = on_loop.name if is_async else sync.name
    with Worker(app, slots=1):
        around.after = SystemExit(1)
        assert app.send(name).get(HANG_S) == 1
        around.after = None
        assert app.send(name).get(HANG_S) == 1
    app.close()


def test_a_retry_policy_that_fails_ends_its_job_and_no_slot(app: App) -> None:
    def broken(_attempt: int) -> float:
        raise ZeroDivisionError("in the policy")

    @app.task(name="fails", retry=Retry(3, delays=broken))
    def fails(well: bool) -> int:
        if not well:
            raise ValueError
        return 1

    with Worker(app, slots=1):
        assert failure_of(app.send("fails", False)).message == "in the policy"
        assert app.send("fails", True).get(HANG_S) == 1


# ── stopping a task ─────────────────────────────────────────────────────────────────────────────────────


def test_the_slots_of_tasks_that_were_timed_out_serve_the_next_jobs(app: App) -> None:
    @app.task(name="spins", timeout=0.05)
    def spins() -> None:
        while True:
            time.sleep(0.001)

    @app.task(name="well")
    def well() -> int:
        return 1

    with Worker(app, slots=2):
        spinning = app.named("spins").delay_many([()] * 4)
        for handle in spinning:
            assert failure_of(handle).type == "TimeoutError"
        assert app.named("well").delay_many([()] * 20).get(HANG_S) == [1] * 20


def test_a_task_that_turns_its_interruption_into_another_error_has_timed_out_all_the_same(app: App) -> None:
    @app.task(name="turns", timeout=1)
    def turns() -> None:
        try:
            while True:
                time.sleep(0.001)
        except Interrupted:
            raise ValueError("cleaning up failed") from None

    @app.task(name="turns_async", timeout=1)
    async def turns_async() -> None:
        try:
            await asyncio.sleep(HANG_S)
        except asyncio.CancelledError:
            raise ValueError("cleaning up failed") from None

    with Worker(app):
        for name in ("turns", "turns_async"):
            handle = app.send(name)
            assert failure_of(handle).type == "TimeoutError"
            assert record_of(handle).reason == "timed_out"


@pytest.mark.parametrize("name", ["stubborn", "stubborn_async"])
def test_a_job_that_ignores_its_timeout_keeps_its_slot_and_its_result(app: App, name: str) -> None:
    """What it returns in the end is a result like any other: the work is done."""
    asked, go_on = threading.Event(), threading.Event()

    @app.task(name="stubborn", timeout=1)
    def stubborn() -> int:
        with contextlib.suppress(Interrupted):
            while True:
                time.sleep(0.001)
        asked.set()
        go_on.wait(HANG_S)
        return 1

    @app.task(name="stubborn_async", timeout=1)
    async def stubborn_async() -> int:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(HANG_S)
        asked.set()
        await asyncio.to_thread(go_on.wait, HANG_S)
        return 1

    with Worker(app, slots=1) as worker:
        handle = app.send(name)
        assert asked.wait(HANG_S)
        assert worker.running == 1
        behind = app.send(name)
        assert behind.state is State.READY or behind.state is State.RUNNING
        assert behind.cancel()
        go_on.set()
        assert handle.get(HANG_S) == 1


def test_a_cancel_stops_a_running_task_at_once_and_not_its_neighbour(app: App) -> None:
    started, go_on = threading.Barrier(3), threading.Event()

    @app.task(name="spins")
    def spins() -> int:
        started.wait(HANG_S)
        while not go_on.is_set():
            time.sleep(0.001)
        return 1

    with Worker(app, slots=2):
        one, other = app.named("spins").delay_many([()] * 2)
        started.wait(HANG_S)
        assert one.cancel()
        with pytest.raises(JobCancelled):
            one.get(HANG_S)
        assert other.state is State.RUNNING
        go_on.set()
        assert other.get(HANG_S) == 1


def test_a_backlog_of_long_coroutines_does_not_keep_functions_waiting(app: App) -> None:
    """Nor are more of them claimed than the loop has slots for: another worker could run them."""
    go_on = threading.Event()

    @app.task(name="long")
    async def long() -> str:
        await asyncio.to_thread(go_on.wait, HANG_S)
        return "long"

    @app.task(name="short")
    def short(number: int) -> int:
        return number

    with Worker(app, slots=2):
        backlog = app.named("long").delay_many([()] * 250)
        assert [app.send("short", number).get(HANG_S) for number in range(5)] == [0, 1, 2, 3, 4]
        assert [handle.state for handle in backlog] == [State.RUNNING] * 2 + [State.READY] * 248
        go_on.set()
        assert [handle.get(HANG_S) for handle in backlog] == ["long"] * 250


def test_a_backlog_of_long_functions_does_not_keep_coroutines_waiting(app: App) -> None:
    go_on = threading.Event()

    @app.task(name="long")
    def long() -> str:
        go_on.wait(HANG_S)
        return "long"

    @app.task(name="short")
    async def short(number: int) -> int:
        return number

    with Worker(app, slots=2):
        backlog = app.named("long").delay_many([()] * 250)
        sent = app.named("short").delay_many([(number,) for number in range(300)])
        assert [handle.get(HANG_S) for handle in sent] == list(range(300))
        assert [handle.state for handle in backlog] == [State.RUNNING] * 2 + [State.READY] * 248
        go_on.set()
        assert [handle.get(HANG_S) for handle in backlog] == ["long"] * 250


def test_a_slot_that_becomes_free_is_used_though_its_worker_sleeps_for_other_tasks(app: App) -> None:
    """While the threads are full it sleeps for coroutines alone; the end of a function must wake it."""
    steps = [threading.Event() for _ in range(20)]

    @app.task(name="step")
    def step(number: int) -> int:
        steps[number].wait(HANG_S)
        return number

    @app.task(name="other")
    async def other() -> None: ...

    with Worker(app, slots=1):
        handles = app.named("step").delay_many([(number,) for number in range(20)])
        for number, handle in enumerate(handles):
            wait_for("its turn", lambda handle=handle: handle.state is State.RUNNING)
            steps[number].set()
            assert handle.get(HANG_S) == number


@pytest.mark.parametrize("late", ["function", "coroutine function"])
def test_a_task_of_another_kind_may_come_after_the_start(app: App, late: str) -> None:
    @app.task(name="first")
    def function() -> str:
        return "first"

    @app.task(name="second")
    async def coroutine() -> str:
        return "second"

    names = ["second", "first"] if late == "function" else ["first", "second"]
    later = app.tasks.pop(names[1])
    with Worker(app) as worker:
        assert app.send(names[0]).get(HANG_S) == names[0]
        app.tasks[later.name] = later
        assert app.send(later.name).get(HANG_S) == later.name
        assert worker.running == 0


def test_a_task_that_the_pool_cannot_run_and_that_came_late_is_told_of_once(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="plain")
    def plain() -> int:
        return 1

    with Worker(app, pool="threads"):

        @app.task(name="late")
        async def late() -> int:
            return 2

        waits = late.delay()
        wait_for("the warning", lambda: "cannot run the task late" in caplog.text)
        assert plain.delay().get(HANG_S) == 1
        assert waits.state is State.READY
    assert caplog.text.count("cannot run the task late") == 1
