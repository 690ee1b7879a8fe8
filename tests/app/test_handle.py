"""Handles: one job, or many, seen from outside."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.app.conftest import Store
from tests.soak.waiting import HANG_S, wait_for
from windlass import App, Handle, Handles, Middleware, State, Worker, as_completed, gather
from windlass.app import asker, handles
from windlass.app import waiter as waiter_module
from windlass.app.context import JobContext, current
from windlass.app.waiter import Waiter
from windlass.core.errors import (
    BadValue,
    JobCancelled,
    JobDead,
    JobExpired,
    JobNotFound,
    NotFinished,
    ResultGone,
    StoreClosed,
    StoreUnavailable,
    WouldBlock,
    WrongType,
)
from windlass.core.ids import JobId, new_id, show_id
from windlass.engines.protocol import Interest
from windlass.testing.clock import FakeClock, travel
from windlass.testing.faults import Fault

LONG_ENOUGH_S = 2
"""In which the end of a job that has ended already is told, on a busy machine too."""


def double(number: int) -> int:
    return 2 * number


def asleep(store: Store) -> None:
    """Returns when the waiter sleeps in the store."""
    assert store.engine.asleep.wait(HANG_S)
    store.engine.asleep.clear()


def in_a_thread(call: Callable[[], Any]) -> Callable[[], Any]:
    """Starts the call; calling what is given waits for its answer or its error."""
    answer: list[Any] = []

    def run() -> None:
        try:
            answer.append(call())
        except Exception as error:
            answer.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def wait() -> Any:
        thread.join(HANG_S)
        assert not thread.is_alive()
        return answer[0]

    return wait


# ── one ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_handle_can_be_made_anew_from_its_id(app: App) -> None:
    task = app.task(name="double")(double)
    handle = task.delay(4)
    same = [app.result(form) for form in (handle.id, handle.job_id, handle.id.replace("-", ""), handle.id.upper())]
    assert {each.job_id for each in same} == {handle.job_id}
    assert repr(handle) == f"<Handle {handle.id}>"
    with Worker(app, slots=1):
        assert [each.get(timeout=10) for each in (handle, *same)] == [8] * 5


@pytest.mark.parametrize("bad", ["", "42", "not an id", b"short", None, 7])
def test_what_is_no_id_is_refused(app: App, bad: Any) -> None:
    with pytest.raises(BadValue, match="is not a job id"):
        app.result(bad)


def test_every_question_to_a_job_that_never_was_says_so(app: App) -> None:
    handle = app.result(new_id())
    questions: list[Callable[[], Any]] = [
        handle.get,
        handle.wait,
        handle.job,
        handle.cancel,
        handle.why,
        lambda: handle.state,
        lambda: gather([handle]),
        lambda: Handles([handle]).get(),
        lambda: asyncio.run(awaited(handle)),
        lambda: [each.get() for each in as_completed([handle], timeout=10)],
    ]
    for ask in questions:
        with pytest.raises(JobNotFound, match=f"There is no job {handle.id}: it never was"):
            ask()


async def awaited(handle: Handle[Any]) -> Any:
    return await handle


def test_get_waits_no_longer_than_it_is_told_and_is_forgotten(store: Store) -> None:
    handle = store.double.delay(1)
    with pytest.raises(NotFinished, match=rf"The job {handle.id} has not ended after 0\.01 s") as caught:
        handle.get(timeout=0.01)
    assert isinstance(caught.value, TimeoutError)
    assert not handle.wait(timeout=0)
    nobody_waits_for(store, [handle])


def test_an_await_that_is_cancelled_is_forgotten(store: Store) -> None:
    handle = store.double.delay(1)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(awaited(handle), 0.01)

    asyncio.run(main())
    nobody_waits_for(store, [handle])


def test_get_is_woken_by_the_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiter_module, "LOOK_S", 100.0)
    handle = store.double.delay(4)
    waits = in_a_thread(handle.get)
    asleep(store)
    with Worker(store.app, slots=1):
        assert waits() == 8


def test_get_while_the_app_is_closed_says_so(store: Store) -> None:
    waits = in_a_thread(store.double.delay(4).get)
    asleep(store)
    store.app.close()
    assert isinstance(waits(), StoreClosed)


# ── when the store is away ──────────────────────────────────────────────────────────────────────────────

AWAY = r"(The store has been out of reach for \d+\.\d s: )?The store refused \w+ \(by command\)\."


async def all_in_time(handles: Sequence[Handle[int]], timeout: float | None) -> list[int]:
    return [await handle async for handle in as_completed(handles, timeout)]


WAITS: dict[str, Callable[[Sequence[Handle[int]], float | None], Any]] = {
    "get": lambda handles, timeout: [handle.get(timeout) for handle in handles],
    "wait": lambda handles, timeout: [handle.wait(timeout) and handle.get() for handle in handles],
    "gather": gather,
    "as_completed": lambda handles, timeout: [handle.get() for handle in as_completed(handles, timeout)],
    "await": lambda handles, _: asyncio.run(all_of(Handles(handles))),
    "async for": lambda handles, timeout: asyncio.run(all_in_time(handles, timeout)),
}


@pytest.mark.parametrize("timeout", [HANG_S, None])
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_every_wait_goes_on_through_an_outage(
    store: Store, wait: Callable[[Sequence[Handle[int]], float | None], Any], timeout: float | None
) -> None:
    handles = store.double.delay_many([(1,), (2,)])
    store.engine.down()
    waits = in_a_thread(lambda: sorted(wait(handles, timeout)))
    wait_for("the store to be missed", lambda: store.engine.done["listen", Fault.REFUSE])
    store.engine.up()
    with Worker(store.app, slots=1):
        assert waits() == [2, 4]


TIMED: dict[str, tuple[Callable[[Sequence[Handle[int]]], Any], str]] = {
    "get": (lambda handles: handles[0].get(0.1), r"^No end of the job {id} is known after 0\.1 s\. "),
    "gather": (lambda handles: gather(handles, 0.1), r"^No end of the job {id} is known after 0\.1 s\. "),
    "as_completed": (
        lambda handles: list(as_completed(handles, 0.1)),
        r"^No end of 2 of 2 jobs is known after 0\.1 s\. ",
    ),
    "async for": (
        lambda handles: asyncio.run(all_in_time(handles, 0.1)),
        r"^No end of 2 of 2 jobs is known after 0\.1 s\. ",
    ),
}


@pytest.mark.parametrize(("wait", "said"), TIMED.values(), ids=TIMED)
def test_a_timeout_in_an_outage_is_one_and_says_that_the_store_is_away(
    store: Store, wait: Callable[[Sequence[Handle[int]]], Any], said: str
) -> None:
    handles = store.double.delay_many([(1,), (2,)])
    store.engine.down()
    with pytest.raises(NotFinished, match=said.format(id=handles[0].id) + AWAY) as caught:
        wait(handles)
    assert isinstance(caught.value.__cause__, StoreUnavailable)
    assert not handles[0].wait(0.01)
    store.engine.up()
    nobody_waits_for(store, handles)


@pytest.mark.parametrize(("wait", "said"), TIMED.values(), ids=TIMED)
def test_a_store_that_hangs_is_not_waited_for_longer_than_the_timeout(
    store: Store, wait: Callable[[Sequence[Handle[int]]], Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asker, "PATIENCE_S", 0.1)
    handles = store.double.delay_many([(1,), (2,)])
    fetch, go_on, callers = store.engine.fetch, threading.Event(), set[str]()

    def hangs(*asked: Any) -> Any:
        callers.add(threading.current_thread().name)
        assert go_on.wait(HANG_S)
        return fetch(*asked)

    monkeypatch.setattr(store.engine, "fetch", hangs)
    silent = r"The store has not answered within 0\.1 s\."
    with pytest.raises(NotFinished, match=said.format(id=handles[0].id) + silent) as caught:
        wait(handles)
    assert isinstance(caught.value.__cause__, StoreUnavailable)
    assert not handles[0].wait(0)
    assert callers == {"windlass-waiter-asks"}
    go_on.set()


def test_a_look_is_taken_however_short_the_time(store: Store) -> None:
    handles = store.double.delay_many([(1,), (2,), (3,)])
    with Worker(store.app, slots=1):
        assert gather(handles, HANG_S) == [2, 4, 6]
    assert [handle.get(0) for handle in handles] == [2, 4, 6]
    assert all(handle.wait(0) for handle in handles)
    assert gather(handles, 0) == [2, 4, 6]
    assert sorted(handle.get(0) for handle in as_completed(handles, 0)) == [2, 4, 6]
    assert sorted(asyncio.run(all_in_time(handles, 0))) == [2, 4, 6]


def test_an_end_that_comes_just_before_the_last_look_is_given(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    some = store.double.delay_many([(1,), (2,), (3,)])
    with Worker(store.app, slots=1):
        assert gather(some, HANG_S) == [2, 4, 6]

    def late(watched: Sequence[handles.Watched[int]]) -> list[tuple[Waiter, list[JobId]]]:
        wait_for("the ends", lambda: all(one.future.done() for one in watched))
        return []

    monkeypatch.setattr(handles, "_not_ended", late)
    assert sorted(asyncio.run(all_in_time(some, 0))) == [2, 4, 6]
    assert sorted(handle.get(0) for handle in as_completed(some, 0)) == [2, 4, 6]


def test_where_nobody_may_wait_for_a_job_nobody_waits_for_the_store(store: Store) -> None:
    handle = store.double.delay(1)
    here = JobContext(new_id(), "t")
    here.store, here.alone = store.app, True
    token = current.set(here)
    store.engine.down()
    try:
        for wait in (
            handle.get,
            handle.wait,
            lambda: list(as_completed([handle])),
            lambda: asyncio.run(awaited(handle)),
        ):
            with pytest.raises(StoreUnavailable):
                wait()
    finally:
        current.reset(token)


def test_each_end_is_told_by_an_error_of_its_own(app: App) -> None:
    def fails() -> None:
        raise KeyError("no such order")

    task, dies = app.task(name="double")(double), app.task(name="fails", keep_result=False)(fails)
    cancelled = task.delay(1)
    assert cancelled.cancel("sold out")
    assert not cancelled.cancel()
    expired = task.using(expires=0).delay(1)
    silent = task.using(keep_result=False).delay(1)
    dead = dies.delay()
    with Worker(app, slots=1):
        with pytest.raises(JobCancelled, match=r"was cancelled \(sold out\)"):
            cancelled.get(timeout=10)
        with pytest.raises(JobExpired, match="expired before it started"):
            expired.get(timeout=10)
        with pytest.raises(ResultGone, match="its result is not kept"):
            silent.get(timeout=10)
        with pytest.raises(JobDead, match=r"is dead \(failed\): KeyError: 'no such order'.* error\.failure") as caught:
            dead.get(timeout=10)
        failure: Any = caught.value.failure
        assert failure.type == "KeyError"
    assert [each.state for each in (cancelled, expired, silent, dead)] == ["cancelled", "expired", "succeeded", "dead"]


def test_a_result_is_gone_when_its_time_to_live_is_over(store: Store) -> None:
    with Worker(store.app, slots=1):
        handle = store.double.using(keep_result="1h").delay(4)
        assert handle.get(timeout=10) == 8
    from windlass.core.clock import SystemClock

    clock = FakeClock(SystemClock().now_us())
    travel(store.engine, clock)
    clock.advance(3_599_000_000)
    assert handle.get() == 8
    clock.advance(2_000_000)
    with pytest.raises(ResultGone, match="not kept"):
        handle.get()


def test_a_result_that_does_not_fit_the_annotation_is_told_with_a_way_to_it(url: str) -> None:
    def other(number: int) -> str:
        return f"{number}"

    with App(url) as sender, App(url) as app:
        handle = sender.task(name="t")(double).delay(4)
        app.task(name="t")(other)
        with Worker(app, slots=1), pytest.raises(WrongType) as caught:
            handle.get(timeout=10)
        assert caught.value.message == (
            "The stored result does not fit the return annotation of its task: expected `int`, got `str` at `result`."
        )
        assert "Send" not in str(caught.value), "whoever reads it has sent nothing wrong"
        assert "app.result(id).get() gives the result as it was stored" in caught.value.todo
        assert sender.result(handle.id).get() == "4"


# ── waiting inside a task ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_async", [False, True])
def test_a_wait_that_could_never_end_is_refused_in_every_form(store: Store, is_async: bool) -> None:
    handle, ended = store.double.delay(1), store.double.delay(2)
    ended.cancel()
    here = JobContext(new_id(), "t")
    here.store, here.alone, here.is_async = store.app, not is_async, is_async
    waits: list[Callable[[], Any]] = [
        handle.get,
        lambda: handle.wait(5),
        lambda: gather([handle]),
        lambda: list(as_completed([ended, handle])),
        lambda: Handles([handle]).progress(),
    ]
    token = current.set(here)
    try:
        for wait in waits:
            with pytest.raises(WouldBlock, match="stop the worker's loop" if is_async else "only slot"):
                wait()
        assert ended.wait()
        assert list(as_completed([ended])) == [ended]
    finally:
        current.reset(token)
    assert handle.state is State.READY


def test_a_wait_for_a_job_of_another_store_is_allowed(store: Store) -> None:
    here = JobContext(new_id(), "t")
    here.store, here.alone = object(), True
    token = current.set(here)
    try:
        with pytest.raises(NotFinished):
            store.double.delay(1).get(timeout=0)
    finally:
        current.reset(token)


# ── many ────────────────────────────────────────────────────────────────────────────────────────────────


def test_handles_are_a_sequence(store: Store) -> None:
    handles = store.double.delay_many([(number,) for number in range(5)])
    assert (len(handles), repr(handles)) == (5, "<5 handles>")
    assert isinstance(handles[1:3], Handles)
    assert list(handles[1:3]) == [handles[1], handles[2]]
    assert handles[-1] in handles


def test_gather_gives_results_in_order_and_raises_for_the_first_that_has_none(app: App) -> None:
    task = app.task(name="double")(double)
    handles = task.delay_many([(number,) for number in range(4)])
    handles[2].cancel()
    with Worker(app, slots=2):
        assert gather([handles[3], handles[0]], timeout=10) == [6, 0]
        for ask in (lambda: gather(handles, 10), lambda: handles.get(10), lambda: asyncio.run(all_of(handles))):
            with pytest.raises(JobCancelled, match=handles[2].id):
                ask()


async def all_of(handles: Handles[int]) -> list[int]:
    return await handles


def test_one_timeout_holds_for_all_that_are_gathered(store: Store) -> None:
    handles = store.double.delay_many([(1,), (2,), (3,)])
    handles[0].cancel()
    with pytest.raises(NotFinished, match=rf"The job {handles[1].id} has not ended after 0\.01 s"):
        gather(handles[1:], timeout=0.01)
    with pytest.raises(NotFinished, match=r"2 of 3 jobs have not ended after 2 s"):
        list(handles.as_completed(timeout=LONG_ENOUGH_S))


def test_handles_come_as_their_jobs_end(store: Store) -> None:
    handles = store.double.delay_many([(1,), (2,), (3,)])
    came = iter(handles.as_completed(timeout=10))
    for index in (1, 2, 0):
        handles[index].cancel()
        assert next(came) is handles[index]
    assert next(came, None) is None


def test_handles_come_as_their_jobs_end_in_asyncio_too(store: Store) -> None:
    handles = store.double.delay_many([(1,), (2,), (3,)])

    async def main() -> list[int]:
        order: list[int] = []
        handles[1].cancel()
        async for handle in as_completed(handles, timeout=10):
            order.append(handles.index(handle))
            if len(order) < 3:
                handles[2 if len(order) == 1 else 0].cancel()
        return order

    assert asyncio.run(main()) == [1, 2, 0]


def test_a_timeout_in_asyncio_says_how_many_are_left_and_leaves_nobody_waiting(store: Store) -> None:
    handles = store.double.delay_many([(1,), (2,), (3,)])
    handles[0].cancel()

    async def main() -> int:
        with pytest.raises(NotFinished, match=r"2 of 3 jobs have not ended after 2 s"):
            async for _ in handles.as_completed(timeout=LONG_ENOUGH_S):
                pass
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1
    nobody_waits_for(store, handles)


def nobody_waits_for(store: Store, handles: Sequence[Handle[int]]) -> None:
    """Whoever begins to wait now is the only one."""
    other = store.double.delay(9)
    waits = in_a_thread(other.wait)

    def interests() -> list[Interest]:
        return [interest for interest in list(store.engine.interests) if other.job_id in interest.ends]

    first = wait_for("the waiter to sleep for it", interests)[0]
    assert not {handle.job_id for handle in handles} & first.ends
    other.cancel()
    assert waits() is True


def test_whoever_leaves_the_loop_early_waits_for_nobody(store: Store) -> None:
    handles = store.double.delay_many([(1,), (2,), (3,)])
    handles[0].cancel()
    for handle in handles.as_completed():
        assert handle is handles[0]
        break

    async def main() -> None:
        async for handle in handles.as_completed():
            assert handle is handles[0]
            break

    asyncio.run(main())
    nobody_waits_for(store, handles)


def test_no_handles_have_all_come(store: Store) -> None:
    none: Handles[int] = store.double.delay_many([])

    async def main() -> list[Any]:
        return [handle async for handle in as_completed(none)]

    assert gather(none) == list(as_completed(none)) == asyncio.run(main()) == []
    assert none.progress() is none


def test_progress_shows_a_bar_until_all_have_ended(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    handles = store.double.delay_many([(1,), (2,), (3,)])
    handles[0].cancel()
    with pytest.raises(NotFinished, match="2 of 3"):
        handles.progress("mails", timeout=LONG_ENOUGH_S)
    assert " 33%" in capsys.readouterr().out
    with Worker(store.app, slots=1):
        assert handles.progress("mails", timeout=10) is handles
    shown = capsys.readouterr().out
    assert "mails" in shown
    assert "100%" in shown


class Blocks(Middleware):
    """Keeps runs from starting until a test lets them."""

    def __init__(self) -> None:
        self.running = threading.Event()
        self.go = threading.Event()

    def before_run(self, job: JobContext) -> None:
        self.running.set()
        assert self.go.wait(10)


def test_the_state_follows_the_job(url: str) -> None:
    blocks = Blocks()
    with App(url, middleware=[blocks]) as app:
        task = app.task(name="double")(double)
        handle = task.delay(1)
        assert handle.state is State.READY
        assert task.using(delay=60).delay(1).state is State.SCHEDULED
        with Worker(app, slots=1):
            assert blocks.running.wait(10)
            assert handle.state is State.RUNNING
            assert not handle.wait(timeout=0)
            blocks.go.set()
            assert handle.wait(timeout=10)
        assert handle.state is State.SUCCEEDED
        assert handle.job().id == handle.job_id
        assert show_id(handle.job_id) == handle.id


# ── why it waits ────────────────────────────────────────────────────────────────────────────────────────


def test_a_handle_says_why_its_job_waits_and_so_does_the_error_after_waiting(app: App) -> None:
    task = app.task(name="double")(double)
    handle, lost = task.delay(1), app.named("doubles").delay(1)
    no_worker = "No worker is running: start one that takes the queue default."
    assert handle.why() == no_worker
    with pytest.raises(NotFinished, match=rf"has not ended after 0\.01 s\. {re.escape(no_worker)}"):
        handle.get(timeout=0.01)
    with Worker(app, slots=1, name="ann"):
        handle.get(timeout=10)
        knows = r"s\. It is waiting for a worker that knows its task doubles \(is double meant\?\): ann@"
        with pytest.raises(NotFinished, match=knows):
            lost.get(timeout=0.01)
        assert handle.why().startswith("It has succeeded ")
    assert lost.why() == no_worker


def test_why_goes_by_the_time_of_the_app(store: Store) -> None:
    clock = FakeClock()
    travel(store.engine, clock)
    travel(store.app, clock)
    handle = store.double.using(delay=60).delay(1)
    assert handle.why() == "It is scheduled for 2027-01-15 08:01:00 UTC, in 1m."


def test_a_look_whether_it_has_ended_asks_nothing_more(store: Store) -> None:
    handle = store.double.delay(1)
    store.engine.refuse("tally")
    assert not handle.wait(timeout=0)
    with pytest.raises(StoreUnavailable):
        handle.why()
