"""Names: what passes is safe everywhere, what does not is told why."""

from __future__ import annotations

import re
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import BadName
from windlass.core.names import check_label, check_name, near_miss


@pytest.mark.parametrize("name", ["a", "9", "mail.send", "A_b-c:d.e", "x" * 128])
def test_a_name_of_the_allowed_form_passes_unchanged(name: str) -> None:
    assert check_name("task", name) is name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "cannot be empty"),
        ("x" * 129, "129 characters"),
        ("_x", "begins with '_'"),
        (":x", "begins with ':'"),
        ("a b", "U+0020) at position 2"),
        ("a/b", "'/'"),
        ("a\n", r"'\n' (U+000A) at position 2"),
        ("a\x1b[2J", r"'\x1b'"),
        ("café", r"'\xe9' (U+00E9)"),
        ("a\u202eb", r"'\u202e'"),
        ("a\x00", r"'\x00'"),
        ("{tag}", "'{'"),
    ],
)
def test_a_bad_name_is_refused_naming_what_is_wrong(name: str, said: str) -> None:
    with pytest.raises(BadName, match=re.escape(said)) as caught:
        check_name("queue", name)
    assert "queue" in caught.value.message
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", [None, 5, b"mail"])
def test_what_is_no_text_is_refused_by_its_type(value: object) -> None:
    with pytest.raises(BadName, match=type(value).__name__):
        check_name("lane", cast("str", value))


def test_a_huge_name_gives_a_short_message() -> None:
    with pytest.raises(BadName) as caught:
        check_name("tag", "é" * 1_000_000)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("label", ["", "mail 1", "Büro-München", "東京", "a/b@c", "x" * 1_000])
def test_a_label_may_have_any_letters_and_spaces(label: str) -> None:
    assert check_label("worker name", label) is label


@pytest.mark.parametrize("label", ["a\x1b]0;title\x07", "a\nb", "a\tb", "a\x7f", "a\u202eb", "a\ud800", "\0" * 1_000])
def test_a_label_that_acts_on_a_screen_is_refused(label: str) -> None:
    with pytest.raises(BadName, match=r"The worker name '.*' has control characters\. Use") as caught:
        check_label("worker name", label)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


@given(st.text(max_size=140))
def test_a_name_passes_exactly_if_it_fits_the_pattern_of_the_design(name: str) -> None:
    allowed = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}", name) is not None
    if allowed:
        assert check_name("gate", name) == name
        return
    with pytest.raises(BadName) as caught:
        check_name("gate", name)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(("word", "meant"), [("retrys", "retries"), ("PAYLOAD", "payload"), ("zzz", None), ("", None)])
def test_a_near_miss_finds_the_word_that_was_meant(word: str, meant: str | None) -> None:
    assert near_miss(word, ["retries", "payload", "queue"]) == meant


def test_a_near_miss_gives_the_known_spelling_not_the_lowered_one() -> None:
    assert near_miss("windlass_urll", ["WINDLASS_URL"]) == "WINDLASS_URL"
