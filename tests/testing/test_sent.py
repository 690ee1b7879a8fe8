"""What was sent: by task, by arguments, by options; and what a failing assertion shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from unittest.mock import ANY

import pytest

from windlass import App, State, injected
from windlass.core.errors import BadValue, WrongType
from windlass.testing import Stage, run_eagerly


@dataclass
class Order:
    number: int
    lines: list[str]


class Pool:
    """A resource."""


@pytest.fixture
def app() -> App:
    return App("sqlite:////nowhere/at/all.db", routes={"crawl": "web"})


@pytest.fixture
def stage(app: App) -> Iterator[Stage]:
    @app.resource
    def pool() -> Pool:
        return Pool()

    @app.task(name="mail", priority=5, tags=["mail"])
    def mail(number: int, to: str = "me", pool: Pool = injected) -> None: ...

    @app.task(name="ship")
    def ship(order: Order, how: Any = None) -> None: ...

    @app.task(name="crawl")
    def crawl(url: str) -> None: ...

    with run_eagerly(app) as stage:
        yield stage


def test_what_was_sent_is_given_in_order_with_decoded_arguments(app: App, stage: Stage) -> None:
    app.send("ship", Order(1, ["a"]), how=(1, 2))
    app.send("mail", 7)
    first, second = stage.sent()
    assert (first.task, first.args, first.kwargs) == ("ship", (Order(1, ["a"]),), {"how": [1, 2]})
    assert (second.task, second.queue, second.priority, second.tags) == ("mail", "default", 5, ("mail",))
    assert (second.delay, second.at, second.expires, second.key) == (0, None, None, None)
    assert second.handle.state is State.SUCCEEDED
    assert stage.sent("mail") == stage.sent(app.tasks["mail"]) == [second]
    assert stage.sent("crawl") == []


def test_a_task_whose_code_is_elsewhere_is_known_by_its_arguments(app: App, stage: Stage) -> None:
    app.send("elsewhere.run", 1, x={"y": 2})
    (sent,) = stage.sent()
    assert (sent.args, sent.kwargs) == ((1,), {"x": {"y": 2}})
    assert stage.sent.assert_sent("elsewhere.run", 1, x={"y": 2}) == sent
    with pytest.raises(AssertionError):
        stage.sent.assert_sent("elsewhere.run", 1, x={"y": 3})


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((7, "me"), {}), ((7,), {"to": "me"}), ((), {"number": 7}), ((7,), {}), ((ANY,), {"to": ANY}), ((), {})],
)
def test_a_call_is_the_same_however_it_is_written(app: App, stage: Stage, args: Any, kwargs: Any) -> None:
    app.send("mail", 7)
    assert stage.sent.assert_sent("mail", *args, **kwargs).task == "mail"


@pytest.mark.parametrize(("args", "kwargs"), [((8,), {}), ((7, "you"), {}), ((7,), {"to": "you"})])
def test_another_call_is_another(app: App, stage: Stage, args: Any, kwargs: Any) -> None:
    app.send("mail", 7)
    with pytest.raises(AssertionError):
        stage.sent.assert_sent("mail", *args, **kwargs)


def test_values_are_compared_as_they_are_stored(app: App, stage: Stage) -> None:
    app.send("ship", Order(1, ["a"]), (1, {"b": (2,)}))
    assert_sent = stage.sent.assert_sent
    assert_sent("ship", Order(1, ["a"]), (1, {"b": (2,)}))
    assert_sent("ship", {"number": 1, "lines": ["a"]}, [1, {"b": [2]}])
    assert_sent("ship", ANY, [1, ANY])
    with pytest.raises(AssertionError):
        assert_sent("ship", Order(2, ["a"]), (1, {"b": (2,)}))


def test_options_are_asked_for_as_they_are_sent(app: App, stage: Stage) -> None:
    mail: Any = app.tasks["mail"]
    soon = datetime(2100, 1, 1, tzinfo=UTC)
    said: dict[str, Any] = {
        "queue": "slow",
        "priority": 9,
        "tags": ["x"],
        "delay": "1h",
        "expires": "2h",
        "key": "k",
        "timeout": 5,
        "memory": "1GB",
        "needs": {"browser": 1},
    }
    mail.using(**said).delay(7)
    mail.using(at=soon, expires=soon).delay(8)
    for name, value in said.items():
        stage.sent.assert_sent(mail.using(**{name: value}), 7)
        with pytest.raises(AssertionError):
            stage.sent.assert_sent(mail.using(**{name: value}), 8)
    stage.sent.assert_sent(mail.using(at=soon, expires=soon), 8)
    with pytest.raises(AssertionError, match="at=2100"):
        stage.sent.assert_sent(mail.using(at=soon), 7)


def test_a_send_that_made_no_new_job_is_a_send(app: App, stage: Stage) -> None:
    mail = app.tasks["mail"]
    first = mail.using(key="nightly", delay=60).delay(1)
    mail.using(key="nightly", delay=60).delay(2)
    assert stage.sent.assert_sent(mail, 2).handle.id == first.id
    assert [job.handle.duplicate for job in stage.sent()] == [False, True]


def text_of(stage: Stage, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        stage.sent.assert_sent(*args, **kwargs)
    return str(caught.value)


def test_a_failing_assertion_shows_what_was_sent_instead(app: App, stage: Stage) -> None:
    assert text_of(stage, "mail") == "mail was not sent. Nothing was sent in this test."
    app.send("crawl", "http://x")
    app.named("mail").using(queue="slow", delay="90s", tags=[], priority=1, key="k").delay(8, to="you")
    app.send("elsewhere")
    assert text_of(stage, "mail", 7, to="me") == (
        "mail(7, to='me') was not sent. What was sent in this test:\n"
        "  mail(8, to='you'), queue=slow, priority=1, tags=[], delay=1m 30s, key=k\n"
        "  crawl('http://x')\n"
        "  elsewhere(), queue=default"
    )
    asked = app.tasks["mail"].using(delay="2h", queue="q")
    assert text_of(stage, asked, 8, "you").startswith("mail(8, 'you') was not sent with queue=q, delay=2h. What")


def test_a_failing_assertion_is_bounded(app: App, stage: Stage) -> None:
    app.tasks["crawl"].delay_many([(f"u{number}",) for number in range(33)])
    lines = text_of(stage, "mail").splitlines()
    assert len(lines) == 22
    assert lines[-1] == "  … and 13 more"


def test_arguments_that_the_task_cannot_have_are_told(app: App, stage: Stage) -> None:
    with pytest.raises(WrongType, match="Did you mean `to`"):
        stage.sent.assert_sent("mail", 7, too="me")


def test_what_is_no_task_is_told(stage: Stage) -> None:
    wrong: Any = print
    with pytest.raises(BadValue, match="Give the task itself, or its name"):
        stage.sent.assert_sent(wrong, 7)
