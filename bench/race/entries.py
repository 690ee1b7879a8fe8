"""Who races: the entries of a group (embedded.toml, redis.toml) as values."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

import msgspec


class Count(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What counts jobs: SQL, asked of the file that has the store's name and `beside` after it; or Lua, of a server."""

    sql: str = ""
    beside: str = ""
    lua: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to run a product."""

    name: str
    acknowledged: str
    options: str = ""
    env: dict[str, str] = {}
    fill: dict[str, str] = {}
    also: list[str] = []


class Product(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the entries of one product have in common; the file of its group says what each field is."""

    name: str
    kind: Literal["ours", "peer", "floor"]
    runtime: Literal["python", "node"] = "python"
    seat: str
    requirements: list[str]
    worker: str
    imports: str = ""
    broker: Literal["", "rabbitmq"] = ""
    stored: Count
    waiting: str = ""
    backlog: tuple[int, ...]
    results: str
    taken: str
    lacks: dict[str, str] = {}
    fails: str = ""
    entry: list[Entry]


class _Products(msgspec.Struct, forbid_unknown_fields=True):
    product: list[Product]


def load(file: Path) -> list[Product]:
    """The products in the order of the file; an unknown field is an error."""
    return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), _Products).product
