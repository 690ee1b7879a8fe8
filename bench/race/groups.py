"""The groups of the race: which contestants, on which ground, and what is asked of them.

`steps` are measurements of everybody, in this order; `also` are those of the entries that name them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import metadata
from pathlib import Path

import msgspec

from bench.race.contestant import Contestant, Figures
from bench.race.files import Files
from bench.race.ground import Ground
from bench.race.server import Server
from bench.report import ROOT

HERE = Path(__file__).parent

Measurement = Callable[[Contestant], Figures]
Facts = dict[str, str | int]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Who races against whom."""

    name: str
    packages: tuple[str, ...]
    """What ours and the floor are made of, besides Windlass."""
    steps: Mapping[str, Measurement]
    also: Mapping[str, Measurement] = {}
    ground: Callable[[Path], AbstractContextManager[tuple[Ground, Facts]]]
    """Where they race in this run, and what is to be told of it."""

    @property
    def entries(self) -> Path:
        return HERE / f"{self.name}.toml"

    @property
    def evidence(self) -> Path:
        return ROOT / "docs" / "evidence" / f"race_{self.name}.json"

    def versions(self) -> str:
        """Of the packages of this checkout that race."""
        return ", ".join(f"{name} {metadata.version(name)}" for name in ("windlass", *self.packages))


@contextmanager
def _files(folder: Path) -> Generator[tuple[Ground, Facts]]:
    yield Files(folder), {"python_sqlite": sqlite3.sqlite_version}


@contextmanager
def _server(folder: Path) -> Generator[tuple[Ground, Facts]]:
    with Server(folder) as server:
        yield server, server.facts()


EMBEDDED = Group(
    name="embedded",
    packages=("apsw",),
    steps={
        "send": Contestant.send,
        "drain": Contestant.drain,
        "start": Contestant.start,
        "kill": Contestant.kill,
        "load": Contestant.load,
    },
    ground=_files,
)
REDIS = Group(
    name="redis",
    packages=("redis", "hiredis"),
    steps={
        "send": Contestant.send,
        "drain": Contestant.drain,
        "far": Contestant.far,
        "start": Contestant.start,
        "answer": Contestant.answer,
    },
    also={"together": Contestant.together, "growth": Contestant.growth, "idle": Contestant.idle},
    ground=_server,
)
GROUPS = {group.name: group for group in (EMBEDDED, REDIS)}
