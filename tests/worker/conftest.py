"""An app of simple tasks, a worker that is stepped by hand, and a look at what a test leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.soak.waiting import wait_for
from tests.worker.house import House, house_in
from tests.worker.rig import Rig
from tests.worker.yard import Yard
from windlass.app.app import App


@pytest.fixture
def app() -> App:
    app = App("memory://")

    @app.task(name="double")
    def double(number: int) -> int:
        return 2 * number

    @app.task(name="fails")
    def fails(text: str) -> None:
        raise ValueError(text)

    @app.task(name="patient", timeout=10)
    def patient() -> str:
        return "done"

    return app


@pytest.fixture
def rig(app: App) -> Iterator[Rig]:
    rig = Rig(app)
    yield rig
    rig.close()


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """Runners inherit the environment of this process."""
    monkeypatch.setenv("WINDLASS_URL", f"sqlite:///{tmp_path}/jobs.db")
    monkeypatch.setenv("MARKS_FOLDER", str(tmp_path))
    with house_in(tmp_path) as house:
        yield house


@pytest.fixture
def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    """Where workers with processes of their own work."""
    with ExitStack() as stack:
        yield Yard(tmp_path, stack, monkeypatch)


@pytest.fixture
def tasks(yard: Yard) -> Any:
    """The tasks of `limited.py`, to be sent to the store of the yard."""
    return yard.load()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Whatever a test started has ended with it."""
    before = set(threading.enumerate())
    yield

    def ended() -> bool:
        # A waiter ends by itself when nobody waits any more.
        return not [thread for thread in threading.enumerate() if thread not in before and _is_ours(thread)]

    wait_for("the threads of the test to end", ended)


def _is_ours(thread: threading.Thread) -> bool:
    return thread.name.startswith("windlass-")
