"""Everything is bounded: each bound is a field here, and each refusal names the setting that moves it."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from windlass.core.durations import DAY_US, LONGEST_US, SECOND_US
from windlass.core.errors import BadValue, TooLarge

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
EIB: Final = GIB * GIB

# The largest first.
_SCALE: Final = {
    "TiB": 1024 * GIB,
    "TB": 1000**4,
    "GiB": GIB,
    "GB": 1000**3,
    "MiB": MIB,
    "MB": 1000**2,
    "KiB": KIB,
    "KB": 1000,
}
_UNITS: Final = {"": 1, "b": 1, **{unit.lower(): factor for unit, factor in _SCALE.items()}}
_SIZE: Final = re.compile(r"\s*([0-9]{1,15})\s*([A-Za-z]*)\s*")
_MOST_FIGURES: Final = 10_000


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of DESIGN §9, each in a range that the code can keep; values outside raise `BadValue`."""

    payload_bytes: int = 256 * KIB
    result_bytes: int = MIB
    log_bytes: int = MIB
    error_bytes: int = 64 * KIB
    note_bytes: int = 64 * KIB
    fact_bytes: int = 64 * KIB
    tags: int = 32
    json_depth: int = 64
    number_digits: int = 4300
    keep_succeeded_count: int = 100_000
    keep_result_us: int = DAY_US
    keep_succeeded_us: int = DAY_US
    keep_dead_us: int = 30 * DAY_US
    keep_cancelled_us: int = DAY_US
    keep_expired_us: int = DAY_US
    aging_step_us: int = 30 * SECOND_US

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            value: object = getattr(self, field)
            least, most = _RANGES.get(field) or _range(field)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise BadValue(
                    f"The limit {setting_name(field)} cannot be {value!r}.",
                    f"Give a whole number from {least} to {most}.",
                )

    def check_payload(self, size: int) -> None:
        """Returns only if arguments of `size` bytes may be stored."""
        if size > self.payload_bytes:
            todo = "Store the data elsewhere and send its key, or raise"
            raise self._too_large("The arguments take", size, "payload_bytes", todo)

    def check_result(self, size: int) -> None:
        """Returns only if a result of `size` bytes may be stored."""
        if size > self.result_bytes:
            todo = "Store the data elsewhere and return its key, or raise"
            raise self._too_large("The result takes", size, "result_bytes", todo)

    def check_note(self, size: int) -> None:
        """Returns only if one note of `size` bytes may be stored."""
        if size > self.note_bytes:
            raise self._too_large("The note takes", size, "note_bytes", "Split it, or raise")

    def check_fact(self, size: int) -> None:
        """Returns only if a shared fact of `size` bytes may be stored."""
        if size > self.fact_bytes:
            raise self._too_large("The fact takes", size, "fact_bytes", "Store its parts apart, or raise")

    def check_tags(self, count: int) -> None:
        """Returns only if a job may carry `count` tags."""
        if count > self.tags:
            raise TooLarge(
                f"The job has {count} tags; {self.tags} are allowed.",
                f"Send fewer, or raise the setting `tags` ({environment_name('tags')}).",
            )

    def check_json(self, body: bytes, subject: str, wrapped: int = 0) -> None:
        """Returns only if the JSON is no deeper and has no longer numbers than allowed; linear in its size.

        `wrapped` levels come from Windlass itself. Text that is not JSON may pass: its reader refuses it.
        """
        # Both tests are on the path of every job, so each has a form that needs no look at the structure.
        depth = self.json_depth + wrapped
        if body.count(b"[") + body.count(b"{") > depth and is_deeper(body, depth):
            raise self.too_deep(subject)
        if len(body) > self.number_digits and has_long_number(body, self.number_digits):
            raise self.too_many_digits(subject)

    def too_deep(self, subject: str) -> TooLarge:
        """The refusal of a value that is nested too deeply."""
        return TooLarge(
            f"{subject} is nested more than {self.json_depth} levels deep, or holds itself.",
            f"Flatten it, or raise the setting `json_depth` ({environment_name('json_depth')}).",
        )

    def too_many_digits(self, subject: str) -> TooLarge:
        """The refusal of a number that takes too long to read."""
        return TooLarge(
            f"{subject} has a number of more than {self.number_digits} digits.",
            "Send it as text, or as bytes (`int.to_bytes`).",
        )

    def clip_error(self, text: str) -> str:
        """The text in at most `error_bytes` bytes of UTF-8: head, tail, and a line about what was cut."""
        return clip(text, self.error_bytes)

    def _too_large(self, subject: str, size: int, field: str, todo: str) -> TooLarge:
        allowed: int = getattr(self, field)
        return TooLarge(
            f"{subject} {show_bytes(size)}; {show_bytes(allowed)} are allowed.",
            f"{todo} the setting `{field}` ({environment_name(field)}).",
        )


