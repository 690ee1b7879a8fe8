"""Who lives: a worker of another process keeps its jobs while its lock is held, and not a moment longer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.sqlite.rig import claim, hire, record, send
from windlass.core.job import State
from windlass.engines.protocol import Beat, Card, Sweep
from windlass.engines.sqlite import SqliteEngine

WORK = """
import sys
from windlass.core.ids import new_id
from windlass.engines.protocol import Beat, Card, Order
from windlass.engines.sqlite import SqliteEngine

engine = SqliteEngine(sys.argv[1])
engine.open()
worker = new_id()
engine.renew(Beat(card=Card(worker=worker, lease_us=1), beat=0))
claims = engine.claim(Order(worker=worker, ticket=1)).claims
print(len(claims), flush=True)
sys.stdin.read()
"""


@contextmanager
def worker_elsewhere(path: Path) -> Generator[subprocess.Popen[str]]:
    """A process that has claimed all there is, and lives until it is killed."""
    command = [sys.executable, "-c", WORK, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "1\n"
        yield child
        child.kill()


def owners(path: Path) -> list[str]:
    return os.listdir(path.parent / "jobs.db.d" / "owners")


def test_a_living_worker_of_another_process_keeps_its_jobs(engine: SqliteEngine, path: Path) -> None:
    job_id = send(engine)
    with worker_elsewhere(path) as child:
        assert engine.sweep(Sweep()).lost == 0
        # A stopped process still holds its lock: no clock can call it dead.
        os.kill(child.pid, signal.SIGSTOP)
        assert engine.sweep(Sweep()).lost == 0
        assert record(engine, job_id).state is State.RUNNING


def test_the_jobs_of_a_killed_process_are_taken_back_at_once(engine: SqliteEngine, path: Path) -> None:
    job_id = send(engine)
    with worker_elsewhere(path) as child:
        child.kill()
        child.wait()
        swept = engine.sweep(Sweep())
    assert (swept.workers, swept.lost) == (1, 1)
    assert record(engine, job_id).state is State.READY
    assert owners(path) == []
    assert [held.id for held in claim(engine, hire(engine))] == [job_id]


def test_a_worker_that_says_goodbye_leaves_no_file(engine: SqliteEngine, path: Path) -> None:
    worker = hire(engine)
    assert owners(path) == [f"{worker.hex()}.lock"]
    engine.renew(Beat(card=Card(worker=worker), beat=1, bye=True))
    assert owners(path) == []
