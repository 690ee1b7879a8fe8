"""Eager: jobs run where they are sent, through the steps of a real worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from windlass import App, Cancel, Dead, Middleware, Retry, RetryAfter, Snooze, State, current_job
from windlass.core.errors import (
    JobCancelled,
    JobDead,
    JobExpired,
    JobNotFound,
    NotFinished,
    NotSerialisable,
    ResultGone,
    StoreClosed,
    WrongType,
)
from windlass.core.events import Settled
from windlass.engines.protocol import Amendment, Change, Put
from windlass.testing import Stage, run_eagerly
from windlass.testing.eager import RETRIES_AT_ONCE


@dataclass
class Page:
    url: str
    words: int


class Pool:
    """A thing that belongs to the loop it was made on."""

    loop: Any = None


runs: list[Any] = []


@pytest.fixture
def app() -> Iterator[App]:
    """An app whose own store must never be seen: opening it fails."""
    runs.clear()
    yield App("sqlite:////nowhere/at/all.db")
    runs.clear()


@pytest.fixture
def stage(app: App) -> Iterator[Stage]:
    with run_eagerly(app) as stage:
        yield stage


def test_a_job_has_run_when_delay_returns_in_the_same_thread(app: App, stage: Stage) -> None:
    @app.task(name="add")
    def add(a: int, b: int) -> tuple[int, str]:
        return a + b, threading.current_thread().name

    handle = add.delay(1, b=2)
    assert handle.state is State.SUCCEEDED
    assert handle.get() == (3, threading.current_thread().name)


def test_arguments_and_result_have_been_through_the_store(app: App, stage: Stage) -> None:
    @app.task(name="crawl")
    def crawl(page: Page) -> Page:
        runs.append(page)
        return page

    page = Page("http://x", 8)
    assert crawl.delay(page).get() == page
    assert runs == [page]
    assert runs[0] is not page


def test_what_cannot_be_stored_is_refused_as_it_would_be(app: App, stage: Stage) -> None:
    @app.task(name="take")
    def take(what: Any = None) -> Any:
        return object()

    with pytest.raises(NotSerialisable):
        take.delay(object())
    with pytest.raises(WrongType):
        take.delay(1, 2)  # pyright: ignore[reportCallIssue]
    with pytest.raises(JobDead, match="object"):
        take.delay().get()


def test_a_failure_is_tried_again_at_once_as_the_policy_says(app: App, stage: Stage) -> None:
    @app.task(name="flaky", retry=Retry(3, base="1h", jitter=False))
    def flaky(failures: int) -> int:
        runs.append(current_job().attempt)
        if len(runs) <= failures:
            raise ConnectionError(f"try {len(runs)}")
        return len(runs)

    handle = flaky.delay(2)
    assert handle.get() == 3
    assert [attempt.outcome for attempt in handle.job().attempts] == ["failed", "failed", "succeeded"]
    assert runs == [1, 2, 3]
    runs.clear()
    with pytest.raises(JobDead, match="ConnectionError: try 4") as caught:
        flaky.delay(99).get()
    failure: Any = caught.value.failure
    assert "in flaky" in failure.traceback
    assert "run_ready" not in failure.traceback


def test_a_policy_without_an_end_does_not_hang_the_test(app: App, stage: Stage) -> None:
    @app.task(name="never", retry=Retry.fixed(1_000_000, base="1h", jitter=False))
    def never() -> None:
        runs.append(1)
        raise ConnectionError

    handle = never.delay()
    assert handle.state is State.SCHEDULED
    assert len(runs) == RETRIES_AT_ONCE


@pytest.mark.parametrize(
    ("ending", "error", "said"),
    [
        (ValueError("no"), JobDead, "ValueError: no"),
        (Dead("no such order"), JobDead, "no such order"),
        (Cancel("sold out"), JobCancelled, "sold out"),
        (SystemExit(3), JobDead, "SystemExit"),
        (asyncio.CancelledError(), JobDead, "CancelledError"),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_an_end_is_recorded_as_it_would_be(
    app: App, stage: Stage, kind: str, ending: BaseException, error: type[Exception], said: str
) -> None:
    @app.task(name="plain")
    def plain() -> None:
        raise ending

    @app.task(name="async")
    async def coroutine() -> None:
        raise ending

    handle = app.send(kind)
    with pytest.raises(error, match=said):
        handle.get()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), pytest.fail.Exception("no")])
def test_what_is_meant_for_the_test_goes_through_the_task(app: App, stage: Stage, error: BaseException) -> None:
    @app.task(name="ends")
    def ends() -> None:
        raise error

    with pytest.raises(type(error)):
        ends.delay()


def test_a_task_may_ask_to_be_tried_again_at_once_but_a_snooze_waits_for_time_travel(app: App, stage: Stage) -> None:
    @app.task(name="asks")
    def asks(ending: str) -> int:
        runs.append(ending)
        if len(runs) == 1:
            raise RetryAfter("1h") if ending == "retry" else Snooze("1h")
        return current_job().attempt

    assert asks.delay("retry").get() == 2
    runs.clear()
    snoozed = asks.delay("snooze")
    assert (snoozed.state, len(runs)) == (State.SCHEDULED, 1)
    stage.clock.travel("1h")
    assert snoozed.get() == 1


def test_a_delayed_job_runs_when_time_travel_brings_it_due(app: App, stage: Stage) -> None:
    @app.task(name="note")
    def note(what: str) -> None:
        runs.append(what)

    note.using(delay="1h").delay("delay")
    note.using(at=stage.clock.now + timedelta(hours=3)).delay("at")
    assert runs == []
    stage.clock.travel("59m")
    assert runs == []
    stage.clock.travel("1m")
    assert runs == ["delay"]
    stage.clock.travel(timedelta(hours=2))
    assert runs == ["delay", "at"]


def test_time_travel_stops_at_each_job_that_comes_due(app: App, stage: Stage) -> None:
    start = stage.clock.now

    @app.task(name="poll")
    def poll() -> None:
        runs.append(round((stage.clock.now - start).total_seconds()))
        poll.using(delay="10m").delay()

    poll.delay()
    stage.clock.travel("35m")
    assert runs == [0, 600, 1200, 1800]


def test_results_records_and_jobs_run_out_of_their_time(app: App, stage: Stage) -> None:
    @app.task(name="one", keep_result="1h")
    def one() -> int:
        return 1

    handle = one.delay()
    late = one.using(expires="30m", delay="40m").delay()
    assert handle.get() == 1
    stage.clock.travel("2h")
    with pytest.raises(ResultGone):
        handle.get()
    with pytest.raises(JobExpired):
        late.get()
    fresh = one.using(expires="30m").delay()
    assert fresh.get() == 1  # from the time that it is, not from when the test began
    stage.clock.travel("10d")
    with pytest.raises(JobNotFound):
        handle.get()


def test_waiting_for_what_nobody_will_run_ends_at_once_with_a_sentence(app: App, stage: Stage) -> None:
    @app.task(name="one")
    def one() -> int:
        return 1

    later = one.using(delay="2h").delay()
    with pytest.raises(NotFinished, match=r"of one is scheduled, .* Let time pass first, 1h 59m"):
        later.get()
    assert not later.wait()
    unknown = app.send("no.such.task")
    assert unknown.state is State.READY
    with pytest.raises(NotFinished, match="Import the module that defines the task"):
        unknown.get()
    app.engine.write([Put(key="queue/default", value=b'{"paused":true}')])
    paused = one.delay()
    with pytest.raises(NotFinished, match="its queue may be paused"):
        paused.get()
    app.engine.write([Put(key="queue/default", value=None)])
    assert paused.get() == 1


def test_a_task_sends_others_and_uses_their_results(app: App, stage: Stage) -> None:
    @app.task(name="double")
    def double(number: int) -> int:
        return number * 2

    @app.task(name="sum")
    def total(count: int) -> int:
        return sum(double.delay_many([(number,) for number in range(count)]).get())

    assert total.delay(4).get() == 12


def test_a_task_that_is_defined_after_it_was_sent_by_name_runs_then(app: App, stage: Stage) -> None:
    handle = app.send("late", 1)

    @app.task(name="late")
    def late(number: int) -> int:
        return number

    assert late.delay(2).get() == 2
    assert handle.get() == 1


def test_a_dead_job_that_is_tried_again_by_hand_runs_at_once(app: App, stage: Stage) -> None:
    @app.task(name="flaky")
    def flaky() -> int:
        runs.append(1)
        if len(runs) == 1:
            raise ValueError
        return len(runs)

    handle = flaky.delay()
    assert handle.state is State.DEAD
    app.engine.amend(Amendment(change=Change.RETRY, ids=(handle.job_id,)))
    assert handle.get() == 2


def test_lines_and_progress_are_kept(app: App, stage: Stage) -> None:
    @app.task(name="tell")
    def tell() -> None:
        for number in range(250):
            current_job().log(f"line {number}")
        current_job().progress(1, 2)

    job = tell.delay().job()
    assert [line.text.decode() for line in job.log] == [f"line {number}" for number in range(250)]
    assert job.progress is not None
    assert job.progress.data == b'{"done":1,"total":2}'


# ── async ───────────────────────────────────────────────────────────────────────────────────────────────


def async_tasks(app: App) -> Any:
    @app.task(name="leaf")
    async def leaf(number: int) -> int:
        await asyncio.sleep(0)
        return number

    @app.task(name="awaits")
    async def awaits(number: int) -> int:
        return await (await leaf.adelay(number)) + await (await leaf.adelay(1))

    @app.task(name="blocks")
    async def blocks(number: int) -> int:
        return awaits.delay(number).get() + leaf.delay(1).get()

    return blocks


def test_async_tasks_run_without_a_loop_and_beside_a_running_one(app: App, stage: Stage) -> None:
    blocks = async_tasks(app)
    assert blocks.delay(5).get() == 7

    async def main() -> int:
        handle = blocks.delay(6)
        assert handle.state is State.SUCCEEDED
        sent = await blocks.adelay(7)
        return handle.get() + await sent

    assert asyncio.run(main()) == 8 + 9


def test_a_coroutine_knows_its_job(app: App, stage: Stage) -> None:
    @app.task(name="who")
    async def who() -> str:
        return current_job().id

    handle = who.delay()
    assert handle.get() == handle.id


def test_a_job_has_whatever_it_needs(app: App, stage: Stage) -> None:
    @app.task(memory="8TB", needs={"browser": 100})
    def shoot() -> str:
        return "shot"

    assert shoot.delay().get(timeout=0) == "shot"
    assert shoot.using(needs={"gpu": 1}).delay().get(timeout=0) == "shot"


def test_resources_hooks_and_middleware_are_those_of_a_worker() -> None:
    told: list[str] = []

    class Told(Middleware):
        def before_run(self, job: Any) -> None:
            told.append("before")

        def after_run(self, job: Any, error: BaseException | None) -> None:
            told.append(f"after {error!r}")

        def before_settle(self, settlement: Any) -> Any:
            told.append("settle")
            return settlement

    app = App("sqlite:////nowhere/at/all.db", middleware=[Told()])

    @app.resource
    async def pool() -> AsyncIterator[Pool]:
        made = Pool()
        made.loop = asyncio.get_running_loop()
        told.append("open")
        yield made
        told.append("close")

    @app.on_start
    async def start() -> None:
        told.append("start")

    @app.on_stop
    def stop() -> None:
        told.append("stop")

    @app.task(name="use")
    async def use(pool: Pool) -> bool:
        return pool.loop is asyncio.get_running_loop()

    app.bus.subscribe(Settled, lambda event: told.append(event.outcome))
    with run_eagerly(app):
        assert app.send("use").get()
    assert told == ["open", "start", "before", "after None", "settle", "succeeded", "stop", "close"]


# ── the app afterwards ──────────────────────────────────────────────────────────────────────────────────


def test_afterwards_the_app_is_as_it_was() -> None:
    with App("memory://") as app:

        @app.task(name="one")
        def one() -> int:
            return 1

        waiting = one.delay()
        engine, opened, tasks = app.engine, app.opened, dict(app.tasks)
        now_us = app.now_us()
        with run_eagerly(app) as stage:

            @app.task(name="local")
            def local() -> int:
                return 2

            assert one.delay().get() == 1
            assert local.delay().get() == 2
            stage.clock.travel("1d")
            assert app.now_us() - now_us > 86_000_000_000
            with pytest.raises(JobNotFound):
                waiting.job()
        assert (app.engine, app.opened, app.tasks) == (engine, opened, tasks)
        assert app.now_us() - now_us < 86_000_000_000
        assert waiting.state is State.READY
        assert len(stage.sent()) == 2


def test_a_close_by_the_code_under_test_does_not_lead_to_the_real_store(app: App, stage: Stage) -> None:
    @app.task(name="one")
    def one() -> int:
        return 1

    first = one.delay()
    app.close()
    assert one.delay().get() == 1
    assert first.get() == 1


def test_a_handle_of_a_test_that_is_over_cannot_be_waited_for(app: App) -> None:
    with run_eagerly(app) as stage:
        handle = app.named("one").using(delay=1).delay()
        engine = app.engine
    with pytest.raises(StoreClosed):
        engine.fetch([handle.job_id])
    assert stage.app is app


def test_threads_that_send_at_once_all_get_their_results(app: App, stage: Stage) -> None:
    @app.task(name="square")
    def square(number: int) -> int:
        return number * number

    found: dict[int, int] = {}

    def send(number: int) -> None:
        found[number] = square.delay(number).get(timeout=30)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: number * number for number in range(20)}
