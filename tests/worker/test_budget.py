"""What a worker has of memory and other resources: never promised twice, and nobody starves for it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.soak.waiting import wait_for
from tests.worker.rig import Rig
from tests.worker.yard import HANG_S, Yard, counts
from windlass import App, Worker
from windlass.core.errors import WindlassError
from windlass.core.gates import MEMORY
from windlass.core.job import State
from windlass.core.rank import aging_bound_us
from windlass.core.system import memory_limit
from windlass.engines.protocol import TallyQuery
from windlass.ops.cards import info
from windlass.ops.processes import call_roll

MB = 1_000_000


# ── what a worker has ───────────────────────────────────────────────────────────────────────────────────────


def test_without_a_word_a_worker_has_all_the_memory_that_its_process_may_use(app: App) -> None:
    with app, Worker(app):
        (card,) = app.engine.tally(TallyQuery()).cards
    assert info(card).resources == {MEMORY: memory_limit()}


def test_what_a_worker_was_given_is_on_its_card_with_what_is_free_of_it(app: App) -> None:
    running, go_on = threading.Event(), threading.Event()

    @app.task(name="browses", memory="40MB", needs={"browser": 1})
    def browses() -> None:
        running.set()
        go_on.wait(HANG_S)

    def seen() -> tuple[dict[str, int], dict[str, int]]:
        wait_for("a report", lambda: call_roll(app.engine))
        (card,) = app.engine.tally(TallyQuery()).cards
        return info(card).resources, info(card).free

    with app, Worker(app, memory="100MB", resources={"browser": 2}):
        total = {MEMORY: 100 * MB, "browser": 2}
        assert seen() == (total, total)
        browses.delay()
        assert running.wait(HANG_S)
        assert seen() == (total, {MEMORY: 60 * MB, "browser": 1})
        go_on.set()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"memory": 0}, "Nothing can be done with a memory of 0. Give an amount"),
        ({"memory": "much"}, "much"),
        ({"memory": -1}, "A size must be between 0 and 1 EiB."),
        ({"resources": {"memory": 1}}, "Memory is no resource of a name. Give it by itself"),
        ({"resources": {"x": -1}}, "A worker cannot have -1 of x. Give a whole number from 1 on."),
        ({"resources": {"x": 0}}, "A worker cannot have 0 of x."),
        ({"resources": {"x": 1.5}}, "A worker cannot have 1.5 of x."),
        ({"resources": {"x": True}}, "A worker cannot have True of x."),
        ({"resources": {"x": 2**61}}, "A worker cannot have"),
        ({"resources": {"a b": 1}}, "The resource name 'a b' has the character ' '"),
    ],
)
def test_what_no_worker_can_have_is_refused(app: App, given: dict[str, Any], said: str) -> None:
    with pytest.raises(WindlassError) as refused:
        Worker(app, **given)
    assert said in str(refused.value)


# ── embedded ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_embedded_worker_claims_within_its_budget(app: App) -> None:
    most, running, lock = [0], [0], threading.Lock()

    @app.task(name="takes", needs={"browser": 1})
    def takes(memory_mb: int) -> None:
        with lock:
            running[0] += memory_mb
            most.append(running[0])
        threading.Event().wait(0.01)
        with lock:
            running[0] -= memory_mb

    sizes = [30, 60, 10, 40, 20, 100, 50, 10, 70, 30, 20, 40]
    handles = [takes.using(memory=size * MB).delay(size) for size in sizes]
    with app, Worker(app, slots=8, memory="100MB", resources={"browser": 3}):
        for handle in handles:
            handle.get(HANG_S)
    assert max(most) == 100


def test_an_embedded_worker_leaves_what_it_has_no_room_for(app: App) -> None:
    big = app.named("double").using(memory="200MB").delay(1)
    unknown = app.named("double").using(needs={"x": 1}).delay(1)
    with app, Worker(app, memory="100MB", resources={"browser": 3}):
        assert app.send("double", 2).get(HANG_S) == 4
        assert big.why() == "It needs 200MB of memory, and the largest worker has 100MB."
        assert (
            unknown.why() == "It needs 1 x, and no worker that knows its task has any: start one with --resource x=1."
        )
        assert big.state is unknown.state is State.READY


def test_a_big_job_is_let_in_before_small_ones_once_it_has_waited_past_the_aging_bound(app: App) -> None:
    rig = Rig(app, slots=4, resources={"browser": 2})
    small = app.named("double").using(needs={"browser": 1})
    first, second = small.delay(1), small.delay(2)
    rig.consume()
    runs = [rig.pool.begin_next(), rig.pool.begin_next()]
    assert [run.claim.id for run in runs] == [first.job_id, second.job_id]
    big = app.named("double").using(needs={"browser": 2}).delay(3)
    third = small.delay(4)

    def end(place: int) -> None:
        rig.pool.end(runs[place])
        rig.settle()
        rig.consume()

    end(0)
    assert rig.pool.waiting() == 1, "until then small ones pass it"
    runs[0] = rig.pool.begin_next()
    assert runs[0].claim.id == third.job_id
    rig.advance(aging_bound_us(app.limits.aging_step_us) / 1e6 + 1)
    rig.beat()
    fourth, plain = small.delay(5), app.send("double", 6)
    end(0)
    assert rig.pool.next_claim().id == plain.job_id, "who needs nothing is not kept"
    assert not rig.pool.waiting(), "the others are, though a browser is free"
    end(1)
    assert rig.pool.next_claim().id == big.job_id
    assert rig.state(fourth.job_id) is State.READY
    rig.close()


# ── with processes ──────────────────────────────────────────────────────────────────────────────────────────


def test_memory_is_never_promised_twice_and_every_such_job_has_a_process_to_itself(yard: Yard, tasks: Any) -> None:
    yard.worker("-p", "4", "--memory", "100MB").wait_runners(4)
    first = [tasks.takes.using(memory=40 * MB).delay(40, "go") for _ in range(3)]
    yard.wait_lines("begin", 2)
    (waiting,) = (one for one in first if not yard.lines("begin", one))
    wait_for("the reason", lambda: "20MB of 100MB free" in waiting.why())
    assert waiting.why().startswith("It waits for 40MB of memory: the worker ")
    assert len(yard.lines("begin")) == 2
    yard.go("go")
    rest = [tasks.takes.using(memory=size * MB).delay(size) for size in (30, 60, 10, 40, 20, 100, 50, 10, 70, 30)]
    plain = [tasks.takes.delay(0) for _ in range(10)]
    for one in (*first, *rest, *plain):
        one.get(HANG_S)
        assert counts(one) == (1, 0, 0)
    assert yard.most_at_once() <= 100
    assert not yard.shared_a_process()


def test_a_resource_is_given_to_no_more_jobs_than_there_is_of_it(yard: Yard, tasks: Any) -> None:
    yard.worker("--resource", "browser=2")
    jobs = [tasks.takes.using(needs={"browser": 1}).delay(1, "go") for _ in range(6)]
    licensed = tasks.takes.using(needs={"licence": 1}).delay(0)
    yard.wait_lines("begin", 2)
    tasks.touch.delay().get(HANG_S)
    waiting = [one for one in jobs if not yard.lines("begin", one)]
    assert len(waiting) == 4
    wait_for("the reason", lambda: "has 0 of 2 free" in waiting[0].why())
    said = "It needs 1 licence, and no worker that knows its task has any: start one with --resource licence=1."
    assert licensed.why() == said
    yard.go("go")
    for one in jobs:
        one.get(HANG_S)
    assert yard.most_at_once() == 2
    assert licensed.state is State.READY


def test_a_job_with_memory_does_not_starve_while_plain_ones_keep_all_runners_busy(
    yard: Yard, tasks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a moment in which nothing else runs only if the runner is kept free for longer than the others take."""
    monkeypatch.setattr("windlass.worker.dispatcher.RESERVE_US", 50_000)
    with yard.in_process(slots=8):
        for place in range(8):
            tasks.again.delay(0.4 + 0.03 * place)
        yard.wait_lines("begin", 16)
        big = tasks.takes.using(memory="10MB").delay(0)
        big.get(HANG_S)
        yard.go("enough")
    assert counts(big) == (1, 0, 0)
