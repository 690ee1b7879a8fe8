"""README.md and docs/tutorial.md, walked as a new user walks them: their files, their commands, what they say is shown.

Each command of a `console` block runs in a process of its own, in an empty folder. `python work.py` goes on running
until it is started again, as in a second terminal. Ids differ from run to run, and `…` stands for anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.check_docs import Block, blocks, file_name, is_run

ROOT = Path(__file__).resolve().parent.parent.parent
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PATIENCE_S = 30


def like(shown: str) -> re.Pattern[str]:
    """What a page shows, as a pattern: an id is any id, `…` is anything."""
    lines = "\n".join(line.rstrip() for line in shown.splitlines()).strip()
    return re.compile(ID.pattern.join(re.escape(part).replace("…", ".*") for part in ID.split(lines)))


class Terminal:
    """One worker that runs while other commands do; what it shows is gathered."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.shown = ""
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._more:
                self.shown += line
                self._more.notify()

    def shows(self, text: str) -> bool:
        pattern = like(text)
        with self._more:
            return self._more.wait_for(lambda: pattern.search(self.shown) is not None, PATIENCE_S)

    def stop(self) -> None:
        """The user presses Enter."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write("\n")
            self.process.stdin.close()
            assert self.process.wait(PATIENCE_S) == 0
        finally:
            self.process.kill()
            self._reader.join()
            self.process.stdout.close()


class Walk:
    """A reader with an empty folder and two terminals."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.worker: Terminal | None = None
        self.commands = 0
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("WINDLASS_")}

    def step(self, block: Block) -> None:
        name = file_name(block) if is_run(block) else None
        if name is not None:
            with (self.folder / name).open("a", encoding="utf-8") as file:
                file.write("\n".join(block.body) + "\n")
        elif block.info == "console":
            for command, shown in _commands(block):
                self._type(command, shown)
        elif block.info == "text" and self.worker is not None:
            assert self.worker.shows("\n".join(block.body)), self.worker.shown

    def _type(self, command: str, shown: str) -> None:
        words = command.split()
        if words[0] != "python":
            return  # installing is not for a test
        self.commands += 1
        typed = [sys.executable, *words[1:]]
        if words[1] == "work.py":
            self.stop()
            self.worker = Terminal(typed, self.folder, self._environment)
            assert self.worker.shows(shown), self.worker.shown
            return
        done = subprocess.run(
            typed,
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        got = "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip()
        assert like(shown).fullmatch(got), got

    def stop(self) -> None:
        worker, self.worker = self.worker, None
        if worker is not None:
            worker.stop()


def _commands(block: Block) -> Iterator[tuple[str, str]]:
    for part in "\n".join(block.body).removeprefix("$ ").split("\n$ "):
        command, _, shown = part.partition("\n")
        yield command.partition("#")[0].strip(), shown


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_a_new_user_sees_what_the_page_shows(page: str, tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    try:
        for block in blocks((ROOT / page).read_text(encoding="utf-8")):
            walk.step(block)
    finally:
        walk.stop()
    assert walk.commands >= 2
