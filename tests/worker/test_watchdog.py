"""The watchdog: a consumer that hangs in the store is noticed, and the connection made anew."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.soak.waiting import wait_for
from windlass.app.app import App
from windlass.core.errors import StoreClosed, StoreUnavailable
from windlass.engines.protocol import Claims, Opened, Order
from windlass.engines.sqlite import SqliteEngine
from windlass.worker import watchdog
from windlass.worker.worker import Worker

HANG_S = 30


class Deaf(SqliteEngine):
    """A store whose connection is dead for one claim: it answers only when it is closed."""

    def __init__(self, path: Path, death: Literal["lock", "lease"] = "lease") -> None:
        super().__init__(path, death=death)
        self.dead = True
        self.refuses = 0
        self.claims = 0
        self.hangs = threading.Event()
        self.closed = threading.Event()

    def claim(self, order: Order, /) -> Claims:
        if self.dead:
            self.dead = False
            self.hangs.set()
            self.closed.wait(HANG_S)
            raise StoreClosed("The connection was closed.", "Open it again.")
        found = super().claim(order)
        self.claims += len(found.claims)
        return found

    def open(self) -> Opened:
        if self.refuses:
            self.refuses -= 1
            raise StoreUnavailable("The store cannot be reached.", "Try again.")
        return super().open()

    def close(self) -> None:
        super().close()
        self.closed.set()


@pytest.fixture
def deaf(tmp_path: Path) -> Iterator[Deaf]:
    engine = Deaf(tmp_path / "jobs.db")
    engine.open()
    yield engine
    engine.close()


@pytest.mark.parametrize("refuses", [0, 3], ids=["at_once", "later"])
def test_a_connection_that_is_dead_is_made_anew(
    deaf: Deaf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refuses: int
) -> None:
    monkeypatch.setattr(watchdog, "WATCH_S", 0.05)
    monkeypatch.setattr(watchdog, "HUNG_US", 200_000)
    app = App("memory://")

    @app.task(name="double")
    def double(number: int) -> int:
        return 2 * number

    with app.on(deaf), Worker(app):
        assert deaf.hangs.wait(HANG_S)
        handle = double.delay(4)
        deaf.refuses = refuses
        wait_for("the connection to be made anew", deaf.closed.is_set, hang_s=HANG_S)
        wait_for("the consumer to go on", lambda: not deaf.dead and deaf.claims > 0, hang_s=HANG_S)
        assert handle.get(HANG_S) == 8
        assert "nothing has been claimed" in caplog.text


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Released after each look of the watchdog."""
    looked = threading.Semaphore(0)
    tick = watchdog.Watchdog.tick

    def counted(dog: watchdog.Watchdog, now_us: int) -> float | None:
        pause_s = tick(dog, now_us)
        looked.release()
        return pause_s

    monkeypatch.setattr(watchdog.Watchdog, "tick", counted)
    return looked


def test_a_consumer_without_work_is_left_in_peace(
    deaf: Deaf, monkeypatch: pytest.MonkeyPatch, looked: threading.Semaphore
) -> None:
    monkeypatch.setattr(watchdog, "WATCH_S", 0.01)
    monkeypatch.setattr(watchdog, "HUNG_US", 20_000)
    deaf.dead = False
    app = App("memory://")
    app.task(name="idle")(lambda: None)
    with app.on(deaf), Worker(app):
        for _ in range(20):
            assert looked.acquire(timeout=HANG_S)
        assert not deaf.closed.is_set()


def test_where_a_lock_tells_who_lives_it_is_not_let_go(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    looked: threading.Semaphore,
) -> None:
    """Others would take the worker for dead, and run its jobs beside it."""
    monkeypatch.setattr(watchdog, "WATCH_S", 0.05)
    monkeypatch.setattr(watchdog, "HUNG_US", 200_000)
    deaf = Deaf(tmp_path / "jobs.db", "lock")
    deaf.open()
    app = App("memory://")

    @app.task(name="double")
    def double(number: int) -> int:
        return 2 * number

    with app.on(deaf), Worker(app):
        assert deaf.hangs.wait(HANG_S)
        handle = double.delay(4)
        wait_for("a word", lambda: "nothing has been claimed" in caplog.text, hang_s=HANG_S)
        while looked.acquire(blocking=False):
            pass
        assert looked.acquire(timeout=HANG_S)  # the look in which it said so is over
        assert not deaf.closed.is_set()
        deaf.closed.set()
        assert handle.get(HANG_S) == 8
    deaf.close()
