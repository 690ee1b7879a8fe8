"""Stocktaking: whether the store and the desk hold the same claims, and what to do where they do not.

The store says with each beat how many claims the worker holds. A different number is usual while claims and ends are
under way. A claim that is on one side only, under the same fence, at two beats in a row, is astray: one that only the
store knows goes back, so that somebody runs it; one that only the desk knows is let go. While a claim is under way, or
its answer was lost, nothing is astray yet: the consumer asks for it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from windlass.core.clock import Clock
from windlass.core.ids import JobId, WorkerId, show_id
from windlass.core.job import Record, State
from windlass.core.lifecycle import Standing, decide
from windlass.engines.protocol import Engine, Query, Settlement
from windlass.worker.desk import Desk
from windlass.worker.service import log
from windlass.worker.settler import Settler

Astray = set[tuple[JobId, int]]


class Stocktaking:
    """Compares what the store and the desk hold."""

    def __init__(
        self,
        clock: Clock,
        engine: Engine,
        desk: Desk,
        settler: Settler,
        asking: Callable[[], bool],
        running: Callable[[], Collection[JobId]],
        pause_s: float,
    ) -> None:
        self._clock = clock
        self._asking = asking
        self._running = running
        self._pause_us = int(pause_s * 1e6)
        self._due_us = 0
        self._engine = engine
        self._desk = desk
        self._settler = settler
        self._unknown: Astray = set()
        self._vanished: Astray = set()

    def compare(self, worker: WorkerId, claims: int) -> None:
        """Once per beat, with the number of claims that the store says the worker holds."""
        now_us = self._clock.monotonic_us()
        if now_us < self._due_us:
            return  # an order or a failure brought this beat forward: what is under way may still be so
        self._due_us = now_us + self._pause_us
        if claims == len(self._desk.open) or self._asking():
            self._unknown, self._vanished = set(), set()
            return
        # The desk first: what is claimed while we search is on neither list, not on the wrong one.
        held = {(claim.id, claim.fence) for claim in list(self._desk.open.values())}
        stored = self._stored(worker)
        unknown = {key for key in stored if key[0] not in self._desk.open}
        vanished = {key for key in held - stored.keys() if key[0] in self._desk.open}
        for key in unknown & self._unknown:
            self._give_back(*key, stored[key])
        for job_id, _ in vanished & self._vanished:
            if job_id not in self._running():
                log.warning(
                    "Job %s is not ours any more (another worker has it, or it was removed); it is let go.",
                    show_id(job_id),
                )
                self._desk.let_go(job_id)
        self._unknown, self._vanished = unknown, vanished

    def _stored(self, worker: WorkerId) -> dict[tuple[JobId, int], Record]:
        found: dict[tuple[JobId, int], Record] = {}
        query: Query | None = Query(worker=worker, state=State.RUNNING)
        while query is not None:
            page = self._engine.search(query)
            found |= {(job.id, job.record.fence): job.record for job in page.jobs if job.record is not None}
            query = None if page.cursor is None else Query(worker=worker, state=State.RUNNING, cursor=page.cursor)
        return found

    def _give_back(self, job_id: JobId, fence: int, record: Record) -> None:
        log.warning("The store says that this worker holds job %s, which it does not; it goes back.", show_id(job_id))
        standing = Standing(
            attempt=record.attempt, crashes=record.crashes, losses=record.losses, suspect=record.suspect
        )
        back = Settlement(id=job_id, fence=fence, outcome=None, transition=decide(None, standing))
        self._settler.put([back], urgent=True)
