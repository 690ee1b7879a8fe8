"""A mutant: a bug as a patch, with a head that says what it is and who must catch it.

bug: one sentence
from: where the bug is known from
caught by: what pytest is given, one or more lines
hang: counts              (only where a test that never ends is how the bug shows)
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


class BadPatch(Exception):
    """A patch that cannot be read, or does not fit the code any more."""


@dataclass(frozen=True)
class Mutant:
    """One bug. `tests` is the selection that must fail once it is back."""

    name: str
    path: Path
    bug: str
    origin: str
    tests: tuple[str, ...]
    hang_counts: bool


def read_mutant(path: Path) -> Mutant:
    """The mutant of a patch file; `BadPatch` names what its head lacks."""
    head: dict[str, str] = {}
    last = ""
    for line in path.read_text().splitlines():
        if line.startswith(("--- ", "diff ")):
            break
        if line.startswith(" ") and last:
            head[last] += f" {line.strip()}"
        elif line.strip():
            last, colon, text = line.partition(": ")
            if not colon:
                raise BadPatch(f"{path.name}: the line {line!r} is no part of a head.")
            head[last] = text.strip()
    missing = {"bug", "from", "caught by"} - head.keys()
    if missing:
        raise BadPatch(f"{path.name} does not say: {', '.join(sorted(missing))}.")
    return Mutant(
        name=path.stem,
        path=path,
        bug=head["bug"],
        origin=head["from"],
        tests=tuple(shlex.split(head["caught by"])),
        hang_counts=head.get("hang") == "counts",
    )


def all_mutants() -> list[Mutant]:
    """Every mutant, by name."""
    return [read_mutant(path) for path in sorted(FOLDER.glob("*.patch"))]
