"""The report: a table for people, and the evidence as JSON for the repository."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import apsw
import msgspec

from bench.bars import Bar
from bench.rounds import Round, median

ROOT = Path(__file__).resolve().parent.parent


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A bar and what was measured. `passed` is None where nothing can be judged: a quick run."""

    bar: Bar
    rounds: list[Round]
    measured: float
    passed: bool | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run: of which code, on which machine, with which outcome."""

    commit: str
    dirty: bool
    quick: bool
    at: str
    duration_s: float
    machine: dict[str, str | int]
    bars: list[Line]

    @property
    def failed(self) -> bool:
        return any(line.passed is False for line in self.bars)


def judged(bar: Bar, rounds: list[Round], *, quick: bool) -> Line:
    """The line of a bar; a quick run measures nothing worth judging."""
    measured = median(rounds)
    return Line(bar=bar, rounds=rounds, measured=measured, passed=None if quick else bar.passes(measured))


def report(lines: list[Line], *, quick: bool, duration_s: float) -> Report:
    """The run with its circumstances."""
    return Report(
        commit=commit(),
        dirty=dirty(),
        quick=quick,
        at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        duration_s=round(duration_s, 1),
        machine=machine(),
        bars=lines,
    )


def commit() -> str:
    """Of which code the figures are."""
    return _git("rev-parse", "HEAD") or "none"


def dirty() -> bool:
    """Whether the tree differs from that commit."""
    return bool(_git("status", "--porcelain"))


def machine() -> dict[str, str | int]:
    """What the figures depend on besides the code."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
    }


def table(lines: Sequence[Line]) -> str:
    """measured / bar / pass, a line per bar, with the range of its rounds."""
    rows = [("", "measured", "of rounds", "bar", "pass", "")]
    for line in lines:
        values = [round_.value for round_ in line.rounds]
        passed = {True: "pass", False: "FAIL", None: "-"}[line.passed]
        span = f"{min(values):.2f}-{max(values):.2f} ({len(values)})"
        measured = f"{line.measured:.2f} {line.bar.unit}"
        rows.append((line.bar.name, measured, span, line.bar.shown(), passed, line.bar.sentence))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[5]]).rstrip()
        for row in rows
    )


def write(file: Path, result: msgspec.Struct) -> None:
    """Writes the evidence, readable in a diff."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")


def _git(*arguments: str) -> str:
    """What git says, or nothing where there is no repository or no commit."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
