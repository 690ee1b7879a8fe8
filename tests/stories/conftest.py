"""Where stories play: on both engines; on sqlite the worker is a process of its own, as it is in life."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from windlass import Worker

HERE = Path(__file__).parent
WORK = """
import sys
import tasks
from windlass import Worker
with Worker(tasks.app, **eval(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{tmp_path.name}" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def tasks(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module `tasks`, imported as a fresh process would, with the store's URL in the environment."""
    monkeypatch.setenv("WINDLASS_URL", url)
    spec = importlib.util.spec_from_file_location("tasks", HERE / "tasks.py")
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "tasks", module)
    spec.loader.exec_module(module)
    yield module
    module.app.close()


@contextmanager
def second_process(url: str, **options: Any) -> Generator[subprocess.Popen[str]]:
    """A worker in a process of its own; it stops gracefully at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORK, repr(options)],
        env={**os.environ, "WINDLASS_URL": url, "PYTHONPATH": str(HERE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


Work = Callable[..., Any]


@pytest.fixture
def work(url: str, tasks: Any) -> Iterator[Work]:
    """Starts a worker: `work(slots=2)`. In a second process, but for the memory engine, which has none."""
    with ExitStack() as stack:

        def start(**options: Any) -> Any:
            if url.startswith("memory"):
                return stack.enter_context(Worker(tasks.app, **options))
            return stack.enter_context(second_process(url, **options))

        yield start


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """A file in which runs leave marks."""
    return tmp_path / "marks"
