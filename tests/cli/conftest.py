"""A folder with an app in it, and `windlass` typed there as a person would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.soak.waiting import wait_for

TASKS = """
import time
from windlass import App, Retry, current_job

app = App()

@app.task
def add(a: int, b: int) -> int:
    return a + b

@app.task(queue="mail")
def greet(name: str, loud: bool = False) -> str:
    return name.upper() if loud else name

@app.task
async def later(seconds: float) -> None: ...

@app.task
def fail(text: str) -> None:
    raise ValueError(text)

@app.task
def slow(seconds: float) -> None:
    current_job().log("it begins")
    time.sleep(seconds)
"""


class Shell:
    """A folder in which commands are typed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WINDLASS_", "NO_COLOR"))}
        self.environ: dict[str, str] = {**kept, "HOME": str(folder)}

    def __call__(
        self, *words: str, stdin: str = "", code: int = 0, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Types a command, and sees that it ends with that code."""
        done = subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env={**self.environ, **(environ or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    def out(self, *words: str, stdin: str = "") -> str:
        """What a command that succeeds prints."""
        return self(*words, stdin=stdin).stdout.strip()

    def refused(self, *words: str, code: int) -> str:
        """What a command says that is refused, on one line."""
        done = self(*words, code=code)
        assert not done.stdout, "what is refused prints nothing"
        return " ".join(done.stderr.split())

    @staticmethod
    def command(*words: str) -> list[str]:
        return [str(Path(sys.executable).parent / "windlass"), *words]

    @contextmanager
    def running(self, *words: str) -> Generator[Running]:
        """A command that goes on, until it is told to stop."""
        process = subprocess.Popen(
            self.command(*words), cwd=self.folder, env=self.environ, stderr=subprocess.PIPE, text=True
        )
        running = Running(process)
        try:
            yield running
        finally:
            running.stop()


class Running:
    """A process, and what it has said so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)

    @property
    def text(self) -> str:
        return "".join(self.said)

    def wait_for(self, text: str) -> None:
        wait_for(f"{text!r} in {self.text!r}", lambda: text in self.text or self.process.poll() is not None)
        assert text in self.text

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join(10)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return code


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "tasks.py").write_text(TASKS)
    return Shell(tmp_path)
