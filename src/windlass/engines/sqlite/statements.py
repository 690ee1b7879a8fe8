"""The statements, each in a file of its own under sql/, read once and handed out by name."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


@cache
def sql(name: str) -> str:
    """The statement of that name, without its head: the text is the key of SQLite's statement cache."""
    lines = (FOLDER / "sql" / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--")).strip()


@cache
def repeated(statement: str, count: int) -> str:
    """The statement with its row of values so many times, for so many at once."""
    head, row, tail = _VALUES.split(statement, maxsplit=1)
    return f"{head}{', '.join([row] * count)}{tail}"


_VALUES = re.compile(r"(?<=VALUES )(\([^)]*\))")


def migrations() -> list[tuple[int, str]]:
    """The schema files in order, each with the version it leads to."""
    files = sorted((FOLDER / "schema").glob("[0-9]*.sql"))
    return [(int(file.name.split("_")[0]), file.read_text(encoding="utf-8")) for file in files]


SCHEMA = migrations()[-1][0]
"""The schema version this code reads and writes."""
