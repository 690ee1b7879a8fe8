"""Group commit: many threads' writes, one transaction, one sync.

A commit costs a sync of the disk, so commits are shared. A thread that wants to write puts its operation into a queue.
The first to come leads: it waits for the gate, takes everything that queued up meanwhile, runs it in one transaction
and wakes the others. While the disk syncs, the next group gathers.

    thread A  ──► queue ─► lead: gate, BEGIN IMMEDIATE, A, B, C, COMMIT, gate free ─► wakes B, C; hands the lead to D
    thread B  ──► queue ─► sleeps ──────────────────────────────────────────────────► answer
    thread D  ─────────────► queue ─► sleeps ─────────────────────────────────────────► leads the next group

An operation that may be refused runs inside a savepoint of its own, so that it takes nothing of its neighbours with it.
Plain inserts cannot be refused any more when they come here; they share one flush of the counters.
An answer is given only after COMMIT has returned and the -wal it went to is still the one on the disk.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

import apsw

from windlass.core.clock import Clock
from windlass.core.errors import StoreClosed, StoreError, StoreFull, StoreReplaced, StoreUnavailable
from windlass.core.ids import JobId, WorkerId
from windlass.core.rank import next_order
from windlass.engines.protocol import Hint
from windlass.engines.sqlite import connection as connections
from windlass.engines.sqlite.connection import Database
from windlass.engines.sqlite.files import Paths, Reserve
from windlass.engines.sqlite.gate import Gate, Pins
from windlass.engines.sqlite.statements import sql

R = TypeVar("R")

GROUP = 64
"""The most operations in one transaction: nobody's answer waits for an endless group."""
CHECKPOINT_PAGES = 4_000
"""The WAL is folded into the database past this size (16 MiB)."""

CHECKPOINT_WAIT_MS = 20

BEGIN, COMMIT, ROLLBACK = "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"
META_READ, META_WRITE = sql("meta_read"), sql("meta_write")
STREAM_COUNT, TALLY_ADD = sql("stream_count"), sql("tally_add")


class Counters:
    """What the operations of a group have changed in the counters, until it is written."""

    __slots__ = ("counts", "stream_ids", "streams")

    def __init__(self) -> None:
        self.counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self.streams: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        self.stream_ids: dict[str, int] = {}
        """The streams of plain jobs by queue, as far as this transaction has looked them up."""

    def flush(self, connection: Database) -> None:
        for stream, (ready, running) in self.streams.items():
            if ready or running:
                connection.execute(STREAM_COUNT, (ready, running, stream))
        for (queue, task, state), n in self.counts.items():
            if n:
                connection.execute(TALLY_ADD, (queue, task, state, n))
        self.streams.clear()
        self.counts.clear()

    def forget(self) -> None:
        """What was refused has been undone."""
        self.streams.clear()
        self.counts.clear()
        self.stream_ids.clear()


class Tx:
    """One operation inside a transaction: the connection, the instant, and what it has to tell afterwards."""

    __slots__ = (
        "asked",
        "commits",
        "connection",
        "counters",
        "counts",
        "ends",
        "idle",
        "now_us",
        "order",
        "run",
        "seq",
        "streams",
        "woken",
    )

    def __init__(
        self, connection: Database, counters: Counters, now_us: int, seq: int, order: int, commits: int
    ) -> None:
        self.connection = connection
        self.counters = counters
        self.commits = commits
        """The number of this commit."""
        self.idle = False
        """The operation changed nothing worth a sync: alone, it is rolled back."""
        self.run = connection.execute
        self.now_us = now_us
        self.seq = seq
        self.order = order
        self.counts = counters.counts
        self.streams = counters.streams
        self.woken: set[str] = set()
        self.ends: list[JobId] = []
        self.asked: set[WorkerId] = set()

    def next_order(self) -> int:
        """The next value of the store's own count."""
        self.order = next_order(self.order, self.now_us)
        return self.order

    def flush(self) -> None:
        """Writes the counters, so that statements of this operation see them."""
        self.counters.flush(self.connection)

    def hints(self) -> Iterator[Hint]:
        """What this operation has to tell those who listen."""
        yield from (Hint(kind="work", queue=queue) for queue in self.woken)
        yield from (Hint(kind="end", id=job_id) for job_id in self.ends)
        yield from (Hint(kind="order", id=worker) for worker in self.asked)


class Operation(Generic[R]):
    """A write on its way: what to do, and later its answer or its error."""

    __slots__ = ("_parked", "done", "error", "essential", "plain", "result", "tx", "work")

    def __init__(self, work: Callable[[Tx], R], *, essential: bool, plain: bool) -> None:
        self.work = work
        self.essential = essential
        self.plain = plain
        self.result: R | None = None
        self.error: BaseException | None = None
        self.tx: Tx | None = None
        self.done = False
        self._parked = threading.Lock()
        self._parked.acquire()

    def park(self) -> None:
        self._parked.acquire()

    def wake(self) -> None:
        self._parked.release()


