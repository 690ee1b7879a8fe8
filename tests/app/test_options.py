"""Options: what can be said of a task and of one send, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from windlass import App, Retry, Worker
from windlass.app.options import (
    NOTHING,
    SEND_OPTIONS,
    TASK_OPTIONS,
    read_send_options,
    read_task_options,
    read_travelling,
)
from windlass.core.durations import SECOND_US
from windlass.core.errors import BadName, BadValue, InputError, ResultGone, UnknownOption


def test_a_task_without_options_leaves_everything_to_the_app_and_the_store() -> None:
    options = read_task_options("t", {}, ())
    assert (options.queue, options.priority, options.tags, options.retry) == (None, 0, (), None)
    assert (options.timeout_us, options.keep_result_us, options.dead_queue) == (None, None, None)
    assert (options.grace_us, options.memory, options.needs, options.on_cut) == (None, None, (), "finish")


def test_every_option_of_a_task_is_read() -> None:
    given = {
        "name": "x",
        "queue": "mail",
        "retry": 5,
        "timeout": "30s",
        "grace": 0,
        "memory": "512MB",
        "needs": {"gpu": 2, "browser": 1},
        "on_cut": "stop",
        "priority": 9,
        "tags": ["a", "b"],
        "keep_result": timedelta(days=7),
        "dead_queue": "graves",
        "logs": False,
    }
    assert set(given) == set(TASK_OPTIONS)
    options = read_task_options("t", given, ())
    assert options.retry == Retry(5)
    assert (options.queue, options.dead_queue, options.priority, options.tags) == ("mail", "graves", 9, ("a", "b"))
    assert (options.timeout_us, options.keep_result_us) == (30 * SECOND_US, 7 * 86_400 * SECOND_US)
    assert (options.grace_us, options.memory, options.on_cut) == (0, 512_000_000, "stop")
    assert options.logs is False
    assert options.needs == (("browser", 1), ("gpu", 2))


def test_a_result_is_kept_as_the_store_says_for_so_long_or_not_at_all() -> None:
    kept = [read_task_options("t", {"keep_result": how}, ()).keep_result_us for how in (None, True, "1s", False)]
    assert kept == [None, None, SECOND_US, 0]


def test_every_option_of_a_send_is_read() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    given: dict[str, Any] = {
        "queue": "mail",
        "priority": 0,
        "tags": [],
        "at": at,
        "expires": at + timedelta(hours=1),
        "timeout": 5,
        "grace": "1s",
        "memory": 1 << 60,
        "needs": {"browser": 1},
        "keep_result": False,
        "id": "0192f000-0000-7000-8000-000000000000",
        "key": "nightly",
    }
    assert {*given, "delay"} == set(SEND_OPTIONS)
    options = read_send_options("t", given)
    assert (options.queue, options.priority, options.tags) == ("mail", 0, ())
    at_us = int(at.timestamp()) * SECOND_US
    assert (options.at_us, options.expiry_us(0)) == (at_us, at_us + 3600 * SECOND_US)
    assert options.id == bytes.fromhex("0192f000000070008000000000000000")
    assert (options.travelling.timeout_us, options.travelling.grace_us) == (5 * SECOND_US, SECOND_US)
    assert (options.memory, options.needs) == (1 << 60, (("browser", 1),))
    assert options.key is not None
    assert options.key.key == "nightly"
    assert read_send_options("t", {"delay": "1m"}).delay_us == 60 * SECOND_US


def test_only_what_a_send_says_otherwise_travels_with_the_job() -> None:
    assert read_send_options("t", {"priority": 9, "delay": 5}).stored() == b""
    stored = read_send_options("t", {"timeout": 5, "keep_result": False}).stored()
    assert read_travelling(stored) == read_send_options("t", {"timeout": 5, "keep_result": False}).travelling
    assert read_travelling(stored) != NOTHING
    assert read_travelling(read_send_options("t", {"grace": 0}).stored()).grace_us == 0


def test_a_time_to_expire_counts_from_each_send_and_an_instant_stays() -> None:
    lasting, fixed = (
        read_send_options("t", {"expires": expires}) for expires in ("1h", datetime(2030, 1, 1, tzinfo=UTC))
    )
    assert lasting.expiry_us(SECOND_US) == 3601 * SECOND_US
    assert fixed.expiry_us(SECOND_US) == fixed.expires_us


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"priority": 10}, "Priority 10"),
        ({"priority": -1}, "Priority -1"),
        ({"priority": True}, "Priority True"),
        ({"priority": "9"}, "Priority '9'"),
        ({"tags": "urgent"}, r"Give a list: \['urgent'\]"),
        ({"tags": 5}, "tags"),
        ({"tags": [5]}, "tag name cannot be a int"),
        ({"timeout": 0}, "would stop every job at once"),
        ({"timeout": "soon"}, "soon"),
        ({"timeout": -1}, "negative"),
        ({"timeout": True}, "True"),
        ({"grace": -1}, "negative"),
        ({"grace": "a while"}, "a while"),
        ({"memory": 0}, "no job could run"),
        ({"memory": -1}, "between 0 and 1 EiB"),
        ({"memory": (1 << 60) + 1}, "between 0 and 1 EiB"),
        ({"memory": "a lot"}, "a lot"),
        ({"memory": True}, "True"),
        ({"memory": 1.5}, "1.5"),
        ({"needs": ["browser"]}, r'Give amounts by name: \{"browser": 1\}'),
        ({"needs": {"memory": 5}}, 'Use memory=, such as memory="512MB"'),
        ({"needs": {"browser": 0}}, "A need of 0 browser"),
        ({"needs": {"browser": -1}}, "A need of -1 browser"),
        ({"needs": {"browser": True}}, "A need of True browser"),
        ({"needs": {"browser": 1 << 61}}, "is not allowed"),
        ({"needs": {"my browser": 1}}, "U\\+0020"),
        ({"needs": {7: 1}}, "resource name cannot be a int"),
        ({"keep_result": -1}, "negative"),
        ({"keep_result": "for ever"}, "for ever"),
        ({"queue": ""}, "cannot be empty"),
        ({"queue": "my queue"}, "U\\+0020"),
        ({"queue": 7}, "cannot be a int"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_for_tasks_and_sends_alike(bad: dict[str, Any], said: str) -> None:
    with pytest.raises((BadValue, BadName), match=said):
        read_task_options("t", bad, ())
    with pytest.raises((BadValue, BadName), match=said):
        read_send_options("t", bad)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"retry": "often"}, "Give Retry"),
        ({"retry": -1}, "retries"),
        ({"retry": True}, "retries"),
        ({"dead_queue": "a b"}, "dead-letter queue"),
        ({"on_cut": "panic"}, 'Give "finish" or "stop"'),
        ({"on_cut": ["stop"]}, 'Give "finish" or "stop"'),
    ],
)
def test_a_task_is_refused_when_it_is_defined(bad: dict[str, Any], said: str) -> None:
    app = App("memory://")
    with pytest.raises(InputError, match=said):
        app.task(name="t", **bad)(print)
    assert app.tasks == {}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"delay": 1, "at": datetime(2030, 1, 1, tzinfo=UTC)}, "either `delay` or `at`"),
        ({"delay": ""}, "duration"),
        ({"delay": -1}, "negative"),
        ({"at": datetime(2030, 1, 1)}, "no time zone"),  # noqa: DTZ001 - that is the mistake
        ({"at": "tomorrow"}, "aware datetime"),
        ({"expires": "soon"}, "soon"),
        ({"expires": datetime(2030, 1, 1)}, "no time zone"),  # noqa: DTZ001
        ({"id": "42"}, "not a job id"),
        ({"id": 42}, "not a job id"),
        ({"id": b"short"}, "16 bytes"),
        ({"key": "a b"}, "U\\+0020"),
    ],
)
def test_a_send_is_refused_before_anything_is_stored(app: App, bad: dict[str, Any], said: str) -> None:
    task = app.task(name="t")(lambda: None)
    with pytest.raises(InputError, match=said):
        task.using(**bad).delay()


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"priorities": 1}, "priority"),
        ({"time_out": 1}, "timeout"),
        ({"Queue": "x"}, "queue"),
        ({"retries": 3}, "retry"),
    ],
)
def test_an_unknown_option_of_a_task_is_an_error_that_names_the_near_miss(options: dict[str, Any], meant: str) -> None:
    app = App("memory://")
    with pytest.raises(UnknownOption, match=f"The task t has no option .* Did you mean `{meant}`"):
        app.task(name="t", **options)(print)
    assert app.tasks == {}


def test_an_unknown_option_of_a_send_is_an_error_that_names_the_near_miss(app: App) -> None:
    task = app.task(name="t")(lambda: None)
    with pytest.raises(UnknownOption, match=r"A send of t has no option `expire`\. Did you mean `expires`"):
        task.using(expire=5)


def test_an_unknown_option_without_a_near_miss_lists_what_there_is() -> None:
    with pytest.raises(UnknownOption, match=r"`zzz`\. There are: .*keep_result") as caught:
        read_task_options("t", {"zzz": 1}, ("tenant",))
    assert "tenant" in str(caught.value)
    with pytest.raises(UnknownOption) as caught:
        read_task_options("t", {"z" * 1_000_000: 1}, ())
    assert len(str(caught.value)) < 300


def test_options_that_middleware_declares_are_kept_for_it() -> None:
    options = read_task_options("t", {"tenant": "acme"}, ("tenant", "region"))
    assert options.extra == {"tenant": "acme"}


def test_what_a_send_says_of_its_result_wins_over_its_task(app: App) -> None:
    kept = app.task(name="kept")(lambda: 1)
    dropped = app.task(name="dropped", keep_result=False)(lambda: 2)
    with Worker(app, slots=1):
        assert kept.delay().get(timeout=10) == 1
        with pytest.raises(ResultGone):
            kept.using(keep_result=False).delay().get(timeout=10)
        with pytest.raises(ResultGone):
            dropped.delay().get(timeout=10)
        assert dropped.using(keep_result="1h").delay().get(timeout=10) == 2
        assert dropped.using(keep_result=True).delay().get(timeout=10) == 2


def test_options_said_one_after_another_add_up_and_the_last_word_wins(app: App) -> None:
    task = app.task(name="t")(lambda: None)
    handle = task.using(delay=60, priority=1).using(priority=9).delay()
    request = handle.job().request
    assert (request.delay_us, request.priority) == (60 * SECOND_US, 9)
    assert task.delay().job().request.delay_us == 0
