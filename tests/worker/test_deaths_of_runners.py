"""What becomes of jobs when the process that runs them dies, whoever is to blame: each is counted as what it was."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from tests.soak.waiting import wait_for
from tests.worker.house import HANG_S, PILLS, House, Staffed, gone
from windlass.app.handle import Handle
from windlass.core.errors import JobDead
from windlass.core.job import Outcome, State
from windlass.engines.protocol import Engine, Hint
from windlass.testing.faults import FaultyEngine
from windlass.worker import judging, warden
from windlass.worker.foreman import Foreman
from windlass.worker.frames import Scripts
from windlass.worker.plan import APART
from windlass.worker.runner_process import RunnerProcess


def kill_runner(worker: Staffed, number: int = 1) -> int:
    pid = worker.pids()[number]
    os.kill(pid, signal.SIGKILL)
    return pid


@contextmanager
def standing_still(pid: int) -> Generator[None]:
    """Within it the process does not get any further."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextmanager
def hearing_nothing(worker: Staffed) -> Generator[None]:
    """Within it nobody reads what runners write."""
    foreman = worker.runners.foreman
    with worker.runners.roster.lock:
        before_us = foreman.stepped_us
        foreman.wake()
        wait_for("it to wait for the lock", lambda: foreman.stepped_us > before_us)
        yield


