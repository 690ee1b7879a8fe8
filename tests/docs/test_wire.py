"""What is stored today is what was stored before: golden bytes, in both directions, and on the page that shows them.

A golden file is never written anew. If a test fails here, stores in the field could not be read any more: make a new
version of the format, and let the reader know both.
"""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from windlass.core.codec import Envelope, decode_result, encode_arguments, encode_result, seal, unseal
from windlass.core.commands import Command, decode_command, encode_command
from windlass.core.errors import CorruptRecord
from windlass.core.gates import Gate, read_gate
from windlass.core.ids import child_id, new_id, read_id, show_id
from windlass.core.job import Attempt, Edge, Failure, Outcome, Request, Unique
from windlass.core.rates import Rate
from windlass.core.signature import Signature
from windlass.engines.protocol import Card
from windlass.engines.redis.requests import pack_request, read_request
from windlass.engines.sqlite.rows import Extra, decode_extra, encode_extra, encode_failure

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
PAGE = (ROOT / "docs" / "reference" / "wire.md").read_text(encoding="utf-8")

JOB = read_id("0198c2d4-e5f6-7abc-8123-456789abcdef")
WORKER = read_id("0198c2d0-0000-7001-a000-0000000000ff")


class Colour(Enum):
    RED = "red"


def send(number: int, text: str, nothing: None, *, at: datetime, price: Decimal, of: UUID, raw: bytes, colour: Colour):
    """The function whose arguments the golden file holds."""


ARGS = (1, "zwölf", None)
KWARGS: dict[str, Any] = {
    "at": datetime(2027, 1, 15, 8, 0, tzinfo=UTC),
    "price": Decimal("12.50"),
    "of": UUID(bytes=JOB),
    "raw": b"\x00\xff",
    "colour": Colour.RED,
}
RESULT = {"sum": 3, "parts": [1.5, True]}
REQUEST = Request(
    id=JOB,
    task="send",
    delay_us=1_500_000,
    at_us=1_800_000_000_000_000,
    expires_us=1_800_000_600_000_000,
    unique=Unique("invoice-7", "time", 60_000_000),
    needs=(("gpu", 1), ("memory", 512)),
    parents=(Edge(WORKER, "ended"),),
    retry_of=JOB,
    tags=("nightly",),
)
REDIS_SHORT = Request(id=JOB, task="send", payload=b'1:json::28abc961:{"a":[]}')
REDIS_REQUEST = msgspec.structs.replace(
    REQUEST,
    queue="mail",
    payload=REDIS_SHORT.payload,
    priority=5,
    lane="customer-7",
    lane_limit=2,
    gate="smtp",
    options=b"{}",
)
EXTRA = Extra(
    delay_us=REQUEST.delay_us,
    at_us=REQUEST.at_us,
    expires_us=REQUEST.expires_us,
    unique=REQUEST.unique,
    needs=REQUEST.needs,
    parents=REQUEST.parents,
    retry_of=REQUEST.retry_of,
    tags=REQUEST.tags,
)
FAILURE = Failure(
    type="builtins.ValueError",
    message="no such customer",
    traceback="Traceback (most recent call last):\n  ...",
    fingerprint="5f2a",
)
ATTEMPT = Attempt(
    attempt=2,
    fence=1_800_000_000_000_001,
    outcome=Outcome.FAILED,
    worker=WORKER,
    started_us=1_800_000_000_000_100,
    ended_us=1_800_000_000_500_000,
    failure=FAILURE,
)
CARD = Card(
    worker=WORKER,
    name="mail-1",
    host="web3",
    pid=4711,
    queues=("default", "mail"),
    tasks=("send",),
    slots=4,
    lease_us=15_000_000,
    info=b"{}",
)
GATE = Gate(paused=True, shut_until_us=1_800_000_000_000_000, probes=1, limit=8, rate=Rate(5, 1_000_000, 2))


def golden(name: str) -> bytes:
    """The bytes as a store holds them; a .json file ends with a line break that is not stored, .hex is their digits."""
    data = (GOLDEN / name).read_bytes()
    if name.endswith(".hex"):
        return bytes.fromhex(data.decode())
    return data.removesuffix(b"\n") if name.endswith(".json") else data


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_the_page_shows_the_golden_bytes(name: str) -> None:
    shown = golden(name).hex() if name.endswith(".hex") else golden(name).decode()
    assert shown in PAGE


def test_an_envelope_is_sealed_to_the_golden_bytes() -> None:
    assert seal(b'{"a":[]}') == golden("envelope.bin")
    assert seal(b'{"a":[]}', key_id="k1") == golden("envelope_key.bin")


