"""What was found when something was looked at: a finding per question, and what to do about it.

An engine that can look at itself has a method `examine` besides its verbs; `windlass doctor` asks it. What it finds of
that at every open it tells here: a process says each sentence once, and who only looks into a store leaves it untold.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec

log = logging.getLogger(__name__)

_told: set[tuple[str, str]] = set()


class Level(StrEnum):
    """`warning`: look at it when you can. `problem`: jobs do not run, or are in danger."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: what was looked at, how it is, and what to do (empty where all is well)."""

    name: str
    level: Level
    said: str
    todo: str = ""


@runtime_checkable
class Examines(Protocol):
    """An engine that can look at its own store."""

    def examine(self) -> Iterable[Finding]: ...


def ok(name: str, said: str) -> Finding:
    """All is well."""
    return Finding(name=name, level=Level.OK, said=said)


def warning(name: str, said: str, todo: str) -> Finding:
    """Something to look at."""
    return Finding(name=name, level=Level.WARNING, said=said, todo=todo)


def problem(name: str, said: str, todo: str) -> Finding:
    """Something to repair."""
    return Finding(name=name, level=Level.PROBLEM, said=said, todo=todo)


def tell(level: int, store: str, said: str) -> None:
    """Logs what there is to know of a store: once per process, however often that is opened."""
    if (store, said) not in _told:
        _told.add((store, said))
        log.log(level, "%s", said)


@contextmanager
def untold() -> Generator[None]:
    """Nothing of it is logged meanwhile: somebody else says it."""
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False
