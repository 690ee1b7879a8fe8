"""Signatures: arguments arrive as annotated, or the error names the one that does not fit."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NewType, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from windlass.core.codec import encode_arguments, seal
from windlass.core.errors import CorruptRecord, TooLarge, WrongType
from windlass.core.signature import Signature

if TYPE_CHECKING:
    from somewhere import Unseen  # pyright: ignore[reportMissingImports, reportUnknownVariableType]


class Color(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


@dataclass
class User:
    name: str
    tags: list[str] = field(default_factory=list[str])


class Point(msgspec.Struct, frozen=True):
    x: int
    y: int


class Movie(TypedDict):
    title: str
    year: int


class Pair(NamedTuple):
    left: int
    right: str


class Item(pydantic.BaseModel):
    sku: str
    count: int = pydantic.Field(default=1, ge=1)


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    at: datetime
    external: str = pydantic.Field(default="x", alias="externalName")


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


class Circle(msgspec.Struct, tag=True):
    r: int


class Square(msgspec.Struct, tag=True):
    a: int


UserId = NewType("UserId", int)


def trip(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return Signature.of(function).decode(encode_arguments(args, kwargs))


_at = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 5),
        (int, 2**70),
        (float, 0.1),
        (str, "é\x00"),
        (bool, True),
        (bytes, b"\x00\xff"),
        (User, User("ann", ["a"])),
        (list[User], [User("ann"), User("bob")]),
        (dict[str, User], {"a": User("ann")}),
        (User | None, None),
        (Point, Point(1, 2)),
        (Circle | Square, Square(3)),
        (Movie, {"title": "M", "year": 1931}),
        (Pair, Pair(1, "x")),
        (Color, Color.RED),
        (Level, Level.LOW),
        (Literal["a", 1], "a"),
        (datetime, _at),
        (date, date(2024, 5, 1)),
        (time, time(12, 30)),
        (timedelta, timedelta(seconds=1.5)),
        (Decimal, Decimal("1.10")),
        (UUID, UUID(int=7)),
        (set[int], {1, 2}),
        (frozenset[str], frozenset({"a"})),
        (tuple[int, str], (1, "x")),
        (tuple[int, ...], (1, 2, 3)),
        (dict[int, str], {1: "x"}),
        (dict[UUID, int], {UUID(int=7): 1}),
        (int | str, "x"),
        (UserId, 5),
        (Annotated[int, msgspec.Meta(ge=0)], 5),
        (Item, Item(sku="a", count=2)),
        (list[Item], [Item(sku="a")]),
        (dict[str, Item], {"x": Item(sku="a")}),
        (Item | None, Item(sku="a")),
        (Cat | Dog, Dog(kind="dog")),
        (Annotated[Cat | Dog, pydantic.Field(discriminator="kind")], Cat(kind="cat", lives=7)),
        (list[Item | int], [Item(sku="a"), 5]),
        (Strict, Strict(at=_at, externalName="y")),
        (Any, {"a": [1, None]}),
        (object, [1]),
    ],
)
def test_a_value_of_the_annotated_type_comes_back_equal_and_of_that_type(annotation: Any, value: Any) -> None:
    def task(it: Any) -> None: ...

    task.__annotations__["it"] = annotation
    for args, kwargs in (trip(task, value), trip(task, it=value)):
        back = args[0] if args else kwargs["it"]
        assert back == value
        assert type(back) is type(value)


def _call(number: int, text: str = "", share: float = 0.0, yes: bool = False, *rest: int, **named: int) -> None:
    """What most calls look like."""


@pytest.mark.parametrize(
    "args",
    [(1,), (-(10**30), "a\x00\U0001f600"), (1, "x", 0.1), (0, "", 1e308, True), (1, '{"\\u0000secret": 1}')],
)
def test_arguments_that_are_sure_to_fit_come_back_as_they_are(args: tuple[Any, ...]) -> None:
    signature = Signature(_call)
    assert signature.is_sure_to_fit(args, {})
    read, named = signature.decode(encode_arguments(args, {}))
    assert [(type(value), value) for value in read] == [(type(value), value) for value in args]
    assert named == {}


@pytest.mark.parametrize(("args", "kwargs"), [((1, "x"), {}), ((1,), {"text": "x"}), ((), {"number": 1}), ((1,), {})])
def test_plain_arguments_may_be_given_by_name_or_left_to_their_defaults(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    def plain(number: int, text: str = "") -> None: ...

    assert Signature(plain).decode(encode_arguments(args, kwargs)) == (args, kwargs)


@pytest.mark.parametrize("args", [("1", "x"), (1, None), (1, "x", 2), (True, "x"), (1.5, "x")])
def test_plain_arguments_of_other_types_are_refused_by_name(args: tuple[Any, ...]) -> None:
    def plain(number: int, text: str) -> None: ...

    with pytest.raises(WrongType, match="plain"):
        Signature(plain).decode(encode_arguments(args, {}))


def test_a_function_without_parameters_is_called_without_any() -> None:
    assert Signature(lambda: None).decode(encode_arguments((), {})) == ((), {})


class Text(str):
    """No plain text."""


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("1",), {}),
        ((True,), {}),
        ((1, Text("x")), {}),
        ((1, "x", 1), {}),
        ((1, None), {}),
        ((1, "x", 0.1, True, 5), {}),
        ((1,), {"text": "x"}),
    ],
)
def test_other_arguments_are_not_sure_to_fit(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    assert not Signature(_call).is_sure_to_fit(args, kwargs)


def test_annotations_that_ask_for_more_than_a_type_are_looked_at() -> None:
    def some(number: Annotated[int, msgspec.Meta(gt=0)], choice: Literal[1]) -> None: ...

    assert not Signature(some).is_sure_to_fit((1,), {})
    assert not Signature(some).is_sure_to_fit((1, 1), {})


def test_unannotated_parameters_get_what_json_gives() -> None:
    def task(a, b=None, *rest, c=1, **more): ...  # pyright: ignore

    assert trip(task, (1, 2), b"x", {3}, c=User("ann"), d=Color.RED) == (  # pyright: ignore[reportUnknownArgumentType]
        ([1, 2], "eA==", [3]),
        {"c": {"name": "ann", "tags": []}, "d": "red"},
    )


def test_rest_parameters_are_typed_too() -> None:
    def task(first: int, *rest: Decimal, only: Color, **more: Point) -> None: ...

    assert trip(task, 1, Decimal("1.5"), Decimal(2), only=Color.RED, p=Point(1, 2)) == (
        (1, Decimal("1.5"), Decimal(2)),
        {"only": Color.RED, "p": Point(1, 2)},
    )


def test_a_parameter_whose_default_is_none_takes_none() -> None:
    def task(name: str = None) -> None: ...  # noqa: RUF013 # pyright: ignore[reportArgumentType]

    assert trip(task, None) == ((None,), {})


def test_defaults_are_left_to_the_function() -> None:
    def task(a: int, b: str = "x") -> None: ...

    assert trip(task, 1) == ((1,), {})
    assert trip(task, b="y", a=1) == ((), {"b": "y", "a": 1})


def sample(a: int, user: User, /, b: str = "x", *, key: bool, opt: int = 0) -> None: ...


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    list[tuple[tuple[Any, ...], dict[str, Any], str]](
        [
            (("1", {}), {"key": True}, "Wrong type at `a` of sample: expected `int`, got `str`"),
            (
                (1, {"name": 5}),
                {"key": True},
                "Wrong type at `user.name` of sample: expected `str`, got `int`",
            ),
            ((1, {"name": "x", "tags": [1]}), {"key": True}, "`user.tags[0]`"),
            ((1, {}), {"key": True}, "`name`"),
            ((1, {"name": "x"}), {"key": "yes"}, "Wrong type at `key` of sample: expected `bool`, got `str`"),
            ((1, {"name": "x"}), {}, "sample needs a value for `key`"),
            ((1,), {"key": True}, "sample needs a value for `user`, by position"),
            ((), {"a": 1, "key": True}, "sample has no parameter `a`"),
            ((1, {"name": "x"}, "b"), {"b": "c", "key": True}, "sample was given `b` twice"),
            (
                (1, {"name": "x"}, "b", 5),
                {"key": True},
                "sample takes at most 3 arguments by position, 4 were given",
            ),
            ((1, {"name": "x"}), {"kee": True}, "sample has no parameter `kee`. Did you mean `key`?"),
        ]
    ),
)
def test_arguments_that_do_not_fit_are_refused_naming_the_parameter(
    args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    with pytest.raises(WrongType) as caught:
        Signature.of(sample).decode(encode_arguments(args, kwargs))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((1,), {}),
        ((1, 2), {}),
        ((1, 2, 3), {}),
        ((1, 2), {"key": 1}),
        ((1, 2, 3), {"key": 1}),
        ((1, 2, 3, 4), {"key": 1}),
        ((1, 2), {"key": 1, "b": 1}),
        ((1, 2, 3), {"key": 1, "b": 1}),
        ((1, 2), {"key": 1, "opt": 1}),
        ((1, 2), {"opt": 1}),
        ((1, 2), {"key": 1, "user": 1}),
        ((1, 2), {"key": 1, "what": 1}),
        ((1,), {"x": 1, "y": 1}),
        ((1,), {"x": 1}),
        ((1, 2), {"a": 1}),
    ],
)
def test_check_agrees_with_python_on_what_can_be_called(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    def plain(x: Any, y: Any = 1) -> None: ...
    def rest(a: Any, *more: Any, key: Any = 1) -> None: ...
    def named(a: Any, /, **more: Any) -> None: ...
    def nothing() -> None: ...
    def two(a: Any, x: Any) -> None: ...

    for function in (sample, plain, rest, named, nothing, two):
        try:
            function(*args, **kwargs)
        except TypeError:
            with pytest.raises(WrongType, match=function.__name__):
                Signature.of(function).check(args, kwargs)
        else:
            Signature.of(function).check(args, kwargs)


def test_a_wrong_rest_argument_is_named_by_its_place() -> None:
    def task(a: int, *rest: int) -> None: ...

    with pytest.raises(WrongType, match=r"`args\[2\]` of .*task: expected `int`, got `str`"):
        trip(task, 1, 2, "x")


def test_a_pydantic_error_names_the_field_and_not_the_value() -> None:
    def task(item: Item, either: Cat | Dog | None = None) -> None: ...

    with pytest.raises(WrongType) as caught:
        trip(task, {"sku": "hunter2", "count": 0})
    assert "`item`" in caught.value.message
    assert "count: Input should be greater than or equal to 1" in caught.value.message
    with pytest.raises(WrongType, match="`either`") as caught:
        trip(task, {"sku": "a"}, {"kind": "cow", "x": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_an_error_of_the_users_own_validator_becomes_a_sentence() -> None:
    class Picky(pydantic.BaseModel):
        x: int

        @pydantic.model_validator(mode="after")
        def never(self) -> Picky:
            raise LookupError("not today")

    def task(it: Any) -> None: ...

    task.__annotations__["it"] = Picky
    with pytest.raises(WrongType, match="LookupError: not today"):
        trip(task, {"x": 1})


def test_an_annotation_that_json_cannot_fill_is_refused_with_its_name() -> None:
    def task(path: Path) -> None: ...

    with pytest.raises(WrongType, match=r"`path`.*`Path` cannot be read from JSON"):
        trip(task, "/tmp")


def test_an_ambiguous_union_is_refused_when_the_signature_is_made() -> None:
    @dataclass
    class Other:
        x: int

    def task(it: Any) -> None: ...

    task.__annotations__["it"] = User | Other
    with pytest.raises(WrongType, match=r"`it` of .*task is annotated") as caught:
        Signature.of(task)
    assert "tag" in caught.value.todo


def test_an_annotation_that_cannot_be_resolved_is_named_with_the_way_out() -> None:
    def task(it: list[Unseen]) -> None: ...  # pyright: ignore[reportUnknownParameterType]

    with pytest.raises(WrongType, match=r"annotation of `it` of .*task.*Unseen") as caught:
        Signature.of(task)  # pyright: ignore[reportUnknownArgumentType]
    assert "TYPE_CHECKING" in caught.value.todo


def test_a_return_annotation_that_cannot_be_resolved_harms_nobody() -> None:
    def task() -> Unseen: ...  # pyright: ignore[reportUnknownParameterType]
    def typed() -> User: ...

    assert Signature.of(task).returns is Any  # pyright: ignore[reportUnknownArgumentType]
    assert Signature.of(typed).returns is User


def test_methods_partials_wrappers_and_callable_objects_have_signatures() -> None:
    class Mailer:
        def send(self, to: User) -> None: ...

        def __call__(self, to: User) -> None: ...

    @functools.wraps(sample)
    def wrapped(*args: Any, **kwargs: Any) -> None: ...

    def two(a: int, to: User) -> None: ...

    ann = User("ann")
    assert trip(Mailer().send, ann) == ((ann,), {})
    assert trip(Mailer(), ann) == ((ann,), {})
    assert trip(functools.partial(two, 1), ann) == ((ann,), {})
    assert trip(wrapped, 1, ann, key=True) == ((1, ann), {"key": True})


def test_a_function_keeps_its_signature_and_is_not_kept_alive_by_it() -> None:
    def task(a: int) -> None: ...

    signature = Signature.of(task)
    assert Signature.of(task) is signature
    gone = weakref.ref(task)
    del task
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"5", b'{"a":5}', b'{"a":[1,}', b'{"a":[1]', b'{"a":["\xff"]}', b'{"k":[]}']
)
def test_a_body_that_is_no_call_is_a_corrupt_record(body: bytes) -> None:
    def task(a: Any = 1) -> None: ...

    with pytest.raises(CorruptRecord):
        Signature.of(task).decode(seal(body))


def test_a_body_of_hostile_depth_or_digits_is_refused_before_it_is_read() -> None:
    def task(a: Any) -> None: ...

    with pytest.raises(TooLarge, match="levels"):
        Signature.of(task).decode(seal(b'{"a":[' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"]}"))
    with pytest.raises((TooLarge, CorruptRecord)):
        Signature.of(task).decode(seal(b'{"a":[' + b"[" * 1_000_000))
    with pytest.raises(TooLarge, match="digits"):
        Signature.of(task).decode(seal(b'{"a":[' + b"9" * 1_000_000 + b"]}"))
    (value,), _ = Signature.of(task).decode(seal(b'{"a":[' + b"[" * 64 + b"]" * 64 + b"]}"))
    assert isinstance(value, list)


def test_unknown_fields_of_the_envelope_body_are_left_for_later_versions() -> None:
    def task(a: int) -> None: ...

    assert Signature.of(task).decode(seal(b'{"a":[1],"later":{"x":1}}')) == ((1,), {})


def test_behind_a_parameter_that_nobody_passes_the_others_are_passed_by_name() -> None:
    def function(a: int, left_out: object, b: int = 2, *rest: int, c: int = 3, **more: int) -> None: ...

    signature = Signature(function, {"left_out"})
    signature.check((1,), {"b": 2, "c": 3, "d": 4})
    with pytest.raises(WrongType, match="takes at most 1 argument by position, 2 were given"):
        signature.check((1, 2), {})
    last = Signature(function, {"c"})
    last.check((1, "left_out", 2, 5, 6), {})


@pytest.mark.parametrize(("name", "place"), [("a", 0), ("b", 2), ("key", None), ("other", None)])
def test_the_place_of_a_parameter_by_position(name: str, place: int | None) -> None:
    assert Signature.of(sample).place_of(name) == place
