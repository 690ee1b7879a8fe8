"""The context: what a running task knows of its job."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from windlass import App, Worker, current_job
from windlass.app.context import JobContext, local_context
from windlass.core.errors import BadValue, NotInJob
from windlass.core.ids import new_id, show_id


def told(context: JobContext) -> str:
    return f"{context.task} {context.queue} {context.attempt}"


def test_outside_a_job_there_is_none() -> None:
    with pytest.raises(NotInJob, match=r"No job is running here\. Call current_job\(\) inside a task\."):
        current_job()


def test_inside_a_job_it_knows_the_job(app: App) -> None:
    @app.task(name="t", queue="q")
    def t() -> tuple[str, str, bool]:
        job = current_job()
        return job.id, told(job), job.fence > 0

    with Worker(app, slots=1):
        handle = t.delay()
        assert handle.get(timeout=10) == (handle.id, "t q 1", True)


def test_it_is_there_in_coroutines_tasks_of_the_loop_and_copied_contexts(app: App) -> None:
    async def inner() -> str:
        await asyncio.sleep(0)
        return current_job().id

    @app.task(name="t")
    async def t() -> list[str]:
        ids = [await inner(), await asyncio.create_task(inner())]
        return [*ids, await asyncio.to_thread(lambda: current_job().id)]

    with Worker(app, slots=2):
        first, second = t.delay(), t.delay()
        assert first.get(timeout=10) == [first.id] * 3
        assert second.get(timeout=10) == [second.id] * 3


def test_a_thread_has_the_jobs_context_only_if_it_is_handed_over(app: App) -> None:
    @app.task(name="t")
    def t() -> list[bool]:
        seen: list[bool] = []

        def look() -> None:
            try:
                seen.append(bool(current_job().id))
            except NotInJob:
                seen.append(False)

        context = contextvars.copy_context()
        for run in (look, lambda: context.run(look)):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        return seen

    assert t() == [False, True]


def test_the_deadline_is_the_timeout_from_the_start(app: App) -> None:
    @app.task(name="t", timeout=60)
    def t() -> tuple[datetime | None, float | None]:
        return current_job().deadline, current_job().seconds_left

    @app.task(name="free")
    def free() -> bool:
        return current_job().deadline is current_job().seconds_left is None

    with Worker(app, slots=1):
        deadline, left = t.delay().get(timeout=10)
        assert free.delay().get(timeout=10)
    assert deadline is not None
    assert left is not None
    assert 0 < left <= 60
    assert timedelta(0) < deadline - datetime.now(UTC) <= timedelta(seconds=60)


def test_a_plain_call_writes_lines_and_progress_to_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    context = local_context("t", "default")
    with caplog.at_level(logging.INFO, "windlass.job"):
        context.log("hello \udc80")
        context.progress(1, 2, "half")
    assert [record.getMessage() for record in caplog.records] == [
        f"{context.id} log: hello \\udc80",
        f'{context.id} progress: {{"done":1,"total":2,"note":"half"}}',
    ]


class Writes:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[tuple[Any, ...]] = []

    def line(self, *line: Any) -> None:
        self.written.append(line)

    def progress(self, *report: Any) -> None:
        self.written.append(report)


def test_lines_and_progress_carry_the_job_and_its_fence() -> None:
    scribe = Writes()
    job_id = new_id()
    context = JobContext(job_id, "t", attempt=2, fence=7, scribe=scribe)
    context.log("hello")
    context.say("stdout", "printed")
    context.progress(0.5)
    assert scribe.written == [(job_id, 7, "", "hello"), (job_id, 7, "stdout", "printed"), (job_id, 7, b'{"done":0.5}')]
    assert repr(context) == f"<t {show_id(job_id)}, attempt 2>"


def test_a_total_below_nothing_is_refused() -> None:
    with pytest.raises(BadValue, match="The total of a progress must lie between 0 and"):
        local_context("t", "default").progress(1, -1)
    local_context("t", "default").progress(0, 0)


@pytest.mark.parametrize("amount", ["ten", b"1", True, [1], Decimal(1), math.nan, math.inf, 1 << 54, 1 << 2_000])
def test_a_progress_that_is_no_number_is_refused_in_a_sentence(amount: Any) -> None:
    scribe = Writes()
    context = JobContext(new_id(), "t", scribe=scribe)
    with pytest.raises(BadValue, match=r"The done of a progress .* progress\(3, 10\)"):
        context.progress(amount)
    with pytest.raises(BadValue, match=r"The total of a progress .* progress\(3, 10\)"):
        context.progress(1, amount)
    assert scribe.written == []


class Metres(float):
    """As numbers of other libraries are."""


def test_any_kind_of_int_float_and_text_is_stored_plain() -> None:
    scribe = Writes()
    JobContext(new_id(), "t", scribe=scribe).progress(Metres(1.5), 2, "half\udcff")
    assert [data for *_, data in scribe.written] == [b'{"done":1.5,"total":2,"note":"half?"}']
