"""What each process did, as JSON lines in a file of its own that survives kill -9 and lies outside the faulty place.

A call is written down before it is made (`invoke`) and after its answer has come (`ok`, or `fail` when it was
refused). An `invoke` without an answer may or may not have happened. One line is one write to an O_APPEND file, so a
line is there or not; only a last line can be torn, and is then read as if it had not been written.

The effects of all jobs go to one *ledger*, a file that all processes append to: the order of its lines is the order
in which effects reached the outside world.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path

import msgspec

Entry = tuple[str, int, str]
"""A job in a line: its id in hex, a fence, and a word (a verdict, an outcome, a duplicate's id)."""


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of one process. `call` ties an answer to its invocation; `at` is CLOCK_MONOTONIC in ns."""

    at: int
    what: str
    op: str
    call: int = 0
    worker: str = ""
    jobs: tuple[Entry, ...] = ()
    note: str = ""
    process: str = ""
    """The name of the file it was read from."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


class Recorder:
    """The file of one process; threads may share it."""

    def __init__(self, path: Path, worker: str = "") -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._calls = count(1)
        self.worker = worker

    def _write(self, what: str, op: str, call: int, jobs: Iterable[Entry], note: str) -> None:
        line = Line(time.monotonic_ns(), what, op, call, self.worker, tuple(jobs), note)
        os.write(self._descriptor, _encode(line) + b"\n")

    def invoke(self, op: str, jobs: Iterable[Entry] = (), note: str = "") -> int:
        """About to make this call."""
        call = next(self._calls)
        self._write("invoke", op, call, jobs, note)
        return call

    def ok(self, op: str, call: int, jobs: Iterable[Entry] = (), note: str = "") -> None:
        """The call was acknowledged, with these answers."""
        self._write("ok", op, call, jobs, note)

    def fail(self, op: str, call: int, note: str) -> None:
        """The call was refused or broke; whether it happened is open unless the error says so."""
        self._write("fail", op, call, (), note)

    def say(self, op: str, note: str = "") -> None:
        """A word to whoever watches this file."""
        self._write("info", op, 0, (), note)

    def close(self) -> None:
        os.close(self._descriptor)


def read_lines(path: Path) -> list[Line]:
    """All whole lines of one process."""
    *whole, _torn = path.read_bytes().split(b"\n")
    return [msgspec.structs.replace(_decode(raw), process=path.stem) for raw in whole]


def read_folder(folder: Path) -> list[Line]:
    """The lines of all processes in the order of their time."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in read_lines(path)]
    lines.sort(key=lambda line: line.at)
    return lines


class Watch:
    """Reads the new lines of a file that is still being written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def size(self) -> int:
        """How much has been written."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def new(self) -> Iterator[Line]:
        """The whole lines since the last look."""
        if self.size() <= self._at:
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            found = file.read()
        whole = found[: found.rfind(b"\n") + 1]
        self._at += len(whole)
        for raw in whole.splitlines():
            yield _decode(raw)

    def has(self, op: str) -> bool:
        """Whether a new line speaks of `op`."""
        return any(line.op == op for line in self.new())


class Ledger:
    """Where effects go, one line each, by all processes at once."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def put(self, effects: Sequence[tuple[bytes, int]]) -> None:
        """The effects of these runs happen now, each guarded by its fence."""
        for job_id, fence in effects:
            os.write(self._descriptor, f"{job_id.hex()} {fence}\n".encode())

    def close(self) -> None:
        os.close(self._descriptor)


def read_ledger(path: Path) -> list[tuple[str, int]]:
    """The effects (job, fence) in the order they arrived."""
    if not path.exists():
        return []
    *whole, _torn = path.read_text().split("\n")
    return [(job, int(fence)) for job, fence in (line.split() for line in whole)]
