"""The pages of the engines: their tables are those of the code, and every test that they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.write_reference import keys_table, renewed

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted((ROOT / "docs" / "engines").glob("*.md"))
SUITE = ROOT / "src" / "windlass" / "testing" / "conformance"


def test_the_key_map_is_that_of_the_code() -> None:
    page = (ROOT / "docs/engines/redis.md").read_text(encoding="utf-8")
    assert renewed(page, keys_table()) == page, "run: python scripts/write_reference.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    file = ""
    for place, name in re.findall(r"`([\w/.…]+)::(\w+)`", page.read_text(encoding="utf-8")):
        file = file if place == "…" else place
        source = ROOT / file if "/" in file else SUITE / file
        assert re.search(rf"\b(def|class) {name}\b|^{name} = ", source.read_text(encoding="utf-8"), re.MULTILINE), name
