"""Mistakes: each gets one sentence that says what is wrong and what to do, and nothing is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from windlass import App, Worker, current_job
from windlass.core.errors import (
    BadName,
    BadValue,
    DuplicateTask,
    JobDead,
    NotInJob,
    NotSerialisable,
    UnknownOption,
    WrongPool,
    WrongType,
)
from windlass.core.job import State
from windlass.engines.protocol import TallyQuery


@pytest.fixture
def app() -> Any:
    with App("memory://mistakes") as app:
        yield app


def stored(app: App) -> int:
    return sum(count.n for count in app.engine.tally(TallyQuery()).counts)


def test_arguments_that_do_not_fit_are_refused_where_the_function_is_known(app: App) -> None:
    @app.task
    def charge(order_id: int, cents: int = 0) -> None: ...

    wrong: Any = charge
    for args, kwargs, said in [
        ((), {}, "needs a value for `order_id`"),
        (("seven",), {}, "Wrong type at `order_id`"),
        ((1,), {"cent": 5}, "Did you mean `cents`?"),
        ((1, 2, 3), {}, "at most 2 arguments"),
    ]:
        with pytest.raises(WrongType, match=said.replace("?", r"\?")):
            wrong.delay(*args, **kwargs)
    with pytest.raises(NotSerialisable, match=r"args\[0\]"):
        wrong.delay(object())
    with pytest.raises(WrongType, match="needs a value"):
        wrong.delay_many([(1,), ()])
    assert stored(app) == 0


def test_arguments_that_do_not_fit_where_it_is_not_known_end_dead_with_a_reason(app: App) -> None:
    @app.task(name="charge")
    def charge(order_id: int) -> None: ...

    sender = App("memory://mistakes")  # without the task's code
    handle = sender.send(charge.name, "seven")
    with Worker(app, slots=1), pytest.raises(JobDead, match="Wrong type at `order_id`"):
        app.result(handle.id).get(timeout=10)
    assert handle.job().record.reason == "arguments"  # pyright: ignore[reportOptionalMemberAccess]
    sender.close()


def test_an_unknown_task_waits_for_a_worker_that_knows_it(app: App) -> None:
    @app.task(name="known")
    def known() -> int:
        return 1

    handle = app.send("unknown", 1)
    with Worker(app, slots=1):
        assert known.delay().get(timeout=10) == 1
        assert handle.state is State.READY

    @app.task(name="unknown")
    def unknown(number: int) -> int:
        return number + 1

    with Worker(app, slots=1):
        assert handle.get(timeout=10) == unknown(1) == 2


def test_a_result_that_cannot_be_stored_ends_the_job_dead_and_says_which(app: App) -> None:
    runs: list[int] = []

    @app.task(name="odd", retry=5)
    def odd() -> object:
        runs.append(1)
        return object()

    with Worker(app, slots=1), pytest.raises(JobDead, match="`result` is a object"):
        odd.delay().get(timeout=10)
    assert len(runs) == 1, "the work was done: doing it again would not help"


def test_two_tasks_of_one_name_are_refused(app: App) -> None:
    app.task(name="twice")(len)
    with pytest.raises(DuplicateTask, match=r"There are two tasks twice: .* Give one of them another name"):
        app.task(name="twice")(max)


def test_an_option_that_does_not_exist_names_the_near_miss(app: App) -> None:
    with pytest.raises(UnknownOption, match=r"has no option `retires`. Did you mean `retry`\?"):
        app.task(retires=3)(len)
    task = app.task(name="len")(len)
    with pytest.raises(UnknownOption, match=r"has no option `dealy`. Did you mean `delay`\?"):
        task.using(dealy=3)
    with pytest.raises(UnknownOption, match=r"has no option `route`. Did you mean `routes`\?"):
        App("memory://", route={})


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_a_coroutine_function_in_a_sync_pool_is_refused_at_the_start(app: App, pool: Any) -> None:
    @app.task(name="crawl")
    async def crawl() -> None: ...

    with pytest.raises(WrongPool, match=f"{crawl.name} is a coroutine function, which the pool {pool} cannot run"):
        Worker(app, pool=pool)


def test_a_plain_function_in_the_pool_of_coroutines_is_refused_at_the_start(app: App) -> None:
    app.task(name="len")(len)
    with pytest.raises(WrongPool, match="is no coroutine function"):
        Worker(app, pool="aio")


@pytest.mark.parametrize("slots", [0, -1, 1.5, "4", True])
def test_a_worker_without_slots_is_refused(app: App, slots: Any) -> None:
    with pytest.raises(BadValue, match="slots"):
        Worker(app, slots=slots)


def test_a_worker_whose_name_acts_on_a_screen_is_refused(app: App) -> None:
    with pytest.raises(BadName, match=r"The worker name 'mailer-\\x1b\]0;title\\x07' has control characters"):
        Worker(app, name="mailer-\x1b]0;title\x07")


def test_a_worker_of_something_else_than_an_app_is_refused(app: App) -> None:
    task = app.task(name="len")(len)
    wrong: Any
    for wrong in (task, len, App, "tasks:app", None):
        with pytest.raises(BadValue, match=r"A worker needs an app, and got .* Worker\(app\)"):
            Worker(wrong)


def test_run_outside_of_the_main_thread_is_refused_before_anything_starts(app: App) -> None:
    worker = Worker(app)
    with ThreadPoolExecutor(1) as thread, pytest.raises(BadValue, match=r"main thread only\. Call it there"):
        thread.submit(worker.run).result(10)
    assert worker.id is None


def test_queues_given_as_a_text_are_refused(app: App) -> None:
    with pytest.raises(BadValue, match=r"The queues are the text 'mail'. Give a list"):
        Worker(app, queues="mail")


def test_an_unknown_option_of_a_worker_names_the_near_miss(app: App) -> None:
    with pytest.raises(UnknownOption, match=r"A worker has no option `slot`. Did you mean `slots`\?"):
        Worker(app, slot=3)


def test_outside_of_a_task_there_is_no_current_job() -> None:
    with pytest.raises(NotInJob, match="No job is running here"):
        current_job()