# Depth: every reader recurses, and Python's own ceiling is near 1000. Digits: Python refuses more than
# 4300, and the codec's quick test needs at least 32. Batch: no statement touches more than about 100 jobs.
_RANGES: Final = {
    "json_depth": (1, 250),
    "number_digits": (32, 4300),
    "tags": (0, 1000),
    "keep_succeeded_count": (0, 10**12),
    "error_bytes": (KIB, 16 * MIB),
}


def _range(field: str) -> tuple[int, int]:
    return (0, LONGEST_US) if field.endswith("_us") else (1, GIB)


def setting_name(field: str) -> str:
    """The public spelling of a field: durations lose their unit, as their values carry one."""
    return field.removesuffix("_us").removesuffix("_s")


def environment_name(field: str) -> str:
    """The environment variable that sets the field."""
    return f"WINDLASS_{setting_name(field).upper()}"


def clip(text: str, most_bytes: int) -> str:
    """The text in at most `most_bytes` bytes of UTF-8, whole characters only, head and tail kept."""
    # Four bytes a character at most: short text is never encoded just to be measured.
    if len(text) * 4 <= most_bytes:
        return text
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= most_bytes:
        return data.decode()
    mark = f"\n… {len(data) - most_bytes} bytes and more cut here …\n".encode()
    room = max(0, most_bytes - len(mark))
    head, tail = data[: room // 3], data[len(data) - (room - room // 3) :]
    return (head.decode(errors="ignore") + mark.decode() + tail.decode(errors="ignore")) if room else ""


def is_deeper(body: bytes, depth: int) -> bool:
    """Whether brackets nest more than `depth` levels, in time linear in the text, without recursion."""
    # Two quotes side by side end one string and begin another, or hold nothing: without them all else stays
    # on its side. That leaves few strings to cut out, those with brackets in them.
    marks = _unescaped(body).translate(_BRACKETS, _NOT_MARKS).replace(b'""', b"")
    brackets = b"".join(marks.split(b'"')[::2])
    # Each round takes away every innermost pair at once, so the rounds needed are the depth.
    for _ in range(depth):
        left = brackets.replace(b"[]", b"")
        if len(left) == len(brackets):
            return False  # nothing left, or brackets that do not match: the reader says so better
        brackets = left
    return b"[]" in brackets


def has_long_number(body: bytes, digits: int) -> bool:
    """Whether a number has a run of more than `digits` digits, in time linear in the text."""
    # A run that long covers one of these places whole, so ordinary text is done after a few looks.
    if not any(body[place : place + 16].isdigit() for place in range(0, len(body), digits // 2)):
        return False
    return any(b"0" * (digits + 1) in part for part in _unescaped(body).translate(_DIGITS).split(b'"')[::2])


def _unescaped(body: bytes) -> bytes:
    # Escaped backslashes go first, or the quote after a pair of them would be taken for an escaped one.
    return body.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in body else body


_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NOT_MARKS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")


def to_bytes(value: int | str) -> int:
    """The size in bytes of a number or of text such as `"256KiB"`; anything else raises `BadValue`."""
    todo = 'Give a whole number of bytes, or text such as "64KiB" or "512MB".'
    if isinstance(value, bool) or not isinstance(value, (int, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadValue(f"A size cannot be {value!r}.", todo)
    if isinstance(value, str):
        found = _SIZE.fullmatch(value)
        unit = _UNITS.get(found.group(2).lower()) if found else None
        if found is None or unit is None:
            raise BadValue(f"The size {value[:40]!a} cannot be read.", todo)
        value = int(found.group(1)) * unit
    if not 0 <= value <= EIB:
        raise BadValue("A size must be between 0 and 1 EiB.", todo)
    return value


def show_bytes(size: int) -> str:
    """A form for people that never rounds a size down to its limit: `256 KiB`, `262,145 bytes`."""
    for unit, factor in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size:,} bytes"


def show_memory(size: int) -> str:
    """An amount of memory as people write it: `512MB`, `4GiB`; to three figures where it is no round one, `16.7GB`."""
    for unit, factor in _SCALE.items():
        if size % factor == 0 and 0 < size // factor < _MOST_FIGURES:
            return f"{size // factor}{unit}"
    for unit in ("TB", "GB", "MB", "KB"):
        value = size / _SCALE[unit]
        if value >= 100:
            return f"{value:.0f}{unit}"
        if value >= 1:
            figures = f"{value:.{1 if value >= 10 else 2}f}"
            return f"{figures.rstrip('0').rstrip('.')}{unit}"
    return f"{size} bytes"


def show_apart(one: int, other: int) -> tuple[str, str]:
    """Two amounts of memory that differ, shown so that one sees it."""
    shown = show_memory(one), show_memory(other)
    return shown if shown[0] != shown[1] else (f"{one:,} bytes", f"{other:,} bytes")


DEFAULT: Final = Limits()
