"""The asker: questions are put in order, by one thread; and whoever asks waits no longer than he wants to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tests.soak.waiting import HANG_S, wait_for
from windlass.app import asker as module
from windlass.app.asker import Asker
from windlass.core.errors import StoreClosed, StoreUnavailable


class Hangs:
    """A question that is answered when the test lets it be."""

    def __init__(self) -> None:
        self.is_put = threading.Event()
        self.go_on = threading.Event()

    def __call__(self) -> str:
        self.is_put.set()
        assert self.go_on.wait(HANG_S)
        return "late"


@pytest.fixture
def asker() -> Iterator[Asker]:
    asker = Asker()
    yield asker
    thread = asker.stop(nothing)
    if thread is not None:
        thread.join(HANG_S)


@pytest.fixture
def hangs() -> Iterator[Hangs]:
    hangs = Hangs()
    yield hangs
    hangs.go_on.set()


def nothing() -> None:
    """A last question that asks for nothing."""


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "windlass-waiter-asks"]


def test_questions_are_put_in_order_by_one_thread_and_answered_or_refused(asker: Asker) -> None:
    said: list[int] = []
    names = {asker.wait(asker.ask(lambda: threading.current_thread().name)) for _ in range(3)}
    answers = [asker.ask(lambda number=number: said.append(number)) for number in range(100)]
    with pytest.raises(ZeroDivisionError):
        asker.wait(asker.ask(lambda: 1 // 0))
    assert all(answer.done() for answer in answers)
    assert (said, names) == (list(range(100)), {"windlass-waiter-asks"})
    assert asyncio.run(asker.wait_in_loop(asker.ask(lambda: "loop"))) == "loop"


def test_a_store_that_does_not_answer_is_silent_for_all_who_ask_and_is_asked_nothing_in_vain(
    asker: Asker, hangs: Hangs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.1)
    put: list[str] = []
    first = asker.ask(hangs)
    with pytest.raises(StoreUnavailable, match=r"The store has not answered within 0\.1 s\."):
        asker.wait(first)
    with pytest.raises(StoreUnavailable):
        asker.wait(asker.ask(lambda: put.append("sync")))
    with pytest.raises(StoreUnavailable):
        asyncio.run(asker.wait_in_loop(asker.ask(lambda: put.append("async"))))
    hangs.go_on.set()
    assert first.result(HANG_S) == "late"
    monkeypatch.undo()
    asker.wait(asker.ask(lambda: put.append("last")))
    assert put == ["last"], "those who gave up were not asked for"


def test_what_the_store_owes_already_counts(asker: Asker, hangs: Hangs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", HANG_S)
    asker.ask(hangs)
    assert hangs.is_put.wait(HANG_S)
    assert 0 < asker._patience_s() < HANG_S  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    assert asker._patience_s() == 0  # pyright: ignore[reportPrivateUsage]


def test_with_no_questions_the_thread_goes_and_the_next_one_starts_another(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.0)
    for number in range(50):  # some of them come just when it goes
        assert asker.wait(asker.ask(lambda number=number: number)) == number
    wait_for("the thread to go", lambda: threads() == [])


def test_a_stop_lets_what_is_put_end_drops_the_rest_and_puts_one_last(asker: Asker, hangs: Hangs) -> None:
    said: list[str] = []
    first, dropped = asker.ask(hangs), asker.ask(lambda: said.append("dropped"))
    assert hangs.is_put.wait(HANG_S)
    thread = asker.stop(lambda: said.append("last"))
    with pytest.raises(StoreClosed, match="The app was closed"):
        dropped.result(0)
    with pytest.raises(StoreClosed, match="Keep it open"):
        asker.ask(lambda: said.append("too late"))
    hangs.go_on.set()
    assert first.result(HANG_S) == "late"
    assert thread is not None
    thread.join(HANG_S)
    assert not thread.is_alive()
    assert said == ["last"]


def test_a_stop_wakes_who_sleeps_and_may_be_repeated(asker: Asker) -> None:
    asker.wait(asker.ask(lambda: None))
    (thread,) = threads()
    asker.stop(nothing)
    thread.join(HANG_S)
    assert not thread.is_alive()
    assert asker.stop(nothing) is None


def test_where_no_thread_can_be_started_the_question_is_put_by_who_asks(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the end of a process."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert asker.ask(threading.current_thread).result(0) is threading.current_thread()
    assert asker.wait(asker.ask(threading.current_thread)) is not threading.current_thread()


def test_a_stop_starts_no_thread_for_the_last_question(asker: Asker) -> None:
    """At the end of a process none can be started any more."""
    by: list[threading.Thread] = []
    assert asker.stop(lambda: by.append(threading.current_thread())) is None
    assert by == [threading.current_thread()]
