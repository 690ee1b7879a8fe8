"""Several engines in one process, and processes that fork with an engine open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.soak.actor import Actor
from tests.soak.store import integrity
from windlass.core.ids import new_id
from windlass.core.job import Job, Request
from windlass.engines.protocol import Beat, Card, Order, Settlement, Sweep, Verdict
from windlass.engines.sqlite import SqliteEngine


def test_two_engines_of_one_process_share_a_store_and_one_may_close(tmp_path: Path) -> None:
    first, second = SqliteEngine(tmp_path / "jobs.db"), SqliteEngine(tmp_path / "jobs.db")
    first.open()
    second.open()
    worker = new_id()
    second.renew(Beat(card=Card(worker=worker), beat=0))
    ids = [receipt.id for receipt in first.insert([Job(request=Request(id=new_id(), task="task")) for _ in range(3)])]
    claims = second.claim(Order(worker=worker, ticket=1)).claims
    assert [claim.id for claim in claims] == ids
    assert first.sweep(Sweep()).workers == 0, "the other engine's worker lives"
    first.close()
    settlements = [Settlement(id=claim.id, fence=claim.fence) for claim in claims]
    assert second.settle(settlements) == [Verdict.ACCEPTED] * 3
    second.close()
    assert integrity(tmp_path / "jobs.db") == ["ok"]


def test_a_forked_child_inserts_through_a_connection_of_its_own_and_the_parent_goes_on(tmp_path: Path) -> None:
    with Actor(tmp_path / "jobs.db") as parent, Actor(tmp_path / "jobs.db") as other:
        parent.must("open")
        other.must("open")
        before = parent.must("insert", 2).ids
        forked = parent.must("fork").ids
        after = parent.must("insert", 2).ids
        parent.must("reap")
        assert other.must("states", ids=[*before, *forked, *after]).words == ["ready"] * 5
    assert integrity(tmp_path / "jobs.db") == ["ok"]


def test_a_killed_parent_is_dead_though_its_forked_child_lives(tmp_path: Path) -> None:
    with Actor(tmp_path / "jobs.db") as parent, Actor(tmp_path / "jobs.db") as other:
        parent.must("open")
        parent.must("announce")
        other.must("open")
        ids = parent.must("insert", 2).ids
        parent.must("claim", 2)
        child = int(parent.must("fork").words[0])
        try:
            parent.kill()
            assert other.must("sweep").words == ["1", "2"]
            assert other.must("states", ids=ids).words == ["ready", "ready"]
            assert Path(f"/proc/{child}").exists()
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_parent_killed_in_a_commit_leaves_the_gate_open_though_its_forked_child_lives(tmp_path: Path) -> None:
    """The child must not keep a copy of the descriptor by which the parent held the gate."""
    database = tmp_path / "jobs.db"
    with Actor(database) as parent, Actor(database) as other:
        parent.must("open")
        other.must("open")
        child = int(parent.must("fork").words[0])
        try:
            assert _opened(child, Path(f"{database}.gate")) == 1, "its own, and no copy of its parent's"
            assert _opened(child, Path(f"{database}.d") / "open") == 1
            parent.kill()
            assert other.must("insert", 1).ids
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_process_may_fork_while_its_threads_write_and_read(tmp_path: Path) -> None:
    """Inside an open transaction SQLite's memory of its locks would be copied, and the child locked out for ever."""
    script = """
import os, sys, threading
from windlass.core.ids import new_id
from windlass.core.job import Job, Request
from windlass.engines.protocol import Query
from windlass.engines.sqlite import SqliteEngine

engine = SqliteEngine(sys.argv[1])
engine.open()
stop = threading.Event()

def insert(n):
    engine.insert([Job(request=Request(id=new_id(), task="task")) for _ in range(n)])

def write():
    while not stop.is_set():
        insert(20)

def read():
    while not stop.is_set():
        engine.search(Query(limit=50))

threads = [threading.Thread(target=work) for work in (write, write, read)]
for thread in threads:
    thread.start()
codes = []
for _ in range(12):
    insert(1)
    child = os.fork()
    if not child:
        try:
            insert(1)
            os._exit(0)
        except BaseException:
            os._exit(1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
for thread in threads:
    thread.join()
engine.close()
print(codes.count(0))
"""
    command = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "jobs.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "12", done.stderr
    assert integrity(tmp_path / "jobs.db") == ["ok"]


def _opened(pid: int, path: Path) -> int:
    """How many descriptors of the file the process has."""
    return sum(os.readlink(entry) == str(path) for entry in Path(f"/proc/{pid}/fd").iterdir())
