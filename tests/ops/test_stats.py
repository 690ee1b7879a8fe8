"""Counts as people see them."""

from __future__ import annotations

import threading

import pytest

from tests.soak.waiting import wait_for
from windlass import App, Worker
from windlass.core.ids import show_id
from windlass.core.job import State
from windlass.core.rates import Rate
from windlass.engines.protocol import Delta
from windlass.ops import stats
from windlass.ops.cards import label, take_stock
from windlass.testing.conformance import Harness


def test_queues_show_their_counts_and_their_rules(harness: Harness) -> None:
    harness.running(queue="mail")
    harness.send_many(3, queue="mail")
    harness.send(queue="later", delay_us=1_000_000)
    harness.set_gate("queue/mail", paused=True, limit=5, rate=Rate(10, 60_000_000))
    harness.set_gate("queue/empty", paused=True)
    harness.set_gate("queue/later", shut_until_us=harness.now_us + 5)
    harness.worker(queues=("mail", "idle"))
    seen = {queue.name: queue for queue in stats.queues(harness.engine, ["empty", "mail"])}
    assert list(seen) == ["empty", "idle", "later", "mail"]
    mail = seen["mail"]
    assert mail.counts == {State.READY: 3, State.RUNNING: 1}
    assert (mail.paused, mail.limit, mail.rate, mail.workers) == (True, 5, Rate(10, 60_000_000), 2)
    assert (seen["empty"].paused, seen["empty"].counts, seen["empty"].workers) == (True, {}, 1)
    assert (seen["idle"].paused, seen["idle"].workers) == (False, 2)
    assert (seen["later"].counts, seen["later"].shut_until_us) == ({State.SCHEDULED: 1}, harness.now_us + 5)


def test_tasks_are_those_that_workers_know_and_those_that_jobs_name(harness: Harness) -> None:
    harness.send_many(2, "mail.send", queue="mail")
    harness.send("mail.sned", queue="mail")
    harness.worker(name="ann", host="here", tasks=("mail.send", "mail.read"))
    seen = {task.name: (task.counts, task.workers, task.queues) for task in stats.tasks(harness.engine)}
    assert seen == {
        "mail.read": ({}, ("ann@here",), ()),
        "mail.send": ({State.READY: 2}, ("ann@here",), ("mail",)),
        "mail.sned": ({State.READY: 1}, (), ("mail",)),
    }


def test_history_is_summed_by_moment(harness: Harness) -> None:
    worker = harness.worker()
    begin_us = harness.now_us
    harness.renew(
        worker, Delta(queue="a", task="t", name="succeeded", n=3), Delta(queue="b", task="u", name="failed", n=1)
    )
    harness.pass_time(60)
    harness.renew(worker, Delta(queue="b", task="t", name="succeeded", n=2))
    first, second = stats.history(harness.engine, "minute")
    assert (first.start_us, first.span_us, first.counts) == (begin_us, 60_000_000, {"succeeded": 3, "failed": 1})
    assert (second.start_us, second.counts) == (begin_us + 60_000_000, {"succeeded": 2})
    assert [it.counts for it in stats.history(harness.engine, "minute", queue="b")] == [{"failed": 1}, {"succeeded": 2}]
    assert [it.counts for it in stats.history(harness.engine, "hour", task="t")] == [{"succeeded": 5}]
    assert [it.counts for it in stats.history(harness.engine, "minute", since_us=begin_us + 1)] == [{"succeeded": 2}]
    assert stats.outcomes(harness.engine, "minute") == {"t": {"succeeded": 5}, "u": {"failed": 1}}
    assert stats.outcomes(harness.engine, "minute", since_us=begin_us + 1) == {"t": {"succeeded": 2}}


def test_a_worker_shows_its_card_its_age_and_what_it_runs(app: App) -> None:
    running, go = threading.Event(), threading.Event()

    @app.task(name="blocks")
    def blocks() -> None:
        running.set()
        assert go.wait(10)

    handle = blocks.delay()
    try:
        with Worker(app, slots=2, name="ann", queues=["default"], pool="threads") as worker:
            assert running.wait(10)
            (seen,) = stats.workers(app.engine)
            assert (seen.id, seen.name, seen.slots, seen.pool) == (worker.id, "ann", 2, "threads")
            assert (seen.queues, seen.tasks) == (("default",), ("blocks",))
            assert (seen.claims, [line.id for line in seen.running]) == (1, [handle.id])
            assert seen.running[0].state is State.RUNNING
            assert seen.running[0].worker == worker.id
            assert 0 <= seen.age_us < 60_000_000
            go.set()
            handle.get(timeout=10)
    finally:
        go.set()
    assert stats.workers(app.engine) == ()
    wait_for("the history", lambda: stats.history(app.engine, "day", task="blocks"))
    assert stats.history(app.engine, "day", task="blocks")[0].counts == {"succeeded": 1}


def test_a_killed_worker_is_not_shown_though_nobody_has_swept(harness: Harness) -> None:
    if harness.engine.capabilities.death == "lease":
        pytest.skip("by lease, only another worker may call it dead")
    dead, alive = harness.worker(name="ann"), harness.worker(name="bob")
    harness.send()
    assert len(harness.claim(dead)) == 1
    harness.vanish(dead)
    (seen,) = stats.workers(harness.engine, now_us=harness.now_us)
    assert (seen.id, seen.claims) == (show_id(alive), 0)


def test_a_worker_without_a_name_is_called_by_its_id_everywhere(harness: Harness) -> None:
    for name, host in (("", ""), ("ann", ""), ("bob", "here")):
        harness.worker(name=name, host=host)
    cards = sorted(take_stock(harness.engine).cards, key=lambda card: card.worker)
    called = [show_id(cards[0].worker), "ann", "bob@here"]
    assert list(map(label, cards)) == called
    assert [one.label for one in stats.workers(harness.engine, now_us=harness.now_us)] == called


def test_an_end_that_came_too_late_and_a_snooze_are_no_failures() -> None:
    counts = {"succeeded": 5, "failed": 1, "timed_out": 2, "crashed": 3, "lost": 4, "stale": 7, "snooze": 8}
    assert stats.failures(counts) == 1 + 2 + 3 + 4
