"""The user's code around tasks runs where tasks run, in each runner; what the worker does is told to one of them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.soak.waiting import wait_for
from tests.worker.house import House, gone
from windlass.core.errors import JobDead

APP = """
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from windlass import App, Middleware, current_job, injected
from windlass.core.events import Claimed, Renewed, Settled, Swept
from windlass.core.ids import show_id


def mark(word: str, job: str = "-") -> None:
    with (Path(os.environ["MARKS_FOLDER"]) / "marks").open("a") as file:
        file.write(f"{word} {os.getpid()} {job}\\n")


class Watching(Middleware):
    def before_run(self, job):
        mark("before_run", job.id)

    def after_run(self, job, error):
        mark("after_run", job.id)

    def before_settle(self, settlement):
        mark("before_settle", show_id(settlement.id))
        return msgspec.structs.replace(settlement, keep_us=3_600_000_000 * 24 * 365)

    def after_settle(self, settlement, verdict):
        mark(f"after_settle:{verdict}", show_id(settlement.id))


app = App(middleware=[Watching()], beat=0.1, sweep=0.1)


@app.on_start
def start() -> None:
    mark("on_start")


@app.on_stop
async def stop() -> None:
    mark("on_stop")


class Line:
    pid = os.getpid()


@app.resource
def line() -> Iterator[Line]:
    mark("open")
    yield Line()
    mark("close")


@app.task(name="where")
def where(line: Line = injected) -> int:
    return line.pid


@app.task(name="dies_once")
def dies_once() -> int:
    first = Path(os.environ["MARKS_FOLDER"]) / "first"
    if not first.exists():
        first.touch()
        os.kill(os.getpid(), 9)
    return os.getpid()


for kind in (Claimed, Settled):
    app.bus.subscribe(kind, lambda event: mark(type(event).__name__, show_id(event.job)))
for kind in (Renewed, Swept):
    app.bus.subscribe(kind, lambda event: mark(type(event).__name__))
"""
HOOKS = ("before_run", "after_run", "before_settle", "after_settle:accepted")


def test_hooks_and_resources_are_those_of_each_runner(house: House) -> None:
    worker = house.worker(house.write("hooked.py", APP), processes=2)
    pids = set(worker.pids().values())
    handles = [house.send("where") for _ in range(20)]
    ran = {handle.id: house.get(handle) for handle in handles}
    assert set(ran.values()) <= pids
    for hook in HOOKS:
        wait_for(f"{hook} of all jobs", lambda hook=hook: len(house.marks(hook)) == len(handles))
        assert {mark.job: mark.pid for mark in house.marks(hook)} == ran, "where the job ran"
    worker.crew.stop(10)
    for hook in ("on_start", "open", "on_stop", "close"):
        assert Counter(mark.pid for mark in house.marks(hook)) == dict.fromkeys(pids, 1), hook


def test_what_the_worker_does_is_told_once(house: House) -> None:
    worker = house.worker(house.write("hooked.py", APP), processes=2)
    handles = [house.send("where") for _ in range(20)]
    for handle in handles:
        house.get(handle)
    for event in ("Claimed", "Settled"):
        wait_for(f"{event} of all jobs", lambda event=event: len(house.marks(event)) >= len(handles))
        assert Counter(mark.job for mark in house.marks(event)) == {handle.id: 1 for handle in handles}
    house.app.named("where").using(expires=0.01, delay=3_600).delay()
    for event in ("Renewed", "Swept"):
        wait_for(event, lambda event=event: house.marks(event))
    told = {mark.pid for event in ("Claimed", "Settled", "Renewed", "Swept") for mark in house.marks(event)}
    assert told == {worker.pids()[1]}, "the one that has worked longest"


def test_a_runner_that_is_replaced_hears_first_what_the_store_said(house: House) -> None:
    house.worker(house.write("hooked.py", APP), max_jobs=1)
    handles = [house.send("where") for _ in range(3)]
    ran = {handle.id: house.get(handle) for handle in handles}
    wait_for("all answers", lambda: len(house.marks("after_settle:accepted")) == len(handles))
    assert {mark.job: mark.pid for mark in house.marks("after_settle:accepted")} == ran


def test_hooks_see_a_suspect_in_its_own_process(house: House) -> None:
    house.worker(house.write("hooked.py", APP))
    handle = house.send("dies_once")
    pid = house.get(handle)
    wait_for("its answer", lambda: house.marks("after_settle:accepted"))
    assert [mark.pid for mark in house.marks("before_settle")] == [pid]
    assert [mark.pid for mark in house.marks("after_settle:accepted")] == [pid]


SPOILS = """
import os
from pathlib import Path
import msgspec
from windlass import App, Middleware
from windlass.core.ids import show_id

