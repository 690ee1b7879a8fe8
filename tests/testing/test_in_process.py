"""A worker beside the test: real threads, a store of its own, and a way to wait that does not sleep."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.soak.waiting import wait_for
from windlass import App, Retry, State
from windlass.core.errors import JobNotFound, NotFinished, NotWritable
from windlass.testing import TestWorker, run_in_process

runs: list[Any] = []


@pytest.fixture
def app() -> Iterator[App]:
    """An app whose own store must never be seen: opening it fails."""
    runs.clear()
    yield App("sqlite:////nowhere/at/all.db")
    runs.clear()


@pytest.fixture
def note(app: App) -> Any:
    @app.task(name="note")
    def note(what: Any) -> str:
        runs.append(what)
        return threading.current_thread().name

    return note


@pytest.fixture
def worker(app: App, note: Any) -> Iterator[TestWorker]:
    @app.task(name="crawl")
    async def crawl(url: str) -> int:
        await asyncio.sleep(0)
        return len(url)

    @app.task(name="send_on")
    def send_on(depth: int) -> None:
        runs.append(depth)
        if depth:
            send_on.delay(depth - 1)

    @app.task(name="flaky", retry=Retry.fixed(1, base="1h", jitter=False))
    def flaky() -> None:
        runs.append("try")
        if len(runs) == 1:
            raise ConnectionError

    with run_in_process(app) as worker:
        yield worker


def test_jobs_run_in_the_threads_of_a_real_worker(app: App, note: Any, worker: TestWorker) -> None:
    assert note.delay(1).get(timeout=10).startswith("windlass-slot")
    assert app.send("crawl", "http").get(timeout=10) == 4
    assert worker.id is not None


def test_wait_returns_when_everything_and_what_it_sent_has_ended(app: App, worker: TestWorker) -> None:
    app.send("send_on", 20)
    worker.wait()
    assert runs == list(range(20, -1, -1))
    assert {job.handle.state for job in worker.sent()} == {State.SUCCEEDED}


def test_wait_without_anything_sent_returns_at_once(worker: TestWorker) -> None:
    worker.wait(timeout=0)


def test_wait_does_not_wait_for_what_was_sent_for_later_until_it_is_due(note: Any, worker: TestWorker) -> None:
    later = note.using(delay="2h").delay("later")
    note.delay("now")
    worker.wait()
    assert runs == ["now"]
    assert later.state is State.SCHEDULED
    worker.clock.travel("2h")
    worker.wait()
    assert runs == ["now", "later"]


def test_a_worker_that_sleeps_is_woken_by_time_travel_again_and_again(note: Any, worker: TestWorker) -> None:
    for number in range(10):
        handle = note.using(delay="30d").delay(number)
        worker.clock.travel("30d")
        handle.get(timeout=5)
    assert runs == list(range(10))


def test_wait_names_what_has_not_ended(app: App, worker: TestWorker) -> None:
    handle = app.send("flaky")
    wait_for("its first try", lambda: handle.state is State.SCHEDULED)
    with pytest.raises(NotFinished, match=r"After 0\.2 s some jobs have not ended: flaky\(\) is scheduled\."):
        worker.wait(timeout=0.2)
    worker.clock.travel("1h")
    worker.wait()
    assert runs == ["try", "try"]


def test_a_record_that_is_gone_is_not_waited_for(app: App, note: Any, worker: TestWorker) -> None:
    handle = note.delay(1)
    worker.wait()
    worker.clock.travel("30d")
    with pytest.raises(JobNotFound):
        handle.job()
    worker.wait()


def test_afterwards_nothing_runs_and_the_app_has_its_own_store_again(note: Any, app: App) -> None:
    with run_in_process(app, slots=1) as worker:
        note.delay(1).get(timeout=10)
    assert worker.id is None
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("windlass-consumer")]
    with pytest.raises(NotWritable, match="/nowhere/at"):
        note.delay(2)
