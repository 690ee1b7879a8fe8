"""Somebody removes the store's files by hand, and readers meet checkpoints."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.soak.actor import Actor
from tests.soak.store import integrity
from windlass.core.errors import StoreUnavailable
from windlass.core.ids import new_id
from windlass.core.job import Job, Request
from windlass.engines.protocol import Query
from windlass.engines.sqlite import SqliteEngine, commit, connection
from windlass.engines.sqlite.files import Paths
from windlass.engines.sqlite.gate import Gate


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def pair(database: Path) -> Iterator[tuple[Actor, Actor]]:
    with Actor(database) as one, Actor(database) as other:
        one.must("open")
        other.must("open")
        yield one, other


def test_removing_the_gate_while_open_loses_nothing(database: Path, pair: tuple[Actor, Actor]) -> None:
    one, other = pair
    ids = one.must("insert", 2).ids
    for _ in range(3):
        Path(f"{database}.gate").unlink()
        ids += one.must("insert", 1).ids
        ids += other.must("insert", 1).ids
    assert one.must("states", ids=ids).words == ["ready"] * 8
    assert other.must("states", ids=ids).words == ["ready"] * 8
    one.end()
    other.end()
    assert integrity(database) == ["ok"]


def test_removing_the_wal_while_open_loses_nothing_or_says_so_once(database: Path, pair: tuple[Actor, Actor]) -> None:
    """What was acknowledged is in the removed file, which the engine still has open."""
    one, other = pair
    ids = [*one.must("insert", 3).ids, *other.must("insert", 3).ids]
    Path(f"{database}-wal").unlink()
    for actor in (one, other, one, other):
        told = actor.ask("insert", 1)
        assert told.error in ("", "StoreUnavailable", "StoreReplaced", "StoreCorrupt"), told
        ids += told.ids
    one.end()
    other.end()
    assert integrity(database) == ["ok"]
    with Actor(database) as later:
        later.must("open")
        assert "gone" not in later.must("states", ids=ids).words


def test_an_engine_that_could_not_start_again_at_once_does_so_later(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = SqliteEngine(database)
    engine.open()
    first = engine.insert([Job(request=Request(id=new_id(), task="task"))])[0].id

    def fails(_: object) -> None:
        raise StoreUnavailable("The disk is away.", "Bring it back.")

    monkeypatch.setattr(connection, "connect", fails)
    Path(f"{database}-wal").unlink()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="The disk is away"):
            engine.insert([Job(request=Request(id=new_id(), task="task"))])
    monkeypatch.undo()
    second = engine.insert([Job(request=Request(id=new_id(), task="task"))])[0].id
    assert None not in engine.fetch([first, second])
    engine.close()


def test_readers_see_whole_answers_while_checkpoints_run(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "CHECKPOINT_PAGES", 20)
    engine = SqliteEngine(database)
    engine.open()
    ids = [new_id() for _ in range(50)]
    engine.insert([Job(request=Request(id=job_id, task="task", payload=b"x" * 500)) for job_id in ids])
    stop, looks, errors = threading.Event(), [0, 0], list[BaseException]()

    def read(number: int) -> None:
        try:
            while not stop.is_set():
                assert all(job is not None for job in engine.fetch(ids))
                assert len(engine.search(Query(limit=50)).jobs) == 50
                looks[number] += 1
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read, args=(number,)) for number in range(2)]
    for reader in readers:
        reader.start()
    sent = 0
    while (sent < 100 or min(looks) < 5) and not errors:
        engine.insert([Job(request=Request(id=new_id(), task="more", payload=b"y" * 5_000))])
        sent += 1
    stop.set()
    for reader in readers:
        reader.join()
    assert not errors, errors[0]
    engine.close()
    assert integrity(database) == ["ok"]


def test_the_gate_keeps_threads_of_one_process_apart_too(database: Path) -> None:
    """To the kernel, all threads that share a descriptor hold its lock together."""
    paths = Paths(database)
    paths.prepare()
    gate = Gate(paths)
    inside, most = 0, 0

    def stay() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threading.Event().wait(0.0002)  # lets the others try
        inside -= 1

    def enter() -> None:
        for _ in range(50):
            gate.run(stay)

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gate.close()
    assert most == 1
