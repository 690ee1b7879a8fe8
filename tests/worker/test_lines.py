"""What a task prints, logs and says is kept with its job: live, in its order, bounded, and nobody else's."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.soak.waiting import wait_for
from tests.worker.house import House
from windlass.app.app import App
from windlass.app.context import current_job
from windlass.app.handle import Handle
from windlass.core.job import LogLine
from windlass.observe import capture
from windlass.worker import spool
from windlass.worker.kind import Kind
from windlass.worker.worker import Worker

HANG_S = 60
logger = logging.getLogger("shop.mail")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    yield app
    app.close()


def log_of(handle: Handle[Any]) -> tuple[LogLine, ...]:
    return handle.job().log


def said(handle: Handle[Any]) -> list[tuple[str, str]]:
    return [(line.stream, line.text.decode()) for line in log_of(handle)]


ALL_FOUR = [("stdout", "printed"), ("stderr", "to stderr"), ("log", "WARNING shop.mail: logged 7"), ("", "said")]


def say_all() -> None:
    print("printed")
    print("to stderr", file=sys.stderr)
    logger.warning("logged %d", 7)
    current_job().log("said")


# ── where it is kept ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pool", ["solo", "threads", "auto"])
def test_prints_and_records_are_kept_in_their_order_and_still_go_where_they_went(
    app: App, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, pool: Kind
) -> None:
    task = app.task(name="says")(say_all)
    with Worker(app, pool=pool, slots=1):
        handle = task.delay()
        handle.get(HANG_S)
    assert said(handle) == ALL_FOUR
    shown = capsys.readouterr()
    assert "printed\n" in shown.out
    assert "to stderr\n" in shown.err
    assert "logged 7" in caplog.text


@pytest.mark.parametrize("pool", ["aio", "auto"])
def test_so_they_are_in_coroutines_and_in_threads_that_have_their_context(app: App, pool: Kind) -> None:
    @app.task(name="says")
    async def says(name: str) -> None:
        for _ in range(20):
            print(name)
            await asyncio.sleep(0)
        await asyncio.to_thread(print, f"{name} in a thread")

    with Worker(app, pool=pool, slots=4):
        handles = {name: says.delay(name) for name in ("ann", "bob", "cid")}
        for handle in handles.values():
            handle.get(HANG_S)
    for name, handle in handles.items():
        assert said(handle) == [("stdout", name)] * 20 + [("stdout", f"{name} in a thread")]


def test_a_thread_of_a_task_is_heard_if_it_was_given_the_context(app: App) -> None:
    @app.task(name="says")
    def says() -> None:
        context = contextvars.copy_context()
        for target in (lambda: context.run(print, "with it"), lambda: print("without")):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()

    with Worker(app):
        handle = says.delay()
        handle.get(HANG_S)
    assert said(handle) == [("stdout", "with it")]


def test_a_task_without_logs_keeps_only_what_it_says_to_its_job(app: App) -> None:
    task = app.task(name="says", logs=False)(say_all)
    with Worker(app):
        handle = task.delay()
        handle.get(HANG_S)
    assert said(handle) == [("", "said")]


def test_lines_have_their_own_time_and_attempt(app: App) -> None:
    @app.task(name="says", retry=1)
    def says() -> None:
        print("try")
        if current_job().attempt == 1:
            raise ValueError("once")

    with Worker(app):
        handle = says.delay()
        handle.get(HANG_S)
    first, second = log_of(handle)
    record = handle.job().record
    assert record is not None
    assert (first.attempt, second.attempt) == (1, 2)
    assert record.created_us < first.at_us < second.at_us < (record.ended_us or 0)


# ── what a line is ──────────────────────────────────────────────────────────────────────────────────────


def test_pieces_become_lines_and_the_last_one_needs_no_end(app: App) -> None:
    @app.task(name="says")
    def says() -> None:
        print("one", end=" ")
        print("line", end="\r\n")
        sys.stdout.write("two\nthree\n\nlast")
        sys.stdout.writelines([" but", " not least"])

    with Worker(app):
        handle = says.delay()
        handle.get(HANG_S)
    assert said(handle) == [("stdout", text) for text in ("one line", "two", "three", "", "last but not least")]


def test_a_traceback_is_kept_line_by_line(app: App) -> None:
    @app.task(name="says")
    def says() -> None:
        try:
            raise ValueError("no such order")
        except ValueError:
            logger.exception("It failed.")

    with Worker(app):
        handle = says.delay()
        handle.get(HANG_S)
    lines = [text for _, text in said(handle)]
    assert lines[0] == "ERROR shop.mail: It failed."
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: no such order"


@pytest.mark.parametrize("text", ["half a character \udcff", "\x00\x1b[2J", "é" * 20_000, "x" * 100_000, ""])
def test_whatever_is_printed_can_be_kept(app: App, text: str) -> None:
    @app.task(name="says")
    def says() -> None:
        current_job().log(text)
        print(text.encode(errors="replace").decode())

    with Worker(app):
        handle = says.delay()
        handle.get(HANG_S)
    assert len(said(handle)) >= 2


def test_a_logger_that_is_called_wrongly_does_not_stop_the_task(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    alone = logging.Logger("shop.alone")  # with none of the handlers of the tests, which raise
    alone.addHandler(capture.Keeper())

    @app.task(name="says")
    def says() -> int:
        alone.warning("%d", "no number")
        return 1

    with Worker(app):
        assert says.delay().get(HANG_S) == 1
    assert "Logging error" in capsys.readouterr().err


# ── too much ────────────────────────────────────────────────────────────────────────────────────────────

LEFT_OUT = re.compile(r"… ([\d,]+) lines? left out: they came too fast\.")


def test_what_comes_too_fast_is_left_out_in_the_middle_and_counted(app: App) -> None:
    @app.task(name="babbles")
    def babbles(lines: int) -> None:
        for number in range(lines):
            print(number)

    with Worker(app):
        handle = babbles.delay(50_000)
        handle.get(HANG_S)
    texts = [text for _, text in said(handle)]
    kept = [int(text) for text in texts if text.isdigit()]
    missing = sum(int(found[1].replace(",", "")) for text in texts if (found := LEFT_OUT.fullmatch(text)))
    assert kept == sorted(kept)
    assert (kept[0], kept[-1]) == (0, 49_999)
    assert len(kept) + missing == 50_000
    assert missing > 0


def test_a_spool_is_bounded_whoever_talks() -> None:
    lines = spool.Spool()
    for _ in range(10 * spool.BURST):
        lines.add("stdout", 1, "x" * 10 * spool.LONGEST_LINE)
    taken = list(lines.take())
    assert max(len(line.text) for line in taken) == spool.LONGEST_LINE + 1
    assert sum(len(line.text) for line in taken) <= spool.MOST_CHARS + (spool.LAST + 1) * spool.LONGEST_LINE
    assert not list(lines.take())


def test_who_talks_on_has_less_and_less_room_and_who_pauses_has_all_of_it_again() -> None:
    lines = spool.Spool()

    def kept() -> int:
        for _ in range(10 * spool.BURST):
            lines.add("stdout", 1, "x")
        return len([line for line in lines.take() if line.number])

    assert [kept(), kept()] == [spool.BURST + spool.LAST, spool.STEADY + spool.LAST]
    for _ in range(spool.BURST // spool.STEADY):
        list(lines.take())
    assert kept() == spool.BURST + spool.LAST


def test_jobs_beside_one_that_talks_without_end_go_on(app: App) -> None:
    @app.task(name="talks")
    def talks() -> int:
        said = 0
        while not current_job().cancelled:
            print(said)
            said += 1
        return said

    @app.task(name="works")
    def works(number: int) -> int:
        return number

    with Worker(app, slots=2):
        talker = talks.delay()
        wait_for("it to talk", lambda: log_of(talker))
        assert [works.delay(number).get(HANG_S) for number in range(20)] == list(range(20))
        talker.cancel()
        talker.wait(HANG_S)
    assert len(log_of(talker)) < 20_000


# ── live, and whatever becomes of its process ───────────────────────────────────────────────────────────

TALKS = """
import os, sys, time
from pathlib import Path
from windlass import App
app = App()

