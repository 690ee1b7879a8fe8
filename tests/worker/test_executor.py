"""What becomes of an attempt: how often a task may ask for another one, and what its options change."""

from __future__ import annotations

import pytest

from tests.worker.rig import Rig
from windlass.app.app import App
from windlass.app.endings import RetryAfter, Snooze, TimedOut
from windlass.core.job import Record, State
from windlass.core.retry import Retry
from windlass.worker.executor import ASKED_RETRIES


def work_until_it_ends(rig: Rig, job_id: bytes, most: int = 100) -> Record:
    """Works and lets time pass until the job has ended."""
    for _ in range(most):
        rig.work()
        if rig.state(job_id) is not State.SCHEDULED:
            return rig.record(job_id)
        rig.advance(60)
        rig.beat()
    pytest.fail(f"it is scheduled after {most} runs")


@pytest.mark.parametrize(("retry", "tries"), [(None, ASKED_RETRIES + 1), (0, 1), (2, 3), (30, 31)])
def test_a_task_without_a_policy_may_ask_for_another_try_so_often_and_no_more(
    app: App, retry: int | None, tries: int
) -> None:
    """With a policy, as often as that says."""
    runs: list[int] = []

    @app.task(name="again", retry=retry)
    def again() -> None:
        runs.append(1)
        raise RetryAfter(1)

    rig = Rig(app)
    record = work_until_it_ends(rig, again.delay().job_id)
    assert (record.state, record.reason, record.attempt) == (State.DEAD, "retries", tries)
    assert len(runs) == tries
    rig.close()


def test_a_task_may_snooze_for_ever_and_it_costs_no_attempt(app: App) -> None:
    runs: list[int] = []

    @app.task(name="waits", retry=1)
    def waits() -> None:
        runs.append(1)
        if len(runs) <= 2 * ASKED_RETRIES:
            raise Snooze(1)

    rig = Rig(app)
    record = work_until_it_ends(rig, waits.delay().job_id)
    assert (record.state, record.attempt) == (State.SUCCEEDED, 1)
    assert len(runs) == 2 * ASKED_RETRIES + 1
    rig.close()


def test_a_dead_job_goes_to_the_queue_of_the_dead_and_one_that_is_tried_again_does_not(app: App) -> None:
    @app.task(name="dies", queue="mail", dead_queue="graves", retry=Retry(1, base=1))
    def dies() -> None:
        raise ValueError

    rig = Rig(app)
    handle = dies.delay()
    rig.work()
    record = rig.record(handle.job_id)
    assert (record.state, record.queue) == (State.SCHEDULED, "mail")
    record = work_until_it_ends(rig, handle.job_id)
    assert (record.state, record.queue) == (State.DEAD, "graves")
    rig.close()


def test_the_timeout_of_a_send_counts_and_not_that_of_its_task(rig: Rig) -> None:
    patient = rig.app.tasks["patient"]
    usual, short, long = patient, patient.using(timeout=1), patient.using(timeout=100)
    stopped: list[bool] = []
    for sender in (usual, short, long):
        sender.delay()
        rig.consume()
        run = rig.pool.begin_next()
        rig.advance(5)
        rig.watch()
        stopped.append(run.asked is TimedOut)
        rig.pool.end(run)
        rig.settle()
    assert stopped == [False, True, False]