def fill(worker: Staffed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are short, as the worker believes: it gives a runner many of them at once, and takes none of them away."""
    monkeypatch.setattr(warden, "HOARD_US", 600_000_000)
    worker.take_jobs_for_short()


# ── one death ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_whose_runner_is_killed_counts_a_crash_and_runs_again(house: House) -> None:
    worker = house.worker()
    handle = house.send("hold", "end")
    house.wait_begun(handle)
    killed = kill_runner(worker)
    assert house.wait_begun(handle, 2) != killed
    assert house.faults(handle) == (1, 1, 0)
    assert house.record(handle).suspect
    house.let("end")
    house.get(handle)
    assert house.outcomes(handle) == {Outcome.CRASHED: 1}
    (attempt,) = house.job(handle).attempts
    assert attempt.failure is not None
    assert attempt.failure.type == "Crashed"
    assert attempt.failure.message.startswith("The process that ran it was killed by SIGKILL.")


def test_claims_that_it_had_not_started_go_back_uncounted_and_run(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = house.worker(slots=2)
    started = house.send("hold", "end")
    house.wait_begun(started)
    fill(worker, monkeypatch)
    with standing_still(worker.pids()[1]):
        behind = [house.send("touch") for _ in range(10)]
        wait_for("all of them to be with it", lambda: len(worker.crew.desk.open) == 11)
        kill_runner(worker)
    for handle in behind:
        house.get(handle)
        assert (len(house.begun(handle)), house.faults(handle)) == (1, (1, 0, 0))
    house.let("end")
    house.get(started)
    assert house.faults(started) == (1, 1, 0)


def test_an_end_that_was_written_before_the_death_counts(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the jobs in one slot the first ones have ended, the next kills the process, the last have not begun."""
    worker = house.worker()
    fill(worker, monkeypatch)
    (runner,) = worker.runners.roster.all()
    with ExitStack() as unheard:
        with standing_still(runner.pid):
            before = [house.send("touch") for _ in range(5)]
            killer = house.send("dies_once")
            after = [house.send("touch") for _ in range(5)]
            wait_for("all of them to be with it", lambda: len(runner.claims) == 11)
            unheard.enter_context(hearing_nothing(worker))
        wait_for("its death", lambda: runner.code is not None)
    for handle in [*before, *after]:
        house.get(handle)
        assert (len(house.begun(handle)), house.faults(handle)) == (1, (1, 0, 0))
    house.get(killer)
    assert house.faults(killer) == (1, 1, 0)
    assert {house.begun(handle)[0] for handle in before} == {house.begun(killer)[0]}


def test_a_runner_that_died_between_jobs_is_replaced_and_nothing_is_counted(house: House) -> None:
    worker = house.worker()
    house.get(house.send("touch"))
    killed = kill_runner(worker)
    handle = house.send("touch")
    assert house.get(handle) != killed
    assert house.faults(handle) == (1, 0, 0)


def test_a_runner_that_stands_still_is_killed_and_its_job_counts_a_crash(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.worker()
    handle = house.send("hold", "end")
    stopped = house.wait_begun(handle)
    stop_and_wait_gone(stopped, stopped, monkeypatch)
    assert house.wait_begun(handle, 2) != stopped
    house.let("end")
    house.get(handle)
    assert house.faults(handle) == (1, 1, 0)
    (attempt,) = house.job(handle).attempts
    assert attempt.failure is not None
    assert "no sign of life" in attempt.failure.message


def test_a_runner_that_stands_still_without_a_job_is_replaced(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warden, "IDLE_SILENCE_US", 1_000_000)
    worker = house.worker()
    stopped = worker.pids()[1]
    os.kill(stopped, signal.SIGSTOP)
    handle = house.send("touch")
    assert house.get(handle) != stopped
    assert house.faults(handle) == (1, 0, 0)


@pytest.mark.parametrize(
    ("how", "reason"), [("error", "no such id"), ("half", "b\\udcff"), ("number", "404"), ("long", "x" * 1_000 + "…")]
)
def test_an_end_that_is_said_oddly_costs_nobody_else_anything(house: House, how: str, reason: str) -> None:
    worker = house.worker()
    pid = worker.pids()[1]
    handle = house.send("ends_oddly", how)
    handle.wait(60)
    record = house.record(handle)
    assert (record.state, record.reason) == (State.DEAD, reason)
    assert house.get(house.send("touch")) == pid


def test_a_process_that_a_task_has_forked_heeds_signals(house: House) -> None:
    house.worker()
    assert house.get(house.send("ends_a_child")) == -signal.SIGTERM


def test_what_a_task_has_started_dies_with_its_runner(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the supervisor kills it: a program left behind would hold what the next run needs."""
    worker = house.worker()
    handle = house.send("starts_a_program")
    program = wait_for("a program", lambda: house.numbers("program"))[0]
    stop_and_wait_gone(worker.pids()[1], program, monkeypatch)
    handle.cancel()


def stop_and_wait_gone(stopped: int, ends: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One runner stands still, for so long that it is killed; those that are only slow are not."""
    os.kill(stopped, signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(warden, "SILENCE_US", 500_000)
        wait_for("the end of it", lambda: gone([ends]))


JUDGED = """
import os, time
from pathlib import Path
from windlass import App, Retry, current_job

app, folder = App(), Path(os.environ["MARKS_FOLDER"])

def by_hand(attempt: int) -> float:
    with (folder / "marks").open("a") as file:
        file.write(f"asked {os.getpid()} {attempt}\\n")
    if not (folder / "asked").exists():
        (folder / "asked").touch()
        os.kill(os.getpid(), 9)
    return 0.01

@app.task(name="late", timeout=2, grace=0, retry=Retry.custom(by_hand, retries=1))
def late() -> int:
    while current_job().attempt == 1:
        try:
            time.sleep(600)
        except BaseException:
            pass
    return current_job().attempt
"""


def test_if_the_one_that_was_asked_what_becomes_of_a_job_dies_the_next_is_asked(house: House) -> None:
    house.worker(house.write("judged.py", JUDGED), processes=2)
    handle = house.send("late")
    wait_for("the next to be asked", lambda: len(house.marks("asked")) == 2)
    first, second = house.marks("asked")
    assert first.pid != second.pid
    assert house.get(handle) == 2
    assert house.faults(handle) == (2, 0, 0)
    assert house.outcomes(handle)[Outcome.TIMED_OUT] == 1


def test_one_that_gets_no_further_is_not_asked(house: House) -> None:
    (house.folder / "asked").touch()
    source = (
        JUDGED
        + """
@app.task(name="hogs")
def hogs() -> None:
    import ctypes
    (folder / "hogging").touch()
    ctypes.PyDLL(None).sleep(600)
"""
    )
    house.worker(house.write("judged.py", source), processes=2)
    hog = house.send("hogs")
    wait_for("it to begin", (house.folder / "hogging").exists)
    assert house.get(house.send("late")) == 2
    assert hog.state == State.RUNNING


def test_if_nobody_says_what_becomes_of_a_job_it_counts_a_crash(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "PATIENCE_US", 300_000)
    hangs = JUDGED.replace("os.kill(os.getpid(), 9)", "").replace("return 0.01", "time.sleep(600)")
    house.worker(house.write("judged.py", hangs), processes=2)
    handle = house.send("late")
    wait_for("a crash", lambda: house.faults(handle)[1] == 1)
    handle.cancel()
    (attempt, *_) = house.job(handle).attempts
    assert attempt.failure is not None
    assert "was killed for its timeout, and no runner said what follows" in attempt.failure.message


# ── runners that get no further ─────────────────────────────────────────────────────────────────────────


def send_behind(house: House, worker: Staffed, number: int, monkeypatch: pytest.MonkeyPatch) -> list[Handle[Any]]:
    """Jobs of which that runner, which gets no further, has some before anybody notices."""
    worker.take_jobs_for_short()
    with monkeypatch.context() as patch:
        patch.setattr(warden, "HOARD_US", 600_000_000)
        handles = list(house.app.named("touch").delay_many([()] * 20))
        held_up = next(runner for runner in worker.runners.roster.all() if runner.number == number)
        keys = {handle.job_id for handle in handles}
        wait_for("some to be with it", lambda: keys & {job for job, _ in list(held_up.claims)})
    return handles


def test_claims_behind_a_task_that_holds_the_gil_run_elsewhere_before_it_ends(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = house.worker(processes=2)
    hog = house.send("holds_the_gil")
    pid = house.wait_begun(hog)
    numbers = {pid: number for number, pid in worker.pids().items()}
    behind = send_behind(house, worker, numbers.pop(pid), monkeypatch)
    assert {house.get(handle) for handle in behind} == set(numbers)
    assert {(len(house.begun(handle)), house.faults(handle)) for handle in behind} == {(1, (1, 0, 0))}
    assert (hog.state, house.begun(hog), house.faults(hog)) == (State.RUNNING, [pid], (1, 0, 0))


def test_claims_that_ran_elsewhere_do_not_start_in_a_runner_that_goes_on_after_all(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = house.worker(processes=2)
    still, other = worker.pids()[1], worker.pids()[2]
    with standing_still(still):
        behind = send_behind(house, worker, 1, monkeypatch)
        assert {house.get(handle) for handle in behind} == {other}
    held = [house.send("hold", "end") for _ in range(2)]
    assert {house.wait_begun(handle) for handle in held} == {still, other}, "it has work again"
    assert {(len(house.begun(handle)), house.faults(handle)) for handle in behind} == {(1, (1, 0, 0))}


# ── poison ──────────────────────────────────────────────────────────────────────────────────────────────


WAYS = {"segfault": "SIGSEGV", "exit": "exit code 3", "kill": "SIGKILL", "abort": "SIGABRT"}


@pytest.mark.parametrize(("task", "ways"), [("dies", list(WAYS)), ("dies_untried", ["kill"])])
def test_a_pill_is_dead_after_three_crashes_whatever_its_policy_says(house: House, task: str, ways: list[str]) -> None:
    """And nobody beside it pays for it."""
    worker = house.worker(processes=2)
    pills = {way: house.send(task, way) for way in ways}
    good = [house.send("touch") for _ in range(50)]
    for way, pill in pills.items():
        with pytest.raises(JobDead, match="poison"):
            house.get(pill)
        record = house.record(pill)
        assert (record.reason, record.crashes, record.losses, record.attempt) == ("poison", 3, 0, 1)
        assert len(house.begun(pill)) == 3
        assert house.outcomes(pill) == {Outcome.CRASHED: 3}
        failure = house.job(pill).failure
        assert failure is not None
        assert (failure.type, WAYS[way] in failure.message) == ("Crashed", True)
    for handle in good:
        house.get(handle)
    wait_for("two runners to work", lambda: len(worker.pids()) == 2)


def test_a_pill_goes_to_the_queue_of_the_dead_that_its_task_has(house: House) -> None:
    house.worker()
    pill = house.send("dies_into_a_grave")
    with pytest.raises(JobDead, match="poison"):
        house.get(pill)
    assert house.record(pill).queue == "graves"


def test_a_runner_that_writes_what_is_no_message_is_killed_and_the_worker_goes_on(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.worker()
    before = house.send("touch")
    house.get(before)
    pill = house.send("babbles")
    with pytest.raises(JobDead, match="poison"):
        house.get(pill)
    assert house.faults(pill) == (1, 3, 0)
    assert caplog.text.count("writes what is no message") == 3
    assert house.get(house.send("touch")) not in house.begun(pill)
    assert len(house.begun(before)) == 1


def test_jobs_beside_a_pill_survive_it(house: House) -> None:
    """One that ran in the same process when it died may count a crash: then it runs alone, and is cleared."""
    house.worker(slots=4)
    pills = [house.send("dies", way) for way in ("segfault", "exit")]
    beside = [house.send("touch") for _ in range(100)]
    for handle in beside:
        house.get(handle)
        attempt, crashes, losses = house.faults(handle)
        assert (attempt, crashes < 3, losses) == (1, True, 0)
        assert len(house.begun(handle)) <= 1 + crashes, "no run without a fault that explains it"
    for pill in pills:
        with pytest.raises(JobDead, match="poison"):
            house.get(pill)
        assert house.faults(pill) == (1, 3, 0)


# ── suspects ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_suspect_runs_in_a_process_of_its_own_while_others_go_on(house: House) -> None:
    worker = house.worker(processes=2, slots=2)
    long = house.send("hold", "last")
    house.wait_begun(long)
    suspect = make_suspect_beside(house, long)
    apart = house.begun(suspect)[1]
    assert apart not in worker.pids().values()
    others = [house.send("touch") for _ in range(50)]
    assert {house.get(handle) for handle in others} <= set(worker.pids().values())
    assert long.state is State.RUNNING, "it is not waited for"
    assert house.record(suspect).started_us is not None, "its start is written first"
    house.let("end")
    assert house.get(suspect) == apart
    assert {mark.job for mark in house.marks("begin") if mark.pid == apart} == {suspect.id}
    wait_for("its process to end", lambda: gone([apart]))
    house.let("last")
    assert house.faults(long) == (1, 0, 0)
    house.get(long)


def make_suspect_beside(house: House, long: Handle[Any]) -> Handle[Any]:
    """A suspect whose first process was another than that of a long job, which it must not take along."""
    handle = house.send("hold", "end")
    pid = house.wait_begun(handle)
    assert pid != house.begun(long)[0], "the runner with the most room gets the next job"
    os.kill(pid, signal.SIGKILL)
    house.wait_begun(handle, 2)
    return handle


def test_after_one_suspect_the_next_has_its_turn(house: House) -> None:
    worker = house.worker(slots=2)
    pair = [house.send("hold", "end") for _ in range(2)]
    for handle in pair:
        house.wait_begun(handle)
    kill_runner(worker)
    wait_for("one to begin again", lambda: len(house.marks("begin")) == 3)
    house.get(house.send("touch"))  # the new runner works, and there is nothing left to ask for
    house.let("end")
    pids = {house.get(handle) for handle in pair}
    assert len(pids) == 2, "each has a fresh process"
    assert [house.faults(handle) for handle in pair] == [(1, 1, 0)] * 2


def test_a_suspect_that_succeeds_is_none_any_more(house: House) -> None:
    house.worker()
    handle = house.send("dies_once")
    house.get(handle)
    record = house.record(handle)
    assert (record.state, record.crashes, record.suspect) == (State.SUCCEEDED, 1, False)


def test_a_suspect_that_is_taken_back_before_its_process_works_gets_another(house: House) -> None:
    worker = house.worker(house.write("slow.py", SLOW))
    handle = house.send("hold", "end")
    pid = house.wait_begun(handle)
    house.let("wait")
    os.kill(pid, signal.SIGKILL)
    wait_for("a process for it alone", lambda: {process.number for process in worker.runner_processes()} == {0, 1})
    apart = next(process.pid for process in worker.runner_processes() if process.number == 0)
    worker.crew.give_back(worker.runners.take_back())
    (house.folder / "wait").unlink()
    assert house.wait_begun(handle, 2) != apart
    wait_for("the first one to end", lambda: gone([apart]))
    house.let("end")
    house.get(handle)
    assert house.faults(handle) == (1, 1, 0)


def test_a_suspect_whose_process_cannot_be_started_has_one_later(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = house.worker()
    handle = house.send("hold", "end")
    house.wait_begun(handle)
    failed: list[int] = []

    begin = Foreman._start  # pyright: ignore[reportPrivateUsage]

    def start(self: Foreman, number: int, scripts: Scripts | None = None) -> RunnerProcess:
        if number == APART and not failed:
            failed.append(number)
            raise BlockingIOError("no more processes")
        return begin(self, number, scripts)

    monkeypatch.setattr(Foreman, "_start", start)
    kill_runner(worker)
    house.wait_begun(handle, 2)
    assert failed == [APART]
    house.let("end")
    assert house.get(handle) not in worker.pids().values()
    assert house.faults(handle) == (1, 1, 0)


# ── a store that does not answer ────────────────────────────────────────────────────────────────────────


class Silent(FaultyEngine):
    """Comes back from no wake-up while it is silent."""

    def __init__(self, inner: Engine, answers: threading.Event) -> None:
        super().__init__(inner)
        self._answers = answers

    def signal(self, hints: Sequence[Hint], /) -> None:
        self._answers.wait(2 * HANG_S)
        super().signal(hints)


def test_a_wake_up_that_hangs_in_the_store_keeps_no_dead_runner_from_being_replaced(house: House) -> None:
    answers = threading.Event()
    answers.set()
    worker = house.worker(wrap=lambda engine: Silent(engine, answers))
    suspect = house.send("hold", "end")
    first = house.wait_begun(suspect)
    kill_runner(worker)
    apart = house.wait_begun(suspect, 2)
    wait_for("another in its place", lambda: worker.pids().get(1, first) != first)
    answers.clear()
    try:
        os.kill(apart, signal.SIGKILL)  # and the consumer is woken: there is a place for a suspect
        wait_for("its end", lambda: gone([apart]))
        second = kill_runner(worker)
        wait_for("another in its place", lambda: worker.pids().get(1, second) != second)
    finally:
        answers.set()
    house.let("end")
    house.get(suspect)
    assert house.faults(suspect) == (1, 2, 0)


SLOW = f"""
import os, sys, time
from pathlib import Path
while (Path(os.environ["MARKS_FOLDER"]) / "wait").exists(): time.sleep(0.005)
sys.path.insert(0, {str(PILLS.parent)!r})
from pills import app
"""
