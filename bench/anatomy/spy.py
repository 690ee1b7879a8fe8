"""py-spy on one process: started, waited for, ended, read."""

from __future__ import annotations

import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.anatomy.steps import Frame, Stack
from bench.race.tree import last_line
from bench.race.venvs import OURS
from tests.soak.waiting import wait_for

PROGRAM = OURS.programs / "py-spy"
RATE = 199
"""Samples a second: no divisor of what beats by tens or hundreds, and few enough to leave the cores to the worker."""
READY = "Sampling process"
"""What py-spy says when it begins."""
FRAME = re.compile(r"(?P<function>.+) \((?P<file>[^()]+)\)")


class Spy:
    """Samples a process from the beginning of the `with` to its end; `samples` has then what it saw."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._pid = pid
        self._raw, self._log = folder / f"spy-{pid}.txt", folder / f"spy-{pid}.log"
        self.samples: Counter[Stack] = Counter()

    def __enter__(self) -> Self:
        """Returns when it samples: until then it reads the symbols of the interpreter."""
        command = [
            str(PROGRAM), "record", "--pid", str(self._pid), "--rate", str(RATE), "--gil", "--nolineno",
            "--format", "raw", "--output", str(self._raw),
        ]  # fmt: skip
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            wait_for("py-spy", self._has_begun)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        return self

    def _has_begun(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"py-spy ended with {self._process.returncode}: {last_line(self._log)}")
        return READY in self._log.read_text(errors="replace")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait()
        if kind is not None:
            return
        if code or not self._raw.exists():
            raise RuntimeError(f"py-spy ended with {code}: {last_line(self._log)}")
        self.samples = read(self._raw.read_text().splitlines())


def read(lines: Iterable[str]) -> Counter[Stack]:
    """py-spy's raw format: frames `function (file)` with semicolons between them, a space, how often it was seen."""
    samples: Counter[Stack] = Counter()
    for line in lines:
        frames, _, count = line.rpartition(" ")
        samples[tuple(map(_frame, frames.split(";"))) if frames else ()] += int(count)
    return samples


def _frame(text: str) -> Frame:
    found = FRAME.fullmatch(text)
    if found is None:
        raise ValueError(f"py-spy wrote a frame that is none: {text}")
    return Frame(found["file"], found["function"])
