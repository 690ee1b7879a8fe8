"""Who writes next: operations stand in line, the first of them leads, and everybody gets an answer.

    thread A  ──► in line ─► leads: takes A, B, C, commits them ─► wakes B and C; D leads the next group
    thread B  ──► in line ─► sleeps ────────────────────────────► answer
    thread D  ────────────► in line ─► sleeps ──────────────────► leads

Two things must hold whatever happens, an interrupt in any line included: an operation that was not carried out is never
answered as if it had been, and the lead is never lost. So there is one variable that says who leads; whoever leaves, by
return or by exception, gives the lead away if it is theirs and wakes all whom they took along.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from windlass.core.errors import StoreClosed, StoreUnavailable
from windlass.core.job import Job
from windlass.engines.sqlite.tx import Tx

R = TypeVar("R")

GROUP = 64
"""The most operations in one transaction: nobody's answer waits for an endless group."""
GATHER_S = 0.0005
"""How long a leader waits for those who went with the last commit: about a sync, so it never costs more than one."""


class Operation(Generic[R]):
    """A write on its way: what to do, and later its answer or its error.

    `essential`: it may have the reserve when the disk is full. `plain`: its jobs, where it is an insert of plain ones:
    those of a whole group go in together.
    """

    __slots__ = ("_parked", "done", "error", "essential", "plain", "result", "tx", "woken", "work")

    def __init__(self, work: Callable[[Tx], R], *, essential: bool = True, plain: Sequence[Job] | None = None) -> None:
        self.work = work
        self.essential = essential
        self.plain = plain
        self.result: R | None = None
        self.error: BaseException | None = None
        self.tx: Tx | None = None
        self.done = False
        self.woken = False
        self._parked = threading.Lock()
        self._parked.acquire()

    def park(self) -> None:
        """Sleeps until there is an answer, or until it leads."""
        self._parked.acquire()

    def wake(self) -> None:
        if not self.woken:
            self.woken = True
            self._parked.release()


Group = list[Operation[object]]


class Line:
    """The operations of one engine on their way to a commit."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: deque[Operation[object]] = deque()
        self._leader: Operation[object] | None = None
        self._expected = 1
        self._gathered = threading.Event()
        self._closed = False

    def carry_out(self, operation: Operation[R], commit: Callable[[Callable[[], Group]], None]) -> None:
        """Returns once the operation has its answer or its error.

        `commit` is called by whoever leads; it asks for the group as late as it can, and answers all of it.
        """
        mine: Operation[object] = operation  # pyright: ignore[reportAssignmentType]
        group: Group = []
        try:
            with self._mutex:
                if self._closed:
                    raise _closed()
                self._waiting.append(mine)
                if self._leader is None:
                    self._leader = mine
                elif len(self._waiting) >= self._expected:
                    self._gathered.set()
            if self._leader is not mine:
                mine.park()
            if not mine.done:
                if self._expected > 1:
                    self._gather()
                self._lead(mine, group, commit)
        finally:
            try:
                self._leave(mine, group)
            except BaseException:
                # Interrupted on the way out: going twice changes nothing, and nobody may be left asleep.
                self._leave(mine, group)
                raise

    def _lead(self, mine: Operation[object], group: Group, commit: Callable[[Callable[[], Group]], None]) -> None:
        try:
            commit(lambda: self._take(group))
        except Exception as error:
            # Before anybody was taken along, it concerns only the leader: the next one tries for itself.
            for operation in group or [mine]:
                operation.error = operation.error or error
        except BaseException:
            for operation in group:
                operation.error = StoreUnavailable("The commit was interrupted.", "Send it again: repeating is safe.")
            raise

    def _gather(self) -> None:
        """Waits a moment for those who went with the last commit: they are on their way back with their next operation.

        Without it, eight threads fall into two groups of four that fight each other for the interpreter, and every
        second commit goes half empty. Whoever comes last wakes the leader; somebody who does not come back costs the
        others this once.
        """
        with self._mutex:
            self._gathered.clear()
            missing = len(self._waiting) < self._expected
        if missing:
            self._gathered.wait(GATHER_S)

    def _take(self, group: Group) -> Group:
        """Those who go with this commit; the leader is the first of them."""
        if not group:
            with self._mutex:
                while self._waiting and len(group) < GROUP:
                    group.append(self._waiting.popleft())
                self._expected = len(group)
        return group

    def _leave(self, mine: Operation[object], group: Group) -> None:
        """Goes out of the line, with an answer or by an exception, and leaves nobody asleep."""
        with self._mutex:
            if mine in self._waiting:
                self._waiting.remove(mine)
            if self._leader is mine:
                self._leader = self._waiting[0] if self._waiting else None
            leader = self._leader
        for operation in group:
            operation.done = True
            operation.wake()
        if leader is not None:
            leader.wake()

    def close(self) -> None:
        """Sends away whoever waits; those who are being committed get their answers."""
        with self._mutex:
            self._closed = True
            waiting = [operation for operation in self._waiting if operation is not self._leader]
            for operation in waiting:
                self._waiting.remove(operation)
        for operation in waiting:
            operation.error = _closed()
            operation.done = True
            operation.wake()


def _closed() -> StoreClosed:
    return StoreClosed("The engine was closed.", "Open it again.")
