"""`windlass inspect processes`, and what workers report of themselves elsewhere."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Shell, Typed
from tests.ops.cards_by_hand import HandWorker, active, clock, runner, supervisor
from windlass import App

STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
ODD = "shop\x1b[2J\u202e.mail"


@pytest.fixture
def box(app: App) -> HandWorker:
    """A worker with two runners, one of which runs one of the two jobs that the worker has."""
    app.engine.open()
    for _ in range(2):
        app.send("shop.mail", queue="mail")
    worker = HandWorker(app.engine)
    begun, _ = worker.claim()
    ago_us = clock.now_us() - 100_000_000
    worker.says(
        processes=(
            supervisor(7303, rss=42_000_000, started_us=ago_us, cpu_s=3.0),
            runner(
                1,
                7310,
                rss=120_000_000,
                cpu_s=62.0,
                started_us=ago_us,
                slots=4,
                ended=1431,
                restarts=2,
                active=(active(begun, "shop.mail", seconds=3_600), active("0" * 36, "shop.other", seconds=7_200)),
            ),
            runner(2, 7311, "starting", slots=4, restarts=9),
        )
    )
    worker.beats_at(ago_us + 100_000_000)
    return worker


def test_every_process_has_a_line_and_so_has_every_job_that_runs(typed: Typed, box: HandWorker) -> None:
    boss, first, second, third = typed("inspect", "processes").rows
    assert {row["worker"] for row in (boss, first, second, third)} == {"box@web"}
    assert [row["process"] for row in (boss, first, second, third)] == [
        "supervisor",
        "runner 1",
        "runner 1",
        "runner 2",
    ]
    assert [boss[head] for head in ("pid", "rss", "cpu", "cpu%", "restarts")] == ["7303", "42 MB", "3s", "3.0", ""]
    for row in (first, second):
        assert [row[head] for head in ("state", "pid", "busy", "rss")] == ["working", "7310", "2/4", "120 MB"]
        assert [row[head] for head in ("cpu", "cpu%", "ended", "restarts")] == ["1m 2s", "62.0", "1,431", "2"]
    assert [row["task"] for row in (first, second)] == ["shop.mail", "shop.other"]
    assert (first["elapsed"], second["elapsed"]) == ("1h", "2h")
    assert [third[head] for head in ("state", "busy", "ended", "restarts", "job")] == ["starting", "0/4", "0", "9", ""]
    assert box.info.processes


def test_programs_get_every_field_of_every_process(typed: Typed, box: HandWorker) -> None:
    (seen,) = typed.json("inspect", "processes")
    assert (seen["name"], seen["host"], seen["state"], seen["beat_us"]) == ("box", "web", "", box.info.beat_us)
    boss, first, _ = seen["processes"]
    assert (boss["role"], boss["ended"], boss["active"]) == ("supervisor", 0, [])
    assert (first["rss"], first["cpu_s"], first["restarts"]) == (120_000_000, 62.0, 2)
    assert first["active"][0]["elapsed_us"] >= 3_600_000_000


def test_people_see_a_tree(shell: Shell, box: HandWorker) -> None:
    box.says(state="draining")
    shown = STYLE.sub("", shell.on_terminal("inspect", "processes", width=160))
    head, worker, boss, first, more, second = [line.split() for line in shown.splitlines()]
    assert " ".join(head) == "PROCESS STATE PID BUSY RSS CPU CPU% ENDED RESTARTS ELAPSED TASK JOB"
    assert worker == ["box@web", "draining"]
    assert boss[:2] == ["supervisor", "7303"]
    assert first[:5] == ["runner", "1", "working", "7310", "2/4"]
    assert more[-2:] == ["shop.other", "0" * 36]
    assert second[:5] == ["runner", "2", "starting", "7311", "0/4"]
    narrow = STYLE.sub("", shell.on_terminal("inspect", "processes", width=80))
    assert all(len(line.rstrip()) <= 80 for line in narrow.splitlines())
    assert {"RESTARTS", "RSS", "ELAPSED"} <= set(narrow.splitlines()[0].split())


def test_a_worker_that_says_nothing_of_its_processes_is_shown(app: App, typed: Typed, shell: Shell) -> None:
    assert typed("inspect", "processes").err == "No worker is running.\n"
    HandWorker(app.engine).beats_at(0)
    (row,) = typed("inspect", "processes").rows
    assert (row["worker"], row["process"], row["pid"]) == ("box@web", "", "")
    assert "no report" in shell.on_terminal("inspect", "processes")


def test_workers_show_their_memory_cpu_and_restarts(typed: Typed, box: HandWorker) -> None:
    (row,) = typed("inspect", "workers").rows
    assert [row[head] for head in ("rss", "cpu", "restarts", "state")] == ["162 MB", "1m 5s", "11", ""]
    box.says(processes=(), state="stopping")
    (row,) = typed("inspect", "workers").rows
    assert [row[head] for head in ("rss", "cpu", "restarts", "state")] == ["", "", "", "stopping"]


def test_active_jobs_show_since_when_a_slot_runs_them(typed: Typed, box: HandWorker) -> None:
    begun, waits = sorted(typed("inspect", "active").rows, key=lambda row: not row["elapsed"])
    assert begun["elapsed"] == "1h"
    assert waits["elapsed"] == "", "the worker has it, and no slot has begun it"
    (seen,) = typed.json("inspect", "active")
    assert sorted(job["started_us"] is None for job in seen["running"]) == [False, True]
    box.says(processes=())
    assert all(row["elapsed"] for row in typed("inspect", "active").rows), "since it was claimed: nothing else is known"


@pytest.mark.parametrize("look", ["processes", "workers", "active"])
def test_whoever_looks_gets_a_fresh_report(app: App, typed: Typed, look: str) -> None:
    app.engine.open()
    worker = HandWorker(app.engine)
    first_us = worker.info.beat_us
    with worker.answering():
        while worker.info.beat_us == first_us:  # it may not be asleep yet
            typed("inspect", look)
    assert worker.info.beat_us > first_us


def test_what_a_card_says_cannot_act_on_the_screen(app: App, typed: Typed, shell: Shell) -> None:
    app.engine.open()
    HandWorker(app.engine, processes=(runner(1, 11, ODD, active=(active("x", ODD, 1),)),), state=ODD).beats_at(0)
    for look in ("processes", "workers"):
        for shown in (typed("inspect", look).out, shell.on_terminal("inspect", look, width=200)):
            assert "\x1b[2J" not in shown
            assert "\u202e" not in shown
            assert "\\x1b[2J" in shown
