"""The result of a race: every figure of every round, who ran at which version, and what failed; kept as JSON."""

from __future__ import annotations

import statistics
from pathlib import Path

import msgspec

from bench.race.entries import Entry, Product
from bench.report import Line


class Finish(msgspec.Struct, kw_only=True):
    """What one entry did: its figures round by round. `error`: why some are missing; it was not asked again."""

    product: Product
    entry: Entry
    version: str
    backlog: tuple[int, ...]
    figures: dict[str, list[float]] = {}
    error: str | None = None

    @property
    def ran(self) -> bool:
        """Whether it got so far as to be asked for anything: it could be installed."""
        return not (self.error or "").startswith("install: ")

    @property
    def forgiven(self) -> bool:
        """Whether it is known to fail in just this way."""
        return bool(self.product.fails) and self.product.fails in (self.error or "")

    def add(self, figures: dict[str, float]) -> None:
        """Takes the figures of a round."""
        for name, value in figures.items():
            self.figures.setdefault(name, []).append(round(value, 4))

    def median(self, figure: str) -> float | None:
        """The value that counts, if there is one."""
        values = self.figures.get(figure)
        return statistics.median(values) if values else None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of measurements: of which code, when, on which machine."""

    commit: str
    dirty: bool
    quick: bool
    rounds: int
    at: str
    duration_s: float
    machine: dict[str, str | int]


class Result(Run, frozen=True, kw_only=True):
    """One run of the race."""

    group: str
    finishes: list[Finish]
    bars: list[Line]

    @property
    def failed(self) -> bool:
        """Whether a contestant failed that the entries do not forgive, or a bar was missed."""
        errors = any(finish.error is not None and not finish.forgiven for finish in self.finishes)
        return errors or any(line.passed is False for line in self.bars)


def load(file: Path) -> Result:
    """A result that was written before."""
    return msgspec.json.decode(file.read_bytes(), type=Result)
