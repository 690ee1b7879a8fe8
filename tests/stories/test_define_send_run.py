"""Define, send, run: the front page, line by line."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import windlass
from tests.stories.conftest import HERE, Work, second_process
from windlass import State, Worker, as_completed, gather
from windlass.core.errors import JobCancelled, JobDead, JobExpired, JobNotFound, NotFinished, ResultGone, WouldBlock
from windlass.engines.protocol import Sweep
from windlass.testing.clock import MovedClock, travel


def test_a_plain_call_runs_here_and_now(tasks: Any) -> None:
    assert tasks.send_email(1, "a@b.c") == "order 1 to a@b.c"
    assert asyncio.run(tasks.crawl("u")) == tasks.Page("u", 1)
    assert tasks.tell(2)  # current_job() is there too


def test_a_job_is_sent_run_and_its_result_comes_back_typed(tasks: Any, work: Work) -> None:
    work(slots=2)
    handle = tasks.send_email.delay(1, to="a@b.c")
    assert handle.get(timeout=10) == "order 1 to a@b.c"
    assert handle.state is State.SUCCEEDED
    assert tasks.crawl.delay("http://x").get(timeout=10) == tasks.Page("http://x", 8)


def test_it_runs_in_the_other_process(tasks: Any, url: str) -> None:
    if url.startswith("memory"):
        pytest.skip("the memory engine lives in one process")
    with second_process(url) as process:
        assert tasks.who.delay().get(timeout=10) == process.pid != os.getpid()


def test_a_job_waits_for_a_worker_that_comes_later(tasks: Any, work: Work) -> None:
    handle = tasks.send_email.delay(1, to="a@b.c")
    assert handle.state is State.READY
    with pytest.raises(NotFinished, match=r"has not ended after 0\.01 s"):
        handle.get(timeout=0.01)
    work()
    assert handle.get(timeout=10) == "order 1 to a@b.c"


def test_many_at_once(tasks: Any, work: Work) -> None:
    work(slots=2)
    handles = tasks.send_email.delay_many([(1, "a@b.c"), (2, "d@e.f"), {"order_id": 3, "to": "g@h.i"}])
    assert handles.get(timeout=10) == ["order 1 to a@b.c", "order 2 to d@e.f", "order 3 to g@h.i"]
    assert gather(handles, timeout=10) == handles.get()
    assert {handle.get() for handle in as_completed(handles, timeout=10)} == set(handles.get())


def test_from_asyncio(tasks: Any, work: Work) -> None:
    work(slots=2)

    async def main() -> list[str]:
        handles = await asyncio.gather(*(tasks.send_email.adelay(number, to="a@b.c") for number in range(20)))
        assert await handles[0] == "order 0 to a@b.c"
        more = await tasks.send_email.adelay_many([(20, "a@b.c")])
        assert await more == ["order 20 to a@b.c"]
        async for handle in as_completed(handles, timeout=10):
            assert (await handle).startswith("order")
        return await asyncio.gather(*handles)

    assert asyncio.run(main()) == [f"order {number} to a@b.c" for number in range(20)]


def test_sent_otherwise(tasks: Any) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    later = tasks.send_email.using(delay=60, priority=9, expires="1h", tags=["x"]).delay(1, to="a@b.c")
    at = tasks.send_email.using(at=soon, queue="slow").delay(1, to="a@b.c")
    assert later.state is at.state is State.SCHEDULED
    request = later.job().request
    assert (request.priority, request.delay_us, request.tags, request.queue) == (9, 60_000_000, ("x",), "mail")
    assert at.job().request.queue == "slow"
    plain = tasks.send_email.delay(1, to="a@b.c").job().request
    assert (plain.priority, plain.tags, plain.queue) == (5, ("mail",), "mail")


def test_by_name_without_the_code(tasks: Any, work: Work) -> None:
    work()
    assert tasks.app.send("tasks.send_email", 1, to="a@b.c").get(timeout=10) == "order 1 to a@b.c"
    handle = tasks.app.named("tasks.send_email").using(priority=1).delay(2, to="a@b.c")
    assert tasks.app.result(handle.id).get(timeout=10) == "order 2 to a@b.c"


def test_routes_send_a_task_to_its_queue(tasks: Any) -> None:
    assert tasks.crawl.delay("u").job().request.queue == "web"
    assert tasks.who.delay().job().request.queue == "default"


def test_an_id_or_a_key_makes_a_repeated_send_one_job(tasks: Any) -> None:
    first = tasks.who.delay()
    again = tasks.who.using(id=first.id).delay()
    assert again.duplicate
    assert again.id == first.id
    held = tasks.who.using(key="nightly").delay()
    same = tasks.who.using(key="nightly").delay()
    assert (same.id, same.duplicate, held.duplicate) == (held.id, True, False)


# ── how a job ends ──────────────────────────────────────────────────────────────────────────────────────


def test_a_failure_is_tried_again(tasks: Any, work: Work, marks: Path) -> None:
    work()
    handle = tasks.flaky.delay(str(marks), 2)
    assert handle.get(timeout=10) == 3
    assert [attempt.outcome for attempt in handle.job().attempts] == ["failed", "failed", "succeeded"]


def test_out_of_tries_it_is_dead_and_says_why(tasks: Any, work: Work, marks: Path) -> None:
    work()
    handle = tasks.flaky.delay(str(marks), 99)
    with pytest.raises(JobDead, match=r"ConnectionError: try 4") as caught:
        handle.get(timeout=10)
    failure: Any = caught.value.failure
    assert "in flaky" in failure.traceback
    assert str(Path(windlass.__file__).parent) not in failure.traceback
    assert len(marks.read_text().splitlines()) == 4


@pytest.mark.parametrize(("how", "result"), [("retry", "attempt 2"), ("snooze", "attempt 1")])
def test_a_task_may_ask_to_come_back(tasks: Any, work: Work, marks: Path, how: str, result: str) -> None:
    work()
    assert tasks.ends.delay(how, str(marks)).get(timeout=10) == result


@pytest.mark.parametrize(("how", "error", "said"), [("cancel", JobCancelled, "sold out"), ("dead", JobDead, "no such")])
def test_a_task_may_end_itself(
    tasks: Any, work: Work, marks: Path, how: str, error: type[Exception], said: str
) -> None:
    work()
    with pytest.raises(error, match=said):
        tasks.ends.delay(how, str(marks)).get(timeout=10)
    assert len(marks.read_text().splitlines()) == 1


def test_what_expires_is_not_run(tasks: Any, work: Work, marks: Path) -> None:
    handle = tasks.hold_on.using(expires=0.001).delay(0, str(marks))
    work()
    with pytest.raises(JobExpired):
        handle.get(timeout=10)
    assert not marks.exists()


@pytest.mark.parametrize("name", ["hold_on", "hold_on_async"])
def test_a_timeout_ends_the_attempt(tasks: Any, work: Work, marks: Path, name: str) -> None:
    work()
    handle = getattr(tasks, name).using(timeout=0.1).delay(30, str(marks))
    with pytest.raises(JobDead, match=r"timeout of 100ms"):
        handle.get(timeout=10)
    assert handle.job().record.reason == "timed_out"


@pytest.mark.parametrize("name", ["hold_on", "hold_on_async"])
def test_a_running_job_can_be_cancelled(tasks: Any, work: Work, marks: Path, name: str) -> None:
    work()
    handle = getattr(tasks, name).delay(30, str(marks))
    while not marks.exists():
        handle.wait(0.01)
    assert handle.cancel("the customer called")
    with pytest.raises(JobCancelled, match="the customer called"):
        handle.get(timeout=10)
    assert handle.job().record.reason == "the customer called"
    assert not handle.cancel()


def test_a_waiting_job_can_be_cancelled(tasks: Any) -> None:
    handle = tasks.who.delay()
    assert handle.cancel("not needed")
    with pytest.raises(JobCancelled, match="not needed"):
        handle.get(timeout=10)


# ── what a task tells ───────────────────────────────────────────────────────────────────────────────────


def test_a_task_logs_and_reports_progress(tasks: Any, work: Work) -> None:
    work()
    handle = tasks.tell.delay(3)
    assert handle.get(timeout=10) == handle.id
    job = handle.job()
    assert [line.text for line in job.log] == [b"line 0", b"line 1", b"line 2"]
    assert job.progress is not None
    assert job.progress.data == b'{"done":3,"total":3,"note":"telling"}'


def test_every_line_of_a_talkative_task_is_kept(tasks: Any, work: Work) -> None:
    work(slots=1)
    first, second = tasks.tell.delay(1_000), tasks.tell.delay(1_000)
    for handle in (first, second):
        handle.get(timeout=10)
        assert [line.text for line in handle.job().log] == [b"line %d" % number for number in range(1_000)]


def test_a_task_sends_others(tasks: Any, work: Work) -> None:
    work(slots=2)
    ids = tasks.send_again.delay(3).get(timeout=10)
    assert [tasks.app.result(job_id).get(timeout=10) for job_id in ids] == [f"order {n} to x@y.z" for n in range(3)]


# ── handles ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_handle_of_a_job_that_never_was(tasks: Any) -> None:
    handle = tasks.app.result("0192f000-0000-7000-8000-000000000000")
    for ask in (handle.get, lambda: handle.state, handle.job):
        with pytest.raises(JobNotFound, match="it never was, its time of retention is over"):
            ask()


def test_a_result_that_is_not_kept(tasks: Any, work: Work) -> None:
    work()
    handle = tasks.who.using(keep_result=False).delay()
    with pytest.raises(ResultGone, match="is not kept"):
        handle.get(timeout=10)


def test_waiting_in_the_only_slot_is_refused(tasks: Any) -> None:
    @tasks.app.task(name="waits")
    def waits() -> int:
        return tasks.who.delay().get(timeout=5)

    with Worker(tasks.app, slots=1), pytest.raises(JobDead, match="neither could ever end") as caught:
        waits.delay().get(timeout=10)
    failure: Any = caught.value.failure
    assert failure.type.endswith(WouldBlock.__name__), "the one that says what to do, and not a timeout"


def test_a_script_may_end_right_after_sending(tasks: Any, url: str) -> None:
    if url.startswith("memory"):
        pytest.skip("the memory engine lives in one process")
    code = "import tasks; print(tasks.send_email.delay(7, to='a@b.c').id)"
    sent = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "WINDLASS_URL": url, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert sent.stderr == ""
    with second_process(url):
        assert tasks.app.result(sent.stdout.strip()).get(timeout=10) == "order 7 to a@b.c"


# ── the worker ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_task_defined_after_the_start_is_run_too(tasks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = msgspec.structs.replace(tasks.app.settings, beat_s=0.05, lease_s=1.0)
    monkeypatch.setattr(tasks.app, "settings", settings)
    with Worker(tasks.app, slots=1):

        @tasks.app.task(name="late")
        def late() -> str:
            return "not too late"

        assert late.delay().get(timeout=10) == "not too late"


def test_a_forked_child_leaves_its_parents_worker_alone(tasks: Any, marks: Path) -> None:
    with Worker(tasks.app, slots=1, drain=1):
        handle = tasks.hold_on.delay(1, str(marks))
        while not marks.exists():
            handle.wait(0.01)
        pid = os.fork()
        if pid == 0:
            atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] - what sys.exit would do
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert handle.get(timeout=10) == "done"
    assert len(marks.read_text().splitlines()) == 1, "it ran once"


def test_a_result_is_kept_as_long_as_its_task_says(tasks: Any) -> None:
    clock = MovedClock()
    travel(tasks.app.engine, clock)
    with Worker(tasks.app, slots=1):
        long, usual = tasks.who.using(keep_result="90d").delay(), tasks.who.delay()
        assert long.get(timeout=10) == usual.get(timeout=10) == os.getpid()
    clock.advance(80 * 86_400_000_000)
    tasks.app.engine.sweep(Sweep())
    assert long.get() == os.getpid()
    with pytest.raises(JobNotFound):
        usual.get()


def test_run_works_until_it_is_told_to_end(tasks: Any, url: str) -> None:
    if url.startswith("memory"):
        pytest.skip("the memory engine lives in one process")
    code = "import tasks; from windlass import Worker; Worker(tasks.app).run(); print('ended')"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "WINDLASS_URL": url, "PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert tasks.who.delay().get(timeout=30) == process.pid
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=30)
    assert (said, process.returncode) == ("ended\n", 0)
