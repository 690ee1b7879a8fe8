"""docs/reference/protocol.md lists every value of engines/protocol.py with its fields."""

from __future__ import annotations

import ast
from enum import StrEnum
from pathlib import Path

import msgspec
import pytest

from scripts import write_reference
from scripts.write_reference import renewed, values_tables
from windlass.engines import protocol

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs/reference/protocol.md").read_text(encoding="utf-8")
VALUES = {
    name: kind
    for name, kind in vars(protocol).items()
    if isinstance(kind, type) and issubclass(kind, (msgspec.Struct, StrEnum)) and kind.__module__ == protocol.__name__
}


def test_the_tables_are_those_of_the_code() -> None:
    assert renewed(PAGE, values_tables()) == PAGE, "run: python scripts/write_reference.py"


@pytest.mark.parametrize("name", VALUES)
def test_every_value_is_there_with_all_its_fields(name: str) -> None:
    _, _, rest = "\n".join(values_tables()).partition(f"### {name}\n")
    section = rest.partition("\n### ")[0]
    kind = VALUES[name]
    assert (kind.__doc__ or "").split("\n", 1)[0] in section
    if issubclass(kind, StrEnum):
        assert all(f"`{member}`" in section for member in kind)
    else:
        rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
        assert rows == [f"| `{field.name}`" for field in msgspec.structs.fields(kind)]


def test_a_field_without_a_meaning_is_an_error() -> None:
    source = "class Count:\n    queue: str  # on which queue\n    n: int\n"
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    fields = write_reference.fields_of(node, source.splitlines())
    assert next(fields) == ["`queue`", "`str`", "", "on which queue"]
    with pytest.raises(ValueError, match=r"Count\.n has no meaning"):
        next(fields)
