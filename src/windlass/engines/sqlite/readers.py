"""Reading beside the writers: a few connections of their own, and a second look if the ground moved.

Nobody reads from a file that is not the store any more: one that was moved away, or lies in the place of ours.

A reader's lock on the WAL can vanish (gate.py says how), and a checkpoint may then move pages under it. The epoch in
the gate file tells: if it changed while we read, what we read counts for nothing and we read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import apsw

from windlass.engines.sqlite import connection as connections
from windlass.engines.sqlite.connection import Database
from windlass.engines.sqlite.files import Paths, inode, replaced
from windlass.engines.sqlite.folder import Folder
from windlass.engines.sqlite.gate import Gate

R = TypeVar("R")

TRIES = 5
IDLE = 4
"""Connections kept for the next reader."""


class Readers:
    """A small stock of reading connections."""

    def __init__(self, paths: Paths, gate: Gate) -> None:
        self._paths = paths
        self._gate = gate
        self._folder = Folder(paths.database.parent)
        self._database = inode(paths.database)
        self._seen = -1
        self._wal = 0
        self._lock = threading.Lock()
        self._still = threading.Condition(threading.Lock())
        self._busy = 0
        self._idle: list[tuple[int, Database]] = []

    def read(self, look: Callable[[Database], R]) -> R:
        """What `look` sees in one snapshot."""
        for _ in range(TRIES):
            epoch = self._gate.epoch()
            try:
                found = self._once(look)
            except (apsw.CorruptError, apsw.BusyError) as error:
                if self._gate.epoch() == epoch:
                    raise connections.translate(error, self._paths) from error
                continue
            except apsw.Error as error:
                raise connections.translate(error, self._paths) from error
            if self._gate.epoch() == epoch:
                return found
        # Checkpoints overtook us again and again: read while nobody can write.
        with connections.translated(self._paths):
            return self._gate.run(lambda: self._once(look))

    def check_in_place(self) -> None:
        """Refuses a database that is not the file that was opened.

        Looked at after every refusal too: what is gone cannot be opened either, and this is what really happened.
        """
        if inode(self._paths.database) != self._database:
            raise replaced(self._paths.database)

    def _once(self, look: Callable[[Database], R]) -> R:
        with self._still:
            self._busy += 1
        try:
            return self._look(look)
        finally:
            with self._still:
                self._busy -= 1
                self._still.notify_all()

    def hold_still(self) -> None:
        """Before a fork: waits for those who read, and lets nobody begin."""
        self._still.acquire()
        while self._busy:
            self._still.wait()

    def go_on(self) -> None:
        """After it."""
        self._still.release()

    def _look(self, look: Callable[[Database], R]) -> R:
        wal, connection = self._take()
        try:
            connection.execute("BEGIN")
            found = look(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.close(True)
            raise
        with self._lock:
            if len(self._idle) < IDLE:
                self._idle.append((wal, connection))
                return found
        connection.close()
        return found

    def _take(self) -> tuple[int, Database]:
        with self._lock:
            wal = self._wal_now()
            while self._idle:
                known, connection = self._idle.pop()
                if known == wal:
                    return wal, connection
                connection.close(True)
        return wal, connections.connect(self._paths)

    def _wal_now(self) -> int:
        """The inode of the -wal, or 0. It and the database are looked at only where a name beside them has changed."""
        version = self._folder.look()
        if version != self._seen:
            self.check_in_place()
            self._wal = inode(self._paths.wal)
            self._seen = version
        return self._wal

    def close(self) -> None:
        with self._lock:
            for _, connection in self._idle:
                connection.close(True)
            self._idle.clear()
