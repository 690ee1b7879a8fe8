"""The line of operations: nobody is answered without a commit, and the lead is never lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.sqlite.rig import inner, new_job, send
from windlass.core.errors import StoreClosed, UnsafeFile
from windlass.core.job import Job
from windlass.engines.protocol import Receipt, TallyQuery
from windlass.engines.sqlite import SqliteEngine
from windlass.engines.sqlite.line import Group, Line, Operation
from windlass.engines.sqlite.tx import Tx


def operation(name: str) -> Operation[str]:
    return Operation(lambda _: name)


def answer(take: Callable[[], Group]) -> None:
    for one in take():
        one.result = "done"


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


def wait_for(line: Line, count: int) -> None:
    """Until so many stand in line."""
    while len(getattr(line, "_waiting")) < count:  # noqa: B009 - private on purpose
        threading.Event().wait(0.001)


def test_an_error_before_anybody_was_taken_reaches_the_leader_and_the_next_one_leads() -> None:
    line, first, second = Line(), operation("a"), operation("b")

    def refuse(take: Callable[[], Group]) -> None:
        raise OSError("no gate")

    line.carry_out(first, refuse)
    assert isinstance(first.error, OSError)
    line.carry_out(second, answer)
    assert (second.error, second.result) == (None, "done")


@pytest.mark.parametrize("taken", [False, True])
def test_an_interrupted_leader_leaves_nobody_asleep(taken: bool) -> None:
    line, mine, other, third = Line(), operation("a"), operation("b"), operation("c")

    def interrupted(take: Callable[[], Group]) -> None:
        wait_for(line, 2)
        if taken:
            take()
        raise KeyboardInterrupt

    leader, errors = in_thread(lambda: line.carry_out(mine, interrupted))
    wait_for(line, 1)
    follower, _ = in_thread(lambda: line.carry_out(other, answer))
    leader.join(10)
    follower.join(10)
    assert not follower.is_alive()
    assert [type(error) for error in errors] == [KeyboardInterrupt]
    # Taken along, it does not know what became of it; left in line, it led the next group itself.
    assert (other.error is not None, other.result) == ((True, None) if taken else (False, "done"))
    line.carry_out(third, answer)
    assert third.result == "done"


def test_a_leader_interrupted_on_its_way_out_still_wakes_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    line, mine, other = Line(), operation("a"), operation("b")
    wake, interrupts = Operation[object].wake, [KeyboardInterrupt()]

    def interrupted(self: Operation[object]) -> None:
        if self is other and interrupts:
            raise interrupts.pop()
        wake(self)

    monkeypatch.setattr(Operation, "wake", interrupted)

    def slow(take: Callable[[], Group]) -> None:
        answer(take)
        wait_for(line, 1)

    leader, errors = in_thread(lambda: line.carry_out(mine, slow))
    while getattr(line, "_waiting") or not getattr(line, "_leader"):  # noqa: B009 - until the leader has taken itself
        threading.Event().wait(0.001)
    follower, _ = in_thread(lambda: line.carry_out(other, answer))
    leader.join(10)
    follower.join(10)
    assert not follower.is_alive()
    assert [type(error) for error in errors] == [KeyboardInterrupt]
    assert other.result == "done"


def test_closing_sends_away_those_who_wait_and_lets_the_leader_finish() -> None:
    line, mine, other = Line(), operation("a"), operation("b")

    def slow(take: Callable[[], Group]) -> None:
        group = take()
        wait_for(line, 1)
        line.close()
        for one in group:
            one.result = "done"

    leader, _ = in_thread(lambda: line.carry_out(mine, slow))
    follower, _ = in_thread(lambda: line.carry_out(other, answer))
    leader.join(10)
    follower.join(10)
    results = sorted([str(mine.result or type(mine.error).__name__), str(other.result or type(other.error).__name__)])
    assert results == ["StoreClosed", "done"]
    with pytest.raises(StoreClosed):
        line.carry_out(operation("c"), answer)


def test_a_gate_that_cannot_be_passed_is_an_error_and_the_store_goes_on_after_it(
    engine: SqliteEngine, path: Path
) -> None:
    gate = Path(f"{path}.gate")
    moved = gate.rename(f"{gate}.moved")
    gate.symlink_to(moved)
    with pytest.raises(UnsafeFile):
        send(engine)
    gate.unlink()
    os.rename(moved, gate)
    send(engine)
    assert sum(count.n for count in engine.tally(TallyQuery()).counts) == 1


def test_inserts_that_fail_together_are_tried_one_by_one_and_only_the_bad_one_is_refused(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    committer = inner(engine, "committer")
    good, bad, after = ([new_job()] for _ in range(3))
    one_by_one = committer._insert

    def picky(tx: Tx, jobs: Sequence[Job]) -> list[Receipt]:
        if bad[0] in jobs:
            raise ValueError("a fault of ours")
        return one_by_one(tx, jobs)

    monkeypatch.setattr(committer, "_insert", picky)
    operations = [Operation(lambda tx, jobs=jobs: picky(tx, jobs), plain=jobs) for jobs in (good, bad, after)]
    inner(engine, "gate").run(lambda: committer._commit(operations))
    assert [type(one.error) for one in operations] == [type(None), ValueError, type(None)]
    found = engine.fetch([good[0].id, bad[0].id, after[0].id])
    assert [job is not None for job in found] == [True, False, True]
