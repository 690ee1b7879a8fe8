"""Which file a script is: one of the allowed folders, and the very one that was looked at."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from windlass.core.errors import BadScript, BadSetting
from windlass.core.system import files
from windlass.worker.scripts.files import check_folders, find


@pytest.fixture(params=["openat2", "part by part"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an allowed one in it, `jobs`, and one that is not, `secret`; with either way to open files."""
    if request.param == "part by part":
        monkeypatch.setattr(files, "openat2", cannot)
    monkeypatch.chdir(tmp_path)
    for name in ("jobs/deep/run.py", "jobs/run.py", "secret/run.py", "jobs-not/run.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def cannot(_folder: int, _path: str, _flags: int) -> None:
    """As on an old kernel, or where such calls are filtered."""


def text_of(path: str) -> str:
    found = find(path, ("jobs/",))
    with os.fdopen(found.descriptor) as file:
        return file.read()


@pytest.mark.parametrize("path", ["jobs/run.py", "./jobs/deep/../run.py", "jobs//run.py"])
def test_a_file_of_the_folder_is_found_however_it_is_spelt(place: Path, path: str) -> None:
    assert text_of(path) == "jobs/run.py"
    assert text_of(str(place / path)) == "jobs/run.py"


def to_link(target: str) -> Callable[[Path], None]:
    return lambda place: os.symlink(target, place / "jobs" / "link.py")


def make_linked_folder(place: Path) -> None:
    os.symlink("../secret", place / "jobs" / "linked")


def make_unreadable(place: Path) -> None:
    (place / "jobs" / "plain.sh").write_text("#!/bin/sh\n")


REFUSED: list[tuple[str, Callable[[Path], None], str]] = [
    ("jobs/none.py", lambda _: None, "There is no script "),
    ("jobs/run.py/below", lambda _: None, "There is no script "),
    (
        "secret/run.py",
        lambda _: None,
        "is not in a folder of scripts of this worker. Those are jobs/, and a relative path begins in ",
    ),
    ("jobs/../secret/run.py", lambda _: None, "is not in a folder of scripts"),
    ("jobs-not/run.py", lambda _: None, "is not in a folder of scripts"),
    ("/etc/passwd", lambda _: None, "is not in a folder of scripts"),
    ("..\\secret\\run.py", lambda _: None, "is not in a folder of scripts"),
    ("jobs/link.py", to_link("../secret/run.py"), "is a link out of its folder. Put the file itself there."),
    ("jobs/link.py", to_link("/etc/passwd"), "is a link out of its folder."),
    ("jobs/link.py", to_link("/proc/self/exe"), "is a link out of its folder."),
    ("jobs/link.py", to_link("link.py"), "is a link out of its folder."),
    ("jobs/linked/run.py", make_linked_folder, "is a link out of its folder."),
    ("jobs/deep", lambda _: None, "is a folder, not a script. Name a file."),
    ("jobs", lambda _: None, "is a folder, not a script."),
    ("jobs/plain.sh", make_unreadable, "is not executable. Run: chmod +x plain.sh"),
    ("jobs/fifo.py", lambda place: os.mkfifo(place / "jobs" / "fifo.py"), "is no regular file, not a script."),
]


@pytest.mark.parametrize(("path", "prepare", "sentence"), REFUSED)
def test_what_is_no_script_there_is_refused_in_one_sentence(
    place: Path, path: str, prepare: Callable[[Path], None], sentence: str
) -> None:
    prepare(place)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(BadScript) as caught:
        find(path, ("jobs/",))
    assert sentence in str(caught.value)
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_link_within_the_folder_is_followed_where_the_kernel_can_tell(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text("real")
    os.symlink("real.py", tmp_path / "link.py")
    found = find(str(tmp_path / "link.py"), (str(tmp_path),))
    with os.fdopen(found.descriptor) as file:
        assert file.read() == "real"


@pytest.fixture
def swapping(place: Path) -> Iterator[None]:
    """Somebody puts a link out of the folder in the place of the file, and of its folder, and back, all the time."""
    over, turns = threading.Event(), threading.Event()
    file, link = place / "jobs" / "deep" / "run.py", place / "jobs" / "deep" / "link"
    folder, other = place / "jobs" / "deep", place / "jobs" / "other"

    def swap() -> None:
        while not over.is_set():
            os.symlink(place / "secret" / "run.py", link)
            os.replace(link, file)
            file.unlink()
            file.write_text("jobs/deep/run.py")
            os.rename(folder, other)
            os.symlink("../secret", folder)
            folder.unlink()
            os.rename(other, folder)
            turns.set()

    thread = threading.Thread(target=swap)
    thread.start()
    turns.wait()
    yield
    over.set()
    thread.join()


@pytest.mark.usefixtures("swapping")
def test_one_swapped_in_between_is_never_what_runs() -> None:
    seen: set[str] = set()
    for _ in range(3_000):
        try:
            seen.add(text_of("jobs/deep/run.py"))
        except BadScript:
            seen.add("refused")
    assert seen <= {"jobs/deep/run.py", "", "refused"}  # empty: it is being written
    assert "refused" in seen


def test_a_folder_that_is_not_there_is_refused_before_a_worker_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check_folders([str(tmp_path)])
    for folder in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(BadSetting, match="There is no folder of scripts"):
            check_folders([str(tmp_path), str(folder)])
