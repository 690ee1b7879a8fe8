"""Ids are 16 bytes that the client makes: time-ordered (UUIDv7) for jobs and workers, derived for follow-ups.

The client makes the id so that an insert whose answer was lost can be sent again without making a second
job. Follow-ups derive theirs from (parent, index), so a chore done twice changes nothing.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time

from windlass.core.errors import BadValue
from windlass.core.system import at_fork

JobId = bytes
WorkerId = bytes

_lock = threading.Lock()
_last = 0


def new_id() -> bytes:
    """A UUIDv7 that is greater than every id this process made before."""
    global _last  # noqa: PLW0603 - the order of ids is a property of the process, not of an object
    stamp = (time.time_ns() // 1_000_000) << 12
    with _lock:
        # Twelve bits below the millisecond count up, so ids made in one millisecond keep their order;
        # past 4,096 they borrow from the next millisecond.
        _last = stamp = max(stamp, _last + 1)
    tail = int.from_bytes(os.urandom(8), "big") & ((1 << 62) - 1)
    value = (stamp >> 12) << 80 | 7 << 76 | (stamp & 0xFFF) << 64 | 2 << 62 | tail
    return value.to_bytes(16, "big")


def _after_fork() -> None:
    """In a forked child: a thread that did not come along may have held the lock."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()


at_fork(after_in_child=_after_fork)


def child_id(parent: bytes, index: int) -> bytes:
    """The id of the parent's follow-up number `index`: the same every time it is asked for (UUIDv8)."""
    digest = hashlib.blake2b(parent + index.to_bytes(8, "big"), digest_size=10).digest()
    # The parent's time stays in front, so that follow-ups lie beside it in an index by id.
    raw = bytearray(parent[:6] + digest)
    raw[6] = 0x80 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    return bytes(raw)


def show_id(value: bytes) -> str:
    """The id as people and URLs write it: 8-4-4-4-12 hexadecimal digits."""
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def read_id(text: str) -> bytes:
    """The id that a person wrote, with or without hyphens."""
    digits = text.strip().replace("-", "")
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        raw = b""
    if len(raw) != 16:
        shown = text if len(text) < 64 else text[:60] + "…"
        raise BadValue(
            f"{shown!r} is not a job id.", "An id has 32 hexadecimal digits, with hyphens or without; copy it whole."
        )
    return raw
