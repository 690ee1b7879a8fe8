"""Who races: the entries of entries.toml as values."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

import msgspec

FILE = Path(__file__).parent / "entries.toml"


class Count(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A statement that counts, and what is added to the store's name to name the file it is asked of."""

    sql: str
    beside: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to run a product."""

    name: str
    acknowledged: str
    options: str = ""
    env: dict[str, str] = {}
    fill: dict[str, str] = {}


class Product(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the entries of one product have in common; entries.toml says what each field is."""

    name: str
    kind: Literal["ours", "peer", "floor"]
    seat: str
    requirements: list[str]
    worker: str
    imports: str
    stored: Count
    waiting: str
    backlog: tuple[int, int]
    results: str
    taken: str
    lacks: dict[str, str] = {}
    fails: str = ""
    entry: list[Entry]


class _Products(msgspec.Struct, forbid_unknown_fields=True):
    product: list[Product]


def load(file: Path = FILE) -> list[Product]:
    """The products in the order of the file; an unknown field is an error."""
    return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), _Products).product
