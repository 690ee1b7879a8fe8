"""docs/reference/settings.md lists every setting of core/settings.py and core/limits.py."""

from __future__ import annotations

from pathlib import Path

from scripts.write_reference import MEANINGS, renewed, settings_table
from windlass.core.settings import Settings, load, shown_values

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs/reference/settings.md").read_text(encoding="utf-8")


def test_the_table_is_that_of_the_code() -> None:
    assert renewed(PAGE, settings_table()) == PAGE, "run: python scripts/write_reference.py"


def test_every_setting_has_words() -> None:
    assert set(MEANINGS) == set(shown_values(Settings()))


def test_every_environment_name_of_the_page_sets_its_setting(tmp_path: Path) -> None:
    rows = [line.split("|")[1:4] for line in settings_table()[2:]]
    for name, default, variable in ((cell.strip(" `") for cell in row) for row in rows):
        loaded = load(environ={variable: default}, start=tmp_path)
        assert loaded.origins[name][1] == f"environment {variable}"
