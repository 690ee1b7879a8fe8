"""A secret reaches the task it was sent to, and nobody else gets to see it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import msgspec
import pytest

from windlass import Secret
from windlass.core.codec import decode_result, encode_arguments, encode_result
from windlass.core.errors import NotSerialisable, WrongType
from windlass.core.redact import MASK, masked_at, redact, unmask
from windlass.core.secret import MARK
from windlass.core.signature import ANYTHING, Signature

CANARY = "hunter2-canary"


class Login(msgspec.Struct):
    user: str
    password: Secret[str]


class Colour(Enum):
    RED = "red"


def log_in(
    user: str, password: Secret[str], *, backup: Secret[str] | None = None, at: Secret[datetime] | None = None
) -> None: ...
def many(logins: list[Login], keys: dict[str, Secret[bytes]]) -> Secret[str]: ...
def coloured(colour: Secret[Colour]) -> None: ...
def untyped(one: Secret) -> None: ...  # type: ignore[type-arg]


def sent(function: Any, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return Signature.of(function).decode(encode_arguments(args, kwargs))


def test_it_arrives_as_it_was_sent() -> None:
    at = datetime(2027, 1, 15, tzinfo=UTC)
    args, kwargs = sent(log_in, "ann", Secret(CANARY), backup=Secret("b"), at=Secret(at))
    assert args == ("ann", Secret(CANARY))
    assert args[1].reveal() == CANARY
    assert kwargs == {"backup": Secret("b"), "at": Secret(at)}
    assert sent(log_in, "ann", Secret("x"), backup=None)[1] == {"backup": None}


def test_it_arrives_inside_of_other_values() -> None:
    (logins, keys), _ = sent(many, [Login("ann", Secret(CANARY))], {"k": Secret(b"\x00\xff")})
    assert logins == [Login("ann", Secret(CANARY))]
    assert keys["k"].reveal() == b"\x00\xff"
    assert sent(untyped, Secret({"a": 1})) == ((Secret({"a": 1}),), {})


def test_a_result_may_be_one() -> None:
    stored = encode_result(Secret(CANARY))
    assert decode_result(stored, Secret[str]) == Secret(CANARY)


def test_no_form_of_it_tells_the_value() -> None:
    secret = Secret(CANARY)
    for shown in (
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret:>20}",
        repr([secret]),
        repr(Login("a", secret)),
    ):
        assert CANARY not in shown
        assert "***" in shown
    assert not hasattr(secret, "__dict__")


def test_secrets_are_equal_as_their_values_are() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert pickle.loads(pickle.dumps(Secret("a"))) == Secret("a")


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (log_in, CANARY),
        (log_in, {"$secret": 17}),
        (log_in, {"$secret": CANARY, "more": 1}),
        (coloured, {"$secret": CANARY}),
    ],
)
def test_what_does_not_fit_is_refused_and_not_quoted(function: Any, value: Any) -> None:
    payload = encode_arguments(("ann", value) if function is log_in else (value,), {})
    with pytest.raises(WrongType, match="Secret") as caught:
        Signature.of(function).decode(payload)
    assert CANARY not in str(caught.value)


def test_a_secret_without_a_stored_form_is_refused_at_the_send() -> None:
    with pytest.raises(NotSerialisable, match=r"`args\[0\]`"):
        encode_arguments((Secret(object()),), {})
    with pytest.raises(NotSerialisable, match="which JSON cannot hold"):
        encode_arguments((Secret(float("nan")),), {})


def test_without_its_code_it_is_masked_whatever_it_is_called() -> None:
    args, kwargs = ANYTHING.decode(encode_arguments((Secret(CANARY), 1), {"plan": [Secret({"deep": CANARY})]}))
    assert redact([*args], ()) == [MASK, 1]
    assert redact(kwargs, ()) == {"plan": [MASK]}


def loose(one, more: dict[str, Any], *rest: list[Any]) -> None: ...  # type: ignore[no-untyped-def]


def test_without_an_annotation_it_is_one_still() -> None:
    args, _ = sent(loose, Secret(CANARY), {"a": Secret(1), "b": [Secret(2)]}, [Secret(3)])
    assert args == (Secret(CANARY), {"a": Secret(1), "b": [Secret(2)]}, [Secret(3)])
    assert CANARY not in repr(args)
    assert decode_result(encode_result({"pw": Secret(CANARY)})) == {"pw": Secret(CANARY)}
    assert decode_result(encode_result({"pw": [Secret(1)]}), dict[str, Any]) == {"pw": [Secret(1)]}


def holds_a_path(one: list[Secret[object | Callable[[], int]]]) -> None: ...


def test_what_a_secret_cannot_hold_is_told_when_the_task_is_made() -> None:
    with pytest.raises(WrongType, match="cannot be read from JSON"):
        Signature.of(holds_a_path)


def picks(colours: dict[str, Colour]) -> None: ...


def test_a_value_that_does_not_fit_is_not_quoted() -> None:
    with pytest.raises(WrongType, match="Invalid enum value") as caught:
        sent(picks, Secret(CANARY))
    assert CANARY not in str(caught.value)


def test_edited_it_stays_one() -> None:
    original = {"who": "ann", "plan": Secret("old")}
    assert unmask({"who": "bob", "plan": MASK}, original, ()) == {"who": "bob", "plan": Secret("old")}
    assert unmask({"who": "bob", "plan": "new"}, original, ()) == {"who": "bob", "plan": Secret("new")}
    assert unmask({"who": "bob", "plan": None}, original, ()) == {"who": "bob", "plan": None}
    assert unmask({"who": "bob", "plan": {MARK: "new"}}, original, ()) == {"who": "bob", "plan": {MARK: "new"}}
    assert masked_at(unmask({"plan": {MARK: MASK}}, original, ())) == "plan.$secret"
