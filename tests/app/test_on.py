"""`app.on(engine)`: for a while, the app's jobs live in another store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from windlass import App, State, connect
from windlass.core.errors import JobNotFound, StoreClosed
from windlass.engines.protocol import Engine


@pytest.fixture
def other() -> Iterator[Engine]:
    engine = connect("memory://")
    engine.open()
    yield engine
    engine.close()


@pytest.fixture
def app() -> Iterator[App]:
    with App("memory://") as app:
        yield app


def test_what_is_sent_meanwhile_goes_to_the_other_store_alone(app: App, other: Engine) -> None:
    before = app.send("t", 1)
    own = app.engine
    with app.on(other) as same:
        assert same is app
        assert app.engine is other
        meanwhile = app.send("t", 2)
        assert meanwhile.state is State.READY
        with pytest.raises(JobNotFound):
            before.job()
    assert app.engine is own
    assert before.state is State.READY
    with pytest.raises(JobNotFound):
        meanwhile.job()
    assert other.fetch([meanwhile.job_id])[0] is not None


def test_a_store_that_was_not_open_is_not_opened(other: Engine) -> None:
    app = App("sqlite:////nowhere/at/all.db")
    with app.on(other):
        app.send("t")
        app.close()
        app.send("t")
    app.close()


def test_it_is_restored_after_an_error_and_from_the_inside_out(app: App, other: Engine) -> None:
    own, third = app.engine, connect("memory://")
    third.open()
    with pytest.raises(ZeroDivisionError), app.on(other):  # noqa: PT012 - the nesting is the point
        with app.on(third):
            assert app.engine is third
        assert app.engine is other
        raise ZeroDivisionError
    assert app.engine is own
    third.close()


def test_neither_store_is_closed(app: App, other: Engine) -> None:
    own = app.engine
    with app.on(other):
        app.send("t")
    assert own.read(["x"]) == other.read(["x"]) == [None]


def test_whoever_waits_meanwhile_waits_on_the_other_store_and_is_sent_away_at_its_end(app: App, other: Engine) -> None:
    own = app.waiter
    with app.on(other):
        (future,) = app.waiter.watch([app.send("t").job_id])
        assert app.waiter is not own
    with pytest.raises(StoreClosed):
        future.result(timeout=5)
    assert app.waiter is own


def test_a_batch_that_is_on_its_way_arrives_in_the_store_it_was_sent_to(app: App, other: Engine) -> None:
    async def main() -> list[bytes]:
        with app.on(other):
            sending = [asyncio.ensure_future(app.named("t").adelay(number)) for number in range(50)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return [handle.job_id for handle in await asyncio.gather(*sending)]

    ids = asyncio.run(main())
    assert None not in other.fetch(ids)
    assert app.engine.fetch(ids) == [None] * 50
