"""Runners that are replaced: after so many jobs, over their memory, or because somebody wants fresh ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.soak.waiting import wait_for
from tests.worker.house import House, gone
from windlass.app.handle import Handle
from windlass.core.system import footprint
from windlass.worker import foreman


def test_a_runner_is_replaced_after_so_many_jobs(house: House) -> None:
    house.worker(max_jobs=5)
    handles = [house.send("touch") for _ in range(15)]
    pids = Counter(house.get(handle) for handle in handles)
    assert len(pids) > 1
    assert {(len(house.begun(handle)), house.faults(handle)) for handle in handles} == {(1, (1, 0, 0))}
    assert max(pids.values()) <= 5 + 1, "none that it had not started was kept"


def test_one_that_is_replaced_lets_its_jobs_end_and_gets_no_more(house: House) -> None:
    worker = house.worker(slots=2, max_jobs=1)
    long = house.send("hold", "end")
    old = house.wait_begun(long)
    assert house.get(house.send("touch")) == old
    wait_for("it to be replaced", lambda: old not in worker.pids().values())
    for _ in range(3):
        assert house.get(house.send("touch")) != old
    house.let("end")
    assert house.get(long) == old
    assert house.faults(long) == (1, 0, 0)
    wait_for("the old one to end", lambda: gone([old]))


def test_long_jobs_do_not_add_up_to_ever_more_processes(house: House) -> None:
    worker = house.worker(slots=3, max_jobs=1)
    held: list[Handle[Any]] = []
    for _ in range(3):
        held.append(house.send("hold", "end"))
        house.wait_begun(held[-1])
        house.get(house.send("touch"))
        wait_for("another beside the first", lambda: len(worker.runner_processes()) >= 2)
    assert len(worker.runner_processes()) == 2
    first, second, third = (house.begun(handle)[0] for handle in held)
    assert first != second == third, "a third one waits for the end of the first"
    house.let("end")
    for handle in held:
        house.get(handle)
    wait_for("its turn", lambda: gone([first, second]))
    assert {house.faults(handle) for handle in held} == {(1, 0, 0)}


def test_a_runner_over_its_memory_is_replaced_when_its_job_has_ended(house: House) -> None:
    worker = house.worker(max_memory=1 << 40)
    seen = footprint(worker.pids()[1])
    assert seen is not None
    worker.crew.stop(0)
    worker = house.worker(max_memory=seen.rss + (100 << 20))
    assert house.get(house.send("grows", 1)) == house.get(house.send("touch")) == worker.pids()[1]
    grown = house.send("grows", 200)
    old = house.get(grown)
    assert len(house.begun(grown)) == 1, "it is let end"
    wait_for("another to do the work", lambda: house.get(house.send("touch")) != old)
    wait_for("the old one to end", lambda: gone([old]))


def test_a_restart_replaces_them_one_after_the_other_without_a_pause(house: House) -> None:
    worker = house.worker(processes=2)
    before = worker.pids()
    long = house.send("hold", "end")
    house.wait_begun(long)
    worker.runners.restart()
    handles: list[Handle[Any]] = []

    def all_new() -> bool:
        handle = house.send("touch")
        handles.append(handle)
        house.get(handle)  # somebody always works
        if len(handles) == 5:
            house.let("end")
        return len(worker.pids()) == 2 and not set(worker.pids().values()) & set(before.values())

    wait_for("fresh runners", all_new)
    house.get(long)
    assert {house.faults(handle) for handle in [long, *handles]} == {(1, 0, 0)}
    wait_for("the old ones to end", lambda: {process.restarts for process in worker.runner_processes()} == {1})


def test_a_runner_that_does_not_end_is_killed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one in which a task has left a thread behind, for which Python waits."""
    monkeypatch.setattr(foreman, "END_S", 0.5)
    house.worker(max_jobs=1)
    old = house.get(house.send("leaves_a_thread"))
    assert house.get(house.send("touch")) != old
    wait_for("the old one to end", lambda: gone([old]))
