"""Tasks: functions that can be called, or sent with arguments that are sure to fit."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from windlass import App, AsyncTask, Limits, Settings, State, Task, Worker, current_job, new_id
from windlass.app.task import Sender
from windlass.core.errors import BadName, BadValue, NotInJob, NotSerialisable, TooLarge, WrongPool, WrongType
from windlass.engines.protocol import Query


@dataclass
class Order:
    number: int
    to: str


def ship(order: Order, *, fast: bool = False) -> str:
    """Sends an order out."""
    return f"{order.number} to {order.to}{' fast' if fast else ''}"


def takes(thing: object) -> None: ...


def how_many(app: App) -> int:
    return app.engine.search(Query(count=True)).count


# ── called ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_task_is_still_its_function(app: App) -> None:
    task: Any = app.task(ship)
    assert task(Order(1, "x"), fast=True) == "1 to x fast"
    assert (task.__name__, task.__doc__, task.__module__) == ("ship", "Sends an order out.", __name__)
    assert inspect.signature(task) == inspect.signature(ship)
    assert repr(task) == f"<task {__name__}.ship>"


def test_a_plain_call_has_a_context_of_its_own_and_leaves_none_behind(app: App) -> None:
    task = app.task(name="who", queue="q")(lambda: (current_job().task, current_job().queue))
    assert task() == ("who", "q")
    with pytest.raises(NotInJob):
        current_job()


def test_a_plain_call_that_raises_leaves_no_context_behind_either(app: App) -> None:
    @app.task(name="fails")
    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        fails()
    with pytest.raises(NotInJob):
        current_job()


def test_an_async_task_is_awaited_where_it_is_called(app: App) -> None:
    @app.task(name="slow")
    async def slow(number: int) -> str:
        await asyncio.sleep(0)
        return f"{current_job().task} {number}"

    assert isinstance(slow, AsyncTask)
    assert asyncio.run(slow(5)) == "slow 5"


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_an_async_task_is_refused_by_a_pool_without_a_loop(app: App, pool: Any) -> None:
    @app.task(name="slow")
    async def slow() -> None: ...

    with pytest.raises(WrongPool, match=f"{slow.name} is a coroutine function, which the pool {pool} cannot run"):
        Worker(app, pool=pool)


def test_attributes_of_a_function_do_not_change_its_task(app: App) -> None:
    def tagged() -> None: ...

    for attribute in ("name", "options", "function", "is_async"):
        setattr(tagged, attribute, "mine")
    task = app.task(name="t")(tagged)
    assert (task.name, task.function, task.is_async) == ("t", tagged, False)
    assert task.delay().state is State.READY


# ── sent ────────────────────────────────────────────────────────────────────────────────────────────────


def test_arguments_travel_as_their_annotated_types(app: App) -> None:
    task = app.task(ship)
    with Worker(app, slots=1):
        assert task.delay(Order(7, "x"), fast=True).get(timeout=10) == "7 to x fast"


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "needs a value for `order`"),
        ((Order(1, "x"), True), {}, "takes at most 1 argument by position, 2 were given"),
        ((Order(1, "x"),), {"order": Order(1, "x")}, "`order` twice"),
        ((Order(1, "x"),), {"fats": True}, "no parameter `fats`. Did you mean `fast`"),
        (("an order",), {}, "order"),
        (({"number": "one", "to": "x"},), {}, "number"),
        ((Order(1, "x"),), {"fast": "yes"}, "fast"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_at_the_send_and_nothing_is_stored(
    app: App, args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    task: Any = app.task(ship)
    with pytest.raises(WrongType, match=said):
        task.delay(*args, **kwargs)
    with pytest.raises(WrongType, match=said):
        asyncio.run(task.adelay(*args, **kwargs))
    assert how_many(app) == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"delay": 5},
            "ship has no parameter `delay`. An option of the send goes before it: .using(delay=5).delay(…).",
        ),
        ({"priority": 9, "nonsense": 1}, ".using(priority=9).delay(…)."),
        ({"queue": "mail"}, ".using(queue='mail').delay(…)."),
        ({"at": datetime(2027, 1, 1, tzinfo=UTC)}, ".using(at=…).delay(…)."),
        ({"key": "k" * 100}, ".using(key=…).delay(…)."),
    ],
)
def test_an_option_of_the_send_among_the_arguments_is_told_where_it_goes(
    app: App, given: dict[str, Any], said: str
) -> None:
    task: Any = app.task(ship)
    for send in (
        lambda: task.delay(Order(1, "x"), **given),
        lambda: task.delay_many([{"order": Order(1, "x"), **given}]),
    ):
        with pytest.raises(WrongType) as refused:
            send()
        assert str(refused.value).endswith(said)
    assert how_many(app) == 0


def test_a_parameter_called_like_an_option_is_the_tasks_own(app: App) -> None:
    def wait(delay: int, **more: int) -> int:
        return delay + sum(more.values())

    def lock(keys: str) -> None: ...

    waiting = app.task(name="wait")(wait)
    with Worker(app, slots=1):
        assert waiting.delay(delay=5, priority=2).get(timeout=10) == 7
    locking: Any = app.task(name="lock")(lock)
    with pytest.raises(
        WrongType, match=r"Did you mean `keys`\? An option of the send goes before it: \.using\(key='a'\)"
    ):
        locking.delay(key="a")


def test_what_cannot_be_stored_is_refused_at_the_send(app: App) -> None:
    task = app.task(name="t")(takes)
    with pytest.raises(NotSerialisable, match="object"):
        task.delay(object())
    with pytest.raises(TooLarge):
        task.delay("x" * 300_000)
    assert how_many(app) == 0


def test_the_apps_own_limits_hold_at_the_send() -> None:
    with App(settings=Settings(url="memory://", limits=Limits(payload_bytes=1024))) as app:
        task = app.task(name="t")(takes)
        with pytest.raises(TooLarge, match="payload"):
            task.delay("x" * 1025)


def test_a_task_whose_code_is_elsewhere_is_sent_unchecked(app: App) -> None:
    handle = app.named("elsewhere.ship").using(queue="q").delay(1, two=2)
    request = handle.job().request
    assert (request.task, request.queue, handle.state) == ("elsewhere.ship", "q", State.READY)
    with pytest.raises(BadName):
        app.named("not a name")


def test_a_task_that_is_known_is_checked_by_name_too(app: App) -> None:
    app.task(name="ship")(ship)
    with pytest.raises(WrongType, match="needs a value for `order`"):
        app.send("ship")


def test_many_calls_are_one_send_in_their_order(app: App) -> None:
    task = app.task(name="double")(double)
    handles = task.delay_many([(1,), [2], {"number": 3}] + [(number,) for number in range(4, 251)])
    assert len({handle.id for handle in handles}) == 250
    assert how_many(app) == 250
    with Worker(app, slots=2):
        assert handles.get(timeout=30) == [2 * number for number in range(1, 251)]


def test_no_calls_are_no_jobs(app: App) -> None:
    task = app.task(name="double")(double)
    assert task.delay_many([]).get() == []
    assert len(asyncio.run(task.adelay_many([]))) == 0
    assert how_many(app) == 0


@pytest.mark.parametrize("call", [7, "text", None, {1, 2}])
def test_a_call_that_is_no_list_of_arguments_is_refused_by_its_number(app: App, call: Any) -> None:
    task = app.task(name="double")(double)
    with pytest.raises(BadValue, match=f"Call number 1 of double is a {type(call).__name__}"):
        task.delay_many([(1,), call])
    assert how_many(app) == 0


def test_one_id_cannot_be_that_of_many_jobs(app: App) -> None:
    task = app.task(name="double")(double)
    with pytest.raises(BadValue, match="One id cannot be that of many jobs"):
        task.using(id=new_id()).delay_many([(1,), (2,)])
    assert how_many(app) == 0


Send = Callable[[Any], Any]


def by_delay(sender: Any) -> Any:
    return sender.delay(1)


def by_adelay(sender: Any) -> Any:
    return asyncio.run(sender.adelay(1))


def by_delay_many(sender: Any) -> Any:
    return sender.delay_many([(1,)])[0]


@pytest.mark.parametrize("send", [by_delay, by_adelay, by_delay_many])
def test_the_same_id_twice_is_one_job_and_the_same_key_too(app: App, send: Send) -> None:
    task = app.task(name="double")(double)
    job_id = new_id()
    first, again = send(task.using(id=job_id)), send(task.using(id=job_id))
    assert (first.job_id, first.duplicate, again.job_id, again.duplicate) == (job_id, False, job_id, True)
    held, same = send(task.using(key="k")), send(task.using(key="k"))
    assert (same.job_id, same.duplicate) == (held.job_id, True)
    assert how_many(app) == 2


def test_what_a_job_needs_is_what_its_send_says_else_its_task(app: App) -> None:
    def needs(sender: Sender[..., Any]) -> tuple[tuple[str, int], ...]:
        return sender.delay().job().request.needs

    task = app.task(name="shoot", memory="512MB", needs={"printer": 2, "browser": 1})(print)
    assert needs(task) == (("browser", 1), ("memory", 512_000_000), ("printer", 2))
    assert needs(task.using(priority=5)) == needs(task)
    assert needs(task.using(memory=5)) == (("browser", 1), ("memory", 5), ("printer", 2))
    assert needs(task.using(needs={"gpu": 1})) == (("gpu", 1), ("memory", 512_000_000))
    assert needs(task.using(needs={}, memory="1GiB")) == (("memory", 1 << 30),)
    assert needs(app.task(name="plain")(print)) == ()
    assert needs(app.named("elsewhere").using(needs={"gpu": 1})) == (("gpu", 1),)


def test_using_leaves_the_task_itself_as_it_was(app: App) -> None:
    task = app.task(name="double", priority=3)(double)
    urgent = task.using(priority=9)
    assert isinstance(urgent, Task)
    assert urgent(2) == 4
    assert [sender.delay(1).job().request.priority for sender in (task, urgent, task)] == [3, 9, 3]


def test_a_sync_task_from_asyncio_and_an_async_task_from_threads(app: App) -> None:
    @app.task(name="later")
    async def later(number: int) -> int:
        await asyncio.sleep(0)
        return number + 1

    task = app.task(name="double")(double)

    async def main() -> int:
        waits: Awaitable[int] = await task.adelay(4)
        return await waits

    with Worker(app, slots=1):
        assert asyncio.run(main()) == 8
        assert later.delay(4).get(timeout=10) == 5


def double(number: int) -> int:
    return 2 * number
