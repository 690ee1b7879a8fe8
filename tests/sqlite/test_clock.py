"""Only tests can tell an engine what time it is: this reads the source."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import windlass
from windlass.core.settings import Settings
from windlass.engines import protocol
from windlass.engines.memory import MemoryEngine
from windlass.engines.sqlite import SqliteEngine

PACKAGE = Path(windlass.__file__).parent
ENGINES = [MemoryEngine, SqliteEngine]
VERBS = [name for name in vars(protocol.Engine) if not name.startswith("_")]


def trees() -> list[tuple[str, ast.Module]]:
    files = sorted(PACKAGE.rglob("*.py"))
    return [(file.relative_to(PACKAGE).as_posix(), ast.parse(file.read_text())) for file in files]


def targets(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Assign():
            return node.targets
        case ast.AnnAssign() | ast.AugAssign():
            return [node.target]
        case _:
            return []


def test_outside_of_testing_a_clock_is_set_only_where_an_engine_is_made() -> None:
    """Each place that assigns `_clock`, and what it assigns."""
    found: list[tuple[str, str]] = []
    for name, tree in trees():
        if not name.startswith("engines/"):
            continue
        for node in ast.walk(tree):
            for target in targets(node):
                if isinstance(target, ast.Attribute) and target.attr == "_clock":
                    assert isinstance(node, ast.Assign | ast.AnnAssign)
                    assert node.value is not None
                    found.append((name, ast.unparse(node.value)))
    assert sorted(found) == [
        ("engines/memory/engine.py", "SystemClock()"),
        ("engines/redis/engine.py", "SystemClock()"),
        ("engines/sqlite/commit.py", "clock"),  # a function that asks the engine for its own
        ("engines/sqlite/engine.py", "SystemClock()"),
    ]


def test_only_testing_sets_an_attribute_by_a_name_that_could_be_the_clock() -> None:
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
                key = ast.unparse(node.args[1])
                assert "clock" not in key or name.startswith("testing/"), f"{name}:{node.lineno}"


def test_nothing_but_testing_imports_testing() -> None:
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("windlass.testing"):
                assert name.startswith("testing/"), f"{name}:{node.lineno}"


def parameters(call: Any) -> set[str]:
    return set(inspect.signature(call).parameters)


@pytest.mark.parametrize("kind", ENGINES)
def test_no_constructor_and_no_verb_takes_a_clock_or_an_instant(kind: type) -> None:
    assert len(VERBS) == 17  # sixteen verbs and what an engine can do
    for call in (kind, *(getattr(kind, verb) for verb in VERBS if verb != "capabilities")):
        assert not [name for name in parameters(call) if re.search(r"clock|now", name)]


def test_no_value_of_the_protocol_carries_the_time_that_it_is() -> None:
    for name, value in vars(protocol).items():
        # Orders is what the store answers.
        if inspect.isclass(value) and value.__module__ == protocol.__name__ and name != "Orders":
            assert not [field for field in getattr(value, "__struct_fields__", ()) if re.search(r"clock|now", field)]


def test_neither_a_setting_nor_a_url_sets_the_clock() -> None:
    fields = {name for name in dir(Settings) if not name.startswith("_")}
    assert not [name for name in fields if "clock" in name or name == "now"]
    assert "clock" not in (PACKAGE / "engines" / "connect.py").read_text()


def test_only_the_clock_reads_the_wall_time() -> None:
    """Every other look at the time is a length of time, measured by the monotonic clock, or the age of a file."""
    allowed = {"core/clock.py", "engines/sqlite/folder.py", "engines/sqlite/listen.py"}
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                wall = (node.value.id, node.attr) in {("time", "time"), ("time", "time_ns"), ("datetime", "now")}
                assert not wall or name in allowed or name == "core/ids.py", f"{name}:{node.lineno}"