class Committer:
    """The writing side of one engine: its connection, its gate, and the queue of operations."""

    def __init__(self, paths: Paths, gate: Gate, reserve: Reserve, clock: Callable[[], Clock]) -> None:
        self._paths = paths
        self._database, self._wal = str(paths.database), str(paths.wal)
        self._gate = gate
        self._reserve = reserve
        self._clock = clock
        self._mutex = threading.Lock()
        self._queue: deque[Operation[object]] = deque()
        self._leading = False
        self._closed = False
        self._connection: Database | None = None
        self._inodes: tuple[int, int] = (0, 0)
        self._commits = 0
        self._checkpoint_at = CHECKPOINT_PAGES
        self._wal_pages = 0
        self._pins: Pins | None = None
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
        self._inodes = self._look()

    def _count_pages(self, _connection: object, _name: str, pages: int) -> int:
        """SQLite tells after each commit how long the WAL is."""
        self._wal_pages = pages
        return 0

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            for operation in self._queue:
                operation.error = StoreClosed("The engine was closed.", "Open it again.")
                operation.done = True
                operation.wake()
            self._queue.clear()
        if self._connection is not None:
            with self._gate.held():
                self._connection.close()
            self._connection = None
        if self._pins is not None:
            self._pins.release()
            self._pins = None

    def _look(self) -> tuple[int, int]:
        """The inodes of the database and of its WAL as they are on the disk now."""
        database = _inode(self._database)
        if not database:
            raise self._replaced()
        return database, _inode(self._wal)

    def _replaced(self) -> StoreReplaced:
        return StoreReplaced(
            f"{self._paths.database} was moved, deleted or replaced while it was open.",
            "Put it back, or restart every process that uses it.",
        )

    # ── the queue ───────────────────────────────────────────────────────────────────────────────────────

    def write(
        self, work: Callable[[Tx], R], *, essential: bool = True, plain: bool = False
    ) -> tuple[R, Iterable[Hint]]:
        """Runs the operation in a transaction and returns once it is on the disk.

        `essential`: it may have the reserve when the disk is full. `plain`: it cannot be refused any more.
        """
        operation = Operation(work, essential=essential, plain=plain)
        with self._mutex:
            if self._closed:
                raise StoreClosed("The engine was closed.", "Open it again.")
            self._queue.append(operation)  # pyright: ignore[reportArgumentType]
            leads = not self._leading
            self._leading = True
        if not leads:
            operation.park()
        if not operation.done:
            self._lead()
        if operation.error is not None:
            raise operation.error
        hints = operation.tx.hints() if operation.tx is not None else ()
        return operation.result, hints  # pyright: ignore[reportReturnType]

    def _lead(self) -> None:
        """Commits one group and hands the lead on."""
        group: list[Operation[object]] = []
        try:
            with self._gate.held():
                with self._mutex:
                    while self._queue and len(group) < GROUP:
                        group.append(self._queue.popleft())
                self._commit(group)
        except Exception as error:
            for operation in group:
                operation.error = operation.error or error
        except BaseException:
            for operation in group:
                operation.error = StoreUnavailable("The commit was interrupted.", "Send it again: repeating is safe.")
            raise
        finally:
            self._hand_on(group)

    def _hand_on(self, group: list[Operation[object]]) -> None:
        with self._mutex:
            successor = self._queue[0] if self._queue else None
            self._leading = successor is not None
        for operation in group:
            operation.done = True
            operation.wake()
        if successor is not None:
            successor.wake()

    # ── the transaction ─────────────────────────────────────────────────────────────────────────────────

    def _commit(self, group: list[Operation[object]]) -> None:
        """Runs the group until its commit is on the disk, or nobody is left to run."""
        waiting = group
        while waiting:
            try:
                self._transact(waiting)
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
            if _inode(self._wal) == self._inodes[1] or self._survived():
                break
        self._checkpoint_if_due()

    def _transact(self, group: list[Operation[object]]) -> None:
        if self._look() != self._inodes:
            self._reopen()
        if self._connection is None and not self._closed:
            self.open()  # the last attempt to start again failed; the disk may be back
        connection = self._connection
        if connection is None:
            raise StoreClosed("The engine was closed.", "Open it again.")
        connection.execute(BEGIN)
        try:
            with self._steady():
                self._fill(connection, group)
        except BaseException:
            if connection.in_transaction:
                connection.execute(ROLLBACK)
            raise

    def _steady(self) -> AbstractContextManager[None]:
        """While this is held, nobody rebuilds the index of the WAL that we write to."""
        assert self._pins is not None
        return self._pins.steady()

    def _fill(self, connection: Database, group: list[Operation[object]]) -> None:
        """Runs the group's operations inside the transaction and commits it."""
        schema, seq, order, commits = connection.execute(META_READ).get
        connections.check_schema(schema, self._paths)
        now_us = self._clock().now_us()
        alone = len(group) == 1
        idle = True
        counters = Counters()
        for operation in group:
            tx = Tx(connection, counters, now_us, seq, order, commits + 1)
            if self._run(operation, tx, alone=alone):
                seq, order, idle = tx.seq, tx.order, idle and tx.idle
        counters.flush(connection)
        if idle:
            connection.execute(ROLLBACK)
            return
        connection.execute(META_WRITE, (seq, order, commits + 1))
        connection.execute(COMMIT)
        self._commits, self.order = commits + 1, order

    def _run(self, operation: Operation[object], tx: Tx, *, alone: bool) -> bool:
        """One operation; a refusal undoes it and only it."""
        operation.error = None
        savepoint = not alone and not operation.plain
        if savepoint:
            tx.flush()
            tx.run("SAVEPOINT operation")
        try:
            operation.result = operation.work(tx)
            if savepoint:
                tx.flush()
        except apsw.Error:
            raise
        except Exception as error:
            operation.error = error
            if not savepoint:
                raise
            tx.counters.forget()
            tx.run("ROLLBACK TO operation")
            tx.run("RELEASE operation")
            return False
        if savepoint:
            tx.run("RELEASE operation")
        operation.tx = tx
        return True

    def _make_room(self, group: list[Operation[object]], full: StoreError) -> list[Operation[object]]:
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
            raise self._replaced()
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


def _inode(path: str) -> int:
    """The inode behind a path; 0 where there is none."""
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0
