"""The processes of workers as people see them, and asking for a fresh report."""

from __future__ import annotations

from tests.ops.cards_by_hand import HandWorker, active, runner, supervisor
from tests.soak.waiting import wait_for
from windlass import App, Worker
from windlass.core.info import Active, Info
from windlass.ops import stats
from windlass.ops.cards import info, take_stock
from windlass.ops.processes import call_roll, processes

SECOND_US = 1_000_000


def test_a_supervisor_and_its_runners_by_number() -> None:
    job = Active(id="j", task="shop.mail", started_us=90 * SECOND_US)
    said = Info(
        beat_us=100 * SECOND_US,
        processes=(
            runner(2, 12, started_us=98 * SECOND_US, cpu_s=1.5, rss=5, slots=4, ended=7, restarts=3, active=(job,)),
            runner(1, 11),
            supervisor(),
        ),
    )
    boss, first, second = processes(said, 110 * SECOND_US)
    assert [one.label for one in (boss, first, second)] == ["supervisor", "runner 1", "runner 2"]
    assert (second.rss, second.slots, second.ended, second.restarts, second.cpu_s) == (5, 4, 7, 3, 1.5)
    assert second.cpu_percent == 75.0, "of its life up to the report, by one clock"
    assert first.cpu_percent is None, "it does not say when it began"
    (running,) = second.active
    assert (running.id, running.task, running.elapsed_us) == ("j", "shop.mail", 20 * SECOND_US)


def test_a_worker_sums_up_its_processes(app: App) -> None:
    app.engine.open()
    HandWorker(
        app.engine,
        processes=(supervisor(rss=1, cpu_s=0.5), runner(1, 11, rss=2, restarts=1), runner(2, 12, rss=4, restarts=2)),
        state="draining",
    )
    (seen,) = stats.workers(app.engine)
    assert (seen.rss, seen.cpu_s, seen.restarts, seen.state) == (7, 0.5, 3, "draining")


def test_who_drains_takes_no_more_jobs(app: App) -> None:
    app.engine.open()
    app.send("shop.mail")
    leaving = HandWorker(app.engine, "ann")
    HandWorker(app.engine, "bob")
    assert [queue.workers for queue in stats.queues(app.engine)] == [2]
    leaving.says(state="draining")
    assert [queue.workers for queue in stats.queues(app.engine)] == [1]


def test_a_job_that_a_slot_runs_says_since_when(app: App) -> None:
    app.engine.open()
    app.send("shop.mail")
    app.send("shop.mail")
    worker = HandWorker(app.engine)
    begun, waits = worker.claim()
    job = active(begun, "shop.mail", seconds=5)
    worker.says(processes=(supervisor(), runner(1, 11, active=(job,))))
    (seen,) = stats.workers(app.engine)
    assert {one.id: one.started_us for one in seen.running} == {begun: job.started_us, waits: None}


# ── a fresh report ──────────────────────────────────────────────────────────────────────────────────────


def test_workers_that_are_asked_beat_at_once(app: App) -> None:
    @app.task(name="nothing")
    def nothing() -> None: ...

    assert nothing.name == "nothing"
    with Worker(app, name="ann"):
        (before,) = take_stock(app.engine).cards
        wait_for("a report", lambda: call_roll(app.engine))
        (after,) = take_stock(app.engine).cards
    assert info(after).beat_us > info(before).beat_us


def test_only_those_who_are_asked_are_waited_for(app: App) -> None:
    app.engine.open()
    answers, silent = HandWorker(app.engine, "ann"), HandWorker(app.engine, "bob")
    with answers.answering():
        wait_for("a report", lambda: call_roll(app.engine, {answers.card.worker}))
        assert not call_roll(app.engine, {answers.card.worker, silent.card.worker}, patience_s=0)


def test_nobody_waits_for_those_who_are_late_or_do_not_say_when_they_beat(app: App) -> None:
    app.engine.open()
    assert call_roll(app.engine, patience_s=0), "nobody is there"
    silent = HandWorker(app.engine)
    assert not call_roll(app.engine, patience_s=0)
    silent.beats_at(1)
    assert call_roll(app.engine, patience_s=0)
    silent.beats_at(0)
    assert call_roll(app.engine, patience_s=0)


def test_who_ends_meanwhile_is_not_waited_for(app: App) -> None:
    app.engine.open()
    worker = HandWorker(app.engine)
    with worker.answering(bye=True):
        wait_for("its end", lambda: call_roll(app.engine))
        assert take_stock(app.engine).cards == ()
