"""The waiter: ends are pushed, one thread listens for all, and whoever waits is answered whatever happens."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.app.conftest import Store, Watched
from tests.soak.waiting import HANG_S, wait_for
from windlass import Handle, State
from windlass.app import asker
from windlass.app import waiter as module
from windlass.app.waiter import Ended, Waiter
from windlass.core.errors import AccessDenied, StoreClosed, StoreUnavailable
from windlass.core.ids import new_id
from windlass.engines.protocol import BATCH, Amendment, Change, Hint, Interest
from windlass.testing.faults import Fault, Verb

FAR_S = 100.0
"""Longer than a test may take: what comes before it was pushed."""


@pytest.fixture(autouse=True)
def never_looks_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", FAR_S)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is away is looked for without much pause."""
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(module, "LONGEST_PAUSE_S", 0.01)


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


def listeners() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "windlass-waiter"]


def ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("windlass-waiter")]


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


def test_an_end_that_comes_with_its_job_is_not_fetched(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (handle,) = sent(store)
    engine, listen = store.engine, store.engine.listen

    def listen_well(interest: Interest, timeout_s: float) -> list[Hint]:
        return [replace(hint, job=handle.job()) for hint in listen(interest, timeout_s)]

    monkeypatch.setattr(engine, "listen", listen_well)
    future = watch(store.app.waiter, handle)
    asleep(engine)
    handle.cancel()
    assert state_of(future) is State.CANCELLED
    assert engine.calls["fetch"] == 2, "one look, in case it had ended already, and ours"


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
    future = watch(store.app.waiter, second)
    wait_for("the asker to have looked", lambda: store.engine.calls["fetch"] == 2)
    second.cancel()
    assert state_of(future) is State.CANCELLED


def test_one_thread_waits_for_all_and_many_may_wait_for_one(store: Store) -> None:
    handles = sent(store, 250)
    futures = [watch(store.app.waiter, handle) for handle in handles]
    again = store.app.waiter.watch(handle.job_id for handle in handles)
    asleep(store.engine)
    assert len(listeners()) == 1
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


def test_ends_that_nobody_waits_for_any_more_are_not_listened_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    (handle,) = sent(store)
    waiter = store.app.waiter
    future = watch(waiter, handle)
    sleeps_for(store.engine, handle)
    waiter.forget(handle.job_id, future)
    sleeps_for(store.engine)


def test_who_comes_back_before_the_first_look_is_looked_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (handle,) = sent(store)
    waiter, asked = store.app.waiter, list[Sequence[bytes]]()
    fetch, busy, go_on = store.engine.fetch, threading.Event(), threading.Event()

    def look(ids: Sequence[bytes], *rest: Any) -> Any:
        busy.set()
        assert go_on.wait(HANG_S)
        asked.append(ids)
        return fetch(ids, *rest)

    monkeypatch.setattr(store.engine, "fetch", look)
    waiter.watch([new_id()])
    assert busy.wait(HANG_S)
    for _ in range(3):
        waiter.forget(handle.job_id, watch(waiter, handle))
    handle.cancel()
    future = watch(waiter, handle)
    go_on.set()
    assert state_of(future) is State.CANCELLED
    assert asked[1:] == [[handle.job_id]]


def test_many_who_wait_keep_nobody_from_a_last_look(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked at a hundred at a time, and who asks meanwhile comes in between."""
    (one,) = sent(store)
    many = [new_id() for _ in range(3 * BATCH)]
    waiter, engine, fetch = store.app.waiter, store.engine, store.engine.fetch
    looked_at: list[int] = []
    answered: list[str] = []
    asking = threading.Thread(
        target=lambda: answered.append(waiter.last_look([one.job_id], lambda _: f"after {len(looked_at)} looks"))
    )

    def fetch_slowly(ids: Sequence[bytes], /, *rest: Any) -> Any:
        looked_at.append(len(ids))
        if len(looked_at) == 1:
            asking.start()
            # The next hundred, and whoever asks meanwhile.
            wait_for("both to be asked", lambda: waiter._asker._questions.qsize() == 2)  # pyright: ignore[reportPrivateUsage]
        return fetch(ids, *rest)

    monkeypatch.setattr(engine, "fetch", fetch_slowly)
    futures = waiter.watch(many)
    assert [future.result(HANG_S) for future in futures] == [None] * len(many)
    asking.join(HANG_S)
    assert sorted(looked_at) == [1, BATCH, BATCH, BATCH]
    assert looked_at[-1] == BATCH
    assert answered != ["after 4 looks"]


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
    monkeypatch.setattr(asker, "IDLE_S", 0.0)
    first, second = sent(store, 2)
    future = watch(store.app.waiter, first)
    asleep(store.engine)
    first.cancel()
    assert state_of(future) is State.CANCELLED
    wait_for("the threads to go", lambda: ours() == [])
    second.cancel()
    assert state_of(watch(store.app.waiter, second)) is State.CANCELLED


# ── when the store closes or fails ──────────────────────────────────────────────────────────────────────


def test_closing_the_app_sends_everybody_away_and_does_not_open_the_store_again(store: Store) -> None:
    first, second = sent(store, 2)
    futures = [watch(store.app.waiter, handle) for handle in (first, second, second)]
    asleep(store.engine)
    (thread,) = listeners()
    store.app.close()
    for future in futures:
        with pytest.raises(StoreClosed, match="The app was closed"):
            future.result(0)
    assert not thread.is_alive()
    assert ours() == []
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


def test_a_store_that_cannot_be_reached_ends_no_wait_and_its_loss_and_its_return_are_told_once(
    store: Store, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = sent(store, 2)
    with caplog.at_level(logging.INFO, module.__name__):
        store.engine.down()
        futures = store.app.waiter.watch([first.job_id, second.job_id])
        wait_for("several tries", lambda: store.engine.calls["listen"] >= 3)
        store.engine.up()
        wait_for("its return to be told", lambda: len(caplog.records) == 2)
        assert not any(future.done() for future in futures)
        first.cancel()
        second.cancel()
        assert [state_of(future) for future in futures] == [State.CANCELLED] * 2
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.WARNING,
            "The store refused listen (by command). Waiting for results goes on until the store is back.",
        ),
        (logging.INFO, "The store is back; waiting for results goes on."),
    ]


def test_what_ended_in_an_outage_is_answered_after_it(store: Store, quick: None) -> None:
    first, second = sent(store, 2)
    known = watch(store.app.waiter, first)
    asleep(store.engine)
    store.engine.down()
    new = watch(store.app.waiter, second)  # never looked at before the outage
    for handle in (first, second):
        store.engine.inner.amend(Amendment(change=Change.CANCEL, ids=(handle.job_id,)))
    wait_for("several tries", lambda: store.engine.done["listen", Fault.REFUSE] >= 3)
    assert not new.done()
    store.engine.up()
    assert [state_of(future) for future in (known, new)] == [State.CANCELLED] * 2


def test_an_end_whose_record_cannot_be_fetched_is_not_forgotten(store: Store, quick: None) -> None:
    (handle,) = sent(store)
    future = watch(store.app.waiter, handle)
    asleep(store.engine)
    store.engine.refuse("fetch", 2)
    handle.cancel()
    assert state_of(future) is State.CANCELLED
    assert store.engine.done["fetch", Fault.REFUSE] == 2


def test_a_store_that_is_away_is_left_alone_between_two_looks_and_closing_does_not_wait(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", FAR_S)
    monkeypatch.setattr(module, "LONGEST_PAUSE_S", FAR_S)
    first, second = sent(store, 2)
    store.engine.down()
    futures = [watch(store.app.waiter, first)]
    wait_for("the store to be missed", lambda: store.app.waiter._outage.lasts)  # pyright: ignore[reportPrivateUsage]
    futures.append(watch(store.app.waiter, second))
    wait_for("the second to be looked at", lambda: store.engine.calls["fetch"] == 2)
    (thread,) = listeners()
    store.app.close()
    assert store.engine.calls["listen"] == 1
    assert not thread.is_alive()
    for future in futures:
        with pytest.raises(StoreClosed, match="The app was closed"):
            future.result(0)


def test_what_is_over_at_once_and_what_the_engine_logs_itself_is_not_logged(
    store: Store, quick: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = sent(store, 2)
    with caplog.at_level(logging.INFO, module.__name__):
        store.engine.refuse("listen")
        future = watch(store.app.waiter, first)
        wait_for("it to be over", lambda: store.engine.calls["listen"] >= 3)
        first.cancel()
        assert state_of(future) is State.CANCELLED
        monkeypatch.setattr(StoreUnavailable, "logged", True)
        store.engine.refuse("listen", 5)
        future = watch(store.app.waiter, second)
        wait_for("it to be over", lambda: store.engine.done["listen", Fault.REFUSE] == 6)
        second.cancel()
        assert state_of(future) is State.CANCELLED
    assert caplog.records == []


def test_who_asks_again_and_again_in_an_outage_does_not_fill_the_log(
    store: Store, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    (handle,) = sent(store)
    outage = store.app.waiter._outage  # pyright: ignore[reportPrivateUsage]
    store.engine.down()
    for _ in range(3):
        future = watch(store.app.waiter, handle)
        wait_for("the store to be missed", lambda: outage.since_s is not None)
        store.app.waiter.forget(handle.job_id, future)
        wait_for("nobody to wait", lambda: outage.since_s is None)
    assert len(caplog.records) == 1
    store.engine.up()
    with caplog.at_level(logging.INFO, module.__name__):
        watch(store.app.waiter, handle)
        wait_for("its return to be told", lambda: len(caplog.records) == 2)


def test_a_store_that_was_never_there_is_told_at_once_and_the_next_wait_tries_again(store: Store) -> None:
    store.engine.refuse("open")
    with pytest.raises(StoreUnavailable, match="refused open"):
        store.app.waiter.watch([new_id()])[0].result(HANG_S)
    (future,) = store.app.waiter.watch([new_id()])
    assert future.result(HANG_S) is None


@pytest.mark.parametrize("verb", ["fetch", "listen"])
def test_what_does_not_pass_by_waiting_is_told_to_all_who_wait_and_the_next_wait_tries_again(
    store: Store, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sent(store, 2)

    def refuse(*_: object) -> None:
        raise AccessDenied("The password was changed.", "Look at the URL.")

    with monkeypatch.context() as patch:
        patch.setattr(store.engine, verb, refuse)
        for future in store.app.waiter.watch([first.job_id, second.job_id]):
            with pytest.raises(AccessDenied, match="password was changed"):
                future.result(HANG_S)
    again = watch(store.app.waiter, first)
    first.cancel()
    assert state_of(again) is State.CANCELLED


def test_an_engine_that_closes_under_the_waiter_is_told(store: Store) -> None:
    (handle,) = sent(store)
    future = watch(store.app.waiter, handle)
    asleep(store.engine)
    store.engine.close()
    with pytest.raises(StoreClosed, match="not open"):
        future.result(HANG_S)
