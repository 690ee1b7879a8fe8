"""Group commit: many threads' writes, one transaction, one sync.

A commit costs a sync of the disk, so commits are shared: whoever leads the line (line.py) waits for the gate, takes
everybody who stands in line by then, and runs them all in one transaction. While the disk syncs, the next group forms.

One that is refused takes nothing of its neighbours with it. Refusals are rare, and a savepoint for each operation costs
SQLite a copy of every page it changes; so a group runs without them, and one in which somebody is refused is rolled
back and run again, now with savepoints. An answer is given only after COMMIT has returned and the -wal it went to is
still the one on the disk.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

import apsw

from windlass.core.clock import Clock
from windlass.core.errors import StoreClosed, StoreError, StoreFull, StoreUnavailable
from windlass.core.job import Job
from windlass.engines.protocol import Hint, Receipt
from windlass.engines.sqlite import connection as connections
from windlass.engines.sqlite.connection import Database
from windlass.engines.sqlite.files import Paths, Reserve, inode, replaced
from windlass.engines.sqlite.gate import Gate, Pins
from windlass.engines.sqlite.line import Group, Line, Operation
from windlass.engines.sqlite.statements import sql
from windlass.engines.sqlite.tx import Counters, Tx

log = logging.getLogger(__name__)

R = TypeVar("R")

CHECKPOINT_PAGES = 4_000
"""The WAL is folded into the database past this size (16 MiB)."""
CHECKPOINT_WAIT_MS = 20

BEGIN, COMMIT, ROLLBACK = "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"
META_READ = sql("meta_read")

REFUSALS = (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError, apsw.RangeError)
"""What SQLite says of a value, not of the store: it concerns one operation and nobody else."""


Insert = Callable[[Tx, Sequence[Job]], list[Receipt]]
"""How plain jobs go in, whoever sent them."""
Ring = Callable[[Iterable[Hint]], None]
"""How those who listen are told; it never fails."""


class Upset(Exception):
    """An operation of a group was refused: the group has to run again, each with a savepoint of its own."""


class Committer:
    """The writing side of one engine: its connection, its gate, and the queue of operations."""

    def __init__(
        self, paths: Paths, gate: Gate, reserve: Reserve, clock: Callable[[], Clock], insert: Insert, ring: Ring
    ) -> None:
        self._paths = paths
        self._gate = gate
        self._folder = gate.folder
        self._reserve = reserve
        self._clock = clock
        self._insert = insert
        self._ring = ring
        self._line = Line()
        self._closed = False
        self._connection: Database | None = None
        self._inodes: tuple[int, int] = (0, 0)
        self._seen = -1
        """The version of the folder in which our files were last seen in their places."""
        self._commits = 0
        self._checkpoint_at = CHECKPOINT_PAGES
        self._wal_pages = 0
        self._pins: Pins | None = None
        self._counters = Counters()
        self.order = 0

    # ── opening ─────────────────────────────────────────────────────────────────────────────────────────

    def open(self) -> None:
        """Opens and migrates the database. Only under the gate."""
        connection = connections.connect(self._paths)
        try:
            connections.prepare(connection, self._paths)
            with connections.translated(self._paths):
                self.order = int(str(connection.execute(META_READ).get[2]))
            if self._pins is None:
                self._pins = Pins(self._paths)
        except BaseException:
            connection.close()
            raise
        connection.set_wal_hook(self._count_pages)
        self._connection = connection
        self._counters.forget()
        self._seen = self._folder.look()
        self._inodes = self._look()

    def _count_pages(self, _connection: object, _name: str, pages: int) -> int:
        """SQLite tells after each commit how long the WAL is."""
        self._wal_pages = pages
        return 0

    def close(self) -> None:
        self._closed = True
        self._line.close()
        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                self._gate.run(connection.close)
        except StoreUnavailable as error:
            # Another process holds the gate, so nobody here writes; and what was written is on the disk.
            log.warning("Closed without the gate: %s", error)
            assert connection is not None
            connection.close(True)
        finally:
            if self._pins is not None:
                self._pins.release()
                self._pins = None

    def _look(self) -> tuple[int, int]:
        """The inodes of the database and of its WAL as they are on the disk now."""
        database = inode(self._paths.database)
        if not database:
            raise replaced(self._paths.database)
        return database, inode(self._paths.wal)

    # ── the queue ───────────────────────────────────────────────────────────────────────────────────────

    def write(self, operation: Operation[R]) -> R:
        """Runs the operation in a transaction and returns once it is on the disk."""
        self._line.carry_out(operation, self._lead)
        if operation.error is not None:
            raise operation.error
        return operation.result  # pyright: ignore[reportReturnType]

    def _lead(self, take: Callable[[], Group]) -> None:
        def inside() -> Group:
            if self._closed:
                raise StoreClosed("The engine was closed.", "Open it again.")
            group = take()
            self._commit(group)
            return group

        group = self._gate.run(inside)
        # Once for the whole group: every system call of every thread would let others in between.
        self._ring(_hints(group))

    # ── the transaction ─────────────────────────────────────────────────────────────────────────────────

    def _commit(self, group: Group) -> None:
        """Runs the group until its commit is on the disk, or nobody is left to run."""
        waiting, careful = group, False
        while waiting:
            try:
                self._transact(waiting, careful=careful)
            except Upset:
                careful = True
                continue
            except apsw.FullError as error:
                full = connections.translate(error, self._paths)
                waiting = self._make_room(waiting, full)
                continue
            except apsw.IOError as error:
                # After a failed sync nobody knows what is on the disk: never go on with the same file handles.
                self._reopen()
                raise connections.translate(error, self._paths) from error
            except apsw.Error as error:
                raise connections.translate(error, self._paths) from error
            in_place = self._folder.look() == self._seen or inode(self._paths.wal) == self._inodes[1]
            if in_place or self._survived():
                break
        self._checkpoint_if_due()

    def _transact(self, group: Group, *, careful: bool) -> None:
        version = self._folder.version  # of this passage of the gate
        if version != self._seen:
            if self._look() != self._inodes:
                self._reopen()
            else:
                self._seen = version
        if self._connection is None and not self._closed:
            self.open()  # the last attempt to start again failed; the disk may be back
        connection = self._connection
        if connection is None:
            raise StoreClosed("The engine was closed.", "Open it again.")
        try:
            connection.execute(BEGIN)
            with self._steady():
                self._fill(connection, group, careful=careful)
        except BaseException:
            self._counters.forget()
            if connection.in_transaction:
                connection.execute(ROLLBACK)
            raise

    def _steady(self) -> AbstractContextManager[None]:
        """While this is held, nobody rebuilds the index of the WAL that we write to."""
        assert self._pins is not None
        return self._pins.steady()

    def _fill(self, connection: Database, group: Group, *, careful: bool) -> None:
        """Runs the group's operations inside the transaction and commits it."""
        schema, seq, order, commits = connection.execute(META_READ).get
        connections.check_schema(schema, self._paths)
        counters, now_us = self._counters, self._clock().now_us()
        if commits != self._commits:
            counters.forget()  # somebody else wrote
        alone = len(group) == 1
        tx = Tx(connection, counters, now_us, seq, order, commits + 1)
        together = [] if careful else [operation for operation in group if operation.plain is not None]
        if together:
            self._run_together(together, tx, alone=alone)
        idle = not together
        if len(together) < len(group):
            for operation in group:
                if careful or operation.plain is None:
                    own = Tx(connection, counters, now_us, tx.seq, tx.order, commits + 1)
                    if self._run(operation, own, alone=alone, careful=careful):
                        tx.seq, tx.order, idle = own.seq, own.order, idle and own.idle
        if idle:
            counters.forget()
            connection.execute(ROLLBACK)
            return
        counters.finish(connection, tx.seq - seq, tx.order - order)
        connection.execute(COMMIT)
        self._commits, self.order = commits + 1, tx.order

    def _run_together(self, operations: Group, tx: Tx, *, alone: bool) -> None:
        """Inserts of plain jobs, in few statements: every one of them lets other threads in between."""
        try:
            receipts = self._insert(tx, [job for operation in operations for job in operation.plain or ()])
        except Exception as error:
            if alone or (isinstance(error, apsw.Error) and not isinstance(error, REFUSALS)):
                raise
            raise Upset from error
        start = 0
        for operation in operations:
            stop = start + len(operation.plain or ())
            operation.error = None
            operation.result = receipts[start:stop]
            start = stop
        operations[0].tx = tx  # one tells for all

    def _run(self, operation: Operation[object], tx: Tx, *, alone: bool, careful: bool) -> bool:
        """One operation; a refusal undoes it and only it."""
        operation.error, operation.tx = None, None
        savepoint = careful and not alone
        tx.flush()  # it sees what those before it changed
        if savepoint:
            tx.run("SAVEPOINT operation")
        try:
            operation.result = operation.work(tx)
            if savepoint:
                tx.flush()
        except Exception as error:
            refused = isinstance(error, REFUSALS)
            if isinstance(error, apsw.Error) and not refused:
                raise
            if not alone and not careful:
                raise Upset from error
            operation.error = _refusal(error) if refused else error
            if alone:
                raise operation.error from error
            tx.counters.forget()
            tx.run("ROLLBACK TO operation")
            tx.run("RELEASE operation")
            return False
        if savepoint:
            tx.run("RELEASE operation")
        operation.tx = tx
        return True

    def _make_room(self, group: Group, full: StoreError) -> Group:
        """The disk is full: new work is refused, and the reserve is given up for what must be written."""
        essential = [operation for operation in group if operation.essential]
        if essential and not self._reserve.give_up():
            essential = []
        for operation in group:
            if operation not in essential:
                operation.error = StoreFull(full.message, full.todo)
        return essential

    def _survived(self) -> bool:
        """The WAL was swapped during the commit: looks on the disk whether it is there; False: repeat it."""
        wanted = self._commits
        self._reopen()
        assert self._connection is not None
        return bool(self._connection.execute(META_READ).get[3] >= wanted)

    def _reopen(self) -> None:
        """Starts again with fresh file handles after the ground moved."""
        if self._look()[0] != self._inodes[0]:
            raise replaced(self._paths.database)
        if self._connection is not None:
            self._rescue(self._connection)
            self._connection.close(True)
            self._connection = None
        self.open()

    def _rescue(self, connection: Database) -> None:
        """Somebody removed the -wal: what it holds is still in our open file, and goes into the database.

        Only while no new one has been written to: from then on the index speaks of that one, not of ours.
        """
        if self._look()[1] == self._inodes[1]:
            return
        try:
            if os.stat(self._paths.wal).st_size:
                return
        except FileNotFoundError:
            pass
        if not self._checkpoint(connection):
            raise StoreUnavailable(
                f"{self._paths.wal} was removed, and a reader keeps its jobs from being saved.", "Try again."
            )

    def _checkpoint_if_due(self) -> None:
        connection = self._connection
        if connection is None or self._wal_pages <= self._checkpoint_at:
            return
        done = self._checkpoint(connection)
        # A reader in the way: let the WAL grow by a quarter before asking again.
        self._checkpoint_at = CHECKPOINT_PAGES if done else self._wal_pages + CHECKPOINT_PAGES // 4

    def _checkpoint(self, connection: Database) -> bool:
        """Folds the WAL into the database, so that it begins anew; False if a reader did not give way.

        The file keeps its size: overwriting blocks that are there saves the file system a journal commit per sync
        (a third of the time of a lone insert), and on a full disk the WAL has room already.
        """
        self._gate.begin_epoch()
        try:
            connection.set_busy_timeout(CHECKPOINT_WAIT_MS)
            with self._steady():
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
        except apsw.BusyError:
            return False
        except apsw.FullError:
            # The commit itself is safe in the WAL; the fold waits until there is room.
            self._reserve.give_up()
            return False
        finally:
            connection.set_busy_timeout(connections.BUSY_MS)
        return True


def _hints(group: Group) -> Iterator[Hint]:
    """What the operations have to tell those who listen."""
    for operation in group:
        if operation.tx is not None:
            yield from operation.tx.hints()


def _refusal(error: Exception) -> StoreError:
    return StoreError(f"The store refused a value ({error}); nothing was stored.", "Look at what was sent.")
