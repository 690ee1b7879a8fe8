"""What tests of the sqlite engine need: the file looked at from outside, its commits, and groups made on purpose."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import apsw

from tests.soak.waiting import wait_for
from windlass.core.ids import JobId, WorkerId, new_id
from windlass.core.job import Job, Record, Request
from windlass.engines.protocol import Beat, Card, Claim, Order
from windlass.engines.sqlite import SqliteEngine, patience
from windlass.engines.sqlite.connection import Database

HOLD = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1] + ".gate", os.O_RDWR)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def new_job(task: str = "task", **fields: Any) -> Job:
    """A job that has not been sent yet."""
    return Job(request=Request(id=new_id(), task=task, **fields))


def send(engine: SqliteEngine, task: str = "task", **fields: Any) -> JobId:
    """Inserts one job and gives its id."""
    job = new_job(task, **fields)
    engine.insert([job])
    return job.id


def hire(engine: SqliteEngine, **fields: Any) -> WorkerId:
    """Announces a worker."""
    worker = new_id()
    engine.renew(Beat(card=Card(worker=worker, **fields), beat=0))
    return worker


def claim(engine: SqliteEngine, worker: WorkerId, ticket: int = 1, limit: int = 100) -> list[Claim]:
    """What the worker gets for this ticket."""
    return list(engine.claim(Order(worker=worker, ticket=ticket, limit=limit)).claims)


def record(engine: SqliteEngine, job_id: JobId) -> Record:
    """The record of a job that must be there."""
    (job,) = engine.fetch([job_id])
    assert job is not None, "the job is gone"
    assert job.record is not None
    return job.record


@contextmanager
def outside(path: Path) -> Generator[Database]:
    """Another program that looks into the file, without our gate and without our rules."""
    connection = cast("Database", apsw.Connection(str(path)))
    try:
        yield connection
    finally:
        connection.close()


def tell(path: Path, statement: str, values: Sequence[Any] = ()) -> list[Any]:
    """One statement by another program."""
    with outside(path) as connection:
        return list(connection.execute(statement, values))


def commits(path: Path) -> int:
    """How many commits the store has seen."""
    ((count,),) = tell(path, "SELECT commits FROM meta")
    return count


def inner(engine: SqliteEngine, *names: str) -> Any:
    """A part of the open engine that no user can reach: `inner(engine, "committer")`."""
    found: Any = getattr(engine, "_hands")  # noqa: B009 - private on purpose
    for name in names:
        found = getattr(found, name)
    return found


@contextmanager
def gate_held(path: Path) -> Generator[None]:
    """Somebody else holds the gate: nobody can write meanwhile."""
    descriptor = os.open(f"{path}.gate", os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def stopped_inside(path: Path) -> Generator[int]:
    """The pid of a process that holds the gate and has been stopped."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        child.send_signal(signal.SIGSTOP)
        wait_for("it has stopped", lambda: patience.is_stopped(child.pid))
        yield child.pid
        child.kill()


def gate_is_held(path: Path) -> bool:
    """Whether anybody holds the gate now."""
    descriptor = os.open(f"{path}.gate", os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def together(engine: SqliteEngine, path: Path, calls: Iterable[Callable[[], object]]) -> list[object]:
    """The answers (or errors) of calls that were committed as one group, in the order of the calls."""
    answers: list[object] = []
    threads: list[threading.Thread] = []
    queue: Any = inner(engine, "committer", "_line", "_waiting")

    def run(number: int, call: Callable[[], object]) -> None:
        try:
            answers[number] = call()
        except Exception as error:
            answers[number] = error

    with gate_held(path):
        for number, call in enumerate(calls):
            answers.append(None)
            threads.append(threading.Thread(target=run, args=(number, call)))
            threads[-1].start()
            while len(queue) <= number and threads[-1].is_alive():
                threads[-1].join(0.001)
    for thread in threads:
        thread.join()
    return answers


def in_child(code: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs Python in a process of its own; `sys.argv[1:]` are the arguments."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
