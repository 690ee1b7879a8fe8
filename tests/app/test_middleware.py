"""Middleware: hooks around sending, running and settling, and what their errors do."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from tests.app.conftest import Store, Watched
from windlass import App, JobContext, Middleware, Request, Worker
from windlass.app.middleware import HOOKS, Stack
from windlass.core.errors import BadValue, JobDead, UnknownOption
from windlass.engines.protocol import Query, Receipt, Settlement, Verdict


class Told(Middleware):
    """Writes down what it is told, under its name."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name = name
        self.told = told

    def before_send(self, request: Request) -> Request:
        self.told.append(f"{self.name} before_send")
        return msgspec.structs.replace(request, tags=(*request.tags, self.name))

    def after_send(self, request: Request, receipt: Receipt) -> None:
        assert request.id == receipt.id
        self.told.append(f"{self.name} after_send {' '.join(request.tags)}")

    def before_run(self, job: JobContext) -> None:
        self.told.append(f"{self.name} before_run {job.task}")

    def after_run(self, job: JobContext, error: BaseException | None) -> None:
        self.told.append(f"{self.name} after_run {type(error).__name__}")

    def before_settle(self, settlement: Settlement) -> Settlement:
        self.told.append(f"{self.name} before_settle")
        return settlement

    def after_settle(self, settlement: Settlement, verdict: Verdict) -> None:
        self.told.append(f"{self.name} after_settle {verdict}")


def test_hooks_before_go_in_order_and_hooks_after_in_reverse(url: str) -> None:
    told: list[str] = []
    with App(url, middleware=[Told("a", told), Told("b", told)]) as app:
        handle = app.task(name="t")(lambda: 1).delay()  # or a worker might run it before all is told of the send
        with Worker(app, slots=1):
            assert handle.get(timeout=10) == 1
    assert told == [
        "a before_send",
        "b before_send",
        "b after_send a b",
        "a after_send a b",
        "a before_run t",
        "b before_run t",
        "b after_run NoneType",
        "a after_run NoneType",
        "a before_settle",
        "b before_settle",
        "b after_settle accepted",
        "a after_settle accepted",
    ]


def test_after_a_run_the_hook_is_told_the_error(url: str) -> None:
    told: list[str] = []

    def fails() -> None:
        raise KeyError("x")

    with App(url, middleware=[Told("a", told)]) as app:
        task = app.task(name="t")(fails)
        with Worker(app, slots=1), pytest.raises(JobDead):
            task.delay().get(timeout=10)
    assert "a after_run KeyError" in told


def test_hooks_that_are_not_overridden_cost_nothing() -> None:
    stack = Stack([Middleware(), Middleware()])
    assert [getattr(stack, hook) for hook in HOOKS] == [()] * len(HOOKS)


class Refuses(Middleware):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def before_send(self, request: Request) -> Request:
        if "bad" in request.tags:
            raise self.error
        return request


def test_a_hook_that_raises_before_a_send_refuses_it_whole(url: str) -> None:
    with App(url, middleware=[Refuses(PermissionError("not yours"))]) as app:
        task = app.task(name="t", tags=["bad"])(lambda: None)
        for send in (task.delay, lambda: task.delay_many([(), ()]), lambda: asyncio.run(task.adelay())):
            with pytest.raises(PermissionError, match="not yours"):
                send()
        assert app.engine.search(Query(count=True)).count == 0


@pytest.mark.parametrize("error", [PermissionError("not yours"), BadValue("Not yours.", "Ask.")])
def test_a_hook_that_refuses_one_send_of_a_tick_lets_the_others_through(engine: Watched, error: Exception) -> None:
    store = Store(engine, Refuses(error))

    async def main() -> list[Any]:
        sends = [store.double.using(tags=["bad"] if number == 2 else []).adelay(number) for number in range(4)]
        return await asyncio.gather(*sends, return_exceptions=True)

    with store.app:
        answers = asyncio.run(main())
        assert answers.pop(2) is error
        assert {handle.state for handle in answers} == {"ready"}


class Broken(Middleware):
    """Fails wherever its errors concern nobody else."""

    def after_send(self, request: Request, receipt: Receipt) -> None:
        raise RuntimeError("after_send")

    def after_run(self, job: JobContext, error: BaseException | None) -> None:
        raise RuntimeError("after_run")

    def after_settle(self, settlement: Settlement, verdict: Verdict) -> None:
        raise RuntimeError("after_settle")


