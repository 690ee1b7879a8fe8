"""Durations and instants: one number inside, a sentence for everything that is not one."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.durations import DAY_US, HOUR_US, LONGEST_US, MINUTE_US, instant_us, show, show_span, to_us
from windlass.core.errors import BadValue


@pytest.mark.parametrize(
    ("value", "us"),
    [
        (0, 0),
        (15, 15_000_000),
        (0.25, 250_000),
        (1e-7, 0),
        (timedelta(minutes=2), 2 * MINUTE_US),
        ("15m", 15 * MINUTE_US),
        ("1h30m", HOUR_US + 30 * MINUTE_US),
        ("1h 30m", HOUR_US + 30 * MINUTE_US),
        ("250ms", 250_000),
        ("2d", 2 * DAY_US),
        ("1w", 7 * DAY_US),
        ("1.5s", 1_500_000),
        ("0.1s", 100_000),
        ("7us", 7),
        (" 5s ", 5_000_000),
    ],
)
def test_every_accepted_form_gives_exact_microseconds(value: float | timedelta | str, us: int) -> None:
    assert to_us(value) == us


@pytest.mark.parametrize(
    "value",
    [
        True,
        -1,
        -0.5,
        float("nan"),
        float("inf"),
        float("-inf"),
        1e300,
        -1e300,
        10**30,
        timedelta(days=-1),
        "",
        " ",
        "m",
        "-5s",
        "5 minutes",
        "5x",
        "30m1h",
        "5s5s",
        "1e3s",
        "\u0665s",
        "9" * 1_000_000 + "s",
        "200000w",
        None,
        [],
        b"5s",
    ],
)
def test_anything_else_is_refused_with_a_sentence_that_shows_the_forms(value: Any) -> None:
    with pytest.raises(BadValue) as caught:
        to_us(value)
    assert '"15m"' in caught.value.todo
    assert len(str(caught.value)) < 300


def test_a_bare_number_in_text_is_refused_by_asking_for_its_unit() -> None:
    with pytest.raises(BadValue, match="has no unit") as caught:
        to_us("15")
    assert '"15s"' in caught.value.todo


@pytest.mark.parametrize(
    ("us", "shown"),
    [
        (0, "0s"),
        (1, "1us"),
        (250_000, "250ms"),
        (HOUR_US + 30 * MINUTE_US, "1h 30m"),
        (DAY_US + 3_000_000, "1d"),
        (30 * DAY_US, "30d"),
        (DAY_US + HOUR_US + MINUTE_US, "1d 1h"),
        (-1_500_000, "-1s 500ms"),
    ],
)
def test_show_gives_the_two_largest_units(us: int, shown: str) -> None:
    assert show(us) == shown


@given(st.integers(0, LONGEST_US))
def test_what_show_says_can_be_read_again_and_is_never_more(us: int) -> None:
    again = to_us(show(us))
    assert again <= us
    assert us - again <= us // 24 + 1


@given(st.integers(0, LONGEST_US))
def test_a_timedelta_loses_nothing(us: int) -> None:
    assert to_us(timedelta(microseconds=us)) == us


def test_an_aware_datetime_is_the_same_instant_in_every_zone() -> None:
    there = datetime(2024, 5, 1, 14, 0, 0, 123_457, tzinfo=timezone(timedelta(hours=2)))
    assert instant_us(there) == instant_us(there.astimezone(UTC)) == 1_714_564_800_123_457


def test_a_naive_datetime_is_refused_and_shown_how_to_become_aware() -> None:
    with pytest.raises(BadValue, match="no time zone") as caught:
        instant_us(datetime(2024, 5, 1))  # noqa: DTZ001 - the mistake under test
    assert "ZoneInfo" in caught.value.todo


@pytest.mark.parametrize("value", [date(2024, 5, 1), 1.5, "2024-05-01", None])
def test_what_is_no_datetime_is_refused(value: object) -> None:
    with pytest.raises(BadValue, match="aware datetime"):
        instant_us(cast("datetime", value))


@pytest.mark.parametrize(
    ("us", "shown"), [(0, "0s"), (-5, "0s"), (1_499, "1ms"), (999_999, "1s"), (61_400_000, "1m 1s"), (DAY_US, "1d")]
)
def test_a_span_is_shown_as_far_as_people_care(us: int, shown: str) -> None:
    assert show_span(us) == shown
