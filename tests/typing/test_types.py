"""What type checkers know of a user's tasks: `right.py` passes, and of `wrong.py` the marked lines err and no other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RIGHT, WRONG = HERE / "right.py", HERE / "wrong.py"

Checker = Literal["pyright", "mypy"]
# A cold checker on a busy machine takes its time.
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("typing")]


def pyright(file: Path, folder: Path) -> dict[int, str]:
    """The errors of pyright by line, under the project's own strict settings."""
    copy = folder / file.name  # the project leaves wrong.py out, here too
    copy.write_text(file.read_text())
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(copy)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1, done.stdout
    return {each["range"]["start"]["line"] + 1: each["message"] for each in found["generalDiagnostics"]}


def mypy(file: Path, _folder: Path) -> dict[int, str]:
    """The errors of mypy by line, as strict as it can be."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context"]
    command += ["--explicit-package-bases", "--cache-dir", str(ROOT / ".cache" / "mypy"), str(file.relative_to(ROOT))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == "", done.stderr
    errors: dict[int, str] = {}
    for line in done.stdout.splitlines():
        where = re.match(r"(.+?):(\d+): (error|note): (.*)", line)
        assert where is not None, line
        assert Path(where[1]).name == file.name, line
        if where[3] == "error":
            errors[int(where[2])] = where[4]
    return errors


def marked(checker: Checker) -> set[int]:
    """The lines of wrong.py that must be errors to this checker."""
    mark = re.compile(rf"# wrong(: {checker})?$")
    return {number for number, line in enumerate(WRONG.read_text().splitlines(), 1) if mark.search(line)}


@pytest.mark.parametrize("checker", ["pyright", "mypy"])
def test_every_wrong_use_is_an_error_and_nothing_else_is(checker: Checker, tmp_path: Path) -> None:
    errors = (pyright if checker == "pyright" else mypy)(WRONG, tmp_path)
    lines = WRONG.read_text().splitlines()
    unmarked = {f"{number}: {errors[number]}" for number in errors.keys() - marked(checker)}
    missed = {f"{number}: {lines[number - 1]}" for number in marked(checker) - errors.keys()}
    assert (unmarked, missed) == (set(), set())


@pytest.mark.parametrize("checker", ["pyright", "mypy"])
def test_right_uses_have_the_types_of_the_function(checker: Checker, tmp_path: Path) -> None:
    assert (pyright if checker == "pyright" else mypy)(RIGHT, tmp_path) == {}


def test_a_wrong_argument_to_delay_is_among_the_marked_lines() -> None:
    for checker in ("pyright", "mypy"):
        lines = WRONG.read_text().splitlines()
        assert any(".delay(" in lines[number - 1] for number in marked(checker))
