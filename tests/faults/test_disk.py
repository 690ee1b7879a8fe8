"""A disk that fails or is full: what was acknowledged stays, what was not may be missing, and the engine goes on."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.soak.actor import Actor
from tests.soak.store import integrity
from windlass.core.errors import StoreFull
from windlass.core.ids import new_id
from windlass.core.job import Job, Request, State
from windlass.engines.protocol import Beat, Card, Order, Settlement, Verdict
from windlass.engines.sqlite import SqliteEngine

MIB = 1 << 20


def work(actor: Actor) -> tuple[list[str], list[str], int]:
    """A few writes of each kind, one by one: what was acknowledged as inserted, as settled, and the errors."""
    there: list[str] = []
    settled: list[str] = []
    errors = 0
    opened = actor.ask("open")
    if opened.error:
        errors += 1
        actor.must("open")
    if actor.ask("announce").error:
        errors += 1
        actor.must("announce")
    for _ in range(4):
        told = actor.ask("insert", 2)
        errors += bool(told.error)
        there += told.ids
    claimed = actor.ask("claim", 4)
    if claimed.error:
        errors += 1
        claimed = actor.ask("claim", 4)
    for job in claimed.ids:
        told = actor.ask("settle", ids=[job])
        if told.error:
            errors += 1
            told = actor.must("settle", ids=[job])
        assert told.words[0] in ("accepted", "already")
        settled.append(job)
    return there, settled, errors


def test_after_a_failed_sync_nothing_acknowledged_is_missing_and_the_engine_goes_on(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("a failing sync needs strace")
    failed = 0
    for number in range(1, 30, 2):
        database = tmp_path / f"{number}.db"
        inject = f"inject=fdatasync:error=EIO:when={number}"
        strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", inject]
        with Actor(database, before=strace) as actor:
            there, settled, errors = work(actor)
        failed += errors
        with Actor(database) as actor:
            actor.must("open")
            assert "gone" not in actor.must("states", ids=there).words
            assert set(actor.must("states", ids=settled).words) <= {State.SUCCEEDED.value}
        assert integrity(database) == ["ok"]
        if not errors and number > 16:
            break  # past the last sync of the work
    assert failed > 3, "no sync failed"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 6 MiB."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("a small disk needs root, to mount one")
    point = tmp_path / "disk"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "none", str(point)], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", str(point)], check=True)


def insert_for_ever(engine: SqliteEngine, there: list[bytes]) -> None:
    for _ in range(10_000):
        job = Job(request=Request(id=new_id(), task="task", payload=b"x" * 30_000))
        engine.insert([job])
        there.append(job.id)


def write_for_ever(path: Path) -> None:
    with path.open("wb") as file:
        while True:
            os.write(file.fileno(), b"x" * 4_096)


def test_a_full_disk_refuses_new_jobs_and_still_settles_what_runs(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(MIB // 2))
    engine = SqliteEngine(small_disk / "jobs.db", disk_floor=0, disk_reserve=MIB // 2)
    engine.open()
    worker = new_id()
    engine.renew(Beat(card=Card(worker=worker), beat=0))
    there: list[bytes] = []
    running = new_id()
    engine.insert([Job(request=Request(id=running, task="task"))])
    (claim,) = engine.claim(Order(worker=worker, ticket=1, limit=1)).claims
    with pytest.raises(StoreFull):
        insert_for_ever(engine, there)
    with pytest.raises(OSError, match="No space"):
        write_for_ever(small_disk / "filler")
    assert engine.settle([Settlement(id=claim.id, fence=claim.fence)]) == [Verdict.ACCEPTED]
    assert all(job is not None for job in engine.fetch(there))
    ballast.unlink()
    assert engine.insert([Job(request=Request(id=new_id(), task="task"))])[0].duplicate_of is None
    engine.close()
    assert integrity(small_disk / "jobs.db") == ["ok"]


def test_below_the_floor_new_jobs_are_refused_before_the_disk_is_full(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    engine = SqliteEngine(tmp_path / "jobs.db", disk_floor=disk.f_blocks * disk.f_frsize * 2)
    engine.open()
    with pytest.raises(StoreFull, match="are left on the disk"):
        engine.insert([Job(request=Request(id=new_id(), task="task"))])
    engine.close()


def test_a_file_that_may_not_grow_refuses_writes_and_loses_nothing(tmp_path: Path) -> None:
    """Where no small disk can be made, a limit on the size of files is one."""
    with Actor(tmp_path / "jobs.db") as actor:
        actor.must("open")
        there = actor.must("insert", 20, payload=1_000).ids
        _, most = resource.prlimit(actor.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(actor.pid, resource.RLIMIT_FSIZE, (MIB, most))
        refused = None
        for _ in range(200):
            told = actor.ask("insert", 5, payload=30_000)
            if told.error:
                refused = told
                break
            there += told.ids
        assert refused is not None
        assert refused.error in ("StoreFull", "StoreUnavailable"), refused
        assert "gone" not in actor.must("states", ids=there).words
        resource.prlimit(actor.pid, resource.RLIMIT_FSIZE, (most, most))
        there += actor.must("insert", 1).ids
    assert integrity(tmp_path / "jobs.db") == ["ok"]
    with Actor(tmp_path / "jobs.db") as actor:
        actor.must("open")
        assert "gone" not in actor.must("states", ids=there).words
