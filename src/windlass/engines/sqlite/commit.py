"""Group commit: many threads' writes, one transaction, one sync.

A commit costs a sync of the disk, so commits are shared. A thread that wants to write puts its operation into a queue.
The first to come leads: it waits for the gate, takes everything that queued up meanwhile, runs it in one transaction
and wakes the others. While the disk syncs, the next group gathers.

    thread A  ──► queue ─► lead: gate, BEGIN IMMEDIATE, A, B, C, COMMIT, gate free ─► wakes B, C; hands the lead to D
    thread B  ──► queue ─► sleeps ──────────────────────────────────────────────────► answer
    thread D  ─────────────► queue ─► sleeps ─────────────────────────────────────────► leads the next group

Each operation runs inside a savepoint of its own, so that one that is refused takes nothing of its neighbours with it.
An answer is given only after COMMIT has returned and the -wal it went to is still the one on the disk.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
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


class Tx:
    """One operation inside a transaction: the connection, the instant, and what it has to tell afterwards."""

    __slots__ = (
        "asked",
        "commits",
        "connection",
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

    def __init__(self, connection: Database, now_us: int, seq: int, order: int, commits: int) -> None:
        self.connection = connection
        self.commits = commits
        """The number of this commit."""
        self.idle = False
        """The operation changed nothing worth a sync: alone, it is rolled back."""
        self.run = connection.execute
        self.now_us = now_us
        self.seq = seq
        self.order = order
        self.counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self.streams: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        self.woken: set[str] = set()
        self.ends: list[JobId] = []
        self.asked: set[WorkerId] = set()

    def next_order(self) -> int:
        """The next value of the store's own count."""
        self.order = next_order(self.order, self.now_us)
        return self.order

    def flush(self) -> None:
        """Writes the counters that this operation changed."""
        for stream, (ready, running) in self.streams.items():
            if ready or running:
                self.run(STREAM_COUNT, (ready, running, stream))
        for (queue, task, state), n in self.counts.items():
            if n:
                self.run(TALLY_ADD, (queue, task, state, n))
        self.streams.clear()
        self.counts.clear()

    def hints(self) -> Iterator[Hint]:
        """What this operation has to tell those who listen."""
        yield from (Hint(kind="work", queue=queue) for queue in self.woken)
        yield from (Hint(kind="end", id=job_id) for job_id in self.ends)
        yield from (Hint(kind="order", id=worker) for worker in self.asked)


class Operation(Generic[R]):
    """A write on its way: what to do, and later its answer or its error."""

    __slots__ = ("_parked", "done", "error", "essential", "result", "tx", "work")

    def __init__(self, work: Callable[[Tx], R], *, essential: bool) -> None:
        self.work = work
        self.essential = essential
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
        except BaseException:
            connection.close()
            raise
        if self._pins is None:
            self._pins = Pins(self._paths)
        self._connection = connection
        self._inodes = self._look()

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
        try:
            return os.stat(self._paths.database).st_ino, os.stat(self._paths.wal).st_ino
        except FileNotFoundError:
            if not self._paths.database.exists():
                raise self._replaced() from None
            return os.stat(self._paths.database).st_ino, 0

    def _replaced(self) -> StoreReplaced:
        return StoreReplaced(
            f"{self._paths.database} was moved, deleted or replaced while it was open.",
            "Put it back, or restart every process that uses it.",
        )

    # ── the queue ───────────────────────────────────────────────────────────────────────────────────────

    def write(self, work: Callable[[Tx], R], *, essential: bool = True) -> tuple[R, Iterable[Hint]]:
        """Runs the operation in a transaction and returns once it is on the disk."""
        operation = Operation(work, essential=essential)
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
            if self._look() == self._inodes or self._survived():
                break
        self._checkpoint_if_due()

    def _transact(self, group: list[Operation[object]]) -> None:
        if self._look() != self._inodes:
            self._reopen()
        connection = self._connection
        if connection is None:
            raise StoreClosed("The engine was closed.", "Open it again.")
        connection.execute(BEGIN)
        try:
            schema, seq, order, commits = connection.execute(META_READ).get
            connections.check_schema(schema, self._paths)
            now_us = self._clock().now_us()
            alone = len(group) == 1
            idle = True
            for operation in group:
                tx = Tx(connection, now_us, seq, order, commits + 1)
                if self._run(operation, tx, alone=alone):
                    seq, order, idle = tx.seq, tx.order, idle and tx.idle
            if idle:
                connection.execute(ROLLBACK)
                return
            connection.execute(META_WRITE, (seq, order, commits + 1))
            connection.execute(COMMIT)
            self._commits, self.order = commits + 1, order
        except BaseException:
            if connection.in_transaction:
                connection.execute(ROLLBACK)
            raise

    def _run(self, operation: Operation[object], tx: Tx, *, alone: bool) -> bool:
        """One operation; a refusal undoes it and only it."""
        operation.error = None
        savepoint = not alone
        if savepoint:
            tx.run("SAVEPOINT operation")
        try:
            operation.result = operation.work(tx)
            tx.flush()
        except apsw.Error:
            raise
        except Exception as error:
            operation.error = error
            if alone:
                raise
            tx.run("ROLLBACK TO operation")
            tx.run("RELEASE operation")
            return False
        if savepoint:
            tx.run("RELEASE operation")
        operation.tx = tx
        return True

    def _make_room(self, group: list[Operation[object]], full: StoreError) -> list[Operation[object]]:
        """The disk is full: new work is refused, and the reserve is given up for what must be written."""
        gave_up = self._reserve.give_up()
        essential = [operation for operation in group if operation.essential and gave_up]
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
        old, self._connection = self._connection, None
        if old is not None:
            old.close(True)
        self.open()

    def _checkpoint_if_due(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            pages = os.stat(self._paths.wal).st_size // 4_096
        except FileNotFoundError:
            return
        if pages > self._checkpoint_at:
            done = self._checkpoint(connection)
            # A reader in the way: let the WAL grow by a quarter before asking again.
            self._checkpoint_at = CHECKPOINT_PAGES if done else pages + CHECKPOINT_PAGES // 4

    def _checkpoint(self, connection: Database) -> bool:
        """Folds the WAL into the database and empties it; False if a reader did not give way."""
        self._gate.begin_epoch()
        try:
            connection.set_busy_timeout(CHECKPOINT_WAIT_MS)
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return False
        except apsw.FullError:
            # The commit itself is safe in the WAL; the fold waits until there is room.
            self._reserve.give_up()
            return False
        finally:
            connection.set_busy_timeout(connections.BUSY_MS)
        return True
