"""When, as people write it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from windlass.core.durations import instant_us
from windlass.core.errors import BadValue
from windlass.core.moments import read_moment

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def paris(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's zone: one hour ahead in winter, two in summer."""
    monkeypatch.setenv("TZ", "Europe/Paris")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("in 1 minute", timedelta(minutes=1)),
        ("in 10 minutes", timedelta(minutes=10)),
        ("In 90s", timedelta(seconds=90)),
        ("in 1h30m", timedelta(minutes=90)),
        ("in 1 hour 30 min", timedelta(minutes=90)),
        ("in 1 hour, 30 minutes and 5 seconds", timedelta(minutes=90, seconds=5)),
        ("in 2 days", timedelta(days=2)),
        ("in 1.5 hours", timedelta(minutes=90)),
        ("in 250ms", timedelta(milliseconds=250)),
        ("now", timedelta()),
    ],
)
def test_a_while_from_now(text: str, span: timedelta) -> None:
    assert read_moment(text, instant_us(NOW)) == NOW + span


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("14:30", datetime(2026, 11, 15, 13, 30, tzinfo=UTC)),
        ("13:00", datetime(2026, 11, 16, 12, 0, tzinfo=UTC)),  # which is now: the next one is tomorrow's
        ("8:05:30", datetime(2026, 11, 16, 7, 5, 30, tzinfo=UTC)),
        ("today 23:00", datetime(2026, 11, 15, 22, 0, tzinfo=UTC)),
        ("tomorrow 8:00", datetime(2026, 11, 16, 7, 0, tzinfo=UTC)),
        ("2027-01-15T08:00Z", datetime(2027, 1, 15, 8, 0, tzinfo=UTC)),
        ("2027-01-15 08:00", datetime(2027, 1, 15, 7, 0, tzinfo=UTC)),
        ("2027-07-15 08:00", datetime(2027, 7, 15, 6, 0, tzinfo=UTC)),  # by then clocks are two hours ahead
        ("2027-01-15T08:00+05:00", datetime(2027, 1, 15, 3, 0, tzinfo=UTC)),
    ],
)
def test_a_time_or_a_date_by_the_clocks_of_this_machine(text: str, instant: datetime) -> None:
    assert read_moment(text, instant_us(NOW)) == instant


@pytest.mark.parametrize(
    "text", ["", "soon", "in", "in a while", "in 5", "25:00", "12:61", "2027-13-01", "in -1m", "9" * 999]
)
def test_what_names_no_moment_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match=r"The moment '.*' cannot be read"):
        read_moment(text, instant_us(NOW))
