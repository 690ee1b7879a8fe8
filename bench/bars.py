"""A bar: a value that a measurement must reach, and the sentence that says what is measured."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

import msgspec

FILE = Path(__file__).parent / "bars.toml"


class Bar(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of bars.toml."""

    name: str
    issue: int
    kind: Literal["at_least", "at_most"]
    value: float
    unit: str
    sentence: str

    def passes(self, measured: float) -> bool:
        """Whether the measured median reaches the bar."""
        return measured >= self.value if self.kind == "at_least" else measured <= self.value

    def shown(self) -> str:
        """The bar as the table shows it."""
        return f"{'≥' if self.kind == 'at_least' else '≤'} {self.value:g} {self.unit}"


class _Bars(msgspec.Struct, forbid_unknown_fields=True):
    bar: list[Bar]


def load(file: Path = FILE) -> list[Bar]:
    """The bars in the order of the file; an unknown field or kind is an error."""
    return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), _Bars).bar