def test_the_golden_envelopes_are_taken_apart() -> None:
    assert unseal(golden("envelope.bin")) == Envelope(1, "json", "", b'{"a":[]}')
    assert unseal(golden("envelope_key.bin")) == Envelope(1, "json", "k1", b'{"a":[]}')


def test_the_checksum_is_over_the_header_without_it_and_the_body() -> None:
    version, codec, key_id, checksum, body = golden("envelope_key.bin").split(b":", 4)
    assert checksum == b"%08x" % zlib.crc32(b"%b:%b:%b::%b" % (version, codec, key_id, body))


@pytest.mark.parametrize("name", ["envelope.bin", "envelope_key.bin", "arguments.bin", "result.bin"])
def test_every_flipped_bit_of_a_golden_envelope_is_found(name: str) -> None:
    whole = golden(name)
    for place in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        with pytest.raises(CorruptRecord):
            unseal(bytes(flipped))


def test_arguments_are_encoded_to_the_golden_bytes() -> None:
    assert encode_arguments(ARGS, KWARGS) == golden("arguments.bin")


def test_the_golden_arguments_come_back_typed() -> None:
    assert Signature.of(send).decode(golden("arguments.bin")) == (ARGS, KWARGS)


def test_a_result_is_encoded_to_the_golden_bytes_and_comes_back() -> None:
    assert encode_result(RESULT) == golden("result.bin")
    assert decode_result(golden("result.bin")) == RESULT


def test_the_rare_fields_of_a_request_are_encoded_to_the_golden_bytes_and_come_back() -> None:
    assert encode_extra(REQUEST) == golden("extra.json")
    assert decode_extra(golden("extra.json")) == EXTRA


def test_a_request_of_the_redis_engine_is_encoded_to_the_golden_bytes_and_comes_back() -> None:
    for name, request in (("redis_request_short.hex", REDIS_SHORT), ("redis_request.hex", REDIS_REQUEST)):
        assert pack_request(request) == golden(name)
        assert read_request(JOB, golden(name)) == request


def test_fields_at_their_default_are_left_out() -> None:
    assert encode_extra(Request(id=JOB, task="send", tags=("nightly",))) == golden("extra_short.json")
    assert decode_extra(golden("extra_short.json")) == Extra(tags=("nightly",))
    assert encode_extra(Request(id=JOB, task="send")) is None
    assert decode_extra(None) == Extra()
    assert msgspec.json.encode(Gate(paused=True)) == golden("gate_short.json")
    assert read_gate(golden("gate_short.json")) == Gate(paused=True)


def test_a_failure_is_encoded_to_the_golden_bytes_and_comes_back() -> None:
    assert encode_failure(FAILURE) == golden("failure.json")
    assert msgspec.json.decode(golden("failure.json"), type=Failure) == FAILURE


def test_an_attempt_is_encoded_to_the_golden_bytes_and_comes_back() -> None:
    assert msgspec.json.encode(ATTEMPT) == golden("attempt.json")
    assert msgspec.json.decode(golden("attempt.json"), type=Attempt) == ATTEMPT


def test_a_card_is_encoded_to_the_golden_bytes_and_comes_back() -> None:
    assert msgspec.json.encode(CARD) == golden("card.json")
    assert msgspec.json.decode(golden("card.json"), type=Card) == CARD


def test_an_order_is_encoded_to_the_golden_bytes_and_comes_back() -> None:
    command = Command(do="drain", token="0198c2d4e5f67abc8123456789abcdef")
    assert encode_command(command) == golden("command.json")
    assert decode_command(golden("command.json")) == command


def test_a_gate_is_encoded_to_the_golden_bytes_and_comes_back() -> None:
    assert msgspec.json.encode(GATE) == golden("gate.json")
    assert read_gate(golden("gate.json")) == GATE


def test_derived_ids_are_the_golden_ones() -> None:
    known = msgspec.json.decode(golden("derived_ids.json"))
    assert known["parent"] == show_id(JOB)
    assert known["children"] == {index: show_id(child_id(JOB, int(index))) for index in known["children"]}


def test_ids_say_in_their_bits_what_they_are() -> None:
    made, derived = UUID(bytes=new_id()), UUID(bytes=child_id(JOB, 0))
    assert (made.version, derived.version) == (7, 8)
    assert made.variant == derived.variant == UUID(bytes=JOB).variant
    assert derived.bytes[:6] == JOB[:6]
