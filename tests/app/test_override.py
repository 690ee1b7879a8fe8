"""`app.override(kind, fake)`: for a while, tasks get another resource."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import Mock

import pytest

from windlass import App, Worker, injected
from windlass.core.errors import BadValue
from windlass.testing import run_eagerly


class Bank:
    """The real one; it says when it is opened and closed."""

    name = "real"

    def __init__(self, told: list[str] | None = None) -> None:
        self.told = told


class Fake(Bank):
    name = "fake"


class Other(Bank):
    name = "other"


class Mint: ...


def ask(bank: Bank = injected) -> str:
    return bank.name


async def ask_async(bank: Bank = injected) -> str:
    return bank.name


@pytest.fixture
def told(app: App) -> list[str]:
    """What became of the real bank. The app has it as a resource, and a plain and an async task that ask for it."""
    told: list[str] = []

    @app.resource
    def bank() -> Iterator[Bank]:
        told.append("opened")
        yield Bank(told)
        told.append("closed")

    app.task(name="ask")(ask)
    app.task(name="ask_async")(ask_async)
    assert bank.__name__ == "bank", "the resource is still its function"
    return told


def answers(app: App) -> list[str]:
    """What both tasks are given when they are sent."""
    handles = [app.send("ask"), app.send("ask_async")]
    return [handle.get(timeout=10) for handle in handles]


def called(app: App) -> str:
    """What a plain call is given."""
    task: Any = app.tasks["ask"]
    return task()


# ── where it holds ──────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_that_starts_inside_gets_the_fake_and_the_real_one_is_never_made(app: App, told: list[str]) -> None:
    with app.override(Bank, Fake()) as fake, Worker(app):
        assert fake.name == "fake"
        assert answers(app) == ["fake", "fake"]
    assert told == []
    with Worker(app):
        assert answers(app) == ["real", "real"]
    assert told == ["opened", "closed"]


def test_an_eager_run_inside_or_outside_of_it_gets_the_fake(app: App, told: list[str]) -> None:
    with app.override(Bank, Fake()), run_eagerly(app):
        assert answers(app) == ["fake", "fake"]
    assert told == []
    with run_eagerly(app):
        with app.override(Bank, Fake()):
            assert answers(app) == ["fake", "fake"]
        assert told == []
        assert answers(app) == ["real", "real"]
        with app.override(Bank, Fake()):
            assert answers(app) == ["fake", "fake"]
        assert answers(app) == ["real", "real"]
    assert told == ["opened", "closed"], "the real one was made once and kept meanwhile"


def test_a_plain_call_gets_the_fake_and_afterwards_the_real_one_again(app: App, told: list[str]) -> None:
    assert called(app) == "real"
    with app.override(Bank, Fake()):
        assert called(app) == "fake"
        assert app.tasks["ask"](Other()) == "other", "what is passed wins all the same"
    assert called(app) == "real"
    assert told == ["opened"]


def test_a_worker_that_works_already_gets_it_from_the_next_attempt_on(app: App, told: list[str]) -> None:
    with Worker(app):
        assert answers(app) == ["real", "real"]
        with app.override(Bank, Fake()):
            assert answers(app) == ["fake", "fake"]
        assert answers(app) == ["real", "real"]
    assert told == ["opened", "closed"]


@pytest.mark.usefixtures("told")
def test_nested_the_inner_one_counts_and_the_outer_one_comes_back(app: App) -> None:
    with app.override(Bank, Fake()):
        with app.override(Bank, Other()):
            assert called(app) == "other"
        assert called(app) == "fake"
    assert called(app) == "real"


@pytest.mark.usefixtures("told")
def test_those_that_end_in_another_order_leave_nothing_behind(app: App) -> None:
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(app.override(Bank, Fake()))
        second.enter_context(app.override(Bank, Other()))
        first.close()
        assert called(app) == "other"
    assert called(app) == "real"


@pytest.mark.usefixtures("told")
def test_an_error_inside_ends_it_too(app: App) -> None:
    with pytest.raises(KeyError, match="x"), app.override(Bank, Fake()):
        raise KeyError("x")
    assert called(app) == "real"


# ── what makes the fake ─────────────────────────────────────────────────────────────────────────────────


def test_a_function_or_a_class_makes_it_once_for_each_worker(app: App, told: list[str]) -> None:
    made: list[Fake] = []

    def make(kind: type[Fake] = Fake) -> Fake:
        made.append(kind())
        return made[-1]

    for maker in (make, functools.partial(make, Fake)):
        with app.override(Bank, maker):
            for _ in range(2):
                with Worker(app):
                    assert answers(app) + answers(app) == ["fake"] * 4
    assert len(made) == 4
    with app.override(Bank, Other), Worker(app):
        assert answers(app) == ["other", "other"]
    assert told == []


def test_what_stands_behind_a_yield_runs_when_the_worker_stops(app: App, told: list[str]) -> None:
    ends: list[str] = []

    def make() -> Iterator[Fake]:
        yield Fake()
        ends.append("plain")

    async def make_async() -> AsyncIterator[Fake]:
        yield Fake()
        ends.append("async")

    for maker in (make, make_async):
        with app.override(Bank, maker), Worker(app):
            assert answers(app) == ["fake", "fake"]
    assert ends == ["plain", "async"]
    assert told == []


@pytest.mark.usefixtures("told")
def test_what_a_plain_call_made_is_closed_at_the_end_and_made_anew_the_next_time(app: App) -> None:
    steps: list[str] = []

    def make() -> Iterator[Fake]:
        steps.append("opened")
        yield Fake()
        steps.append("closed")

    for _ in range(2):
        with app.override(Bank, make):
            assert [called(app), called(app)] == ["fake", "fake"]
    assert steps == ["opened", "closed"] * 2


@pytest.mark.usefixtures("told")
def test_a_fake_that_can_be_called_is_the_fake_itself(app: App) -> None:
    mock = Mock()
    mock.name = "mocked"
    with app.override(Bank, mock):
        assert called(app) == "mocked"
    mock.assert_not_called()


def test_a_resource_that_is_async_can_be_given_to_a_plain_call(app: App) -> None:
    @app.resource
    async def bank() -> Bank:
        return Bank()

    app.task(name="ask")(ask)
    with pytest.raises(BadValue, match=f"{bank.__name__} is async, and there is no worker's loop here"):
        called(app)
    with app.override(Bank, Fake()):
        assert called(app) == "fake"


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("kind", [Mint, Fake, "Bank"])
def test_what_is_no_resource_cannot_be_overridden(app: App, kind: Any) -> None:
    with pytest.raises(BadValue, match=r"Nothing makes a \S+, so nothing can stand in its place"):
        app.override(kind, Fake()).__enter__()
    assert called(app) == "real"
