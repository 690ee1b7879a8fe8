"""Stopping: under load nothing is lost and nothing left behind; what does not end in time goes back."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.soak.waiting import Hangs, wait_for
from windlass.app.app import App
from windlass.app.handle import Handle
from windlass.core.errors import WouldBlock
from windlass.core.job import State
from windlass.engines.memory import MemoryEngine
from windlass.engines.protocol import Query, TallyQuery
from windlass.worker.worker import Worker

HANG_S = 30


def double(number: int) -> int:
    return 2 * number


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    app = App("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db")
    yield app
    app.close()


def ours() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("windlass-"))


def test_a_stop_under_load_loses_nothing_and_leaves_nothing(app: App, tmp_path: Path) -> None:
    seen: list[int] = []
    enough, under_load = 0, threading.Event()

    def note(number: int) -> None:
        seen.append(number)
        if len(seen) >= enough:
            under_load.set()

    @app.task(name="on_loop")
    async def on_loop(number: int) -> None:
        note(number)

    app.task(name="sync")(note)
    handles: list[Handle[None]] = []
    for round_ in range(3):
        # Work of its own for each round: a stop that comes late may find the one before all done.
        for name, start in (("sync", 2_000 * round_), (on_loop.name, 2_000 * round_ + 1_000)):
            handles += app.named(name).delay_many([(number,) for number in range(start, start + 1_000)])
        enough = len(seen) + 150
        under_load.clear()
        with Worker(app, slots=4):
            assert under_load.wait(HANG_S)
        assert ours() == []
        states = Counter(handle.state for handle in handles)
        assert set(states) <= {State.READY, State.SUCCEEDED}, "claims were given back"
        assert states[State.SUCCEEDED] == len(seen), "what had run was settled"
        assert app.engine.tally(TallyQuery()).cards == ()
    with Worker(app, slots=4):
        for handle in handles:
            assert handle.wait(HANG_S)
    assert sorted(seen) == list(range(6_000)), "each ran once"
    owners = tmp_path / "jobs.db.d" / "owners"
    assert not owners.exists() or list(owners.iterdir()) == []


def test_when_a_stop_returns_every_thread_has_ended(app: App) -> None:
    app.task(name="well")(lambda: 1)
    with Worker(app, slots=200):
        app.send("well").get(HANG_S)
        assert len(ours_slots()) == 200
    assert ours_slots() == []


def test_a_running_job_may_end_within_the_drain(app: App) -> None:
    started, go_on = threading.Event(), threading.Event()

    @app.task(name="slow")
    def slow() -> int:
        started.set()
        go_on.wait(HANG_S)
        return 1

    handle = app.send("slow")
    worker = Worker(app, slots=1).start()
    assert started.wait(HANG_S)
    crew = getattr(worker, "_crew")  # noqa: B009 - how far its stop has come
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    wait_for("the end of the consumer", lambda: not crew.consumer.alive)
    waiting = app.send("slow")
    stopping.join(0.5)
    assert stopping.is_alive(), "the stop waits for it"
    go_on.set()
    stopping.join(HANG_S)
    assert handle.get(0) == 1
    assert waiting.state is State.READY


def test_a_job_that_ignores_the_drain_goes_back_and_its_late_end_changes_nothing(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    started, go_on = threading.Event(), threading.Event()
    runs: list[int] = []

    @app.task(name="stubborn")
    def stubborn() -> int:
        runs.append(1)
        if len(runs) == 1:
            started.set()
            go_on.wait(HANG_S)
            return 1
        return 2

    handle = app.send("stubborn")
    worker = Worker(app, slots=2).start()
    assert started.wait(HANG_S)
    worker.stop(drain=0.01)
    assert "still runs; it goes back to the store" in caplog.text
    record = handle.job().record
    assert record is not None
    assert (record.state, record.losses, record.crashes, record.attempt) == (State.READY, 0, 0, 1)
    assert ours() == ["windlass-slot-1"] or ours() == ["windlass-slot-2"], "only the thread of that job is left"
    with Worker(app, slots=2):
        assert handle.get(HANG_S) == 2
        go_on.set()
        wait_for("the old run to end", lambda: len(ours_slots()) == 2)
    assert handle.get(0) == 2
    assert [name for name in ours() if not name.startswith("windlass-waiter")] == []


def ours_slots() -> list[str]:
    return [name for name in ours() if name.startswith("windlass-slot")]


def test_a_coroutine_that_does_not_end_within_the_drain_goes_back_and_is_cancelled(app: App) -> None:
    import asyncio

    started, cancelled = threading.Event(), threading.Event()

    @app.task(name="long")
    async def long() -> None:
        started.set()
        try:
            await asyncio.sleep(HANG_S)
        finally:
            cancelled.set()

    handle = app.send("long")
    worker = Worker(app, slots=1).start()
    assert started.wait(HANG_S)
    worker.stop(drain=0.01)
    assert cancelled.is_set()
    assert handle.state is State.READY
    assert ours() == []


def test_a_worker_can_be_started_again_under_a_new_id(app: App) -> None:
    @app.task(name="well")
    def well() -> int:
        return 1

    worker = Worker(app)
    ids: set[str | None] = set()
    for _ in range(3):
        with worker:
            ids.add(worker.id)
            assert app.send("well").get(HANG_S) == 1
        assert worker.id is None
    assert len(ids) == 3


def test_a_task_cannot_stop_its_own_worker(app: App) -> None:
    worker = Worker(app, slots=1)

    @app.task(name="stops")
    def stops() -> str:
        with pytest.raises(WouldBlock, match="cannot stop its own worker"):
            worker.stop()
        return "refused"

    with worker:
        assert app.send("stops").get(HANG_S) == "refused"


def test_an_error_at_the_start_leaves_no_thread_and_no_card(app: App) -> None:
    @app.on_start
    async def broken() -> None:
        raise RuntimeError("no database")

    with pytest.raises(RuntimeError, match="no database"):
        Worker(app).start()
    assert ours() == []
    assert app.engine.tally(TallyQuery()).cards == ()


def test_claims_behind_a_long_job_are_run_by_a_second_worker_at_once(app: App) -> None:
    started, go_on = threading.Event(), threading.Event()

    @app.task(name="quick")
    def quick() -> None: ...

    @app.task(name="long")
    def long() -> None:
        started.set()
        go_on.wait(2 * HANG_S)

    with Worker(app, slots=1):
        # So short are its jobs that it fetches many ahead.
        app.named("quick").delay_many([()] * 500).get(HANG_S)
        first = app.send("long")
        behind = app.named("quick").delay_many([()] * 20)
        assert started.wait(HANG_S)
        with Worker(app, slots=1):
            behind.get(HANG_S)
        assert first.state is State.RUNNING, "they were not kept behind the long one"
        go_on.set()
    assert app.engine.search(Query(state=State.RUNNING)).jobs == ()


def test_closing_the_app_stops_its_workers_first(app: App) -> None:
    app.task(name="double")(double)
    worker = Worker(app).start()
    handle = app.send("double", 4)
    assert handle.get(HANG_S) == 8
    app.close()
    assert worker.id is None
    app.close()
    with worker:  # and it can be started again, on the store that is opened anew
        assert app.send("double", 5).get(HANG_S) == 10


def test_closing_an_app_that_is_on_loan_leaves_its_own_worker_alone(app: App) -> None:
    app.task(name="double")(double)
    with Worker(app) as worker:
        with app.on(MemoryEngine()) as lent:
            lent.close()
        assert worker.id is not None
        assert app.send("double", 4).get(HANG_S) == 8


def test_a_worker_says_what_it_works_on_and_that_it_has_stopped(app: App, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "windlass")
    app.task(name="double")(double)
    with Worker(app, slots=3, pool="threads", queues=["mail", "default"], name="box"):
        pass
    assert [record.getMessage() for record in caplog.records if record.name == "windlass.worker"] == [
        f"Worker box has started: pool threads, 3 slots, 1 task, queues mail, default, {app.settings.url}.",
        "Worker box is asked to stop; 0 tasks are running.",
        "Worker box has stopped.",
    ]


def test_whoever_stops_second_waits_for_the_first(tmp_path: Path) -> None:
    """Or a close of the app would take the store away under what is still ending."""
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    began, go_on = threading.Event(), threading.Event()

    @app.task(name="patient")
    def patient() -> str:
        began.set()
        go_on.wait(HANG_S)
        return "done"

    worker = Worker(app).start()
    handle = patient.delay()
    began.wait(HANG_S)
    first = threading.Thread(target=worker.stop)
    first.start()
    wait_for("the stop to begin", lambda: getattr(worker, "_crew").stopping)  # noqa: B009 - how far it has come
    second = threading.Thread(target=app.close)
    second.start()
    second.join(0.3)
    assert second.is_alive()
    go_on.set()
    first.join(HANG_S)
    second.join(HANG_S)
    assert handle.state is State.SUCCEEDED
    with worker:
        assert patient.delay().get(HANG_S) == "done"
    app.close()


def test_a_process_forked_by_a_task_ends_well(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task(name="forks")
    def forks() -> int | None:
        child = multiprocessing.get_context("fork").Process(target=int)
        child.start()
        child.join()
        return child.exitcode

    with Worker(app, pool="threads"):
        assert forks.delay().get(HANG_S) == 0
    app.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_child_of_a_task_that_forks_by_itself_ends_with_the_task_and_runs_nothing(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    marks = tmp_path / "marks"
    children: list[int] = []

    @app.task(name="touch")
    def touch(number: int, fork: bool = False) -> None:
        if fork:
            child = os.fork()
            children.extend([child] if child else [])
        with marks.open("a") as file:
            file.write(f"{number}\n")

    with Worker(app, pool="threads", slots=1):
        for handle in touch.delay_many([(number,) for number in range(100)]):
            handle.get(HANG_S)  # jobs are short: from now on many of them wait for the slot
        for handle in touch.delay_many([(100, True), *((number, False) for number in range(101, 150))]):
            handle.get(HANG_S)
        try:
            wait_for("the child to end", lambda: os.waitpid(children[0], os.WNOHANG)[0])
        except Hangs:
            os.kill(children[0], signal.SIGKILL)
            os.waitpid(children[0], 0)
            raise
    app.close()
    ran = Counter(map(int, marks.read_text().split()))
    assert ran == {number: 2 if number == 100 else 1 for number in range(150)}, "only the one that forked ended twice"


def test_a_worker_leaves_no_file_behind(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    app.task(name="double")(double)
    for number in range(4):
        with Worker(app):
            assert app.send("double", number).get(HANG_S) == 2 * number
        # What listens for ends (.we) is the app's own, made when a handle had to wait.
        left = [path.name for path in (tmp_path / "jobs.db.d" / "wake").iterdir() if ".we" not in path.name]
        assert left == []
    app.close()
    assert list((tmp_path / "jobs.db.d" / "wake").iterdir()) == []