def test_errors_of_hooks_after_a_step_are_logged_and_stop_nothing(url: str, caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    with App(url, middleware=[Told("a", told), Broken()]) as app, caplog.at_level(logging.ERROR):
        handle = app.task(name="t")(lambda: 1).delay()
        with Worker(app, slots=1):
            assert handle.get(timeout=10) == 1
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        f"A middleware failed in Broken.{hook}." for hook in ("after_send", "after_run", "after_settle")
    ]
    assert [line for line in told if "after" in line] == [
        "a after_send a",
        "a after_run NoneType",
        "a after_settle accepted",
    ]


def test_a_hook_that_raises_before_a_run_fails_the_attempt(url: str) -> None:
    class Guard(Middleware):
        def before_run(self, job: JobContext) -> None:
            raise PermissionError("shut")

    ran: list[int] = []
    with App(url, middleware=[Guard()]) as app:
        task = app.task(name="t")(lambda: ran.append(1))
        with Worker(app, slots=1), pytest.raises(JobDead, match="PermissionError: shut"):
            task.delay().get(timeout=10)
    assert ran == []


def test_a_hook_that_forgets_to_return_is_told_in_a_sentence_and_nothing_is_stored(url: str) -> None:
    class Forgets(Middleware):
        def before_send(self, request: Request) -> Any:
            return None

    with App(url, middleware=[Forgets()]) as app:
        task = app.task(name="t")(lambda: None)
        with pytest.raises(BadValue, match=r"Forgets\.before_send gave None"):
            task.delay()
        assert app.engine.search(Query(count=True)).count == 0


def test_a_class_in_the_place_of_a_middleware_is_refused() -> None:
    wrong: Any = [Told]
    with pytest.raises(BadValue, match="is no middleware"):
        App("memory://", middleware=wrong)


@pytest.mark.parametrize("one", [lambda: None, object(), "Told", None, 5])
def test_what_is_no_middleware_is_refused_in_the_list(one: Any) -> None:
    with pytest.raises(BadValue, match=r"is no middleware\. Give an instance of a class of yours"):
        App("memory://", middleware=[Middleware(), one])


@pytest.mark.parametrize(
    ("given", "shown"), [(Middleware(), "Middleware"), (Told, "Told"), (print, "print"), (5, "int")]
)
def test_a_middleware_that_stands_in_no_list_is_refused(given: Any, shown: str) -> None:
    with pytest.raises(BadValue, match=rf"The middleware is {shown}, not a list\. Give a list of instances"):
        App("memory://", middleware=given)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("befor_run", "before_run"),
        ("beforeRun", "before_run"),
        ("after_runs", "after_run"),
        ("after_sent", "after_send"),
        ("before_sending", "before_send"),
        ("on_after_settle", "after_settle"),
        ("before_setle", "before_settle"),
    ],
)
def test_a_misspelt_hook_names_the_near_miss(name: str, meant: str) -> None:
    kind: Any = type("Audit", (Middleware,), {name: print})
    said = rf"The middleware Audit has no hook `{name}`\. Did you mean `{meant}`\?"
    with pytest.raises(BadValue, match=said):
        App("memory://", middleware=[kind()])


def test_other_methods_and_attributes_of_a_middleware_are_its_own() -> None:
    names = ("flush", "before_all", "on_send", "_befor_run", "run", "settle")
    kind: Any = type("Audit", (Middleware,), {**dict.fromkeys(names, print), "after_runs": 5})
    stack = App("memory://", middleware=[kind()]).stack
    assert [getattr(stack, hook) for hook in HOOKS] == [()] * len(HOOKS)


def test_an_option_of_a_middleware_is_read_by_tasks_and_misspelt_it_is_named() -> None:
    class Tenant(Middleware):
        options = ("tenant",)

    app = App("memory://", middleware=[Tenant()])
    assert app.task(name="t", tenant="acme")(print).options.extra == {"tenant": "acme"}
    with pytest.raises(UnknownOption, match="Did you mean `tenant`"):
        app.task(name="u", tenants="acme")(print)
    with pytest.raises(UnknownOption):
        App("memory://").task(name="t", tenant="acme")(print)
