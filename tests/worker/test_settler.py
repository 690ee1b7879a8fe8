"""The settler, step by step: when it goes to the store, in which order, and what it does with a refusal."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from tests.worker.rig import Rig
from windlass.app.app import App
from windlass.app.middleware import Middleware
from windlass.core.errors import StoreUnavailable
from windlass.core.ids import new_id
from windlass.core.job import State
from windlass.engines.protocol import BATCH, Note, Settlement, Verdict
from windlass.testing.faults import Fault
from windlass.worker.settler import PATIENCE_US
from windlass.worker.spool import LONGEST_LINE


def ended(rig: Rig, count: int) -> list[bytes]:
    """So many jobs that have run; their ends lie with the settler."""
    rig.pool.room.mean_us = 1.0
    ids = [handle.job_id for handle in rig.app.named("double").delay_many([(number,) for number in range(count)])]
    while rig.consume() == 0:
        pass
    while rig.pool.run_next():
        pass
    setattr(rig.crew.settler, "_urgent", False)  # noqa: B010 - the last of them asked for haste
    return ids


def test_ends_wait_five_milliseconds_for_company(rig: Rig) -> None:
    (job_id,) = ended(rig, 1)
    assert rig.crew.settler.tick(rig.now_us) == PATIENCE_US / 1e6
    assert rig.state(job_id) is State.RUNNING
    assert rig.crew.settler.tick(rig.now_us + PATIENCE_US - 1) == 1e-6
    assert rig.crew.settler.tick(rig.now_us + PATIENCE_US) == 0
    assert rig.state(job_id) is State.SUCCEEDED


def test_a_hundred_go_at_once_in_one_call(rig: Rig) -> None:
    ids = ended(rig, BATCH)
    assert rig.crew.settler.tick(rig.now_us) == 0
    assert {rig.state(job_id) for job_id in ids} == {State.SUCCEEDED}
    assert rig.engine.calls["settle"] == 1


def test_more_than_a_hundred_take_another_round_at_once(rig: Rig) -> None:
    ended(rig, BATCH + 20)
    assert rig.crew.settler.tick(rig.now_us) == 0
    assert rig.crew.settler.unsettled == 20


def test_the_last_end_at_hand_is_urgent(rig: Rig) -> None:
    rig.app.send("double", 1)
    rig.consume()
    rig.pool.run_next()
    assert rig.crew.settler.tick(rig.now_us) == 0
    assert rig.engine.calls["settle"] == 1


def test_what_is_put_down_after_a_flush_wakes_the_settler(rig: Rig) -> None:
    """It sleeps only after it has said so: an end or a line that comes in between must not lie there."""
    settler = rig.crew.settler
    rig.app.send("double", 1)
    rig.consume()
    rig.pool.run_next()
    pause_s: float | None = 0.0
    while pause_s == 0:
        pause_s = settler.tick(rig.now_us)
    assert pause_s is None, "it sleeps until it is woken"
    woken: list[bool] = []
    settler.wake = lambda: woken.append(True)
    settler.note(Note(id=new_id(), fence=1, kind="log", data=b"a line of a job that runs on"))
    assert woken


def test_what_the_store_refused_or_did_not_answer_is_settled_exactly_once(rig: Rig) -> None:
    ids = ended(rig, 3)
    rig.engine.plan("settle", [Fault.REFUSE, Fault.LOSE])
    rig.advance(1)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            rig.crew.settler.flush()
        assert rig.crew.settler.unsettled == 3
    rig.crew.settler.flush()
    assert rig.crew.settler.unsettled == 0
    assert not rig.crew.desk.open
    assert {rig.state(job_id) for job_id in ids} == {State.SUCCEEDED}
    rig.beat()
    assert rig.counted("succeeded") == 3


def test_ends_that_come_during_an_outage_go_after_the_batch_that_failed(rig: Rig) -> None:
    first = ended(rig, 3)
    rig.engine.refuse("settle")
    with pytest.raises(StoreUnavailable):
        rig.crew.settler.flush()
    more = ended(rig, 2)
    rig.crew.settler.flush()
    assert [rig.state(job_id) for job_id in (*first, *more)] == [State.SUCCEEDED] * 3 + [State.RUNNING] * 2
    rig.crew.settler.flush()
    assert {rig.state(job_id) for job_id in more} == {State.SUCCEEDED}


@pytest.mark.parametrize("lines", [3, BATCH + 1, 3 * BATCH + 7])
def test_no_line_of_a_job_comes_after_its_end(rig: Rig, lines: int) -> None:
    @rig.app.task(name="talks")
    def talks() -> None:
        from windlass import current_job

        for number in range(lines):
            current_job().log(f"line {number}")
            current_job().progress(number)

    rig = rig.second()
    handle = rig.app.named("talks").delay()
    rig.consume()
    rig.pool.run_next()
    rig.settle()
    job = rig.job(handle.job_id)
    assert [line.text for line in job.log] == [f"line {number}".encode() for number in range(lines)]
    assert job.progress is not None
    assert job.progress.data == b'{"done":%d}' % (lines - 1)


def test_lines_that_failed_are_written_once_the_store_is_back(rig: Rig) -> None:
    handle = rig.app.send("double", 1)
    rig.consume()
    run = rig.pool.begin_next()
    run.context.log("one")
    rig.watch()
    rig.engine.refuse("note")
    with pytest.raises(StoreUnavailable):
        rig.crew.settler.flush()
    run.context.log("two")
    rig.pool.end(run, 2)
    rig.crew.settler.flush()
    assert [line.text for line in rig.job(handle.job_id).log] == [b"one", b"two"]


def test_a_line_or_a_progress_that_is_too_long_is_cut_and_stops_nobody(rig: Rig) -> None:
    handle = rig.app.send("double", 1)
    rig.consume()
    run = rig.pool.begin_next()
    run.context.log("x" * 1_000_000)
    run.context.progress(1, note="y" * 1_000_000)
    rig.pool.end(run, 2)
    rig.settle()
    job = rig.job(handle.job_id)
    assert len(job.log[0].text.decode()) == LONGEST_LINE + len("…")
    assert job.progress is not None
    assert job.progress.data == b"{}"
    assert rig.state(handle.job_id) is State.SUCCEEDED


def test_a_line_that_cannot_be_stored_keeps_nothing_else_from_it(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    handle = rig.app.send("double", 1)
    rig.consume()
    run = rig.pool.begin_next()
    for at_us in (1, 1 << 63, 2):
        line = Note(id=run.claim.id, fence=run.claim.fence, kind="log", data=b"%d" % at_us, at_us=at_us)
        rig.crew.settler.note(line)
    rig.pool.end(run, 2)
    rig.settle()
    assert [line.text for line in rig.job(handle.job_id).log] == [b"1", b"2"]
    assert rig.state(handle.job_id) is State.SUCCEEDED
    assert caplog.text.count("A line of job") == 1


def test_the_end_of_a_claim_that_is_not_ours_any_more_is_dropped_and_counted(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    (job_id,) = ended(rig, 1)
    rig.engine.inner.settle([])
    other = rig.second()
    rig.advance(8)
    other.beat()
    rig.advance(8)
    other.beat()
    other.sweep()
    rig.crew.settler.flush()
    assert "not ours any more" in caplog.text
    assert rig.state(job_id) is State.READY
    assert not rig.crew.desk.open
    assert [delta.name for delta in rig.crew.settler.take_counts()] == ["stale"]


# ── middleware ──────────────────────────────────────────────────────────────────────────────────────────


def app_with(middleware: Middleware) -> App:
    app = App("memory://", middleware=[middleware])

    @app.task(name="double")
    def double(number: int) -> int:
        return 2 * number

    return app


class Counts(Middleware):
    """Counts what it sees."""

    def __init__(self) -> None:
        self.before: list[bytes] = []
        self.after: list[tuple[bytes, Verdict]] = []

    def before_settle(self, settlement: Settlement) -> Settlement:
        self.before.append(settlement.id)
        return settlement

    def after_settle(self, settlement: Settlement, verdict: Verdict) -> None:
        self.after.append((settlement.id, verdict))


def test_hooks_see_each_end_once_however_often_the_store_is_asked() -> None:
    counts = Counts()
    rig = Rig(app_with(counts))
    ids = ended(rig, 3)
    rig.engine.plan("settle", [Fault.REFUSE, Fault.LOSE])
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            rig.crew.settler.flush()
    rig.crew.settler.flush()
    assert counts.before == ids
    assert counts.after == [(job_id, Verdict.ALREADY) for job_id in ids]
    rig.close()


class Breaks(Middleware):
    """Does with settlements what it must not."""

    def __init__(self, how: str) -> None:
        self.how = how

    def before_settle(self, settlement: Settlement) -> Settlement:
        nothing: Any = None
        match self.how:
            case "raises":
                raise RuntimeError("broken hook")
            case "wants to end the process":
                raise SystemExit(3)
            case "forgets to return":
                return nothing
            case "takes another":
                return msgspec.structs.replace(settlement, fence=settlement.fence + 1)
            case _:
                return settlement

    def after_settle(self, settlement: Settlement, verdict: Verdict) -> None:
        raise RuntimeError("broken hook")


@pytest.mark.parametrize("how", ["raises", "wants to end the process", "forgets to return", "takes another"])
def test_a_hook_that_fails_is_logged_and_the_settlement_stays_as_it_was(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(app_with(Breaks(how)))
    ids = ended(rig, 2)
    rig.crew.settler.flush()
    assert {rig.state(job_id) for job_id in ids} == {State.SUCCEEDED}
    assert "A middleware failed before a settle" in caplog.text
    assert "A middleware failed in Breaks.after_settle" in caplog.text
    rig.close()


class Swells(Middleware):
    """Makes the result of the second job too large to be stored."""

    seen = 0

    def before_settle(self, settlement: Settlement) -> Settlement:
        self.seen += 1
        if self.seen != 2:
            return settlement
        return msgspec.structs.replace(settlement, result=b"x" * 2_000_000)


def test_an_end_that_cannot_be_stored_kills_its_job_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(app_with(Swells()))
    ids = ended(rig, 3)
    with caplog.at_level(logging.ERROR):
        rig.crew.settler.flush()
    assert [rig.state(job_id) for job_id in ids] == [State.SUCCEEDED, State.DEAD, State.SUCCEEDED]
    assert rig.record(ids[1]).reason == "settlement"
    failure = rig.job(ids[1]).failure
    assert failure is not None
    assert "1 MiB are allowed" in failure.message
    assert not rig.crew.desk.open
    assert caplog.text.count("cannot be stored") == 1
    rig.close()


# ── the end ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_drain_settles_what_is_left_and_waits_between_its_tries(rig: Rig) -> None:
    ids = ended(rig, 2)
    rig.crew.settler.stop()
    rig.engine.refuse("settle", 2)
    assert rig.crew.settler.drain(60) == []
    assert {rig.state(job_id) for job_id in ids} == {State.SUCCEEDED}
    assert rig.engine.calls["settle"] == 3


def test_a_drain_gives_what_could_not_be_settled_in_time(rig: Rig) -> None:
    ids = ended(rig, 2)
    rig.crew.settler.stop()
    rig.engine.down()
    left = rig.crew.settler.drain(0)
    assert [settlement.id for settlement in left] == ids
