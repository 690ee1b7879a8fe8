"""The seam between the two halves of a worker: the office claims, settles and beats; the staff runs tasks.

    office  (crew.py)        knows the store and no task
    staff   (in_process.py)  knows the tasks and no store; runs them in this process

Neither knows how the other does its part, so that the staff can be in other processes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from windlass.core.ids import JobId, WorkerId
from windlass.core.info import Process
from windlass.engines.protocol import Claim, Note, Settlement, Verdict
from windlass.worker.desk import Desk
from windlass.worker.page import Page

End = tuple[Settlement, Claim]
"""What came of an attempt, and the claim that it was made under."""


class Wish(NamedTuple):
    """What could run now: so many claims, of these tasks (None: of all that the worker's card lists)."""

    limit: int
    tasks: frozenset[str] | None = None
    alone: bool = True
    """Whether there may be some among them that need a process to themselves."""
    besides: bool = False
    """Whether it is for others than those before it, and so is asked for whatever came of them."""


class Office(Protocol):
    """What the staff needs of the half that has the store. Nothing here blocks."""

    @property
    def desk(self) -> Desk: ...

    @property
    def page(self) -> Page | None:
        """Where slots write what they run, if anybody has to see it from outside the process."""
        ...

    def worker(self) -> WorkerId:
        """The worker's id, new when it was taken for dead."""
        ...

    def settle(self, ends: Sequence[End]) -> None:
        """Takes ends of attempts."""
        ...

    def give_back(self, claims: Sequence[Claim]) -> None:
        """Takes claims back that were not started."""
        ...

    def note(self, note: Note) -> None:
        """Takes a line or a progress of a running job."""
        ...

    def overran(self, claim: Claim) -> None:
        """A task does not heed being stopped."""
        ...

    def is_cut(self, now_us: int) -> bool:
        """Whether the worker has not reached the store for so long that nothing may be started."""
        ...

    def hungry(self) -> None:
        """A slot is free."""
        ...

    def expect_a_suspect(self) -> None:
        """One could run apart now."""
        ...


class Apart(Protocol):
    """Where suspects run, each in a process of its own."""

    def has_room(self) -> bool:
        """Whether one could run now."""
        ...

    def put(self, suspect: Claim) -> None:
        """Takes one to run; returns at once."""
        ...


class Staff(Protocol):
    """Who runs a worker's tasks."""

    @property
    def apart(self) -> Apart | None:
        """None: there is no such place, and a suspect is put when nothing else runs."""
        ...

    @property
    def slots(self) -> int: ...

    def tasks(self) -> tuple[str, ...]:
        """Those it can run, by name. A job of another task waits for a worker that can."""
        ...

    def start(self) -> None:
        """Returns once tasks can run; an error of a resource or of `on_start` is raised here."""
        ...

    def wishes(self) -> list[Wish]:
        """What to ask the store for, one after the other until one is not filled."""
        ...

    def put(self, claims: tuple[Claim, ...]) -> None:
        """Takes claims to run, in their order; returns at once."""
        ...

    def has_waiting(self) -> bool:
        """Whether there are claims that have not been started."""
        ...

    def take_back(self) -> list[Claim]:
        """Gives up claims that have not been started; those it cannot give at once it gives back to the office."""
        ...

    def cancel(self, job_id: JobId) -> None:
        """Somebody wants the job to end."""
        ...

    def running(self) -> Collection[JobId]:
        """The jobs that slots run now."""
        ...

    def stuck(self) -> tuple[str, ...]:
        """Running jobs that do not heed being stopped."""
        ...

    def answered(self, settlement: Settlement, verdict: Verdict) -> None:
        """The store has answered for the end of an attempt."""
        ...

    def cut_at(self, cut_us: int) -> None:
        """Until then the lease holds, by the monotonic clock."""
        ...

    def processes(self) -> tuple[Process, ...]:
        """What its processes do, for people."""
        ...

    def restart(self) -> None:
        """Fresh processes take the place of those that run, one after the other."""
        ...

    def stop(self, timeout_s: float) -> None:
        """Ends the slots; a task that still runs is left to itself."""
        ...

    def close(self) -> None:
        """The last of all: `on_stop`, and what resources have to do at the end."""
        ...
