"""docs/reference/cli.md has a section for every command, as the commands themselves say it."""

from __future__ import annotations

from pathlib import Path

from scripts.write_reference import commands, commands_sections, renewed

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs/reference/cli.md").read_text(encoding="utf-8")


def test_the_sections_are_those_of_the_code() -> None:
    assert renewed(PAGE, commands_sections()) == PAGE, "run: python scripts/write_reference.py"


def test_every_command_has_a_section() -> None:
    titles = {line.lstrip("#").strip() for line in PAGE.splitlines() if line.startswith("#")}
    assert {" ".join(("windlass", *path)) for path, _ in commands() if path} <= titles