@app.task(name="talks")
def talks() -> int:
    print("first")
    print("second", file=sys.stderr)
    while not (Path(os.environ["MARKS_FOLDER"]) / "end").exists(): time.sleep(0.01)
    print("last")
    return os.getpid()
"""


def test_lines_are_there_while_the_job_runs_and_survive_its_process(house: House) -> None:
    worker = house.worker(house.write("talks.py", TALKS))
    handle = house.send("talks")
    wait_for("its lines", lambda: said(handle) == [("stdout", "first"), ("stderr", "second")])
    os.kill(worker.pids()[1], signal.SIGKILL)
    wait_for("the second run", lambda: len(said(handle)) == 4)
    house.let("end")
    house.get(handle)
    begun = [("stdout", "first"), ("stderr", "second")]
    assert said(handle) == [*begun, *begun, ("stdout", "last")]


def test_what_a_thread_says_after_its_task_has_ended_is_nobodys(app: App) -> None:
    go, gone = threading.Event(), threading.Event()

    @app.task(name="leaves")
    def leaves() -> None:
        def late() -> None:
            go.wait(HANG_S)
            print("too late")
            gone.set()

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(late,)).start()

    with Worker(app):
        handle = leaves.delay()
        handle.get(HANG_S)
        go.set()
        assert gone.wait(HANG_S)
        assert said(handle) == []


# ── the process around it ───────────────────────────────────────────────────────────────────────────────


def test_streams_and_loggers_are_as_they_were_when_the_last_worker_has_stopped(app: App) -> None:
    task = app.task(name="says")(say_all)
    before = sys.stdout, sys.stderr, logging.Logger.callHandlers
    with Worker(app), Worker(app):
        task.delay().get(HANG_S)
        assert sys.stdout is not before[0]
        assert sys.stdout.encoding == before[0].encoding
        assert copy.copy(sys.stdout).encoding == before[0].encoding
        assert logging.Logger.callHandlers is not before[2]
    assert (sys.stdout, sys.stderr, logging.Logger.callHandlers) == before


TWICE = """
import logging
from windlass import App, Worker
app = App("memory://")
@app.task(name="warns")
def warns(how: str) -> None:
    if how == "later":
        logging.basicConfig()
    logging.getLogger("shop").warning("once")
with Worker(app):
    for how in ("by nobody", "later"):
        job = warns.delay(how)
        job.get(60)
        print([(line.stream, line.text) for line in job.job().log])
"""


def test_what_a_handler_shows_is_not_kept_once_more(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", TWICE], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[('log', b'WARNING shop: once')]"] * 2


PROGRAM = """
import logging
from windlass import App, Worker
app = App("memory://")
with Worker(app):
    logging.getLogger("shop").warning("as it was")
    logging.basicConfig(format="set up: %(message)s")
    logging.getLogger("shop").warning("later")
"""


def test_what_a_program_logs_is_shown_as_without_a_worker(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["as it was", "set up: later"]


def test_a_stream_that_somebody_else_has_put_there_meanwhile_stays(
    app: App, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    app.task(name="says")(say_all)
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    with (tmp_path / "out").open("w") as other:
        with Worker(app):
            sys.stdout = other
        assert sys.stdout is other
