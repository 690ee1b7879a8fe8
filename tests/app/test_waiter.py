"""The waiter: ends are pushed, one thread waits for all, and whoever waits is answered whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.app.conftest import Store, Watched
from tests.soak.waiting import HANG_S, wait_for
from windlass import Handle, State
from windlass.app import waiter as module
from windlass.app.waiter import Ended, Waiter
from windlass.core.errors import StoreClosed, StoreUnavailable
from windlass.core.ids import new_id
from windlass.testing.faults import Fault

FAR_S = 100.0
"""Longer than a test may take: what comes before it was pushed."""


@pytest.fixture(autouse=True)
def never_looks_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", FAR_S)


@pytest.fixture
def waiter(engine: Watched) -> Iterator[Waiter]:
    engine.open()
    waiter = Waiter(lambda: engine)
    yield waiter
    engine.calm()
    waiter.close()
    engine.close()


def asleep(engine: Watched) -> None:
    """Returns when the thread sleeps in the store."""
    assert engine.asleep.wait(HANG_S)
    engine.asleep.clear()


def sleeps_for(engine: Watched, *handles: Handle[int]) -> None:
    """Returns when the thread sleeps for the ends of these; it may have slept for others before."""
    ends = frozenset(handle.job_id for handle in handles)
    wait_for("the waiter to sleep for them", lambda: engine.interests and engine.interests[-1].ends == ends)


def the_thread() -> threading.Thread:
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "windlass-waiter"]
    return thread


def sent(store: Store, count: int = 1) -> list[Handle[int]]:
    return list(store.double.delay_many([(number,) for number in range(count)]))


def watch(waiter: Waiter, handle: Handle[int]) -> Ended:
    (future,) = waiter.watch([handle.job_id])
    return future


def state_of(future: Ended) -> State:
    job = future.result(HANG_S)
    assert job is not None
    assert job.record is not None
    return job.record.state


def test_an_end_is_pushed_and_the_store_is_not_asked_in_between(store: Store) -> None:
    (handle,) = sent(store)
    future = watch(store.app.waiter, handle)
    asleep(store.engine)
    looked = store.engine.calls["fetch"]
    handle.cancel()
    assert state_of(future) is State.CANCELLED
    assert looked == 1, "one look, in case it had ended already"
    assert store.engine.calls["fetch"] == 2, "one more, for the record itself"


def test_what_has_ended_already_is_answered_at_once(store: Store) -> None:
    (handle,) = sent(store)
    handle.cancel()
    assert state_of(watch(store.app.waiter, handle)) is State.CANCELLED
    assert store.engine.calls["listen"] == 0


def test_a_job_that_never_was_is_answered_with_none(store: Store) -> None:
    (future,) = store.app.waiter.watch([new_id()])
    assert future.result(HANG_S) is None


def test_who_comes_while_the_thread_sleeps_wakes_it(store: Store) -> None:
    first, second = sent(store, 2)
    futures = [watch(store.app.waiter, first)]
    asleep(store.engine)
    futures.append(watch(store.app.waiter, second))
    sleeps_for(store.engine, first, second)
    second.cancel()
    assert state_of(futures[1]) is State.CANCELLED
    assert not futures[0].done()
    first.cancel()
    assert state_of(futures[0]) is State.CANCELLED


def test_should_the_ring_be_lost_the_thread_looks_by_itself(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    first, second = sent(store, 2)
    watch(store.app.waiter, first)
    asleep(store.engine)
    store.engine.refuse("signal", 1000)
    second.cancel()
    assert state_of(watch(store.app.waiter, second)) is State.CANCELLED


def test_one_thread_waits_for_all_and_many_may_wait_for_one(store: Store) -> None:
    handles = sent(store, 250)
    futures = [watch(store.app.waiter, handle) for handle in handles]
    again = store.app.waiter.watch(handle.job_id for handle in handles)
    assert the_thread().is_alive()
    for handle in handles:
        handle.cancel()
    assert {state_of(future) for future in [*futures, *again]} == {State.CANCELLED}


def test_who_gave_up_is_not_waited_for_any_more(store: Store) -> None:
    first, second = sent(store, 2)
    waiter = store.app.waiter
    gone, stays = watch(waiter, first), watch(waiter, first)
    sleeps_for(store.engine, first)
    waiter.forget(first.job_id, gone)
    watch(waiter, second)
    sleeps_for(store.engine, first, second)  # another still waits for the first
    waiter.forget(first.job_id, stays)
    waiter.forget(first.job_id, stays)
    (third,) = sent(store)
    watch(waiter, third)
    sleeps_for(store.engine, second, third)
    assert not gone.done()


def test_a_cancelled_future_keeps_no_other_from_its_answer(store: Store) -> None:
    (handle,) = sent(store)
    futures = [watch(store.app.waiter, handle) for _ in range(3)]
    assert futures[1].cancel()
    handle.cancel()
    assert [state_of(future) for future in (futures[0], futures[2])] == [State.CANCELLED] * 2


def test_with_nobody_waiting_the_thread_goes_and_the_next_wait_starts_another(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.0)
    first, second = sent(store, 2)
    first.cancel()
    future = watch(store.app.waiter, first)
    thread = next((thread for thread in threading.enumerate() if thread.name == "windlass-waiter"), None)
    assert state_of(future) is State.CANCELLED
    if thread is not None:
        thread.join(HANG_S)
        assert not thread.is_alive()
    second.cancel()
    assert state_of(watch(store.app.waiter, second)) is State.CANCELLED


# ── when the store closes or fails ──────────────────────────────────────────────────────────────────────


def test_closing_the_app_sends_everybody_away_and_does_not_open_the_store_again(store: Store) -> None:
    first, second = sent(store, 2)
    futures = [watch(store.app.waiter, handle) for handle in (first, second, second)]
    asleep(store.engine)
    thread = the_thread()
    store.app.close()
    for future in futures:
        with pytest.raises(StoreClosed, match="The app was closed"):
            future.result(0)
    assert not thread.is_alive()
    assert store.engine.calls["open"] == 1


def test_closing_with_a_cancelled_future_sends_the_others_away_all_the_same(store: Store) -> None:
    (handle,) = sent(store)
    futures = [watch(store.app.waiter, handle) for _ in range(3)]
    asleep(store.engine)
    futures[0].cancel()
    store.app.close()
    for future in futures[1:]:
        with pytest.raises(StoreClosed):
            future.result(0)


def test_a_closed_waiter_takes_nobody(waiter: Waiter) -> None:
    waiter.close()
    with pytest.raises(StoreClosed, match="Keep it open while you wait"):
        waiter.watch([new_id()])
    waiter.close()


def test_a_waiter_may_be_closed_by_whom_it_answers(store: Store) -> None:
    (handle,) = sent(store)
    future = watch(store.app.waiter, handle)
    closed = threading.Event()

    def close(_: Ended) -> None:
        store.app.close()
        closed.set()

    future.add_done_callback(close)
    asleep(store.engine)
    handle.cancel()
    assert closed.wait(HANG_S)


@pytest.mark.parametrize("verb", ["fetch", "listen"])
def test_a_store_that_fails_is_told_to_all_who_wait_and_the_next_wait_tries_again(store: Store, verb: str) -> None:
    first, second = sent(store, 2)
    store.engine.plan("listen" if verb == "listen" else "fetch", [Fault.REFUSE])
    futures = store.app.waiter.watch([first.job_id, second.job_id])
    for future in futures:
        with pytest.raises(StoreUnavailable, match=f"refused {verb}"):
            future.result(HANG_S)
    third = watch(store.app.waiter, first)
    first.cancel()
    assert state_of(third) is State.CANCELLED


def test_a_store_that_is_lost_while_the_thread_sleeps_is_told_when_it_wakes(store: Store) -> None:
    first, second = sent(store, 2)
    future = watch(store.app.waiter, first)
    asleep(store.engine)
    store.engine.refuse("fetch")
    late = watch(store.app.waiter, second)
    for each in (future, late):
        with pytest.raises(StoreUnavailable):
            each.result(HANG_S)


def test_an_engine_that_closes_under_the_waiter_is_told(store: Store) -> None:
    (handle,) = sent(store)
    future = watch(store.app.waiter, handle)
    asleep(store.engine)
    store.engine.close()
    with pytest.raises(StoreClosed, match="not open"):
        future.result(HANG_S)
