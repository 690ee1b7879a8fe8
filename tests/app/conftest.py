"""Where these tests play: on both engines, and on a memory engine that can be watched and made to fail."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.soak.waiting import HANG_S
from windlass import App
from windlass.app.middleware import Middleware
from windlass.core.settings import Settings
from windlass.engines import connect
from windlass.engines.memory import MemoryEngine
from windlass.engines.protocol import Engine, Hint, Interest, Receipt
from windlass.testing.faults import FaultyEngine

OURS = ("windlass-waiter", "windlass-batch")


class Watched(FaultyEngine):
    """A memory engine that tells when somebody sleeps in it, and keeps what it was asked for."""

    def __init__(self) -> None:
        super().__init__(MemoryEngine())
        self.asleep = threading.Event()
        self.interests: list[Interest] = []
        self.inserted: list[int] = []

    def listen(self, interest: Interest, timeout_s: float, /) -> list[Hint]:
        room: Any = cast("Any", self.inner)._opened()
        # Sleeping lets go of the lock: whoever saw `asleep` and then rings is sure to be heard.
        with room.lock:
            self.interests.append(interest)
            self.asleep.set()
            return super().listen(interest, timeout_s)

    def insert(self, jobs: Any, /) -> list[Receipt]:
        self.inserted.append(len(jobs))
        return super().insert(jobs)


class Store:
    """An app on a watched engine."""

    def __init__(self, engine: Watched, *middleware: Middleware) -> None:
        self.engine = engine
        self.app = App("watched://", middleware=middleware)

        @self.app.task(name="double")
        def double(number: int) -> int:
            return 2 * number

        self.double = double


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{tmp_path.name}" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def app(url: str) -> Iterator[App]:
    with App(url) as app:
        yield app


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Watched:
    engine = Watched()

    def make(_url: str, _settings: Settings) -> Engine:
        return engine

    monkeypatch.setitem(connect.OWN, "watched", make)
    return engine


@pytest.fixture
def store(engine: Watched) -> Iterator[Store]:
    store = Store(engine)
    yield store
    engine.calm()
    store.app.close()


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    """Closing an app ends its threads."""
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before and thread.name.startswith(OURS)]
    for thread in left:
        thread.join(HANG_S)
    assert [thread.name for thread in left if thread.is_alive()] == []