class Spoils(Middleware):
    def before_settle(self, settlement):
        wrong = {"text": "text", "object": object(), "number": 1 << 70}
        found = [name for name in wrong if settlement.result and name.encode() in settlement.result]
        return msgspec.structs.replace(settlement, result=wrong[found[0]]) if found else settlement

    def after_settle(self, settlement, verdict):
        with (Path(os.environ["MARKS_FOLDER"]) / "marks").open("a") as file:
            file.write(f"told:{settlement.transition.to} {os.getpid()} {show_id(settlement.id)}\\n")

app = App(middleware=[Spoils()])

@app.task(name="echo")
def echo(what: str) -> str:
    return what

@app.task(name="where")
def where() -> int:
    return os.getpid()
"""


@pytest.mark.parametrize("what", ["text", "object", "number"])
def test_an_end_that_a_hook_has_spoilt_costs_its_own_job_only(house: House, what: str) -> None:
    worker = house.worker(house.write("spoils.py", SPOILS))
    (pid,) = worker.pids().values()
    spoilt, good = house.send("echo", what), [house.send("echo", "good") for _ in range(5)]
    with pytest.raises(JobDead, match="settlement"):
        house.get(spoilt)
    assert (house.record(spoilt).reason, house.faults(spoilt)) == ("settlement", (1, 0, 0))
    told = wait_for("what was told of it", lambda: house.marks("told:dead"))
    assert [mark.job for mark in told] == [spoilt.id], "of the end that was stored"
    assert {house.get(handle) for handle in good} == {"good"}
    assert house.get(house.send("where")) == pid, "no runner died"


HANGS = """
import os, time
from pathlib import Path
from windlass import App, Middleware
from windlass.core.events import Settled

def mark(word: str) -> None:
    with (Path(os.environ["MARKS_FOLDER"]) / "marks").open("a") as file:
        file.write(f"{word} {os.getpid()} -\\n")

def hang(*_: object) -> None:
    mark("hangs")
    time.sleep(600)

class Hangs(Middleware):
    def after_settle(self, settlement, verdict):
        hang()

app = App(middleware=[Hangs()] if HOOK else [])
if not HOOK:
    app.bus.subscribe(Settled, hang)

@app.on_stop
def stop() -> None:
    mark("on_stop")

@app.task(name="where")
def where() -> int:
    return os.getpid()
"""


@pytest.mark.parametrize("who", ["hook", "subscriber"])
def test_user_code_that_hangs_keeps_a_runner_neither_from_jobs_nor_from_its_end(house: House, who: str) -> None:
    worker = house.worker(house.write("hangs.py", HANGS.replace("HOOK", str(who == "hook"))))
    (pid,) = worker.pids().values()
    house.get(house.send("where"))
    wait_for("it to hang", lambda: house.marks("hangs"))
    assert {house.get(house.send("where")) for _ in range(5)} == {pid}
    assert worker.crew.stop(10)
    wait_for("the runner to end", lambda: gone([pid]))
    assert [mark.pid for mark in house.marks("on_stop")] == [pid], "by itself"
    assert len(house.marks("hangs")) == 1
