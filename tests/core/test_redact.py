"""No secret survives redaction, in whatever form it was pasted; what people edit of it is whole again."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.redact import MASK, SECRET_NAMES, masked_at, plain, redact, redact_text, redact_url, unmask


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://ann:s3cret@host:6379/0", "redis://ann:***@host:6379/0"),
        ("redis://:s3cret@host", "redis://:***@host"),
        ("redis://ann:s3c/ret@host/0", "redis://ann:***@host/0"),
        ("redis://ann:s3c?ret@host/0", "redis://ann:***@host/0"),
        ("redis://ann:s3c#ret@host/0", "redis://ann:***@host/0"),
        ("redis://ann:s3c@ret@host/0", "redis://ann:***@host/0"),
        ("mongodb://u:s3cret@h1:1,h2:2/db", "mongodb://u:***@h1:1,h2:2/db"),
        ("redis://host:6379/0?name=a@b", "redis://host:6379/0?name=a@b"),
        ("redis://h1:1,h2:2/0?name=a@b", "redis://h1:1,h2:2/0?name=a@b"),
        ("redis://[::1]:6379/0?name=a@b", "redis://[::1]:6379/0?name=a@b"),
        ("redis://host/0?password=s3cret&db=1", "redis://host/0?password=***&db=1"),
        ("redis://host/0?db=1&sslPassword=s3cret", "redis://host/0?db=1&sslPassword=***"),
        ("redis://host/0?auth_token=s3cret", "redis://host/0?auth_token=***"),
        ("sqlite:///windlass.db", "sqlite:///windlass.db"),
        ("sqlite:///home/a:b@c/windlass.db", "sqlite:///home/a:b@c/windlass.db"),
        ("redis://ann@host", "redis://ann@host"),
        ("memory://", "memory://"),
        ("nonsense", "nonsense"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_its_secret(url: str, shown: str) -> None:
    assert redact_url(url) == shown


@given(
    st.text(alphabet=st.characters(codec="ascii", categories=["L", "N", "P", "S"]), max_size=20),
    st.sampled_from(["redis", "postgresql", "mongodb+srv"]),
)
def test_no_pasted_password_survives(tail: str, scheme: str) -> None:
    secret = "hunter2" + tail
    shown = redact_url(f"{scheme}://ann:{secret}@db.example/0")
    assert "hunter2" not in shown
    assert shown.endswith("@db.example/0")


def test_urls_inside_a_drivers_message_are_redacted_too() -> None:
    said = redact_text("Error 111 connecting to redis://ann:s3cret@host:6379/0, then 'rediss://:x@y' failed.")
    assert said == "Error 111 connecting to redis://ann:***@host:6379/0, then 'rediss://:***@y' failed."


def test_a_hostile_url_takes_no_time() -> None:
    assert redact_url("redis://" + "a," * 50_000 + ":x@").startswith("redis://a,")


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
PLAIN_NAMES = st.text("abxyz_-", max_size=6)
JSON: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PLAIN_NAMES, inner, max_size=4), max_leaves=20
)


@st.composite
def with_a_secret(draw: st.DrawFn) -> Any:
    """Any value with `hunter2` somewhere in it, under a secret-looking name or as the password of a URL."""
    word = draw(st.sampled_from(SECRET_NAMES))
    name = draw(PLAIN_NAMES) + draw(st.sampled_from([word, word.upper(), word.title().replace("_", "-")]))
    secret: Any = draw(
        st.sampled_from(
            [
                {name: "hunter2"},
                {name: {"deep": ["hunter2"]}},
                {name: ["a", "hunter2"]},
                [name, "hunter2"],
                [[name, "Bearer hunter2"]],
                "see redis://ann:hunter2@db.example/0",
                {"redis://ann:hunter2@db.example/0": 1},
            ]
        )
    )
    for wrap in draw(st.lists(st.sampled_from(["list", "dict"]), max_size=5)):
        beside = draw(JSON)
        secret = [beside, secret, beside] if wrap == "list" else {"a": secret, "b": beside}
    return secret


@given(with_a_secret())
def test_no_secret_survives_at_any_depth(value: Any) -> None:
    shown = redact(value)
    assert "hunter2" not in repr(shown)
    assert MASK in repr(shown)


@given(with_a_secret())
def test_what_was_left_as_it_was_shown_is_whole_again(value: Any) -> None:
    assert unmask(redact(value), value) == value


@given(JSON)
def test_a_value_without_secrets_is_shown_as_it_is(value: Any) -> None:
    assert redact(value) == value


@given(JSON, with_a_secret())
def test_an_edit_wins_over_what_was_there(edited: Any, original: Any) -> None:
    found = unmask(edited, original)
    assert found == edited
    assert repr(found) == repr(edited), "1, 1.0 and True are equal, and not the same"


def test_an_edit_beside_a_mask_leaves_the_secret_behind_it() -> None:
    original = {"login": {"user": "ann", "password": "hunter2"}, "url": "redis://ann:hunter2@db.example/0", "n": 1}
    shown = redact(original)
    shown["login"]["user"], shown["n"] = "bob", True
    made = unmask(shown, original)
    assert made == {"login": {"user": "bob", "password": "hunter2"}, "url": original["url"], "n": 1}
    assert made["n"] is True
    assert masked_at(made) is None


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"args": [1, {"auth_token": MASK}]}, "args[1].auth_token"),
        ({"args": [], "kwargs": {"url": "redis://ann:***@other.example/0"}}, "kwargs.url"),
        ({"kwargs": {"text": "*** for you ***"}}, None),
        (MASK, ""),
        (7, None),
    ],
)
def test_a_mask_that_would_be_stored_is_found(value: Any, where: str | None) -> None:
    assert masked_at(value) == where


@pytest.mark.parametrize("name", ["password", "dbPassword", "X-Api-Key", "apiKey", "AUTHORIZATION", "access_token"])
def test_a_secret_is_known_by_a_word_in_its_name(name: str) -> None:
    assert redact({name: 7, "user": "ann"}) == {name: MASK, "user": "ann"}


def test_which_names_are_secret_can_be_said() -> None:
    assert redact({"pin": 1234, "token": "t"}, ["PIN"]) == {"pin": MASK, "token": "t"}
    assert redact({"token": "t"}, []) == {"token": "t"}


# ── text on a screen ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("zwölf 😀", "zwölf 😀"),
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\x9b31mred", r"\x9b31mred"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("gpj.\u202eexe", r"gpj.\u202eexe"),
        ("\ud800", r"\ud800"),
        ("one\u2028two", r"one\u2028two"),
    ],
)
def test_a_control_character_is_spelled_out(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_lines_of_a_traceback_stay_lines() -> None:
    assert plain("one\n\ttwo\r\x1b[A", lines=True) == "one\n\ttwo\\r\\x1b[A"


@given(st.text(st.characters(exclude_categories=[])), st.booleans())
def test_nothing_that_acts_on_a_screen_is_left(text: str, lines: bool) -> None:
    shown = plain(text, lines=lines)
    left = {unicodedata.category(character) for character in shown if not (lines and character in "\n\t")}
    assert not left & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert plain(shown, lines=lines) == shown
