"""What the demo runs on: a temporary folder with a store in it, and processes that end before it goes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self
from urllib.parse import quote

from windlass.core.redact import plain

HERE = Path(__file__).resolve().parent
PATIENCE_S = 10
"""How long a process may take to end when it is asked to; the worker's own drain is shorter."""


class Stage:
    """A folder and processes of one demo; when it is left, the processes have ended and the folder is gone."""

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self.folder = Path(tempfile.mkdtemp(prefix="windlass-demo-"))
        self.url = f"sqlite:///{quote(str(self.folder / 'shop.db'))}"
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._producer: subprocess.Popen[bytes] | None = None
        # Whoever holds its other end, as all the processes do, hears of our end however we end.
        self._lifeline, self._ours = os.pipe()

    def start_worker(self, name: str) -> None:
        """`windlass worker tasks.py`, as one would type it; its log goes to the folder."""
        words = ["-m", "windlass", "worker", str(HERE / "tasks.py"), "--name", name, "--drain", "1s"]
        self._workers[name] = self._start(name, [*words, "--lifeline", str(self._lifeline)])

    def start_producer(self) -> None:
        """The shop's web site."""
        self._producer = self._start("producer", [str(HERE / "producer.py"), str(self._lifeline)])

    def _start(self, name: str, words: list[str]) -> subprocess.Popen[bytes]:
        # A store or an option of the reader's own must not get into the demo, nor the demo into his store.
        environ = {key: value for key, value in os.environ.items() if not key.startswith("WINDLASS_")}
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, *words],
                cwd=self.folder,
                env={**environ, "WINDLASS_URL": self.url, "WINDLASS_BEAT": "1s"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[self._lifeline],
                process_group=0,  # Ctrl-C is for the demo alone: it ends the others in order
            )

    def ended_early(self) -> str | None:
        """A sentence about a worker that has ended, if one has."""
        name = next((name for name, worker in self._workers.items() if worker.poll() is not None), None)
        return None if name is None else f"The worker {name} could not start. {self._last_words(name)}"

    def cannot_go_on(self) -> str | None:
        """A sentence if no worker is left or the producer has ended. One worker may be killed: the others go on."""
        if all(worker.poll() is not None for worker in self._workers.values()):
            return f"No worker is left. {self._last_words(next(iter(self._workers)))}"
        if self._producer is not None and self._producer.poll() is not None:
            return f"The producer has ended. {self._last_words('producer')}"
        return None

    def _last_words(self, name: str) -> str:
        lines = (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
        return f"Its last words: {plain(last)}"

    def stop(self) -> None:
        """Ends the producer, then the workers: what is running may end, the rest goes back to the store."""
        _end([] if self._producer is None else [self._producer])
        self._producer = None
        _end(list(self._workers.values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        os.close(self._lifeline)
        os.close(self._ours)
        if not self._keep:
            shutil.rmtree(self.folder)


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
