"""Time and memory that a job may use, kept from outside its process: whatever a task does, only it pays."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.worker.yard import HANG_S, Yard, counts, failure, outcomes, record, wait_ended
from windlass.app.handle import Handle
from windlass.core.job import Outcome, State

MEMORY_LIMIT = "MemoryLimit"
SIZES = re.compile(r"The task used [\d.]+Mi?B, more than its memory of 60MB\.")


def is_timed_out(handle: Handle[Any]) -> bool:
    """Dead of its first timeout."""
    wait_ended(handle)
    found = outcomes(handle), record(handle).state, failure(handle).type
    return found == ([Outcome.TIMED_OUT], State.DEAD, "TimeoutError")


def is_over_memory(handle: Handle[Any]) -> bool:
    """Dead of using more than its memory, and told how much it was."""
    wait_ended(handle)
    assert SIZES.match(failure(handle).message), failure(handle)
    found = outcomes(handle), record(handle).state, failure(handle).type
    return found == ([Outcome.FAILED], State.DEAD, MEMORY_LIMIT) and counts(handle)[1:] == (0, 0)


# ── timeouts ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_task_that_heeds_its_timeout_ends_alone_and_its_runner_lives(yard: Yard, tasks: Any) -> None:
    worker = yard.worker()
    assert is_timed_out(late := tasks.heeds.delay())
    assert [line.word for line in yard.lines(job=late)] == ["begin", "heeded"]
    assert {tasks.touch.delay().get(HANG_S)} == worker.runners == {yard.lines("heeded")[0].pid}


def test_a_task_that_ignores_its_timeout_is_killed_and_nobody_else_pays(yard: Yard, tasks: Any) -> None:
    worker = yard.worker("-c", "2")
    neighbours = [tasks.hold.delay("go"), tasks.hold_async.delay("go")]
    yard.wait_lines("begin", 2)
    late = tasks.swallows.delay()
    yard.wait_lines("begin", job=late)
    behind = [tasks.touch.delay() for _ in range(10)]
    assert is_timed_out(late)
    worker.wait_for("a task did not heed its timeout of 1s")
    again = [yard.wait_lines("begin", 2, neighbour) for neighbour in neighbours]
    yard.go("go")
    assert [one.get(HANG_S) for one in neighbours] == [lines[-1].pid for lines in again]
    assert {one.get(HANG_S) for one in behind} <= worker.runners
    for one in (*neighbours, *behind):
        assert (counts(one), outcomes(one)) == ((1, 0, 0), []), "it went back uncounted"
    assert len(yard.lines("begin", late)) == 1
    assert {len(yard.lines("begin", one)) for one in behind} == {1}, "what had not begun ran once"


def test_a_hard_timeout_is_retried_as_the_policy_says(yard: Yard, tasks: Any) -> None:
    worker = yard.worker()
    retried, never = tasks.swallows_at_first.delay(), tasks.never_again.delay()
    assert retried.get(HANG_S) == 2
    assert outcomes(retried)[0] is Outcome.TIMED_OUT
    assert is_timed_out(never)
    assert len(yard.lines("begin", never)) == 1
    assert counts(retried)[1:] == counts(never)[1:] == (0, 0), "a timeout is no crash"
    assert worker.process.poll() is None


def test_a_retry_policy_is_asked_in_a_runner_and_not_in_the_supervisor(yard: Yard, tasks: Any) -> None:
    """Its delays may be a function, which is the user's code."""
    worker = yard.worker()
    late = tasks.asks_for_its_delay.delay()
    wait_ended(late)
    assert outcomes(late) == [Outcome.TIMED_OUT] * 2
    (asked,) = yard.lines("asked")
    assert asked.job == "1", "after the first attempt"
    killed = {line.pid for line in yard.lines("begin")}
    assert len(killed) == 2
    assert asked.pid not in {worker.pid, yard.lines("begin")[0].pid}


@pytest.mark.parametrize("name", ["backtracks", "blocks_the_loop"])
def test_a_task_that_holds_the_gil_or_its_loop_is_killed(yard: Yard, tasks: Any, name: str) -> None:
    worker = yard.worker()
    assert is_timed_out(getattr(tasks, name).delay())
    assert tasks.touch.delay().get(HANG_S) in worker.runners


def test_one_send_may_say_another_timeout_and_another_grace(yard: Yard, tasks: Any) -> None:
    worker = yard.worker("-p", "2")
    at_once = tasks.patient.using(timeout=1, grace=0).delay()
    longer = tasks.swallows.using(timeout=600).delay()
    unhurried = tasks.swallows.using(grace=600).delay()
    assert is_timed_out(at_once)
    for one in (longer, unhurried):
        assert yard.wait_lines("begin", job=one)
        assert record(one).state in {State.READY, State.RUNNING}
    worker.wait_for("did not heed its timeout")
    assert worker.text.count("did not heed its timeout") == 1


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_above_its_memory_is_killed_and_told_how_much_it_used(yard: Yard, tasks: Any) -> None:
    worker = yard.worker("-p", "2")
    neighbour = tasks.hold.delay("go")
    yard.wait_lines("begin")
    assert is_over_memory(tasks.grows.delay(200))
    worker.wait_for("a task used")
    yard.go("go")
    neighbour.get(HANG_S)
    assert len(yard.lines("begin", neighbour)) == 1, "it was in another process"


def test_the_memory_of_what_a_task_starts_is_its_own(yard: Yard, tasks: Any) -> None:
    yard.worker()
    assert is_over_memory(tasks.grows_elsewhere.delay())


def test_above_its_memory_a_job_is_retried_as_the_policy_says(yard: Yard, tasks: Any) -> None:
    yard.worker()
    retried = tasks.grows_at_first.delay()
    assert retried.get(HANG_S) == 1
    assert [attempt.failure.type for attempt in retried.job().attempts if attempt.failure] == [MEMORY_LIMIT]
    assert counts(retried) == (2, 0, 0)


def test_jobs_within_their_memory_pass(yard: Yard, tasks: Any) -> None:
    worker = yard.worker("-p", "2")
    assert [tasks.grows.delay(30).get(HANG_S) for _ in range(5)] == [30] * 5
    assert "killed" not in worker.text


def test_what_an_earlier_job_left_in_its_process_is_not_blamed_on_the_next(yard: Yard, tasks: Any) -> None:
    worker = yard.worker()
    home = tasks.leaves_behind.delay(100).get(HANG_S)
    assert tasks.grows.delay(30, 0.5).get(HANG_S) == 30, "it was looked at several times"
    assert worker.runners == {home}
    assert is_over_memory(tasks.grows.delay(200))
