"""The store fails while a worker works: answers are lost, calls refused, it is away. Every job settles exactly once."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.soak.waiting import wait_for
from windlass.app.app import App
from windlass.app.middleware import Middleware
from windlass.core.job import State
from windlass.engines.memory import MemoryEngine
from windlass.engines.protocol import Settlement, TallyQuery, Verdict
from windlass.testing.faults import FaultyEngine
from windlass.worker.worker import Worker

HANG_S = 60


class Book(Middleware):
    """Keeps what the store answered for each job."""

    def __init__(self) -> None:
        self.verdicts: dict[bytes, list[Verdict]] = {}

    def after_settle(self, settlement: Settlement, verdict: Verdict) -> None:
        if settlement.outcome is not None:
            self.verdicts.setdefault(settlement.id, []).append(verdict)


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def faulty() -> Iterator[FaultyEngine]:
    engine = FaultyEngine(MemoryEngine())
    engine.open()
    yield engine
    engine.calm()
    engine.close()


@pytest.fixture
def app(faulty: FaultyEngine, book: Book) -> Iterator[App]:
    app = App("memory://", middleware=[book], lease=2, beat=0.2, sweep=0.2)
    getattr(app, "_held").engine = faulty  # noqa: B009 - the one way to put an engine that fails under an app
    yield app
    faulty.calm()
    app.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_lost_and_refused_calls_every_job_runs_and_settles_exactly_once(
    app: App, faulty: FaultyEngine, book: Book, seed: int
) -> None:
    runs: Counter[int] = Counter()
    lock = threading.Lock()

    @app.task(name="note")
    def note(number: int) -> int:
        with lock:
            runs[number] += 1
        return number

    @app.task(name="note_async")
    async def note_async(number: int) -> int:
        with lock:
            runs[number] += 1
        return number

    count = 400
    ids = [
        handle.job_id
        for name, start in (("note", 0), ("note_async", count))
        for handle in app.named(name).delay_many([(number,) for number in range(start, start + count)])
    ]
    with Worker(app, slots=4):
        faulty.chance(seed=seed, lose=0.15, refuse=0.15, verbs=["claim", "settle", "renew", "note", "sweep", "listen"])
        wait_for("all to be settled", lambda: len(book.verdicts) == 2 * count, hang_s=HANG_S)
        assert faulty.faults > 5
        faulty.calm()
    assert set(runs.values()) == {1}
    assert all(len(said) == 1 and said[0] is not Verdict.STALE for said in book.verdicts.values())
    jobs = [job for start in range(0, len(ids), 100) for job in faulty.inner.fetch(ids[start : start + 100])]
    for job in jobs:
        assert job is not None
        assert job.record is not None
        assert (job.record.state, job.record.losses) == (State.SUCCEEDED, 0)
    assert faulty.inner.tally(TallyQuery()).cards == ()


def test_ends_of_an_outage_are_kept_and_settled_when_it_is_over(
    app: App, faulty: FaultyEngine, book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "windlass")
    started, go_on = threading.Barrier(3), threading.Event()

    @app.task(name="waits")
    def waits() -> int:
        started.wait(HANG_S)
        go_on.wait(HANG_S)
        return 1

    handles = app.named("waits").delay_many([()] * 2)
    with Worker(app, slots=2) as worker:
        started.wait(HANG_S)
        faulty.down()
        go_on.set()
        wait_for("both to end", lambda: worker.running == 0)
        tried = faulty.calls["settle"]
        wait_for("the settler to try again and again", lambda: faulty.calls["settle"] >= tried + 4)
        assert caplog.text.count("has to wait") == 1, "once per outage, however many loops wait"
        assert book.verdicts == {}
        faulty.up()
        assert handles.get(HANG_S) == [1, 1]
        wait_for("the end to be told", lambda: "The worker goes on." in caplog.text)
    assert caplog.text.count("The worker goes on.") == 1
    assert list(book.verdicts.values()) == [[Verdict.ACCEPTED]] * 2


def test_a_stop_during_an_outage_ends_and_names_what_was_not_settled(
    app: App, faulty: FaultyEngine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.worker.crew.SETTLE_S", 0.2)
    started, go_on = threading.Event(), threading.Event()

    @app.task(name="waits")
    def waits() -> int:
        started.set()
        go_on.wait(HANG_S)
        return 1

    handle = app.send("waits")
    worker = Worker(app, slots=1).start()
    assert started.wait(HANG_S)
    faulty.down()
    go_on.set()
    worker.stop(drain=0.05)
    assert f"The end of job {handle.id} was not settled; it will be run again." in caplog.text
    told = ("The worker's card could not be taken away", "The store does not answer; left behind: heartbeat")
    assert any(text in caplog.text for text in told)
    faulty.up()
    with Worker(app, slots=1):
        assert handle.get(HANG_S) == 1
    record = handle.job().record
    assert record is not None
    assert record.losses == 1


def test_a_worker_that_was_cut_off_longer_than_its_lease_goes_on_under_a_new_id(
    app: App, faulty: FaultyEngine, book: Book
) -> None:
    """Another worker takes its job; what it brings home late is stale, and it works on."""
    calls: list[int] = []
    started, go_on = threading.Event(), threading.Event()

    @app.task(name="waits")
    def waits() -> int:
        calls.append(1)
        if len(calls) == 1:
            started.set()
            go_on.wait(HANG_S)
            return 1
        return 2

    handle = app.send("waits")
    with Worker(app, slots=1) as cut:
        assert started.wait(HANG_S)
        old = cut.id
        faulty.down()
        # The rest of the world goes on: it reaches the same store another way.
        other = App("memory://", lease=2, beat=0.2, sweep=0.2)
        getattr(other, "_held").engine = faulty.inner  # noqa: B009 - see above
        other.task(name="waits")(waits.function)
        with Worker(other, slots=1):
            assert other.result(handle.id).get(HANG_S) == 2
        other.close()
        faulty.up()
        wait_for("a new id", lambda: cut.id != old)
        go_on.set()
        wait_for("the late end to be answered", lambda: handle.job_id in book.verdicts)
        assert book.verdicts[handle.job_id] == [Verdict.STALE]
        assert app.send("waits").get(HANG_S) == 2
    assert handle.get(0) == 2
