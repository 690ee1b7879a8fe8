"""Resources: made once per worker, given by annotation, closed in reverse."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from windlass import App, Worker, injected
from windlass.app.resources import Declared, Opened, provided_type
from windlass.core.errors import BadValue, DuplicateResource, JobDead, StoreClosed, WrongType
from windlass.engines.protocol import Query

if TYPE_CHECKING:
    from decimal import Decimal


class Value:
    """What tasks ask for; the four kinds below are its subclasses."""

    def __init__(self, log: list[str]) -> None:
        self.log = log


class Plain(Value): ...


class Yielded(Value): ...


class Awaited(Value): ...


class AsyncYielded(Value): ...


class Missing: ...


def declare(app: App, log: list[str]) -> None:
    """One resource of each kind."""

    @app.resource
    def plain() -> Plain:
        log.append("plain made")
        return Plain(log)

    @app.resource
    def yielded() -> Iterator[Yielded]:
        log.append("yielded made")
        yield Yielded(log)
        log.append("yielded closed")

    @app.resource
    async def awaited() -> Awaited:
        await asyncio.sleep(0)
        log.append("awaited made")
        return Awaited(log)

    @app.resource
    async def async_yielded() -> AsyncIterator[AsyncYielded]:
        await asyncio.sleep(0)
        log.append("async_yielded made")
        yield AsyncYielded(log)
        log.append("async_yielded closed")


def uses(
    number: int,
    plain: Plain = injected,
    yielded: Yielded = injected,
    *,
    awaited: Awaited = injected,
    async_yielded: AsyncYielded = injected,
) -> list[str]:
    return [type(each).__name__ for each in (plain, yielded, awaited, async_yielded)]


async def uses_async(number: int, plain: Plain = injected, async_yielded: AsyncYielded = injected) -> tuple[str, str]:
    return type(plain).__name__, type(async_yielded).__name__


def keeps(number: int, yielded: Yielded = injected) -> int:
    return id(yielded)


def asks_first(plain: Plain, number: int) -> str:
    return f"{type(plain).__name__} {number}"


def lacks(number: int, missing: Missing = injected) -> None: ...


def run_now(waits: Any) -> Any:
    return asyncio.run(waits)


MADE = ["plain made", "yielded made", "awaited made", "async_yielded made"]
CLOSED = ["async_yielded closed", "yielded closed"]


def test_a_worker_makes_all_four_kinds_once_and_closes_them_in_reverse(url: str) -> None:
    log: list[str] = []
    with App(url) as app:
        declare(app, log)
        sync, coroutine = app.task(uses), app.task(uses_async)
        with Worker(app, slots=2):
            assert log == MADE
            for _ in range(3):
                assert sync.delay(1).get(timeout=10) == ["Plain", "Yielded", "Awaited", "AsyncYielded"]
                assert coroutine.delay(1).get(timeout=10) == ("Plain", "AsyncYielded")
        assert log == MADE + CLOSED


def test_each_start_of_a_worker_makes_its_own(url: str) -> None:
    log: list[str] = []
    with App(url) as app:
        declare(app, log)
        for _ in range(2):
            with Worker(app):
                pass
    assert log == (MADE + CLOSED) * 2


def test_on_start_comes_after_the_resources_and_on_stop_before_they_close(url: str) -> None:
    log: list[str] = []
    with App(url) as app:
        declare(app, log)

        @app.on_start
        async def start() -> None:
            log.append("on_start")

        @app.on_stop
        def stop() -> None:
            log.append("on_stop")

        assert start.__name__ == "start", "the hook is still its function"
        assert stop.__name__ == "stop"
        with Worker(app):
            pass
    assert log == [*MADE, "on_start", "on_stop", *CLOSED]


def test_a_sender_does_not_pass_what_is_injected(app: App) -> None:
    declare(app, [])
    task: Any = app.task(uses)
    with pytest.raises(WrongType, match="at most 1 argument"):
        task.delay(1, "plain")
    with pytest.raises(WrongType, match="no parameter `plain`"):
        task.delay(1, plain="plain")


def test_parameters_behind_a_resource_are_passed_by_name(app: App) -> None:
    declare(app, [])
    task: Any = app.task(asks_first)
    with pytest.raises(WrongType, match="takes at most 0 arguments by position"):
        task.delay(5)
    with Worker(app, slots=1):
        assert task.delay(number=6).get(timeout=10) == "Plain 6"


def test_a_resource_may_be_declared_after_the_task_that_wants_it(app: App) -> None:
    task = app.task(uses)
    with pytest.raises(BadValue, match="Nothing makes the `plain` of uses"):
        task.delay(1)
    declare(app, [])
    assert task.delay(1).state == "ready"


def test_what_nothing_makes_is_told_at_the_send(app: App) -> None:
    with pytest.raises(BadValue, match=r"Nothing makes the `missing` of lacks\..*a function that returns Missing"):
        app.task(lacks).delay(1)


def test_a_plain_call_gets_the_same_and_closing_the_app_closes_it(url: str) -> None:
    log: list[str] = []
    app = App(url)
    declare(app, log)
    task: Any = app.task(keeps)
    assert task(1) == task(2)
    assert log == ["yielded made"]
    app.close()
    assert log == ["yielded made", "yielded closed"]
    task(3)
    assert log[2:] == ["yielded made"]
    app.close()


def test_an_argument_that_is_passed_to_a_plain_call_wins(app: App) -> None:
    log: list[str] = []
    declare(app, log)
    own = Yielded(log)
    assert app.task(keeps)(1, own) == id(own)
    assert app.task(name="again")(keeps)(1, yielded=own) == id(own)
    assert log == []


def test_an_async_resource_is_refused_where_there_is_no_loop(app: App) -> None:
    declare(app, [])
    with pytest.raises(BadValue, match="awaited is async, and there is no worker's loop here"):
        app.task(uses)(1)


def test_a_worker_whose_resource_fails_says_so_and_closes_what_it_had_made(url: str) -> None:
    log: list[str] = []
    with App(url) as app:

        @app.resource
        def yielded() -> Iterator[Yielded]:
            yield Yielded(log)
            log.append("closed")

        @app.resource
        def plain() -> Plain:
            raise ConnectionError("no database")

        with pytest.raises(ConnectionError, match="no database"):
            Worker(app).start()
        assert log == ["closed"]


def test_errors_in_closing_stop_no_other_and_the_first_is_raised_at_the_end() -> None:
    log: list[str] = []
    declared = Declared()

    def first() -> Iterator[Plain]:
        yield Plain(log)
        log.append("first")
        raise KeyError("first")

    def second() -> Iterator[Yielded]:
        yield Yielded(log)
        log.append("second")

    async def third() -> AsyncIterator[Awaited]:
        yield Awaited(log)
        log.append("third")
        raise ValueError("third")

    for each in (first, second, third):
        declared.add(each)
    with asyncio.Runner() as runner:
        opened = Opened(declared, runner.run)
        opened.open_all()
        with pytest.raises(ValueError, match="third"):
            opened.close()
        assert log == ["third", "second", "first"]
        opened.close()
        assert log == ["third", "second", "first"], "closing twice changes nothing"


def test_an_error_in_closing_is_logged_by_the_worker(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with App(url) as app:

        @app.resource
        def plain() -> Iterator[Plain]:
            yield Plain([])
            raise KeyError("x")

        with caplog.at_level(logging.ERROR), Worker(app):
            pass
    assert "A resource failed to close." in [record.getMessage() for record in caplog.records]


def test_an_app_is_closed_though_one_of_its_resources_fails_to_close(url: str) -> None:
    app = App(url)

    @app.resource
    def yielded() -> Iterator[Yielded]:
        yield Yielded([])
        raise KeyError("x")

    task = app.task(keeps)
    task.delay(1)
    task(1)
    engine = app.engine
    with pytest.raises(KeyError, match="x"):
        app.close()
    with pytest.raises(StoreClosed):
        engine.search(Query())


def test_threads_that_need_it_at_once_get_one() -> None:
    made: list[str] = []
    start = threading.Barrier(8)

    def plain() -> Plain:
        made.append("made")
        return Plain(made)

    declared = Declared()
    declared.add(plain)
    opened = Opened(declared)

    def get(_: int) -> int:
        start.wait(10)
        return id(opened.get(Plain))

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(get, range(8)))) == 1
    assert made == ["made"]


def nothing() -> Iterator[Plain]:
    yield from ()


async def nothing_async() -> AsyncIterator[Plain]:
    for each in ():
        yield each


@pytest.mark.parametrize("maker", [nothing, nothing_async])
def test_a_generator_that_yields_nothing_is_told_in_a_sentence(maker: Any) -> None:
    declared = Declared()
    declared.add(maker)
    with pytest.raises(BadValue, match=f"The resource {maker.__qualname__} yielded nothing"):
        Opened(declared, run_now).get(Plain)


def by_generator() -> Generator[Plain, None, None]:
    yield Plain([])


def unannotated():
    return Plain([])


def returns_none() -> None: ...


def returns_unimported() -> Decimal: ...


def test_the_return_annotation_says_what_a_resource_makes() -> None:
    assert provided_type(by_generator) is Plain
    for maker in (unannotated, returns_none):
        with pytest.raises(BadValue, match="does not say which type it makes"):
            provided_type(maker)
    with pytest.raises(BadValue, match="return annotation of returns_unimported is unknown"):
        provided_type(returns_unimported)


def test_two_resources_of_one_type_are_refused_naming_both(app: App) -> None:
    app.resource(by_generator)
    with pytest.raises(DuplicateResource, match="Two resources make Plain: by_generator, nothing"):
        app.resource(nothing)


def test_a_job_sent_before_its_worker_lost_the_resource_is_dead_with_a_reason(url: str) -> None:
    sender = App(url)
    declare(sender, [])
    with sender, App(url) as app:
        handle = sender.task(name="t")(keeps).delay(1)
        app.task(name="t")(keeps)
        with Worker(app, slots=1), pytest.raises(JobDead, match="Nothing makes the `yielded`"):
            handle.get(timeout=10)
