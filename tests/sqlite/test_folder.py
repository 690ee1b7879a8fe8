"""Whether a folder is as it was: no name changes unseen, and what may still change unseen is not trusted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from windlass.engines.sqlite import folder
from windlass.engines.sqlite.folder import GRAIN_NS, Folder


@pytest.fixture
def at_rest(tmp_path: Path) -> Path:
    """A folder whose last change is older than the grain of file times."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "there").touch()
    while time.time_ns() - os.stat(inside).st_ctime_ns <= GRAIN_NS:
        time.sleep(0.005)
    return inside


def test_a_folder_in_which_nothing_happens_stays_the_same(at_rest: Path) -> None:
    watched = Folder(at_rest)
    first = watched.look()
    (at_rest / "there").write_bytes(b"contents are not names")
    assert [watched.look(), watched.look(), watched.version] == [first] * 3


def replace(inside: Path) -> None:
    inside.rename(inside.parent / "elsewhere")
    inside.mkdir()


CHANGES: dict[str, Callable[[Path], object]] = {
    "made": lambda inside: (inside / "new").touch(),
    "removed": lambda inside: (inside / "there").unlink(),
    "renamed": lambda inside: (inside / "there").rename(inside / "moved"),
    "moved out": lambda inside: (inside / "there").rename(inside.parent / "gone"),
    "folder moved": lambda inside: inside.rename(inside.parent / "elsewhere"),
    "folder replaced": replace,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_a_name_is_seen(at_rest: Path, change: Callable[[Path], object]) -> None:
    watched = Folder(at_rest)
    before = watched.look()
    change(at_rest)
    assert watched.look() != before


def test_a_file_swapped_for_another_is_seen(at_rest: Path) -> None:
    (at_rest.parent / "other").touch()
    watched = Folder(at_rest)
    before = watched.look()
    os.replace(at_rest.parent / "other", at_rest / "there")
    assert watched.look() != before


def test_a_folder_that_has_just_changed_is_not_trusted(at_rest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a coarse clock the next change could bear the same time."""
    changed_ns = os.stat(at_rest).st_ctime_ns
    monkeypatch.setattr(folder.time, "time_ns", lambda: changed_ns + GRAIN_NS)
    watched = Folder(at_rest)
    assert watched.look() != watched.look()
    monkeypatch.setattr(folder.time, "time_ns", lambda: changed_ns + GRAIN_NS + 1)
    assert watched.look() == watched.look()


def test_a_folder_that_is_gone_is_never_the_same(tmp_path: Path) -> None:
    watched = Folder(tmp_path / "nowhere")
    assert watched.look() != watched.look()
