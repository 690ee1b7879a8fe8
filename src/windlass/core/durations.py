"""Every duration becomes a whole number of microseconds once, at the edge, or is refused with a sentence.

The public API takes seconds, `timedelta` or text like `"15m"`; everything inside counts microseconds.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from windlass.core.errors import BadValue

Duration = float | timedelta | str
"""What a caller may write for one: seconds, a `timedelta`, or text such as `"15m"`."""

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US

#: Longer spans are always a mistake in the unit, and would overflow 64-bit sums of instants in a store.
LONGEST_US: Final = 36_525 * DAY_US
#: No instant is later: sums of two fit into the 64 bits of a store.
LAST_US: Final = 1 << 62

_UNITS_US: Final = {
    "w": 7 * DAY_US,
    "d": DAY_US,
    "h": HOUR_US,
    "m": MINUTE_US,
    "s": SECOND_US,
    "ms": 1_000,
    "us": 1,
}
# Digits are bounded so that a megabyte of them is refused by the pattern, not computed with.
_TEXT: Final = re.compile(r"\s*" + "".join(rf"(?:([0-9]{{1,12}}(?:\.[0-9]{{1,9}})?){u}\s*)?" for u in _UNITS_US))
_SHOWN: Final = tuple((unit, size_us) for unit, size_us in _UNITS_US.items() if unit != "w")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TODO: Final = 'Give seconds, a timedelta, or text such as "250ms", "15m", "1h30m" or "2d".'


def to_us(value: Duration) -> int:
    """The duration in whole microseconds, between 0 and 100 years; anything else raises `BadValue`."""
    # Accepting True as one second would hide `delay=True`, a typo for another option.
    if isinstance(value, bool):
        raise BadValue(f"A duration cannot be {value!r}.", _TODO)
    if isinstance(value, int):
        us = value * SECOND_US
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise BadValue(f"A duration cannot be {value!r}.", _TODO)
        us = round(value * SECOND_US) if abs(value) < LONGEST_US else LONGEST_US + 1 if value > 0 else -1
    elif isinstance(value, timedelta):
        us = value // timedelta(microseconds=1)
    elif isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        us = _text_us(value)
    else:
        raise BadValue(f"A duration cannot be a {type(value).__name__}.", _TODO)
    if us < 0:
        raise BadValue("A duration cannot be negative.", _TODO)
    if us > LONGEST_US:
        raise BadValue("A duration cannot be longer than 100 years.", _TODO)
    return us


def _text_us(text: str) -> int:
    shown = ascii(text if len(text) <= 40 else text[:40] + "…")
    found = _TEXT.fullmatch(text)
    if found is None or not any(found.groups()):
        if re.fullmatch(r"\s*[0-9.]{1,20}\s*", text):
            raise BadValue(
                f"The duration {shown} has no unit.",
                f'Write "{text.strip()}s" for seconds, or "…m", "…h", "…d".',
            )
        raise BadValue(f"The duration {shown} cannot be read.", _TODO)
    parts = zip(found.groups(), _UNITS_US.values(), strict=True)
    return round(sum((Decimal(number) * size_us for number, size_us in parts if number), Decimal(0)))


def show(us: int) -> str:
    """A short form for people, the two largest units at most: `1h 30m`, `250ms`, `0s`."""
    if us < 0:
        return f"-{show(-us)}"
    shown: list[str] = []
    for unit, size_us in _SHOWN:
        number, us = divmod(us, size_us)
        if number:
            shown.append(f"{number}{unit}")
        elif shown:
            break  # "1d 3s" would suggest a precision the form does not have
        if len(shown) == 2:
            break
    return " ".join(shown) or "0s"


def show_span(us: int) -> str:
    """How long, as far as people care: whole seconds, or milliseconds where there are none."""
    unit_us = SECOND_US if us >= SECOND_US else 1_000
    return show(round(max(0, us) / unit_us) * unit_us)


def instant_us(value: datetime) -> int:
    """Microseconds since 1970 in UTC, exact; a datetime without a time zone raises `BadValue`."""
    # Typed callers cannot get here with anything else, but `at="tomorrow"` from untyped code can.
    if not isinstance(value, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadValue(f"An instant cannot be a {type(value).__name__}.", "Give an aware datetime.")
    if value.utcoffset() is None:
        # Guessing a zone would fire the job hours early or late on a machine set differently.
        raise BadValue(
            f"The datetime {value.isoformat()} has no time zone, so it names no instant.",
            'Make it aware: `datetime(…, tzinfo=ZoneInfo("Europe/Paris"))`, `datetime.now(UTC)` '
            "or `value.astimezone()`.",
        )
    return (value - _EPOCH) // timedelta(microseconds=1)


def show_instant(us: int) -> str:
    """An instant for people, in UTC, to the second: `2027-01-15 08:00:00 UTC`."""
    return f"{_EPOCH + timedelta(microseconds=us):%Y-%m-%d %H:%M:%S} UTC"
