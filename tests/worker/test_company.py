"""What a task, a hook or a child process can do to its worker, and must not."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.soak.waiting import wait_for
from tests.sqlite.rig import gate_held, inner
from windlass import App, Middleware, Worker
from windlass.core.errors import BadValue, JobDead
from windlass.core.job import State
from windlass.engines.memory import MemoryEngine
from windlass.engines.protocol import Settlement, TallyQuery, Verdict
from windlass.engines.sqlite import SqliteEngine

HANG_S = 30


@pytest.fixture
def app() -> Any:
    with App("memory://company") as app:
        yield app


def test_a_coroutine_that_wants_to_end_the_process_does_not_end_the_loop(app: App) -> None:
    @app.task(name="bad")
    async def bad() -> None:
        async def exits() -> None:
            sys.exit(3)

        await asyncio.gather(asyncio.create_task(exits()))

    @app.task(name="good")
    async def good() -> int:
        return 1

    with Worker(app, slots=2):
        with pytest.raises(JobDead, match="SystemExit"):
            bad.delay().get(HANG_S)
        assert good.delay_many([()] * 5).get(HANG_S) == [1] * 5


class Exits(Middleware):
    """A hook that raises what no hook may raise."""

    def __init__(self) -> None:
        self.raises = False

    def before_settle(self, settlement: Settlement) -> Settlement:
        if self.raises:
            sys.exit(3)
        return settlement

    def after_settle(self, settlement: Settlement, verdict: Verdict) -> None:
        if self.raises:
            sys.exit(3)


def test_a_hook_of_the_settler_that_wants_to_end_the_process_loses_no_end() -> None:
    hook = Exits()
    app = App("memory://", middleware=[hook])

    @app.task(name="one")
    def one() -> int:
        return 1

    with Worker(app, slots=2):
        hook.raises = True
        assert one.delay_many([()] * 50).get(HANG_S) == [1] * 50
    app.close()


def test_await_in_the_only_slot_is_refused(app: App) -> None:
    @app.task(name="child")
    async def child() -> int:
        return 1

    @app.task(name="parent")
    async def parent() -> int:
        return await child.delay()

    with Worker(app, slots=1, pool="aio"), pytest.raises(JobDead, match="neither could ever end"):
        parent.delay().get(HANG_S)


def test_a_worker_can_be_started_in_a_forked_child(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task(name="who")
    def who() -> int:
        return os.getpid()

    worker = Worker(app, slots=1)
    with worker:
        parent_id = worker.id
        pid = os.fork()
        if pid == 0:
            try:
                worker.start()
                os._exit(0 if worker.id != parent_id and worker.id is not None else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert worker.id == parent_id
        assert who.delay().get(HANG_S)
    app.close()


def test_a_forked_child_that_stops_its_copy_of_a_worker_leaves_the_parents_alone(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    started, go_on = threading.Event(), threading.Event()

    @app.task(name="holds")
    def holds() -> int:
        started.set()
        go_on.wait(HANG_S)
        return 1

    with Worker(app, slots=1) as worker:
        handle = holds.delay()
        assert started.wait(HANG_S)
        pid = os.fork()
        if pid == 0:
            try:
                worker.stop(drain=0)
                os._exit(0)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert handle.state is State.RUNNING
        assert len(app.engine.tally(TallyQuery()).cards) == 1
        go_on.set()
        assert handle.get(HANG_S) == 1
    app.close()


def test_stop_does_not_wait_for_ever_for_a_store_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("windlass.worker.crew.SETTLE_S", 0.2)
    path = tmp_path / "jobs.db"
    app = App(f"sqlite:///{path}", beat=0.05, lease=1)
    app.task(name="one")(lambda: 1)
    worker = Worker(app, slots=1).start()
    engine = app.engine
    assert isinstance(engine, SqliteEngine)
    with gate_held(path):
        wait_for("a beat to hang in the gate", lambda: inner(engine, "gate", "_patience").in_line)
        began = time.monotonic()
        worker.stop(drain=0)
        assert time.monotonic() - began < HANG_S
        assert "left behind" in caplog.text
    app.close()


def test_what_runs_at_the_end_of_the_program_may_still_start_threads(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from windlass import App, Worker
app = App("memory://")
started = __import__("threading").Event()
@app.task(name="job")
async def job() -> int:
    started.set()
    await asyncio.sleep(0.3)
    return await asyncio.to_thread(lambda: 7)
Worker(app).start()
handle = job.delay()
started.wait(10)
app.on_stop(lambda: print(handle.state))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{State.SUCCEEDED}\n"


def test_what_cannot_be_a_task_is_refused_where_it_is_decorated(app: App) -> None:
    def numbers() -> Any:
        yield 1

    class Order:
        def ship(self) -> None: ...

    for wrong in (numbers, Order, Order.ship):
        with pytest.raises(BadValue, match=r"is a (generator or a class|method)"):
            app.task(wrong)


def test_what_a_task_sends_after_its_worker_was_given_up_does_not_reach_another_store(tmp_path: Path) -> None:
    """A test's worker was stopped, its task was not: the app's own store must not see what it sends."""
    path = tmp_path / "real.db"
    app = App(f"sqlite:///{path}")
    running, go, ended = threading.Event(), threading.Event(), threading.Event()

    @app.task(name="child")
    def child() -> None: ...

    @app.task(name="outlives")
    def outlives() -> None:
        running.set()
        go.wait(HANG_S)
        try:
            child.delay()
        finally:
            ended.set()

    engine = MemoryEngine("lent")
    engine.open()
    with app.on(engine), Worker(app, slots=1, drain=0):
        outlives.delay()
        assert running.wait(HANG_S)
    go.set()
    assert ended.wait(HANG_S)
    assert not path.exists()
    engine.close()
    app.close()
