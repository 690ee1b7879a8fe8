"""A name that passed `check_name` is safe in every engine, URL, metric label and shell."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from windlass.core.errors import BadName, UnknownOption
from windlass.core.redact import plain

LONGEST: Final = 128

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}").fullmatch
_BAD: Final = re.compile(r"[^A-Za-z0-9_.:-]").search
_TODO: Final = "Use 1 to 128 of the characters A-Z a-z 0-9 _ . : - and begin with a letter or a digit."


def check_name(kind: str, value: str) -> str:
    """The same name, sure to fit DESIGN §9; else `BadName` says which character or length is wrong."""
    if type(value) is str and _NAME(value):
        return value
    raise BadName(_complaint(kind, value), _TODO)


def _complaint(kind: str, value: object) -> str:
    if not isinstance(value, str):
        return f"A {kind} name cannot be a {type(value).__name__}."
    if not value:
        return f"A {kind} name cannot be empty."
    # The text may come from a stranger: escape it, or a control character rewrites the reader's terminal.
    shown = ascii(value if len(value) <= 40 else value[:40] + "...")
    bad = _BAD(value)
    if bad is not None:
        character = bad.group()
        label = f"{character!a} (U+{ord(character):04X})"
        return f"The {kind} name {shown} has the character {label} at position {bad.start() + 1}."
    if len(value) > LONGEST:
        return f"The {kind} name {shown} has {len(value)} characters; {LONGEST} are allowed."
    if not value[0].isalnum():
        return f"The {kind} name {shown} begins with {value[0]!r}."
    return f"The {kind} name {shown} must be a plain str, not a {type(value).__name__}."


def check_label(kind: str, value: str) -> str:
    """The same text, sure to be harmless where people see it: any letters and spaces, nothing that a screen obeys."""
    if plain(value) == value:
        return value
    shown = ascii(value if len(value) <= 40 else value[:40] + "...")
    raise BadName(f"The {kind} {shown} has control characters.", "Use characters that can be seen, and spaces.")


def near_miss(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known word that `word` was most likely meant to be, or None when nothing comes close.

    `likeness` says how close: 1 is equal, 0.8 a letter or two in ten.
    """
    spellings = {candidate.lower(): candidate for candidate in known}
    # difflib is quadratic: a megabyte of "name" must not stall the error that refuses it.
    close = difflib.get_close_matches(word[:LONGEST].lower(), spellings, n=1, cutoff=likeness)
    return spellings[close[0]] if close else None


def refuse_unknown(what: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    """An option nobody reads is a mistake, most often in its spelling."""
    for name in given:
        if name not in known:
            meant = near_miss(name, known)
            hint = f"Did you mean `{meant}`?" if meant else f"There are: {', '.join(known)}."
            raise UnknownOption(f"{what} has no option `{name[:60]}`.", hint)
