"""The codec: what goes in comes out, damage is found, and what cannot be stored is named."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.codec import decode_result, encode_arguments, encode_result, seal, unseal
from windlass.core.errors import CorruptRecord, JobError, NotSerialisable, TooLarge, WrongType
from windlass.core.limits import Limits


@dataclass
class Photo:
    name: str
    handle: object = None


class Album(msgspec.Struct):
    photos: list[Photo]


class Account(pydantic.BaseModel):
    owner: str
    password: pydantic.SecretStr | None = None


# --- the envelope -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kwargs", "golden"),
    [
        ((), {}, b'1:json::28abc961:{"a":[]}'),
        ((1, "é", None), {}, '1:json::a5e31959:{"a":[1,"é",null]}'.encode()),
        ((1,), {"to": "ann"}, b'1:json::72b28351:{"a":[1],"k":{"to":"ann"}}'),
        ((Decimal("1.10"), b"\x00\xff"), {}, b'1:json::bb980e49:{"a":["1.10","AP8="]}'),
        ((datetime(2024, 5, 1, 12, tzinfo=UTC),), {}, b'1:json::c900a8b8:{"a":["2024-05-01T12:00:00Z"]}'),
        ((2**70,), {}, b'1:json::3280f783:{"a":[1180591620717411303424]}'),
    ],
)
def test_the_bytes_on_the_wire_never_change(args: tuple[Any, ...], kwargs: dict[str, Any], golden: bytes) -> None:
    assert encode_arguments(args, kwargs) == golden


def test_an_envelope_with_another_codec_or_key_says_so() -> None:
    assert seal(b"{}", key_id="k1") == b"1:json:k1:644fe11a:{}"
    assert unseal(seal(b"{}", key_id="k1")).key_id == "k1"
    with pytest.raises(JobError, match=r"codec.*cbor"):
        unseal(seal(b"x", codec="cbor"))
    with pytest.raises(JobError, match="key 'k1'"):
        decode_result(seal(b"{}", key_id="k1"))


@given(st.binary(max_size=200))
def test_any_body_comes_back_as_it_was(body: bytes) -> None:
    envelope = unseal(seal(body))
    assert (envelope.version, envelope.codec, envelope.key_id, envelope.body) == (1, "json", "", body)


def test_a_flipped_bit_anywhere_is_found() -> None:
    for sealed in (seal(b'{"a":[1,"x:y"]}'), seal(b"{}", key_id="k1"), seal(b"")):
        for place in range(len(sealed) * 8):
            damaged = bytearray(sealed)
            damaged[place // 8] ^= 1 << place % 8
            with pytest.raises(CorruptRecord):
                unseal(bytes(damaged))
            with pytest.raises(CorruptRecord):
                decode_result(bytes(damaged))


@given(st.binary(max_size=60))
def test_noise_is_a_corrupt_record_and_never_another_error(noise: bytes) -> None:
    for data in (noise, b"1:json::" + noise, b"1:json::00000000:" + noise):
        with pytest.raises(CorruptRecord):
            unseal(data)


def test_every_way_to_cut_an_envelope_short_is_found() -> None:
    sealed = encode_result({"a": [1, 2, 3]})
    for length in range(len(sealed)):
        with pytest.raises(CorruptRecord):
            decode_result(sealed[:length])


def test_a_record_from_the_future_asks_for_an_upgrade_and_is_not_called_corrupt() -> None:
    import zlib

    future = b"2:json::%08x:{}" % zlib.crc32(b"2:json:::{}")
    with pytest.raises(JobError, match="format 2") as caught:
        unseal(future)
    assert not isinstance(caught.value, CorruptRecord)
    assert "Upgrade" in caught.value.todo


def test_a_colon_in_the_header_is_refused() -> None:
    with pytest.raises(NotSerialisable, match="colon"):
        seal(b"", key_id="a:b")


# --- what cannot be stored ----------------------------------------------------------------------------


class Odd:
    pass


class Hidden(pydantic.BaseModel):
    where: Path = Path("/tmp")
    it: Any


class Weird(Exception):
    pass


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((1, Odd()), {}, "`args[1]` is a Odd,"),
        ((), {"user": Odd()}, "`user` is a Odd,"),
        ((1, Photo("x", Odd())), {}, "`args[1].handle` is a Odd,"),
        (
            (),
            {"all": Album([Photo("x"), Photo("y", [{"deep": Odd()}])])},
            "`all.photos[1].handle[0]['deep']` is a Odd,",
        ),
        (({"a": {1, 2}, "b": (1, Odd)},), {}, "`args[0]['b'][1]` is a type,"),
        ((Weird("x"),), {}, "`args[0]` is a Weird,"),
        ((lambda: 1,), {}, "is a function,"),
        ((Path("/tmp"),), {}, "is a PosixPath,"),
        (({(1, 2): 3},), {}, "`args[0]` is a dict with keys of type tuple"),
        (("ok", "\ud800"), {}, "`args[1]` is text with a lone surrogate"),
        ((Hidden(it=Odd()),), {}, "`args[0]` is a Hidden that pydantic cannot write"),
        ((Account(owner="ann", password=pydantic.SecretStr("x")),), {}, "`args[0]` (Account) holds a secret"),
        (([1.0, float("nan")],), {}, "`args[0][1]` is nan"),
        ((), {"x": Photo("x", float("inf"))}, "`x.handle` is inf"),
        ((Album([Photo("x", {"y": float("-inf")})]),), {}, "`args[0].photos[0].handle['y']` is -inf"),
    ],
)
def test_what_has_no_stored_form_is_named_by_path_and_type(
    args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    with pytest.raises(NotSerialisable) as caught:
        encode_arguments(args, kwargs)
    assert said in caught.value.message
    assert caught.value.todo


def test_a_result_that_cannot_be_stored_is_named_too() -> None:
    with pytest.raises(NotSerialisable, match=r"`result\['x'\]` is a Odd"):
        encode_result({"x": Odd()})
    with pytest.raises(NotSerialisable, match="`result` is nan"):
        encode_result(float("nan"))


def test_the_value_itself_is_never_part_of_the_message() -> None:
    with pytest.raises(NotSerialisable) as caught:
        encode_arguments(({"card": Odd()}, "4111-secret"), {})
    assert "4111" not in str(caught.value)


def test_arguments_that_are_too_big_name_the_limit_and_the_setting() -> None:
    room = len(encode_arguments(("x" * 10,), {}))
    limits = Limits(payload_bytes=room)
    encode_arguments(("x" * 10,), {}, limits)
    with pytest.raises(TooLarge, match=f"{room + 1} bytes; {room} bytes") as caught:
        encode_arguments(("x" * 11,), {}, limits)
    assert "WINDLASS_PAYLOAD_BYTES" in caught.value.todo


def test_a_result_that_is_too_big_names_the_limit_and_the_setting() -> None:
    with pytest.raises(TooLarge, match="1 MiB are allowed") as caught:
        encode_result("x" * (1 << 20))
    assert "WINDLASS_RESULT_BYTES" in caught.value.todo


# --- depth and digits ---------------------------------------------------------------------------------


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_sixty_four_levels_pass_both_ways_and_one_more_is_refused_both_ways() -> None:
    assert decode_result(encode_result(nested(64))) == nested(64)
    encode_arguments((nested(64),), {"x": nested(64)})
    for refused in (lambda: encode_result(nested(65)), lambda: encode_arguments((nested(65),), {})):
        with pytest.raises(TooLarge, match="64 levels") as caught:
            refused()
        assert "`json_depth`" in caught.value.todo
    with pytest.raises(TooLarge, match="64 levels"):
        decode_result(seal(b"[" * 65 + b"]" * 65))


def test_brackets_in_text_are_no_levels() -> None:
    text = '[{"\\' * 100
    assert decode_result(encode_result([text, {text: text}])) == [text, {text: text}]


def test_a_million_levels_neither_crash_nor_pass() -> None:
    value: list[Any] = []
    for _ in range(1_000_000):
        value = [value]
    with pytest.raises(TooLarge, match="levels"):
        encode_arguments((value,), {})
    while value:  # taken apart by hand, or its end would be a recursion of its own
        value = value[0]
    with pytest.raises(TooLarge, match="levels"):
        decode_result(seal(b"[" * 1_000_000 + b"]" * 1_000_000))
    with pytest.raises((TooLarge, CorruptRecord, WrongType)):
        decode_result(seal(b"[" * 1_000_000))


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(TooLarge, match="holds itself"):
        encode_arguments((loop,), {})


def test_big_numbers_pass_up_to_the_limit_of_digits_and_not_beyond() -> None:
    largest = 10**4300 - 1
    assert decode_result(encode_result([largest]), list[int]) == [largest]
    with pytest.raises(TooLarge, match=r"`args\[0\]\['n'\]` has a number of more than 4300 digits"):
        encode_arguments(({"n": 10**4300},), {})
    for digits in (4301, 300_000):
        with pytest.raises(TooLarge, match="4300 digits"):
            decode_result(seal(b"[" + b"7" * digits + b"]"))
        with pytest.raises(TooLarge, match="4300 digits"):
            decode_result(seal(b"0." + b"7" * digits), Decimal)


def test_a_lower_limit_of_digits_holds_both_ways() -> None:
    limits = Limits(number_digits=40)
    with pytest.raises(TooLarge, match="40 digits"):
        encode_result(10**40, limits)
    with pytest.raises(TooLarge, match="40 digits"):
        decode_result(encode_result(10**40), limits=limits)


def test_digits_in_text_are_no_number() -> None:
    assert decode_result(encode_result("7" * 10_000)) == "7" * 10_000


def test_a_number_with_a_huge_exponent_is_refused_at_once() -> None:
    with pytest.raises(WrongType, match="out of range"):
        decode_result(seal(b"1e999999999"), int)


# --- results ------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_a_result_comes_back_as_it_was(value: Any) -> None:
    assert decode_result(encode_result(value)) == value


def test_a_result_comes_back_as_the_annotated_type() -> None:
    assert decode_result(encode_result(Album([Photo("x")])), Album) == Album([Photo("x")])
    assert decode_result(encode_result({1, 2}), set[int]) == {1, 2}
    assert decode_result(encode_result(Account(owner="ann")), Account | None) == Account(owner="ann")
    stars = Account(owner="*" * 10)  # text that only looks like what pydantic makes of a secret
    assert decode_result(encode_result(stars), Account | None) == stars


def test_a_result_of_another_type_is_refused_naming_path_and_types() -> None:
    with pytest.raises(WrongType, match=r"expected `str`, got `int` at `result\.photos\[0\]\.name`\."):
        decode_result(encode_result({"photos": [{"name": 5}]}), Album)


def test_subclasses_of_plain_types_are_stored_as_what_they_are() -> None:
    class Safe(str):
        __slots__ = ()

    class Id(int):
        pass

    class Share(float):
        pass

    value: OrderedDict[str, object] = OrderedDict(text=Safe("x"), id=Id(5), share=Share(0.5))
    assert decode_result(encode_result(value)) == {"text": "x", "id": 5, "share": 0.5}


def test_without_pydantic_in_use_it_is_never_imported() -> None:
    code = (
        "import sys, dataclasses\n"
        "from windlass.core.codec import decode_result, encode_result\n"
        "from windlass.core.signature import Signature\n"
        "def task(a: int, b: list[str] | None = None): ...\n"
        "Signature.of(task)\n"
        "assert decode_result(encode_result({'a': 1}), dict[str, int]) == {'a': 1}\n"
        "assert 'pydantic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


RACE = """
import sys, threading
import msgspec
from windlass.core.codec import reader

sys.setswitchinterval(1e-6)
for number in range(50):
    inner = msgspec.defstruct(f"Inner{number}", [(f"f{n}", "int | None", None) for n in range(20)], module=__name__)
    globals()[f"Inner{number}"] = inner
    outer = msgspec.defstruct(f"Outer{number}", [(f"g{n}", f"Inner{number}") for n in range(20)], module=__name__)
    data = msgspec.json.encode({f"g{n}": {} for n in range(20)})
    start = threading.Barrier(4)

    def read():
        start.wait()
        reader(outer, "it")(data)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_that_read_a_new_class_at_once_do_not_crash_the_process() -> None:
    """Found by a soak: msgspec 0.22 reads a null pointer if a second thread asks for a class it is just learning."""
    done = subprocess.run([sys.executable, "-c", RACE], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
