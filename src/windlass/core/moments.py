"""When something is to happen, as people write it: a while from now, a time of day, a date and a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from windlass.core.durations import SECOND_US, to_us
from windlass.core.errors import BadValue

_WORDS: Final = {
    "second": "s",
    "sec": "s",
    "minute": "m",
    "min": "m",
    "hour": "h",
    "day": "d",
    "week": "w",
}
_SPAN: Final = re.compile(rf"([0-9.]+)\s*({'|'.join(_WORDS)})s?\b")
_TIME: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_TODO: Final = 'Give "in 10 minutes", "14:30", "tomorrow 8:00", or a date and a time such as 2027-01-15T08:00Z.'


def read_moment(text: str, now_us: int) -> datetime:
    """The instant, aware of its zone: that of this machine where none is named. A time of day is its next one."""
    here = datetime.fromtimestamp(now_us / SECOND_US, UTC).astimezone()
    words = text.strip().lower()
    if words == "now":
        return here
    if words.startswith("in "):
        return here + timedelta(microseconds=_span_us(words[3:], text))
    day, _, rest = words.partition(" ")
    if day in ("today", "tomorrow") and (found := _time(rest)) is not None:
        return _at(here + timedelta(days=day == "tomorrow"), found)
    if (found := _time(words)) is not None:
        then = _at(here, found)
        return then if then > here else _at(here + timedelta(days=1), found)
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError, OSError):
        raise BadValue(f"The moment {text[:40]!a} cannot be read.", _TODO) from None


def _span_us(words: str, text: str) -> int:
    """`10 minutes`, `1 hour 30 min`, or any duration as elsewhere."""
    spelt = _SPAN.sub(lambda found: found[1] + _WORDS[found[2]], words)
    try:
        return to_us(re.sub(r"\s+|,|\band\b", "", spelt))
    except BadValue:
        raise BadValue(f"The moment {text[:40]!a} cannot be read.", _TODO) from None


def _time(words: str) -> tuple[int, int, int] | None:
    found = _TIME.fullmatch(words)
    if found is None:
        return None
    hour, minute, second = (int(part or 0) for part in found.groups())
    return (hour, minute, second) if hour < 24 and minute < 60 and second < 60 else None


def _at(day: datetime, time: tuple[int, int, int]) -> datetime:
    """That time of that day, by the clocks of this machine: their zone is asked anew, for it may change that day."""
    hour, minute, second = time
    return day.replace(hour=hour, minute=minute, second=second, microsecond=0, tzinfo=None).astimezone()
