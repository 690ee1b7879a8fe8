"""Rates: a bucket never lets more through than it says, and never drifts below it either."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.durations import HOUR_US, MINUTE_US, SECOND_US
from windlass.core.errors import BadValue
from windlass.core.rates import Rate, advance, allowance, next_us, spend

NOW_US = 1_714_564_800_123_457
rates = st.builds(
    Rate,
    count=st.integers(1, 10_000) | st.sampled_from([1, 3, 7, 9973, 99_991]),
    per_us=st.sampled_from([SECOND_US, MINUTE_US, HOUR_US, 15 * MINUTE_US, 100_003]),
    burst=st.integers(1, 50),
)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("5/s", Rate(5, SECOND_US)),
        ("10/m", Rate(10, MINUTE_US)),
        ("100/h", Rate(100, HOUR_US)),
        (" 3 / 15m ", Rate(3, 15 * MINUTE_US)),
        ("1000/s", Rate(1000, SECOND_US, 100)),
        ("1/1h30m", Rate(1, 90 * MINUTE_US)),
    ],
)
def test_rates_are_read_in_peoples_form(text: str, rate: Rate) -> None:
    assert Rate.parse(text) == rate


def test_a_stated_burst_is_kept() -> None:
    assert Rate.parse("10/m", burst=5) == Rate(10, MINUTE_US, 5)
    assert str(Rate.parse("10/m", burst=5)) == "10/1m burst 5"


@pytest.mark.parametrize("text", ["", "10", "/s", "0/s", "-1/s", "1/0s", "5/fortnight", "5/s/s", "2000000/s", "1/us1"])
def test_a_rate_that_is_none_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(BadValue, match="10/m"):
        Rate.parse(text)


@pytest.mark.parametrize("bad", [{"count": 0}, {"count": -1}, {"burst": 0}, {"burst": -3}, {"per_us": 0}])
def test_a_rate_that_makes_no_sense_is_refused_even_when_read_from_a_store(bad: dict[str, Any]) -> None:
    body = msgspec.json.encode({"count": 1, "per_us": SECOND_US, "burst": 1, **bad})
    with pytest.raises(BadValue):
        msgspec.json.decode(body, type=Rate)


def test_a_fresh_bucket_is_full_and_an_empty_one_fills_token_by_token() -> None:
    rate = Rate(10, SECOND_US, 3)
    assert allowance(rate, 0, NOW_US) == 3
    tat_us = spend(rate, 0, NOW_US, 3)
    assert allowance(rate, tat_us, NOW_US) == 0
    assert [allowance(rate, tat_us, NOW_US + ms * 1000) for ms in (99, 100, 199, 200, 300, 9000)] == [
        0,
        1,
        1,
        2,
        3,
        3,
    ]
    assert next_us(rate, tat_us, NOW_US) == NOW_US + 100_000


def test_more_than_the_allowance_cannot_be_spent() -> None:
    with pytest.raises(BadValue):
        spend(Rate(1, SECOND_US, 2), 0, NOW_US, 3)
    with pytest.raises(BadValue):
        spend(Rate(1, SECOND_US, 2), 0, NOW_US, -1)


def test_spending_nothing_leaves_the_bucket_as_it_is() -> None:
    assert spend(Rate(1, SECOND_US), 12345, NOW_US, 0) == 12345


@given(rates, st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(0, 60)), min_size=1, max_size=40))
def test_no_window_lets_more_pass_than_burst_plus_rate(rate: Rate, steps: list[tuple[int, int]]) -> None:
    now_us, tat_us = NOW_US, 0
    spent: list[tuple[int, int]] = []
    for wait_us, wish in steps:
        now_us += wait_us
        taken = min(wish, allowance(rate, tat_us, now_us))
        tat_us = spend(rate, tat_us, now_us, taken)
        spent.append((now_us, taken))
    for first in range(len(spent)):
        total = 0
        for at_us, taken in spent[first:]:
            total += taken
            window_us = at_us - spent[first][0]
            assert (total - rate.burst) * rate.per_us <= rate.count * (window_us + 3)


@given(rates, st.integers(0, 10**7))
def test_a_greedy_taker_gets_the_whole_rate_without_drift(rate: Rate, offset_us: int) -> None:
    now_us, tat_us, taken = NOW_US + offset_us, 0, 0
    start_us = now_us
    for _ in range(200):
        now_us = next_us(rate, tat_us, now_us)
        tat_us = spend(rate, tat_us, now_us, 1)
        taken += 1
    exact_us = Fraction((taken - rate.burst) * rate.per_us, rate.count)
    assert abs(now_us - start_us - max(exact_us, Fraction(0))) <= 4


@given(rates, st.integers(0, 10**7), st.lists(st.integers(1, 100), max_size=30))
def test_many_steps_stay_within_two_microseconds_of_one(rate: Rate, offset_us: int, steps: list[int]) -> None:
    at_us = start_us = NOW_US + offset_us
    for step in steps:
        at_us = advance(rate, at_us, step)
    assert abs(at_us - start_us - Fraction(sum(steps) * rate.per_us, rate.count)) <= 2


@given(rates, st.integers(-5, 200), st.integers(0, 10**7))
def test_next_is_the_first_instant_with_a_token(rate: Rate, ahead: int, offset_us: int) -> None:
    now_us = NOW_US + offset_us
    tat_us = max(0, now_us + ahead * rate.per_us // rate.count)
    at_us = next_us(rate, tat_us, now_us)
    assert allowance(rate, tat_us, at_us) >= 1
    assert at_us == now_us or allowance(rate, tat_us, at_us - 1) == 0


@given(rates, st.integers(0, 10**8), st.integers(0, 10**7))
def test_allowance_stays_between_nothing_and_burst_and_grows_with_time(
    rate: Rate, ahead_us: int, later_us: int
) -> None:
    tat_us = NOW_US + ahead_us
    now, later = allowance(rate, tat_us, NOW_US), allowance(rate, tat_us, NOW_US + later_us)
    assert 0 <= now <= later <= rate.burst


def test_a_tat_from_a_clock_far_ahead_only_makes_wait() -> None:
    rate = Rate(1, SECOND_US)
    assert allowance(rate, NOW_US + 1000 * HOUR_US, NOW_US) == 0
    assert next_us(rate, NOW_US + 1000 * HOUR_US, NOW_US) == NOW_US + 1000 * HOUR_US
