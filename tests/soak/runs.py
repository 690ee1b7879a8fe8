"""When a task ran, where, and what it did: lines in files that all runners append to, and that survive any death.

A run writes `begin` as its first and `end` as its last deed. A line is one write to an O_APPEND file:
it is there or not.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass import current_job


@dataclass(frozen=True, slots=True)
class Mark:
    """One line: `at` is CLOCK_MONOTONIC in ns, which all processes share."""

    word: str
    at: int
    pid: int
    thread: int
    job: str
    fence: int


class Marks:
    """The file of marks, from either side."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def put(self, word: str) -> None:
        """From inside a task."""
        job = current_job()
        where = f"{os.getpid()} {threading.get_native_id()}"
        line = f"{word} {time.monotonic_ns()} {where} {job.job_id.hex()} {job.fence}\n"
        os.write(self._descriptor, line.encode())

    def read(self) -> list[Mark]:
        """All of them, in the order in which they were written."""
        *whole, _torn = self._path.read_text().split("\n")
        return [_mark(line) for line in whole]

    def begun(self, job: str) -> list[Mark]:
        """The runs of one job."""
        return begun([mark for mark in self.read() if mark.job == job])

    def close(self) -> None:
        os.close(self._descriptor)


def begun(marks: Sequence[Mark]) -> list[Mark]:
    """The beginnings among them."""
    return [mark for mark in marks if mark.word == "begin"]


def _mark(line: str) -> Mark:
    word, at, pid, thread, job, fence = line.split()
    return Mark(word, int(at), int(pid), int(thread), job, int(fence))
