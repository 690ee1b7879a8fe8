"""A record as it is stored, and what it says to those who ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.core.job import Attempt, Failure, Hold, LogLine, Outcome, Record, State, Stream

STATES: Final = {
    State.HELD: 1,
    State.READY: 2,
    State.SCHEDULED: 3,
    State.RUNNING: 4,
    State.SUCCEEDED: 5,
    State.DEAD: 6,
    State.CANCELLED: 7,
    State.EXPIRED: 8,
}
STATE_OF: Final = {number: state for state, number in STATES.items()}
_HOLDS: Final = (None, Hold.FLOW, Hold.PARENTS, Hold.LANE)


class Row(msgspec.Struct, array_like=True):
    """The fields of a stored record in their order, which is that of the numbers in lua/parts/rows.lua.

    Fences are text: they may be larger than what Lua can count. Ids are hexadecimal; 0 and '' stand for nothing.
    """

    state: int
    queue: str
    task: str
    rank: int = 0
    due_us: int = 0
    created_us: int = 0
    priority: int = 0
    attempt: int = 1
    fence: str = "0"
    settled_fence: str = "0"
    claimed_us: int = 0
    started_us: int = 0
    ended_us: int = 0
    worker: str = ""
    ticket: int = 0
    keep_us: int = -1
    purge_us: int = 0
    result_until_us: int = 0
    extras: int = 0
    hold: int = 0
    expires_us: int = 0
    gate: str = ""
    needs: str = ""
    parked: int = 0
    lane: str = ""
    lane_limit: int = 0
    slot: int = 0
    flow: str = ""
    edges: int = 0
    until: int = 0
    key: str = ""
    key_until_us: int = 0
    crashes: int = 0
    losses: int = 0
    suspect: int = 0
    reason: str = ""
    asked: int = 0
    heir: str = ""
    heir_of: str = ""
    print: str = ""


_row = msgspec.msgpack.Decoder(Row).decode


def read_row(stored: bytes) -> Row | None:
    """The record that was stored; None where it cannot be read."""
    try:
        return _row(stored)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def record_of(row: Row) -> Record:
    """A stored record as everybody else knows it."""
    return Record(
        state=STATE_OF[row.state],
        queue=row.queue,
        fence=int(row.fence),
        settled_fence=int(row.settled_fence),
        attempt=row.attempt,
        crashes=row.crashes,
        losses=row.losses,
        suspect=bool(row.suspect),
        rank=row.rank,
        due_us=row.due_us,
        created_us=row.created_us,
        claimed_us=row.claimed_us or None,
        started_us=row.started_us or None,
        ended_us=row.ended_us or None,
        worker=bytes.fromhex(row.worker) or None,
        hold=_HOLDS[row.hold],
        reason=row.reason or None,
        cancel_asked=bool(row.asked),
        blocks=bool(row.key),
        heir=bytes.fromhex(row.heir) or None,
        heir_of=bytes.fromhex(row.heir_of) or None,
    )


# ── failures, attempts, lines ───────────────────────────────────────────────────────────────────────────────

_failure = msgspec.json.Decoder(Failure).decode
_attempt = msgspec.msgpack.Decoder(tuple[int, str, str, str, int, int, str]).decode
_line = msgspec.msgpack.Decoder(tuple[int, int, int, Stream]).decode


def pack_failure(failure: Failure | None) -> bytes:
    """An error as it is stored; empty where there is none."""
    return b"" if failure is None else msgspec.json.encode(failure)


def read_failure(stored: bytes | str | None) -> Failure | None:
    """The error that was stored."""
    return _failure(stored) if stored else None


def fingerprint(failure: Failure | None) -> str:
    """Under what an error is found, as the name of a shelf can have it."""
    return "" if failure is None else failure.fingerprint


def attempt_fields(attempt: Attempt) -> tuple[int, str, str, str, int, int, str]:
    """An attempt as `remember` in lua/modules/extras.lua writes it."""
    return (
        attempt.attempt,
        str(attempt.fence),
        attempt.outcome.value,
        "" if attempt.worker is None else attempt.worker.hex(),
        attempt.started_us or 0,
        attempt.ended_us,
        pack_failure(attempt.failure).decode(),
    )


def read_attempt(stored: bytes) -> Attempt:
    """The attempt that was stored."""
    number, fence, outcome, worker, started_us, ended_us, failure = _attempt(stored)
    return Attempt(
        attempt=number,
        fence=int(fence),
        outcome=Outcome(outcome),
        worker=bytes.fromhex(worker) or None,
        started_us=started_us or None,
        ended_us=ended_us,
        failure=read_failure(failure),
    )


def read_lines(stored: Sequence[bytes], after: int) -> tuple[LogLine, ...]:
    """Lines as note.lua writes them: the length of a head in one byte, the head, the text."""
    lines: list[LogLine] = []
    for entry in stored:
        size = entry[0] + 1
        number, attempt, at_us, stream = _line(memoryview(entry)[1:size])
        if number > after:
            lines.append(LogLine(number=number, attempt=attempt, at_us=at_us, text=entry[size:], stream=stream))
    return tuple(lines)
