"""A folder with an app in it, and `windlass` typed there as a person would: in processes, on a terminal, or here.

`shell` starts a process per command, which costs a third of a second. `typed` calls the same `main` in this process, on
the store of `app`, where a process is not the point.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.soak.waiting import HANG_S, wait_for
from windlass import App
from windlass.cli.main import main

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell: what is started from here would ignore Ctrl-C too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

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
async def hangs() -> None:
    import asyncio
    current_job().log("it begins")
    await asyncio.to_thread(time.sleep, 600)

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
        self, *words: str, stdin: str = "", code: int | None = 0, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Types a command, and sees that it ends with that code, where one is given."""
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
        assert code in {None, done.returncode}, (words, done.returncode, done.stdout, done.stderr)
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

    def on_terminal(
        self, *words: str, answer: str = "", until: str = "", width: int = 100, code: int = 0, **environ: str
    ) -> str:
        """What a terminal gets to see of a command. `answer` is typed beforehand, Ctrl-C when it shows `until`."""
        ours, theirs = pty.openpty()
        environ = {**self.environ, "COLUMNS": str(width), "LINES": "40", "TERM": "xterm-256color", **environ}
        process = subprocess.Popen(
            self.command(*words), cwd=self.folder, env=environ, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        if answer:
            os.write(ours, answer.encode())
        seen = bytearray()
        try:
            while piece := os.read(ours, 65_536):
                seen += piece
                if until and until.encode() in seen:
                    process.send_signal(signal.SIGINT)
                    until = ""
        except OSError:
            pass  # the other side has been closed
        finally:
            os.close(ours)
        assert process.wait(60) == code, seen
        return seen.decode()

    def script(self, line: str) -> str:
        """What a line for sh prints, such as one with a pipe in it."""
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert not done.stderr, done.stderr
        return done.stdout

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
        # Where the process has ended, its last words may still be on their way.
        wait_for(f"{text!r} in {self.text!r}", lambda: text in self.text or not self._reader.is_alive())
        assert text in self.text

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join(HANG_S)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return code


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "tasks.py").write_text(TASKS)
    return Shell(tmp_path)


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, str]]:
        """A table as it is on a pipe: a line of heads, then columns apart by tabs."""
        heads, *lines = [line.split("\t") for line in self.out.splitlines()]
        return [dict(zip(heads, line, strict=True)) for line in lines]


class Typed:
    """`windlass` typed in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> Done:
        """Types a command, and sees that it ends with that code, where one is given."""
        done = self.anyhow(*words)
        assert done.code == code, (words, done)
        return done

    def anyhow(self, *words: str) -> Done:
        """Types a command, whatever its end."""
        self._monkeypatch.setattr(sys, "argv", ["windlass", *words])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        shown = self._capsys.readouterr()
        return Done(int(str(ended.value.code)), shown.out, shown.err)

    def json(self, *words: str, code: int = 0) -> Any:
        """What a command prints for programs: one JSON value, and nothing else."""
        return json.loads(self(*words, "--json", code=code).out)

    def refused(self, *words: str, code: int) -> str:
        """What a command says that is refused, on one line."""
        done = self(*words, code=code)
        assert not done.out, "what is refused prints nothing"
        return " ".join(done.err.split())


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[App]:
    """An app on the store that commands find in this folder."""
    for name in [name for name in os.environ if name.startswith("WINDLASS_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    with App("sqlite:///windlass.db") as app:
        yield app


@pytest.fixture
def typed(app: App, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    app.engine.open()  # commands read a store, they do not make one
    return Typed(monkeypatch, capsys)
