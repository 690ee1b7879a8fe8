"""Retry: how often, on what, and after how long."""

from __future__ import annotations

import inspect
import random
from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.durations import HOUR_US, SECOND_US
from windlass.core.errors import BadValue, UnknownOption
from windlass.core.retry import Numbers, Retry


def seconds(policy: Retry, attempts: int) -> list[float]:
    return [policy.delay_us(attempt) / SECOND_US for attempt in range(1, attempts + 1)]


def test_five_retries_are_six_attempts() -> None:
    policy = Retry(5)
    runs = 1
    while policy.wants(ValueError(), runs):
        runs += 1
    assert runs == 6


def test_no_retries_means_one_attempt() -> None:
    assert not Retry(0).wants(ValueError(), 1)


def test_exponential_delays_double_up_to_the_cap() -> None:
    assert seconds(Retry(9, base=2, cap=20, jitter=False), 5) == [2, 4, 8, 16, 20]


def test_linear_delays_grow_by_base_up_to_the_cap() -> None:
    assert seconds(Retry.linear(9, base=10, cap="35s", jitter=False), 5) == [10, 20, 30, 35, 35]


def test_fixed_delays_stay_the_same_even_above_the_usual_cap() -> None:
    assert seconds(Retry.fixed(9, base="2h", jitter=False), 2) == [7200, 7200]


def test_a_list_of_delays_is_taken_as_stated_and_its_last_entry_repeats() -> None:
    policy = Retry(5, delays=[1, "30s", timedelta(minutes=10)])
    assert seconds(policy, 5) == [1, 30, 600, 600, 600]


def test_a_list_of_delays_states_the_number_of_retries() -> None:
    policy = Retry.custom([1, 2, 3])
    assert policy.retries == 3
    assert not policy.wants(ValueError(), 4)


def test_a_custom_function_gets_the_attempt_and_is_capped() -> None:
    policy = Retry.custom(lambda attempt: attempt * 1000, cap="1h")
    assert seconds(policy, 5) == [1000, 2000, 3000, 3600, 3600]
    assert policy.wants(ValueError(), 1000)


def test_a_custom_function_that_gives_nonsense_is_named_in_the_error() -> None:
    with pytest.raises(BadValue, match="delay after attempt 3"):
        Retry.custom(lambda attempt: -1).delay_us(3)


def test_jitter_draws_evenly_from_nothing_to_the_whole_delay() -> None:
    policy = Retry(5, base=8)
    assert policy.delay_us(1, lambda: 0.0) == 0
    assert policy.delay_us(1, lambda: 0.5) == pytest.approx(4 * SECOND_US, abs=1)
    assert policy.delay_us(1, lambda: 1 - 2**-53) == 8 * SECOND_US
    assert policy.delay_us(3, random.Random(7)) == policy.delay_us(3, random.Random(7))


def test_ten_thousand_jobs_that_fail_together_do_not_come_back_together() -> None:
    policy, roll = Retry(5, base=60), random.Random(1)
    buckets = Counter(policy.delay_us(1, roll) // SECOND_US for _ in range(10_000))
    assert max(buckets.values()) <= 3 * 10_000 / 60
    assert len(buckets) >= 60


@given(
    st.integers(1, 10_000),
    st.sampled_from(["exponential", "linear", "fixed"]),
    st.floats(0, 1, exclude_max=True),
)
def test_no_attempt_number_overflows_or_exceeds_the_cap(attempt: int, kind: Any, roll: float) -> None:
    policy = Retry(10_000, base="1us", cap="1h", kind=kind)
    assert 0 <= policy.delay_us(attempt, lambda: roll) <= HOUR_US


def test_the_ten_thousandth_delay_of_a_doubling_policy_is_the_cap() -> None:
    assert Retry(10_000, base="1us", cap="36500d", jitter=False).delay_us(10_000) == 36_500 * 24 * HOUR_US


def test_only_the_listed_errors_are_tried_again_and_not_on_wins() -> None:
    policy = Retry(5, on=(OSError, ValueError), not_on=FileNotFoundError)
    assert policy.wants(ConnectionError(), 1)
    assert policy.wants(UnicodeError(), 1)
    assert not policy.wants(FileNotFoundError(), 1)
    assert not policy.wants(KeyError(), 1)


def test_an_interrupt_is_not_tried_again_by_default() -> None:
    assert not Retry(5).wants(KeyboardInterrupt(), 1)
    assert Retry(5, on=KeyboardInterrupt).wants(KeyboardInterrupt(), 1)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"retries": -1}, "retries"),
        ({"retries": True}, "retries"),
        ({"retries": 2.0}, "retries"),
        ({"retries": 10**9}, "retries"),
        ({"base": -1}, "base"),
        ({"cap": "soon"}, "cap"),
        ({"base": 10, "cap": 5}, "above its cap"),
        ({"kind": "exponental"}, 'Did you mean "exponential"'),
        ({"on": "ValueError"}, "no exception class"),
        ({"on": (ValueError, int)}, "int"),
        ({"not_on": ValueError("x")}, "not_on"),
        ({"delays": []}, "delays"),
        ({"delays": "30s"}, "delays"),
        ({"delays": [1, -2]}, "delay number 2"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_when_it_is_written(bad: dict[str, Any], said: str) -> None:
    with pytest.raises(BadValue, match=said):
        Retry(**dict[str, Any]({"retries": 3, **bad}))


@pytest.mark.parametrize(("make", "first"), [(Retry, 3), (Retry.linear, 3), (Retry.fixed, 3), (Retry.custom, [1, 2])])
def test_an_unknown_option_of_a_policy_is_refused_with_the_near_miss_or_all_there_are(make: Any, first: Any) -> None:
    with pytest.raises(UnknownOption, match=r"retry policy has no option `jiter`\. Did you mean `jitter`\?"):
        make(first, jiter=True)
    takes = [name for name in inspect.signature(make).parameters if name != "unknown"][1:]
    with pytest.raises(UnknownOption, match=rf"has no option `backoff`\. There are: {', '.join(takes)}\.$"):
        make(first, backoff=2)


def test_attempts_count_from_one() -> None:
    with pytest.raises(BadValue, match="from 1"):
        Retry(5).delay_us(0)


def test_a_policy_is_a_value() -> None:
    assert Retry(5, base=2) == Retry(5, base="2s")
    with pytest.raises(AttributeError):
        Retry(5).retries = 6  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "policy",
    [
        Retry(5),
        Retry(0),
        Retry(3, base="10s", cap="1h"),
        Retry.linear(4, base=2, jitter=False),
        Retry.fixed(2, base=0.5),
        Retry.custom([1, 10, 60]),
        Retry.custom(["1ms"], retries=7, jitter=True),
    ],
)
def test_a_policy_of_numbers_is_the_same_after_it_was_stored_with_a_job(policy: Retry) -> None:
    stored = msgspec.json.encode(policy.numbers())
    assert msgspec.json.decode(stored, type=Numbers).policy() == policy


@pytest.mark.parametrize(
    "policy", [Retry(1, on=KeyError), Retry(1, not_on=(KeyError,)), Retry.custom(lambda attempt: attempt)]
)
def test_only_numbers_are_stored_with_a_job(policy: Retry) -> None:
    with pytest.raises(BadValue, match="cannot be stored with a job"):
        policy.numbers()
