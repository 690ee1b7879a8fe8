"""Limits: DESIGN §9 by default, and a refusal names the setting to change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.durations import DAY_US
from windlass.core.errors import BadValue, TooLarge
from windlass.core.limits import (
    DEFAULT,
    KIB,
    MIB,
    Limits,
    clip,
    has_long_number,
    is_deeper,
    show_apart,
    show_bytes,
    show_memory,
    to_bytes,
)


def test_the_defaults_are_those_of_the_design() -> None:
    assert DEFAULT.payload_bytes == 256 * KIB
    assert DEFAULT.result_bytes == DEFAULT.log_bytes == MIB
    assert DEFAULT.keep_result_us == DEFAULT.keep_succeeded_us == DAY_US
    assert DEFAULT.keep_succeeded_count == 100_000
    assert DEFAULT.keep_dead_us == 30 * DAY_US
    assert (DEFAULT.json_depth, DEFAULT.number_digits) == (64, 4300)
    assert DEFAULT.aging_step_us == 30_000_000


@pytest.mark.parametrize(
    ("check", "field"),
    [
        (DEFAULT.check_payload, "payload_bytes"),
        (DEFAULT.check_result, "result_bytes"),
        (DEFAULT.check_note, "note_bytes"),
        (DEFAULT.check_fact, "fact_bytes"),
        (DEFAULT.check_tags, "tags"),
    ],
)
def test_a_size_at_the_limit_passes_and_one_more_names_the_setting(check: Callable[[int], None], field: str) -> None:
    limit: int = getattr(DEFAULT, field)
    check(limit)
    with pytest.raises(TooLarge) as caught:
        check(limit + 1)
    assert f"`{field}`" in caught.value.todo
    assert f"WINDLASS_{field.upper()}" in caught.value.todo


@pytest.mark.parametrize(
    "bad",
    [
        {"payload_bytes": 0},
        {"payload_bytes": -1},
        {"payload_bytes": True},
        {"payload_bytes": 1.5},
        {"payload_bytes": "1"},
        {"json_depth": 1000},
        {"number_digits": 5000},
        {"number_digits": 1},
        {"keep_dead_us": -1},
        {"tags": -1},
    ],
)
def test_a_limit_that_cannot_be_kept_is_refused_by_name(bad: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match=next(iter(bad)).removesuffix("_us")):
        Limits(**bad)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (0, 0),
        (17, 17),
        ("17", 17),
        ("64KiB", 64 * KIB),
        ("1 MiB", MIB),
        ("1mb", 1_000_000),
        ("2GiB", 2048 * MIB),
        ("2TB", 2 * 1000**4),
        ("1TiB", 1 << 40),
        (1 << 60, 1 << 60),
    ],
)
def test_sizes_are_read_in_peoples_form(value: int | str, size: int) -> None:
    assert to_bytes(value) == size


@pytest.mark.parametrize(
    "value", [-1, True, 1.5, None, "", "KiB", "1.5KiB", "-1", "5 apples", "9" * 5000, (1 << 60) + 1]
)
def test_a_size_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(BadValue):
        to_bytes(value)


@given(st.integers(0, 2**40))
def test_a_shown_size_is_exact(size: int) -> None:
    assert to_bytes(show_bytes(size).replace(",", "").removesuffix(" bytes")) == size


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (512_000_000, "512MB"),
        (4 << 30, "4GiB"),
        (8_000_000_000, "8GB"),
        (1_500_000_000, "1500MB"),
        (16_672_014_336, "16.7GB"),
        (1_234_567, "1.23MB"),
        (641_728_512, "612MiB"),
        (641_728_513, "642MB"),
        (999_960_001, "1000MB"),
        (9_000, "9KB"),
        (0, "0 bytes"),
        (999, "999 bytes"),
    ],
)
def test_memory_is_shown_as_people_write_it(size: int, shown: str) -> None:
    assert show_memory(size) == shown


@given(st.integers(0, 1 << 60))
def test_shown_memory_is_right_to_three_figures(size: int) -> None:
    number, unit = re.fullmatch(r"([\d.]+) ?(\w+)", show_memory(size)).groups()  # pyright: ignore[reportOptionalMemberAccess]
    factor = 1 if unit == "bytes" else to_bytes(f"1{unit}")
    assert float(number) * factor == pytest.approx(size, rel=0.006)


@given(st.integers(0, 1 << 60), st.integers(-10_000, 10_000).filter(bool))
def test_two_sizes_that_differ_are_shown_apart(size: int, more: int) -> None:
    one, other = show_apart(size, abs(size + more))
    assert one != other or size == abs(size + more)


@given(st.text(max_size=400), st.integers(100, 400))
def test_clipped_text_fits_and_keeps_head_and_tail(text: str, most: int) -> None:
    short = clip(text, most)
    size = len(text.encode(errors="backslashreplace"))
    assert len(short.encode()) <= max(most, 0)
    if size <= most:
        assert short == text.encode(errors="backslashreplace").decode()
    else:
        assert "cut here" in short
        assert short[:3] == text[:3]
        assert short[-3:] == text[-3:]


def test_an_endless_traceback_is_cut_to_the_limit() -> None:
    limits = Limits(error_bytes=KIB)
    short = limits.clip_error("first\n" + "x" * MIB + "\nlast")
    assert len(short.encode()) <= KIB
    assert short.startswith("first")
    assert short.endswith("last")


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max((depth_of(inner) for inner in value.values()), default=0)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return 1 + max((depth_of(inner) for inner in value), default=0)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return 0


_tricky = st.text(alphabet='[]{}"\\a,:', max_size=6)
_json = st.recursive(
    _tricky | st.integers(-(2**63), 2**63) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_tricky, inner, max_size=3),
    max_leaves=12,
)


@given(_json, st.integers(0, 6))
def test_depth_is_exact_whatever_stands_in_strings(value: object, depth: int) -> None:
    assert is_deeper(json.dumps(value).encode(), depth) == (depth_of(value) > depth)


@given(_json, st.integers(25, 45), st.integers(0, 60))
def test_long_numbers_are_found_in_numbers_only(value: object, digits: int, other: int) -> None:
    text = {"text": "1" * other, "quoted\\": '"' + "2" * other, "rest": value}
    body = json.dumps([text, int("3" * digits)]).encode()
    assert has_long_number(body, 32) == (digits > 32)


def test_a_million_brackets_are_judged_without_recursion() -> None:
    assert is_deeper(b"[" * 1_000_000 + b"]" * 1_000_000, 64)
    assert not is_deeper(b"[" * 1_000_000, 64)  # not JSON: its reader says so
