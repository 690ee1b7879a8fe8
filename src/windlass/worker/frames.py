"""What a supervisor and its runners say to each other: a length, then msgpack, over a socketpair.

A payload passes as bytes: the supervisor never opens it. Ends of attempts and the lines before them go by a ring of
shared memory (ring.py) instead. Whatever a slot has ended is written before its next job starts, so that it survives
the runner.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Generic, Literal, TypeVar

import msgspec

from windlass.core.events import Claimed, Event, Renewed, Settled, Swept
from windlass.core.ids import JobId, WorkerId
from windlass.core.settings import Settings
from windlass.engines.protocol import Claim, Note, Settlement, Verdict

TOLD: dict[str, type[Event]] = {kind.__name__: kind for kind in (Claimed, Settled, Renewed, Swept)}
"""What a worker publishes outside its runners; one of them is told, for the app's subscribers."""

CHUNK = 1 << 18
"""How many bytes are read at once."""
_LENGTH = struct.Struct("<I")
Why = Literal["timeout", "memory"]
Key = tuple[JobId, int]
"""A claim: its job and its fence."""


class Frame(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """One message."""


# ── from the runner ─────────────────────────────────────────────────────────────────────────────────────


class Hello(Frame, frozen=True):
    """Its app is there, resources are open, `on_start` has run: it can work."""

    settings: Settings
    tasks: dict[str, bool]
    """Their names, and which are coroutine functions."""
    slots: dict[bool, int]
    """How many for coroutine functions (True) and for others (False)."""
    dead_queues: dict[str, str] = {}
    """Where dead jobs go, for tasks that say so."""
    events: tuple[str, ...] = ()
    """Of what its app wants to be told."""
    verdicts: bool = False
    """Whether it wants the store's answers to its settlements."""


class Unfit(Frame, frozen=True):
    """It cannot start, and why: in two sentences, or as a traceback of the user's code."""

    message: str
    todo: str = ""
    traceback: str = ""
    code: str = ""
    """Of the error, where it is one of ours."""


class Ends(Frame, frozen=True):
    """Ends of attempts, and the lines and reports that came before them."""

    ends: tuple[Settlement, ...]
    notes: tuple[Note, ...] = ()


class Back(Frame, frozen=True):
    """Claims that it has not started and will not."""

    claims: tuple[Key, ...]


class Overran(Frame, frozen=True):
    """A task does not heed being stopped."""

    claim: Key


class Rung(Frame, frozen=True):
    """There is something in its ring."""


# ── to the runner ───────────────────────────────────────────────────────────────────────────────────────


class Scripts(msgspec.Struct, frozen=True, array_like=True):
    """What a runner of scripts is to go by."""

    folders: tuple[str, ...]
    settings: Settings
    locks: str
    """Where locks of their claims are; empty: nobody heeds them."""


class Welcome(Frame, frozen=True):
    """What it is to do: the first that it hears."""

    app: str
    kind: str
    slots: int
    places: int
    """How many slots in all, of both kinds."""
    number: int
    others: bool
    """Whether other runners could run what a task of its waits for."""
    worker_name: str
    level: str = "info"
    form: str = "console"
    file: str | None = None
    scripts: Scripts | None = None
    """For one that runs scripts, and no app's tasks."""


class Work(Frame, frozen=True):
    """Claims to run."""

    worker: WorkerId
    epoch: int
    """Which of them were taken back by the page, see there."""
    claims: tuple[Claim, ...]


class CancelJob(Frame, frozen=True):
    """Somebody wants the job to end."""

    job: JobId


class Recall(Frame, frozen=True):
    """Give back whatever has not started."""


class Judge(Frame, frozen=True):
    """The job's process was killed for its sake: say what becomes of it, by its task's policy."""

    claim: Claim
    why: Why
    ran_us: int
    used: int = 0
    """Bytes, where it was killed for its memory."""


class Answers(Frame, frozen=True):
    """What the store said to its settlements."""

    answers: tuple[tuple[JobId, int, Verdict], ...]


class News(Frame, frozen=True):
    """An event of the worker, as msgpack, for the app's subscribers."""

    name: str
    event: bytes


class Stop(Frame, frozen=True):
    """Nothing more comes: end."""


FromRunner = Hello | Unfit | Ends | Back | Overran | Rung
ToRunner = Welcome | Work | CancelJob | Recall | Judge | Answers | News | Stop

_encoder = msgspec.msgpack.Encoder()
encode_alone: Callable[[Frame], bytes] = _encoder.encode
"""The frame without its length, for what carries it whole."""
decode_from_runner: Callable[[memoryview | bytes], FromRunner] = msgspec.msgpack.Decoder(FromRunner).decode
decode_to_runner: Callable[[memoryview], ToRunner] = msgspec.msgpack.Decoder(ToRunner).decode


def encode(frame: Frame) -> bytearray:
    """The frame with its length before it."""
    buffer = bytearray(_LENGTH.size)
    _encoder.encode_into(frame, buffer, _LENGTH.size)
    _LENGTH.pack_into(buffer, 0, len(buffer) - _LENGTH.size)
    return buffer


def gathered(frames: Sequence[FromRunner]) -> list[FromRunner]:
    """Frames with ends that follow one another as one: their lines first, as each job's lines come before its end."""
    out: list[FromRunner] = []
    ends: list[Ends] = []

    def close() -> None:
        if ends:
            notes = tuple(note for frame in ends for note in frame.notes)
            out.append(Ends(tuple(end for frame in ends for end in frame.ends), notes))
            ends.clear()

    for frame in frames:
        if isinstance(frame, Ends):
            ends.append(frame)
        else:
            close()
            out.append(frame)
    close()
    return out


F = TypeVar("F")


class Reader(Generic[F]):
    """Bytes as they come become whole frames."""

    def __init__(self, decode: Callable[[memoryview], F]) -> None:
        self._decode = decode
        self._bytes = bytearray()
        self.is_broken = False
        """Whether there came what is no frame. Those before it count; nothing after it can be read."""

    def feed(self, data: bytes) -> list[F]:
        """The frames that are whole now."""
        self._bytes += data
        frames: list[F] = []
        start, size = 0, _LENGTH.size
        with memoryview(self._bytes) as view:
            while not self.is_broken and len(view) - start >= size:
                (length,) = _LENGTH.unpack_from(view, start)
                end = start + size + length
                if len(view) < end:
                    break
                with view[start + size : end] as frame:
                    try:
                        frames.append(self._decode(frame))
                    except msgspec.DecodeError:
                        self.is_broken = True
                start = end
        del self._bytes[:start]
        return frames
