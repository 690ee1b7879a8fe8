"""One schema version per file: newer ones stop old processes, older ones are led forward, whole or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.sqlite.rig import claim, hire, new_job, record, send, tell
from windlass.core.errors import SchemaTooNew, StoreError
from windlass.core.job import State
from windlass.engines.protocol import Settlement, Sweep, Verdict
from windlass.engines.sqlite import SqliteEngine, connection
from windlass.engines.sqlite.statements import SCHEMA, migrations

NEXT = SCHEMA + 1
STEP = """\
-- purpose: a step of tomorrow.
ALTER TABLE job ADD COLUMN colour TEXT;
CREATE TABLE paint (name TEXT PRIMARY KEY) STRICT;
INSERT INTO paint VALUES ('red; or dead');
"""


def raise_schema(path: Path) -> None:
    """A newer Windlass was here."""
    tell(path, "UPDATE book SET a = ? WHERE kind = 0", (NEXT,))


def grow(monkeypatch: pytest.MonkeyPatch, step: str = STEP) -> None:
    """From now on this code is a version that knows one more schema."""
    steps = [*migrations(), (NEXT, step)]
    monkeypatch.setattr(connection, "migrations", lambda: steps)
    monkeypatch.setattr(connection, "SCHEMA", NEXT)


def schema(path: Path) -> int:
    ((found,),) = tell(path, "SELECT schema FROM meta")
    return found


def test_a_newer_schema_is_refused_at_open_and_the_file_stays_as_it_is(path: Path) -> None:
    engine = SqliteEngine(path)
    engine.open()
    job_id = send(engine)
    engine.close()
    raise_schema(path)
    with pytest.raises(SchemaTooNew) as caught:
        engine.open()
    assert str(NEXT) in caught.value.message
    assert "Upgrade" in caught.value.todo
    assert schema(path) == NEXT
    assert tell(path, "SELECT id FROM job") == [(job_id,)]


def test_a_refused_open_does_not_make_the_store_look_unclean(path: Path) -> None:
    engine = SqliteEngine(path)
    engine.open()
    engine.close()
    raise_schema(path)
    with pytest.raises(SchemaTooNew):
        engine.open()
    tell(path, "UPDATE book SET a = ? WHERE kind = 0", (SCHEMA,))
    assert engine.open().notices == ()
    engine.close()


def test_every_write_of_an_open_engine_is_refused_once_the_schema_is_newer(engine: SqliteEngine, path: Path) -> None:
    send(engine)
    worker = hire(engine)
    (held,) = claim(engine, worker)
    raise_schema(path)
    for write in (
        lambda: send(engine),
        lambda: claim(engine, worker, 2),
        lambda: engine.settle([Settlement(id=held.id, fence=held.fence)]),
        lambda: engine.sweep(Sweep(worker=worker)),
        lambda: hire(engine),
    ):
        with pytest.raises(SchemaTooNew):
            write()
    assert tell(path, "SELECT state FROM job") == [("running",)]


def test_the_jobs_of_a_process_that_is_too_old_are_taken_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = SqliteEngine(path)
    old.open()
    job_id = send(old)
    (held,) = claim(old, hire(old))
    raise_schema(path)
    with pytest.raises(SchemaTooNew):
        old.settle([Settlement(id=held.id, fence=held.fence)])
    old.close()
    monkeypatch.setattr(connection, "SCHEMA", NEXT)
    new = SqliteEngine(path)
    new.open()
    worker = hire(new)
    new.sweep(Sweep(worker=worker))
    (again,) = claim(new, worker)
    assert again.id == job_id
    assert again.fence > held.fence
    assert new.settle([Settlement(id=held.id, fence=held.fence)]) == [Verdict.STALE]
    assert new.settle([Settlement(id=again.id, fence=again.fence)]) == [Verdict.ACCEPTED]
    new.close()


def test_an_older_file_is_led_forward_and_its_jobs_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SqliteEngine(path)
    engine.open()
    job_id = send(engine)
    engine.close()
    grow(monkeypatch)
    engine.open()
    assert schema(path) == NEXT
    assert tell(path, "SELECT name FROM paint") == [("red; or dead",)]
    (held,) = claim(engine, hire(engine))
    assert held.id == job_id
    engine.settle([Settlement(id=held.id, fence=held.fence)])
    assert record(engine, job_id).state is State.SUCCEEDED
    engine.close()


def test_a_new_file_goes_through_every_step(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(monkeypatch)
    engine = SqliteEngine(path)
    engine.open()
    assert schema(path) == NEXT
    assert tell(path, "SELECT count(*) FROM paint") == [(1,)]
    engine.close()


def test_a_step_is_taken_once_however_many_open_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = SqliteEngine(path)
    first.open()
    first.close()
    grow(monkeypatch)
    engines = [SqliteEngine(path) for _ in range(6)]
    threads = [threading.Thread(target=engine.open) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tell(path, "SELECT count(*) FROM paint") == [(1,)]
    for engine in engines:
        engine.insert([new_job()])
        engine.close()


def test_a_step_that_fails_leaves_the_old_schema_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SqliteEngine(path)
    engine.open()
    job_id = send(engine)
    engine.close()
    grow(monkeypatch, STEP + "INSERT INTO paint VALUES ('red; or dead');\n")
    with pytest.raises(StoreError):
        engine.open()
    monkeypatch.undo()
    assert schema(path) == SCHEMA
    assert tell(path, "SELECT name FROM sqlite_schema WHERE name = 'paint'") == []
    assert engine.open().notices == ()
    assert engine.fetch([job_id])[0] is not None
    engine.close()
