"""`windlass inspect` and `windlass status`: what workers do and know, and how everything is."""

from __future__ import annotations

import json
import re
import threading
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Shell, Typed
from windlass import App, State, Worker
from windlass.cli.status import sparkline
from windlass.engines.protocol import Page, Query
from windlass.engines.sqlite import SqliteEngine


class Held:
    """A task that goes on until the gate is open."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._started, self.gate = threading.Event(), threading.Event()
        self._task = app.task(name="shop.hold", queue="slow")(self.run)

    def run(self) -> None:
        self._started.set()
        self.gate.wait(30)

    def begin(self) -> str:
        """One that runs, and one that waits for a worker that knows it."""
        self._app.send("shop.unknown")
        job_id = self._task.delay().id
        assert self._started.wait(30)
        return job_id


@pytest.fixture
def held(app: App) -> Held:
    return Held(app)


def test_workers_and_what_they_run(app: App, typed: Typed, held: Held) -> None:
    app.task(name="shop.other")(print)
    for words in (("active",), ("workers",)):
        assert typed("inspect", *words).err == "No worker is running.\n"
    assert typed("inspect", "registered").err == "No worker is running, and there is no job.\n"
    with Worker(app, slots=3, name="box", queues=["slow"]) as worker:
        assert typed("inspect", "active").err == "No job is running.\n"
        job_id = held.begin()
        (row,) = typed("inspect", "active").rows
        assert (row["id"], row["task"], row["queue"]) == (job_id, "shop.hold", "slow")
        assert row["worker"].startswith("box")
        (active,) = typed.json("inspect", "active")
        assert (active["id"], f"{active['name']}@{active['host']}") == (worker.id, row["worker"])
        assert [running["id"] for running in active["running"]] == [job_id]
        (seen,) = typed("inspect", "workers").rows
        assert (seen["running"], seen["slots"], seen["queues"], seen["id"]) == ("1", "3", "slow", worker.id)
        assert typed.json("inspect", "workers")[0]["slots"] == 3
        assert [job["id"] for job in typed.json("jobs", "list", "--worker", "box")] == [job_id]
        held.gate.set()


def test_workers_of_one_name_are_all_told_of(app: App, typed: Typed, held: Held) -> None:
    with Worker(app, name="box") as one, Worker(app, name="box") as other:
        job_id = held.begin()
        active = typed.json("inspect", "active")
        assert {worker["id"] for worker in active} == {one.id, other.id}
        held.gate.set()
    assert [job["id"] for worker in active for job in worker["running"]] == [job_id]


def test_tasks_and_who_knows_them(app: App, typed: Typed, held: Held) -> None:
    held.gate.set()
    app.task(name="shop.other")(print)
    with Worker(app, name="box"):
        job_id = held.begin()
        assert app.result(job_id).wait(timeout=10)
        rows = {row["task"]: row for row in typed("inspect", "registered").rows}
    assert rows["shop.hold"]["queues"] == "slow"
    assert rows["shop.other"]["workers"].startswith("box")
    assert rows["shop.unknown"]["workers"] == "none"
    stats = {row["task"]: row for row in typed("inspect", "stats").rows}
    assert (stats["shop.hold"]["succeeded"], stats["shop.hold"]["done/h"], stats["shop.hold"]["failed/h"]) == (
        "1",
        "1",
        "0",
    )
    assert stats["shop.unknown"]["ready"] == "1"
    assert typed.json("inspect", "stats")["shop.hold"]["last_hour"] == {"succeeded": 1}
    assert "Did you mean 'workers'?" in typed.refused("inspect", "worker", code=2)


def test_an_overview(app: App, typed: Typed, held: Held) -> None:
    def fail() -> None:
        raise ValueError("broken")

    failing = app.task(name="shop.fail")(fail)
    with Worker(app, slots=2, name="box") as worker:
        assert failing.delay().wait(timeout=10)
        held.begin()
        seen = typed.json("status")
        assert [queue["name"] for queue in seen["queues"]] == ["default", "slow"]
        assert [one["id"] for one in seen["workers"]] == [worker.id]
        assert [(one["count"], one["error"]) for one in seen["dead"]] == [(1, "ValueError: broken")]
        shown = typed("status").out
        held.gate.set()
    assert shown.startswith("store\tsqlite:///windlass.db\n")
    assert "\nnow\t1 worker, 2 slots; 1 ready, 1 running, 0 scheduled, 1 dead\n" in shown
    for part in ("\nslow\t0\t1\t", "\nbox", "ValueError: broken"):
        assert part in shown
    assert "1 succeeded, 1 failed in 30 minutes" in typed("status").out, "a worker that stops tells what it has counted"


def test_an_empty_store_has_a_status(typed: Typed) -> None:
    store, instant, *rest = typed("status").out.splitlines()
    assert store == "store\tsqlite:///windlass.db"
    assert re.fullmatch(r"time\t\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", instant)
    assert rest == [
        "now\t0 workers, 0 slots; 0 ready, 0 running, 0 scheduled, 0 dead",
        "done\t0 succeeded, 0 failed in 30 minutes",
    ]


def test_a_bar_for_each_number() -> None:
    assert sparkline([0, 1, 50, 100]) == "▁▂▅█"
    assert sparkline([0, 0]) == "▁▁"


def test_a_watch_goes_through_the_dead_once_while_nobody_else_dies(
    app: App, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ValueError("broken")

    failing = app.task(name="shop.fail")(fail)
    with Worker(app):
        assert failing.delay().wait(timeout=10)
    pauses: list[float] = []
    pages: list[int] = []
    search = SqliteEngine.search

    def searched(engine: SqliteEngine, query: Query) -> Page:
        pages.extend([query.limit] if query.state is State.DEAD and query.limit > 1 else [])
        return search(engine, query)

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(SqliteEngine, "search", searched)
    monkeypatch.setattr("windlass.cli.status.time", SimpleNamespace(sleep=pause))
    shown = [json.loads(line) for line in typed("status", "--watch", "--json").out.splitlines()]
    assert [[group["count"] for group in one["dead"]] for one in shown] == [[1]] * 5
    assert len(pages) == 1


def test_a_watch_goes_on_until_it_is_interrupted(shell: Shell) -> None:
    shell("call", "-A", "tasks", "add", "1", "2")
    seen = shell.on_terminal("status", "--watch", "--every", "0.1", until="default")
    assert "0 workers, 0 slots; 1 ready, 0 running, 0 scheduled, 0 dead" in seen
    assert "\x1b[?1049l" in seen, "the screen is given back"
    piped = f"{' '.join(shell.command('status', '--watch', '--every', '0.1'))} | head -n 2"
    lines = shell.script(piped).splitlines()
    assert len(lines) == 2
    assert all(line.endswith("0 workers, 0 slots; 1 ready, 0 running, 0 scheduled, 0 dead") for line in lines)
    first = shell.script(f"{' '.join(shell.command('status', '--watch', '--every', '0.1', '--json'))} | head -n 1")
    assert json.loads(first)["store"] == "sqlite:///windlass.db"
