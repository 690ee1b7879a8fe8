"""Connections to the database, set up the one way that is safe, and SQLite's errors in our words."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

import apsw

from windlass.core.errors import (
    NotADatabase,
    NotWritable,
    SchemaTooNew,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from windlass.engines.sqlite.files import APPLICATION, Paths
from windlass.engines.sqlite.statements import SCHEMA, migrations


class Answer(Protocol):
    """What a statement gives, row by row; the statement's head in sql/ says which columns."""

    @property
    def get(self) -> Any:
        """The first row, or its only value."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """The part of an SQLite connection that we use."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, statement: str, values: Sequence[object] = ..., /) -> Answer: ...
    def executemany(self, statement: str, values: Sequence[Sequence[object]], /) -> Answer: ...
    def changes(self) -> int: ...
    def total_changes(self) -> int: ...
    def set_wal_hook(self, hook: Callable[[object, str, int], int], /) -> None: ...
    def set_busy_timeout(self, milliseconds: int, /) -> None: ...
    def wal_checkpoint(self, *, mode: int) -> tuple[int, int]: ...
    def close(self, force: bool = False, /) -> None: ...


BUSY_MS = 5_000
"""How long to wait for somebody who writes without our gate: a person with a shell, a backup tool."""

OLDEST_SQLITE = (3, 51, 3)
"""Every version before it can lose committed rows when two connections write and checkpoint at once."""


def connect(paths: Paths) -> Database:
    """A connection in WAL mode that syncs every commit, never checkpoints by itself, and trusts no schema."""
    found = tuple(map(int, apsw.sqlite_lib_version().split(".")))
    if found < OLDEST_SQLITE:
        raise StoreUnavailable(
            f"SQLite {apsw.sqlite_lib_version()} can lose committed jobs (WAL-reset bug, fixed in 3.51.3).",
            "Upgrade apsw: pip install -U apsw.",
        )
    with translated(paths):
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
        connection = apsw.Connection(str(paths.database), flags=flags, statementcachesize=256)
        try:
            connection.set_busy_timeout(BUSY_MS)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            connection.wal_autocheckpoint(0)
            database = cast("Database", connection)
            for pragma in ("synchronous=FULL", "cache_size=-32768", "temp_store=MEMORY"):
                database.execute(f"PRAGMA {pragma}")
            if sys.platform == "darwin":
                # There, fsync leaves data in the drive's own cache.
                database.execute("PRAGMA fullfsync=1")
        except BaseException:
            connection.close()
            raise
    return database


def quick_check(paths: Paths) -> list[str]:
    """What SQLite finds wrong with the file, by a look at the whole of it; `["ok"]` where nothing is."""
    checker = connect(paths)
    try:
        with translated(paths):
            return [str(line) for (line,) in checker.execute("PRAGMA quick_check(3)").fetchall()]
    finally:
        checker.close()


def prepare(connection: Database, paths: Paths) -> None:
    """WAL mode and the newest schema. Only under the gate."""
    with translated(paths):
        # First of all: a file that bears it is known to be ours, whatever happens next.
        if not os.path.getsize(paths.database):
            connection.execute(f"PRAGMA application_id={APPLICATION}")
        if connection.execute("PRAGMA journal_mode=WAL").fetchone() != ("wal",):
            raise StoreUnavailable(
                f"{paths.database} cannot be put into WAL mode.",
                "Keep the store on a local disk of this host.",
            )
        version = schema_of(connection, paths)
        if not paths.wal.exists():
            # A disk that fails during the change leaves the file as it was, and SQLite says "wal" all the same.
            raise StoreUnavailable(
                f"{paths.database} could not be put into WAL mode.", "Look at the disk, then try again."
            )
        check_schema(version, paths)
        for target, script in migrations():
            if target > version:
                _migrate(connection, script, target)


def _migrate(connection: Database, script: str, target: int) -> None:
    """One step forward, whole or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in _split(script):
            connection.execute(statement)
        connection.execute("UPDATE book SET a=? WHERE kind=0", (target,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # after an error of the disk SQLite has rolled back by itself
            connection.execute("ROLLBACK")
        raise


def schema_of(connection: Database, paths: Paths) -> int:
    """The schema version of the file: 0 for an empty one."""
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name='meta'").fetchone() is None:
        if connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None:
            raise NotADatabase(
                f"{paths.database} is an SQLite database, but not one of Windlass.", "Give the path of a new file."
            )
        return 0
    version: int = connection.execute("SELECT schema FROM meta").get
    return version


def check_schema(version: int, paths: Paths) -> None:
    """Refuses a store that a newer Windlass has migrated."""
    if version > SCHEMA:
        raise SchemaTooNew(
            f"{paths.database} has schema {version}; this Windlass knows schema {SCHEMA}.",
            "Upgrade this process; its jobs are taken over by newer workers.",
        )


def _split(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if apsw.complete(statement):
            yield statement
            statement = ""


@contextmanager
def translated(paths: Paths) -> Generator[None]:
    """SQLite's errors as sentences of ours."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, paths) from error


def translate(error: apsw.Error, paths: Paths) -> StoreError:
    """What an error of SQLite means for a user."""
    path = paths.database
    match error:
        case apsw.NotADBError():
            return NotADatabase(f"{path} is not an SQLite database.", "Give the path of a new or a Windlass file.")
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() | apsw.AuthError():
            return NotWritable(f"{path} cannot be written ({error}).", "Change its rights, or give another path.")
        case apsw.FullError():
            return StoreFull(f"The disk of {path} is full; nothing was stored.", "Free some space, then try again.")
        case apsw.CorruptError():
            return StoreCorrupt(f"{path} is damaged ({error}).", "Stop all workers and restore a backup.")
        case apsw.BusyError() | apsw.LockedError():
            return StoreUnavailable(
                f"{path} is locked by another program ({error}).",
                "Close what else writes to it, then try again.",
            )
        case _:
            return StoreUnavailable(f"{path} cannot be used now ({error}).", "Look at the disk, then try again.")
