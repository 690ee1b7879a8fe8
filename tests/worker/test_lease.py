"""A worker that has lost touch with its store cuts itself off before others may take its jobs.

Where a lease decides: the memory engine, and sqlite in a setting for tests. Where a lock does, nobody is cut off.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.soak.waiting import wait_for
from tests.worker.rig import Rig
from tests.worker.yard import HANG_S, Started, Yard, counts, outcomes, record
from windlass import App, Cut, Middleware, Request, Worker
from windlass.core.job import Outcome, State
from windlass.engines.memory import MemoryEngine
from windlass.engines.protocol import TallyQuery
from windlass.ops.cards import info
from windlass.testing.faults import FaultyEngine
from windlass.worker.consumer import CUT_S
from windlass.worker.lease import Lease

LEASE_S = 2.0
"""Long enough for a worker that is only slow."""


class Lanes(Middleware):
    """A job with a tag is sent to the lane of that name."""

    def before_send(self, request: Request) -> Request:
        return msgspec.structs.replace(request, lane=request.tags[0]) if request.tags else request


# ── step by step ────────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_cut_at_four_fifths_from_when_the_last_good_renewal_was_sent() -> None:
    lease, said = Lease(1_000), list[int]()
    lease.on_change = said.append
    assert not lease.is_cut(10**9), "before the first renewal there is nothing to lose"
    lease.renewed(sent_us=5_000)
    assert said == [5_800]
    assert [lease.is_cut(now_us) for now_us in (5_799, 5_800)] == [False, True]
    lease.renewed(sent_us=6_000)
    assert not lease.is_cut(6_799)


def test_without_a_length_nothing_is_ever_cut() -> None:
    lease, said = Lease(None), list[int]()
    lease.on_change = said.append
    lease.renewed(sent_us=1)
    assert (lease.is_cut(10**18), said) == (False, [])


@pytest.fixture
def lanes() -> App:
    app = App("memory://", middleware=[Lanes()])
    app.task(name="plain")(lambda: 1)
    app.task(name="stops", on_cut="stop")(lambda: 1)
    return app


def test_a_worker_that_is_cut_claims_and_starts_nothing_and_stops_what_must_not_run_twice(
    lanes: App, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(lanes, slots=4)
    handles = [lanes.send("plain"), lanes.named("plain").using(tags=["a"]).delay(), lanes.send("stops")]
    rig.consume()
    plain, in_lane, stops = [rig.pool.begin_next() for _ in handles]
    last = lanes.send("plain")
    rig.consume()
    assert rig.pool.waiting() == 1
    rig.engine.down()
    rig.advance(11.9)
    rig.watch()
    assert not rig.crew.is_cut(rig.now_us)
    rig.advance(0.1)
    asked = rig.engine.calls["claim"]
    assert rig.consume() == CUT_S
    assert rig.consume() == CUT_S
    assert rig.engine.calls["claim"] == asked, "it does not even ask"
    assert caplog.text.count("other workers may take over the jobs that run here") == 1
    rig.watch()
    assert [run.asked for run in (plain, in_lane, stops)] == [None, Cut, Cut]
    assert rig.pool.run_next()
    rig.engine.up()
    rig.settle()
    assert rig.state(last.job_id) is State.READY, "it was given back unstarted"
    rig.pool.end(plain, 1)
    rig.settle()
    assert rig.state(plain.claim.id) is State.SUCCEEDED, "the lease does not gate settling"
    rig.beat()
    rig.consume()
    assert rig.pool.next_claim().id == last.job_id
    rig.close()


# ── in one process ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def faulty() -> Iterator[FaultyEngine]:
    engine = FaultyEngine(MemoryEngine())
    engine.open()
    yield engine
    engine.calm()
    engine.close()


def test_tasks_that_are_cut_off_get_it_as_an_exception_and_run_again(faulty: FaultyEngine) -> None:
    app = App("memory://", middleware=[Lanes()], lease=LEASE_S, beat=0.1, sweep=0.1)
    getattr(app, "_held").engine = faulty  # noqa: B009 - the one way to put an engine that fails under an app
    begun, cut, go_on = list[str](), list[str](), threading.Event()

    def work(name: str) -> str:
        begun.append(name)
        try:
            while not go_on.wait(0.005):
                pass
        except Cut:
            cut.append(name)
            raise
        return name

    app.task(name="plain")(work)
    app.task(name="stops", on_cut="stop")(work)
    plain, stops = app.send("plain", "plain"), app.send("stops", "stops")
    lane = app.named("plain").using(tags=["a"]).delay("lane")
    with app, Worker(app, slots=4):
        wait_for("all to begin", lambda: len(begun) == 3)
        faulty.down()
        wait_for("two to be cut off", lambda: len(cut) == 2)
        faulty.up()
        wait_for("those to begin again", lambda: len(begun) == 5)
        go_on.set()
        assert [one.get(HANG_S) for one in (plain, stops, lane)] == ["plain", "stops", "lane"]
    assert sorted(cut) == ["lane", "stops"]
    assert sorted(begun) == ["lane", "lane", "plain", "stops", "stops"]


# ── with processes ──────────────────────────────────────────────────────────────────────────────────────────


def shortly(yard: Yard, *words: str) -> Started:
    return yard.worker(*words, WINDLASS_LEASE=f"{LEASE_S}s", WINDLASS_BEAT=f"{LEASE_S / 8}s")


def by_lease(yard: Yard) -> None:
    """From now on workers of the yard use sqlite in its setting for tests, as a package of somebody else offers it."""
    (yard.folder / "leased.py").write_text(
        "from windlass.engines.connect import sqlite_path\n"
        "from windlass.engines.sqlite import SqliteEngine\n"
        "def make(url, settings): return SqliteEngine(sqlite_path(url), settings.limits, death='lease')\n"
    )
    package = yard.folder / "leased-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: leased\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[windlass.engines]\nleased = leased:make\n")
    yard.monkeypatch.setenv("WINDLASS_URL", yard.url.replace("sqlite:", "leased:"))
    yard.monkeypatch.setenv("PYTHONPATH", str(yard.folder), prepend=os.pathsep)


def wait_silent(app: App, worker: Started) -> None:
    """Until the store has not heard of the worker for three leases."""

    def said_us() -> int:
        return next(info(card).beat_us for card in app.engine.tally(TallyQuery()).cards if card.pid == worker.pid)

    wait_for("three leases to pass", lambda: app.now_us() - said_us() > 3 * LEASE_S * 1e6)


def test_by_lock_a_worker_that_stands_still_keeps_its_job_and_its_late_end_counts(yard: Yard, tasks: Any) -> None:
    still = shortly(yard)
    job = tasks.in_lane.using(tags=["a"]).delay("go")
    yard.wait_lines("begin")
    other = shortly(yard)
    with still.frozen():
        wait_silent(tasks.app, still)
        yard.go("go")
        assert tasks.touch.delay().get(HANG_S) in other.runners, "the other one works meanwhile"
        assert record(job).state is State.RUNNING
    assert job.get(HANG_S) in still.runners
    assert (len(yard.lines("begin", job)), yard.lines("cut"), counts(job)) == (1, [], (1, 0, 0))
    assert "not ours any more" not in still.text


def test_by_lease_another_takes_the_job_and_the_late_end_and_effect_do_not_count(yard: Yard, tasks: Any) -> None:
    by_lease(yard)
    still = shortly(yard)
    job = tasks.guarded.using(tags=["a"]).delay()
    (begun,) = yard.wait_lines("begin")
    other = shortly(yard)
    with still.frozen():
        _, again = yard.wait_lines("begin", 2, job)
        assert again.pid in other.runners
        assert again.more > begun.more, "its fence is greater"
        yard.go(f"{again.more}")
        assert job.get(HANG_S) == again.pid
        yard.go(f"{begun.more}")
        yard.wait_lines("end", 2, job)
    still.wait_for("or it was removed); its end is dropped")
    assert job.get(0) == again.pid
    assert (outcomes(job), record(job).state) == ([Outcome.LOST], State.SUCCEEDED)
    assert (yard.folder / "effects").read_text() == f"{again.more}\n", "it happened once"
    still.wait_for("goes on under a new id")
    other.stop()
    assert tasks.touch.delay().get(HANG_S) in still.runners, "it works on"


def test_by_lease_a_runner_is_cut_off_though_its_supervisor_stands_still(yard: Yard, tasks: Any) -> None:
    by_lease(yard)
    still = shortly(yard, "-c", "2")
    plain, in_lane = tasks.hold.delay("go"), tasks.in_lane.using(tags=["a"]).delay("go")
    yard.wait_lines("begin", 2)
    with still.frozen():
        yard.wait_lines("cut", 1, in_lane)
        assert not yard.lines("end")
    yard.wait_lines("begin", 2, in_lane)
    yard.go("go")
    assert in_lane.get(HANG_S) == plain.get(HANG_S)
    assert (len(yard.lines("begin", plain)), counts(in_lane)[1]) == (1, 0)
