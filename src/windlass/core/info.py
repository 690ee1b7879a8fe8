"""What a worker's card says for people, besides what the store goes by: written with each beat, read by who looks."""

from __future__ import annotations

import msgspec


class Active(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job that a slot runs now."""

    id: str
    task: str
    started_us: int
    """By the clock of the worker's host."""


class Setback(msgspec.Struct, frozen=True, kw_only=True):
    """Runners were to be replaced, and are not: a fresh one could not start."""

    at_us: int
    why: str


class Process(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process of a worker: its supervisor, one of its runners, or the program that it is part of."""

    role: str
    """`supervisor`, `runner`, `scripts` (which owns those), `spare` (one that waits to be a runner), or `embedded`:
    supervisor and runner in one.
    """
    pid: int
    number: int = 0
    """Which runner, from 1; it stays when the process is replaced."""
    state: str = ""
    """Of a runner: `starting`, `working`, `retiring`."""
    started_us: int = 0
    rss: int = 0
    """Bytes in memory, its children's too."""
    cpu_s: float = 0.0
    """Seconds of CPU since its start."""
    slots: int = 0
    ended: int = 0
    """How many jobs have ended in it."""
    restarts: int = 0
    """How many processes this one came after in its place."""
    active: tuple[Active, ...] = ()
    setback: Setback | None = None
    """Of a supervisor: the last restart that it gave up."""


class Info(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a card says besides."""

    pool: str = ""
    version: str = ""
    """Of Windlass, in the worker."""
    beat_us: int = 0
    """When it last gave a sign of life, by the clock of its host; 0: it does not say."""
    state: str = ""
    """`draining` or `stopping` where it takes no more jobs."""
    stuck: tuple[str, ...] = ()
    """Jobs that do not heed being stopped."""
    resources: dict[str, int] = {}
    """How much of each resource it has, memory in bytes."""
    free: dict[str, int] = {}
    """How much of it is left."""
    processes: tuple[Process, ...] = ()


encode_info = msgspec.json.Encoder().encode
decode_info = msgspec.json.Decoder(Info).decode
