"""No password survives redaction, in whatever form it was pasted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.redact import redact_text, redact_url


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
