"""The site: every page has its place in it, and no link of it is broken."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent


def pages(nav: Any) -> list[str]:
    """The files a navigation names, at any depth."""
    if isinstance(nav, str):
        return [nav]
    parts: list[Any] = list(nav.values()) if isinstance(nav, dict) else list(nav)  # pyright: ignore[reportUnknownArgumentType]
    return [page for part in parts for page in pages(part)]


def test_every_page_is_in_the_navigation_once() -> None:
    named = pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    there = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(named) == sorted(there)


def test_the_site_is_built_and_no_link_is_broken(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    command = [Path(sys.executable).parent / "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ten minutes" in (tmp_path / "site" / "tutorial" / "index.html").read_text(encoding="utf-8")
