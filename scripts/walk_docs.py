"""Type what a page tells its reader to type, in an empty folder, and see that it shows what the page shows.

A `console` block is a terminal: each line that begins with `$ ` is typed, what follows it must be shown, stdout and
stderr alike. Ids differ from run to run, and `…` stands for anything. A command that goes on (`windlass worker`,
`windlass dev`, `python work.py`) stays open, as in a second terminal, until it is started again or the page ends; a
`text` block after it must turn up there. Python blocks that begin with a file's name are that file.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scripts.check_docs import Block

ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
GOES_ON = re.compile(r"(windlass (worker|dev)\b(?!.*--(until-empty|help))|python work\.py).*")
PATIENCE_S = 30


class NotAsShown(Exception):
    """A command did something else than the page says."""


def like(shown: str) -> re.Pattern[str]:
    """What a page shows, as a pattern: an id is any id, `…` is anything."""
    lines = "\n".join(line.rstrip() for line in shown.splitlines()).strip()
    return re.compile(ID.pattern.join(re.escape(part).replace("…", "(?s:.*)") for part in ID.split(lines)))


class Terminal:
    """A command that goes on while others are typed; what it shows is gathered."""

    def __init__(self, command: str, folder: Path, environment: dict[str, str]) -> None:
        self._command = command
        self._process = subprocess.Popen(
            f"exec {command}",
            shell=True,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._shown = ""
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._more:
                self._shown += line
                self._more.notify()

    def must_show(self, text: str) -> None:
        pattern = like(text)
        with self._more:
            if not self._more.wait_for(lambda: pattern.search(self._shown) is not None, PATIENCE_S):
                raise NotAsShown(f"$ {self._command}\n{self._shown}\n-- does not show --\n{text}")

    def stop(self) -> None:
        """The user presses Enter, or Ctrl-C where that ends it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            if self._command.startswith("windlass"):
                self._process.send_signal(signal.SIGINT)
            else:
                self._process.stdin.write("\n")
            self._process.stdin.close()
            if self._process.wait(PATIENCE_S) != 0:
                raise NotAsShown(f"$ {self._command}\n{self._shown}\n-- ended with {self._process.returncode}")
        finally:
            self._process.kill()
            self._reader.join()
            self._process.stdout.close()


class Walk:
    """A reader with an empty folder and two terminals."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: Terminal | None = None
        kept = {key: value for key, value in os.environ.items() if not key.startswith("WINDLASS_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        # As wide as the pages are: a table must not depend on who runs this.
        self._environment = {**kept, "PATH": path, "HOME": str(folder), "COLUMNS": "120"}

    def put(self, name: str, block: Block) -> None:
        """Writes a file, or goes on with it."""
        place = self._folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("a", encoding="utf-8") as file:
            file.write("\n".join(block.body) + "\n")

    def type_all(self, block: Block) -> None:
        """Types the commands of a block, each after the one before has ended."""
        for command, shown in _commands(block):
            if GOES_ON.fullmatch(command):
                self.stop()
                self._open = Terminal(command, self._folder, self._environment)
                self._open.must_show(shown)
            else:
                self._type(command, shown)

    def look(self, block: Block) -> None:
        """What the open terminal must show by now."""
        if self._open is not None:
            self._open.must_show("\n".join(block.body))

    def _type(self, command: str, shown: str) -> None:
        done = subprocess.run(
            command,
            shell=True,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        got = "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip()
        if not like(shown).fullmatch(got):
            raise NotAsShown(f"$ {command}\n{got}\n-- instead of --\n{shown}")

    def stop(self) -> None:
        """Closes the terminal that is open."""
        terminal, self._open = self._open, None
        if terminal is not None:
            terminal.stop()


def _commands(block: Block) -> Iterator[tuple[str, str]]:
    if not block.body or not block.body[0].startswith("$ "):
        raise NotAsShown(
            "A console block begins with a command: `$ …`. One that is not to be typed is `console output`."
        )
    for part in "\n".join(block.body).removeprefix("$ ").split("\n$ "):
        command, _, shown = part.partition("\n")
        yield command.partition("  #")[0].strip(), shown
