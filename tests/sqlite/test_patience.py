"""Somebody is stopped inside the gate: nobody waits for ever, and everybody is told for whom they waited."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.soak.waiting import wait_for
from tests.sqlite.rig import gate_held, gate_is_held, inner, record, send, stopped_inside
from windlass.core.errors import StoreUnavailable
from windlass.core.job import State
from windlass.engines.sqlite import SqliteEngine, patience
from windlass.engines.sqlite.gate import Gate


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "SHORT_S", 0.1)
    monkeypatch.setattr(patience, "AT_LEAST_S", 0.01)


def test_whoever_waits_for_a_stopped_process_is_told_its_number(engine: SqliteEngine, path: Path) -> None:
    with stopped_inside(path) as pid:
        with pytest.raises(StoreUnavailable) as caught:
            send(engine)
        assert f"Process {pid} was stopped in the middle of a write" in str(caught.value)
        assert f"kill -CONT {pid}" in str(caught.value)
    assert record(engine, send(engine)).state is State.READY


def test_reading_goes_on_beside_it(engine: SqliteEngine, path: Path) -> None:
    job_id = send(engine)
    with stopped_inside(path):
        assert record(engine, job_id).state is State.READY


def test_somebody_who_is_only_slow_is_waited_for(engine: SqliteEngine, path: Path) -> None:
    sent = threading.Event()
    with gate_held(path):
        sender = threading.Thread(target=lambda: (send(engine), sent.set()))
        sender.start()
        assert not sent.wait(5 * patience.SHORT_S)
    sender.join()
    assert sent.is_set()
    engine.close()
    wait_for("the thread has ended", lambda: not threads())


def test_but_not_without_end(engine: SqliteEngine, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "LONG_S", 0.2)
    with gate_held(path), pytest.raises(StoreUnavailable, match=rf"Process {os.getpid()} has held .*gate for \d+ s"):
        send(engine)
    send(engine)


def test_many_who_wait_are_all_told_and_all_served_later(engine: SqliteEngine, path: Path) -> None:
    told: list[str] = []

    def one() -> None:
        try:
            send(engine)
        except StoreUnavailable as error:
            told.append(str(error))

    senders = [threading.Thread(target=one) for _ in range(8)]
    with stopped_inside(path) as pid:
        for thread in senders:
            thread.start()
        for thread in senders:
            thread.join()
    assert len(told) == len(senders)
    assert all(str(pid) in said for said in told)
    for _ in senders:
        one()
    assert len(told) == len(senders)


def test_a_lock_that_comes_when_nobody_wants_it_is_let_go(engine: SqliteEngine, path: Path) -> None:
    with stopped_inside(path), pytest.raises(StoreUnavailable):
        send(engine)
    waiting = inner(engine, "gate", "_patience")
    wait_for("the thread has left the line", lambda: not waiting.in_line)
    assert not gate_is_held(path)


def threads() -> list[threading.Thread]:
    """Those that wait for a gate."""
    return [thread for thread in threading.enumerate() if thread.name == "windlass-gate"]


def opened(path: Path, process: str | int = "self") -> list[str]:
    """The files of the store that a process has open."""
    found: list[str] = []
    for number in os.listdir(f"/proc/{process}/fd"):
        with contextlib.suppress(OSError):
            link = os.readlink(f"/proc/{process}/fd/{number}")
            found += [link] * link.startswith(str(path))
    return found


def test_an_engine_is_closed_although_the_gate_is_shut(engine: SqliteEngine, path: Path) -> None:
    send(engine)
    with stopped_inside(path):
        engine.close()
    wait_for("all is closed", lambda: not opened(path))
    wait_for("the thread has ended", lambda: not threads())
    assert not gate_is_held(path)
    engine.open()
    send(engine)


def test_an_interrupt_leaves_neither_a_lock_nor_a_stale_answer(engine: SqliteEngine, path: Path) -> None:
    def interrupt() -> None:
        waiting = inner(engine, "gate", "_patience")
        wait_for("it waits", lambda: waiting.in_line)
        os.kill(os.getpid(), signal.SIGINT)

    with gate_held(path):
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            send(engine)
    with stopped_inside(path), pytest.raises(StoreUnavailable):
        send(engine)
    send(engine)
    assert not gate_is_held(path)


STEPS = [
    (Gate, "_opened"),
    (Gate, "_lock"),
    (Gate, "_is_in_place"),
    (Gate, "_unlock"),
    (patience.Patience, "wait"),
    (patience.Patience, "_has_thread"),
    (patience.Patience, "_line_up"),
    (patience.Patience, "_wake"),
    (patience.Patience, "_left_s"),
    (patience.Patience, "_step_back"),
    (patience.Turn, "wait"),
    (patience, "holder"),
    (patience, "is_stopped"),
    (patience, "_held_up"),
]


def interrupt_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, after: bool) -> list[bool]:
    """The first time that this thread takes that step it is interrupted, before it or after; the list says whether."""
    step, me, done = getattr(owner, name), threading.get_ident(), list[bool]()

    def interrupted(*args: Any) -> Any:
        if done or threading.get_ident() != me:
            return step(*args)
        done.append(True)
        if after:
            step(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)
    return done


def free_when_waited_for(descriptor: int, waiting: patience.Patience, done: list[bool]) -> None:
    """Frees the gate once somebody stands in line for it, or was interrupted on the way there."""
    wait_for("somebody to wait", lambda: waiting.in_line or done)
    os.close(descriptor)


@pytest.mark.parametrize("freed", ["before", "meanwhile", "after"])
@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_at_any_step_shuts_nobody_out(
    engine: SqliteEngine, path: Path, monkeypatch: pytest.MonkeyPatch, *, after: bool, freed: str
) -> None:
    """The gate is free; it is freed while one waits for it; it is freed after one has given up."""
    monkeypatch.setattr(patience, "LONG_S", 60 if freed == "meanwhile" else 0.01)
    monkeypatch.setattr(patience, "SHORT_S", 0.005)
    gate: Gate = inner(engine, "gate")
    waiting: patience.Patience = inner(engine, "gate", "_patience")
    taken: set[str] = set()
    for owner, name in STEPS:
        descriptor = os.open(f"{path}.gate", os.O_RDWR)
        if freed != "before":
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with monkeypatch.context() as patched:
            done = interrupt_once(patched, owner, name, after=after)
            free = threading.Thread(target=free_when_waited_for, args=(descriptor, waiting, done))
            if freed == "meanwhile":
                free.start()
            with contextlib.suppress(KeyboardInterrupt, StoreUnavailable):
                gate.run(lambda: None)
        if freed == "meanwhile":
            free.join()
        else:
            os.close(descriptor)
        taken |= {name} if done else set()
        wait_for("the thread has left the line", lambda: not waiting.in_line)
        assert not gate_is_held(path), name
        assert gate.run(lambda: "inside") == "inside"
    assert taken >= {"_opened", "_lock", "_unlock"}
    assert freed == "before" or taken >= {"wait", "_has_thread", "_line_up", "_wake", "_left_s"}
    assert freed != "after" or taken >= {"_step_back", "holder", "_held_up"}


def test_a_forked_child_does_not_keep_the_gate_of_a_parent_that_waited(engine: SqliteEngine, path: Path) -> None:
    with stopped_inside(path):
        with pytest.raises(StoreUnavailable):
            send(engine)
        (read, write), (ready, says_so) = os.pipe(), os.pipe()
        child = os.fork()
        if not child:
            os.write(says_so, b"x")
            os.read(read, 1)
            os._exit(0)
    try:
        assert os.read(ready, 1) == b"x", "it has done what a child does after a fork"
        waiting = inner(engine, "gate", "_patience")
        wait_for("the thread has left the line", lambda: not waiting.in_line)
        engine.close()
        assert not [file for file in opened(path, child) if file.endswith(".gate")]
    finally:
        os.write(write, b"x")
        os.waitpid(child, 0)
        for end in (read, write, ready, says_so):
            os.close(end)
