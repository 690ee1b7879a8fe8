"""The tree keeps its promises: public names, a docstring per room, a head on every statement."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import windlass

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "windlass"
ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))
NOT_OURS = {"TYPE_CHECKING", "Any", "annotations", "import_module"}
STATEMENTS = sorted((PACKAGE / "engines" / "sqlite").rglob("*.sql"))


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE.parent).as_posix()


def head(statement: Path) -> dict[str, str]:
    """Read `-- word: text` from the comment on top of a statement."""
    entries: dict[str, str] = {}
    for line in statement.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("--"):
            break
        if entry := re.match(r"--\s*(\w+)\s*:\s*(\S.*)", line):
            entries[entry[1].lower()] = entry[2]
    return entries


def is_migration(statement: Path) -> bool:
    """Schema files lie in a folder `schema` or `migrations`, or are named after it or by number."""
    return any(re.match(r"schema|migrat|\d", part) for part in statement.relative_to(PACKAGE).parts)


def test_all_is_sorted_without_repeats() -> None:
    assert list(windlass.__all__) == sorted(set(windlass.__all__))


def test_all_is_exactly_what_is_there() -> None:
    there = {
        name
        for name in dir(windlass)
        if not name.startswith("_") and name not in NOT_OURS and not isinstance(getattr(windlass, name), ModuleType)
    }
    assert {name for name in windlass.__all__ if not name.startswith("_")} == there


def test_every_public_name_can_be_fetched() -> None:
    for name in windlass.__all__:
        assert getattr(windlass, name) is not None, name


NEVER = "apsw asyncio click hiredis psutil pydantic pytest hypothesis redis rich"
"""Each costs every user start-up time, whatever he uses, and some fail where the extra is missing."""


@pytest.mark.parametrize(
    "code",
    [
        "import windlass",
        "from windlass import App; app = App('memory://'); app.task(lambda: None, ); app.send('t', 1)",
        "from windlass import App, Worker; app = App('memory://'); app.task(lambda: None); Worker(app).start().stop()",
    ],
    ids=["import", "send", "work"],
)
def test_nothing_is_imported_before_it_is_needed(code: str) -> None:
    code = f"import sys; {code}; print(*set({NEVER.split()!r}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_help_imports_no_command_and_nothing_that_commands_need() -> None:
    never = {*NEVER.split(), "msgspec"} - {"click"}
    code = f"""
import sys
from windlass.cli.main import main
sys.argv = ["windlass", "--help"]
try:
    main()
except SystemExit as done:
    assert not done.code
commands = [name for name in sys.modules if name.startswith("windlass.cli.") and name != "windlass.cli.main"]
print("imported:", *({never!r} & set(sys.modules)), *commands)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported:"


ONE_SYSTEMS_MODULES = {"fcntl", "resource", "pwd", "termios"}
ONE_SYSTEMS_NAMES = {"os.mkfifo", "os.memfd_create", "os.register_at_fork", "select.poll", "ctypes.CDLL"}


def uses(tree: ast.AST) -> Iterator[str]:
    """The modules that are imported, and `module.name` for what is taken of one."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                yield f"{module}.{name}"
            case _:
                pass


@pytest.mark.parametrize("module", sorted(PACKAGE.rglob("*.py")), ids=relative)
def test_only_one_folder_calls_what_not_every_operating_system_has(module: Path) -> None:
    """`make check` asks pyright what Windows lacks; these it lets pass, or they are a matter of Linux alone."""
    found = set(uses(ast.parse(module.read_text(encoding="utf-8")))) & (ONE_SYSTEMS_MODULES | ONE_SYSTEMS_NAMES)
    assert not found or relative(module.parent) == "windlass/core/system"


def test_every_folder_with_modules_is_a_room() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert folders == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS, ids=relative)
def test_every_room_says_what_it_is_for(room: Path) -> None:
    docstring = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
    assert docstring
    assert docstring.strip()


def test_there_are_statements() -> None:
    assert STATEMENTS


@pytest.mark.parametrize("statement", STATEMENTS, ids=relative)
def test_every_statement_states_its_contract(statement: Path) -> None:
    wanted = {"purpose", "invariant"}
    if not is_migration(statement):
        wanted |= {"inputs", "returns"}
    assert wanted - head(statement).keys() == set()
