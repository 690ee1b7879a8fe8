"""Reading beside the writers: a few connections of their own, and a second look if the ground moved.

A reader's lock on the WAL can vanish (gate.py says how), and a checkpoint may then move pages under it. The epoch in
the gate file tells: if it changed while we read, what we read counts for nothing and we read again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TypeVar

import apsw

from windlass.engines.sqlite import connection as connections
from windlass.engines.sqlite.connection import Database
from windlass.engines.sqlite.files import Paths
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
        self._seen = -1
        self._inode = 0
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
        with self._gate.held(), connections.translated(self._paths):
            return self._once(look)

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
        inode, connection = self._take()
        try:
            connection.execute("BEGIN")
            found = look(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.close(True)
            raise
        with self._lock:
            if len(self._idle) < IDLE:
                self._idle.append((inode, connection))
                return found
        connection.close()
        return found

    def _take(self) -> tuple[int, Database]:
        with self._lock:
            inode = self._inode_now()
            while self._idle:
                known, connection = self._idle.pop()
                if known == inode:
                    return inode, connection
                connection.close(True)
        return inode, connections.connect(self._paths)

    def _inode_now(self) -> int:
        """The inode of the -wal, or 0; looked at only where a name beside it has changed."""
        version = self._folder.look()
        if version != self._seen:
            try:
                self._inode = os.stat(self._paths.wal).st_ino
            except FileNotFoundError:
                self._inode = 0
            self._seen = version
        return self._inode

    def close(self) -> None:
        with self._lock:
            for _, connection in self._idle:
                connection.close(True)
            self._idle.clear()
