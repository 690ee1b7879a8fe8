"""Orders to workers, as they are stored."""

from __future__ import annotations

import pytest

from windlass.core.commands import Command, Do, command_key, decode_command, encode_command


@pytest.mark.parametrize("do", ["drain", "stop", "restart", "report"])
def test_an_order_is_read_as_it_was_written(do: Do) -> None:
    command = Command(do=do, token="00ff")
    assert decode_command(encode_command(command)) == command


@pytest.mark.parametrize("value", [b"drain", b"", b'{"do":"dance","token":"1"}', b'{"do":"drain"}', b"\xff", b"[]"])
def test_what_another_version_wrote_is_no_order(value: bytes) -> None:
    assert decode_command(value) is None


def test_what_a_later_version_adds_is_passed_over() -> None:
    found = decode_command(b'{"do":"stop","token":"1","grace_s":5}')
    assert found == Command(do="stop", token="1")


def test_the_fact_is_the_one_that_the_store_hands_out() -> None:
    assert command_key(bytes(15) + b"\xff") == f"worker/{'00' * 15}ff"
