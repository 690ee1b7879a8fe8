"""docs/reference/lifecycle.md says what core/lifecycle.py does: its table and its drawing."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.write_reference import lifecycle_table, renewed
from windlass.core import lifecycle
from windlass.core.job import ENDED, State
from windlass.core.lifecycle import TABLE

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs/reference/lifecycle.md").read_text(encoding="utf-8")


def test_the_table_is_that_of_the_code() -> None:
    assert renewed(PAGE, lifecycle_table()) == PAGE, "run: python scripts/write_reference.py"


def test_the_drawing_is_that_of_the_module() -> None:
    assert lifecycle.__doc__ is not None
    drawing = lifecycle.__doc__.split("```\n")[1].rstrip()
    assert drawing in PAGE


def test_the_diagram_shows_every_move_and_no_other() -> None:
    diagram = PAGE.split("```mermaid\n")[1].split("```")[0]
    drawn = {(a, b) for a, b in re.findall(r"^ *(\S+) --> (\S+)", diagram, re.MULTILINE)}
    moves = {(state or "[*]", to) for (state, _), nexts in TABLE.items() for to in nexts}
    assert drawn == {(str(a), str(b)) for a, b in moves} | {(str(state), "[*]") for state in ENDED}


def test_the_page_names_every_state() -> None:
    assert all(f"`{state}`" in PAGE for state in State)
