"""tests/bad_input.toml is the list of bad inputs: every item has a test, every test is run, every error is covered."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import windlass
from windlass.core import errors
from windlass.core.errors import WindlassError

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(windlass.__file__).parent


class Issue(msgspec.Struct, forbid_unknown_fields=True):
    """What an issue calls bad input."""

    number: int
    items: tuple[str, ...]
    refusals: tuple[str, ...] = ()


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One test of one item."""

    issue: int
    item: str
    test: str


class Listed(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    issue: tuple[Issue, ...]
    entry: tuple[Entry, ...]


LIST = msgspec.convert(tomllib.loads((ROOT / "tests" / "bad_input.toml").read_text()), Listed)
ERRORS = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, WindlassError) and not kind.__subclasses__()
}
"""The leaves of the tree: what can be raised."""


@cache
def collected() -> frozenset[str]:
    """Every test that pytest collects in the files of the list, without its parameters."""
    files = sorted({entry.test.partition("::")[0] for entry in LIST.entry})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--no-header", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2_000:]
    return frozenset(line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line)


# ── the list ────────────────────────────────────────────────────────────────────────────────────────────


def test_every_test_of_the_list_is_collected() -> None:
    assert [entry.test for entry in LIST.entry if entry.test not in collected()] == []


def test_every_item_has_a_test() -> None:
    listed = {(entry.issue, entry.item) for entry in LIST.entry}
    wanted = {(issue.number, item) for issue in LIST.issue for item in (*issue.items, *issue.refusals)}
    assert wanted - listed == set()


def test_every_test_belongs_to_an_item() -> None:
    listed = {(entry.issue, entry.item) for entry in LIST.entry}
    wanted = {(issue.number, item) for issue in LIST.issue for item in (*issue.items, *issue.refusals)}
    assert listed - wanted == set()


def test_nothing_is_listed_twice() -> None:
    assert len({(entry.issue, entry.item, entry.test) for entry in LIST.entry}) == len(LIST.entry)


# ── the errors ──────────────────────────────────────────────────────────────────────────────────────────


@cache
def module(path: str) -> Any:
    """The test module of that path, as Python sees it."""
    import importlib

    return importlib.import_module(path.removesuffix(".py").replace("/", "."))


def named_by(test: str) -> set[str]:
    """The errors whose names stand in a test, in its parameters, or in a function or list that it uses."""
    path, *names = test.split("::")
    found: Any = module(path)
    for name in names:
        found = getattr(found, name)
    home = inspect.getmodule(found)
    source = inspect.getsource(found)
    words = set(re.findall(r"\w+", source))
    for word in set(words):
        value = getattr(home, word, None)
        if inspect.isfunction(value) and value.__module__ == getattr(home, "__name__", ""):
            words |= set(re.findall(r"\w+", inspect.getsource(value)))
        elif isinstance(value, (list, tuple, dict, str)):
            words |= set(re.findall(r"\w+", repr(value)))  # pyright: ignore[reportUnknownArgumentType]
    return words & ERRORS.keys()


def test_every_error_is_named_by_a_test_of_the_list() -> None:
    named: set[str] = set()
    for entry in LIST.entry:
        named |= named_by(entry.test)
    assert ERRORS.keys() - named == set()


def test_every_error_is_raised_somewhere() -> None:
    raised = {name for name, _, _ in calls()}
    assert ERRORS.keys() - raised == set()


def test_codes_are_stable_and_unique() -> None:
    codes = [kind.code for kind in ERRORS.values()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"WL[1-9]\d\d", code) for code in codes)


# ── the words ───────────────────────────────────────────────────────────────────────────────────────────


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Every place in the package that makes an error: its name, where, and the call."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                yield node.func.id, f"{file.relative_to(PACKAGE)}:{node.lineno}", node


def literal(node: ast.expr) -> str | None:
    """The text of a literal; what is put in at run time reads as one word. None: the words come from elsewhere."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr():
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "word" for part in node.values)
        case _:
            return None


CALLS = [pytest.param(call, id=f"{name}-{where}") for name, where, call in calls()]


@pytest.mark.parametrize("call", CALLS)
def test_every_error_says_what_is_wrong_and_what_to_do_next(call: ast.Call) -> None:
    assert len(call.args) == 2, "a message, and what to do next"
    message, todo = map(literal, call.args)
    if message is not None and " " in message and not message.startswith("holds a secret"):
        assert message[0].isupper() or message.startswith(("word", "`", "{")), message
        assert message.rstrip().endswith((".", "word")), message
        assert 1 <= sentences(message) <= 2, message
        assert "\n" not in message
    if todo is not None:
        assert todo.strip()
        assert 1 <= sentences(todo) <= 2, todo


def sentences(text: str) -> int:
    """How many sentences; points in names, versions and paths end none."""
    return len(re.findall(r"[.!?](?=\s+[A-Z`]|\s*$)", text)) or 1


def test_the_counter_of_sentences_counts() -> None:
    assert sentences("One.") == 1
    assert sentences("Write jobs.db or 3.51. Then go.") == 2
    assert sentences("Run: pip install apsw") == 1
