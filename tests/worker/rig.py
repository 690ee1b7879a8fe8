"""A worker whose loops are stepped by hand: a clock that stands still, a store in memory, no thread at all."""

from __future__ import annotations

from collections.abc import Mapping
from queue import Empty
from typing import Any

from windlass.app.app import App
from windlass.core.ids import JobId
from windlass.core.job import Job, Record, State
from windlass.engines.memory import MemoryEngine
from windlass.engines.protocol import Claim, TallyQuery
from windlass.testing.clock import FakeClock, travel
from windlass.testing.faults import FaultyEngine
from windlass.worker.crew import Crew
from windlass.worker.desk import Run
from windlass.worker.in_process import InProcess
from windlass.worker.pools.threads import Slot, ThreadPool
from windlass.worker.staff import Office


class ByHand(ThreadPool):
    """The pool of threads without its threads: claims are run by whoever says so, here and now."""

    def run_next(self) -> bool:
        """Runs the claim that waits longest; False if none does."""
        try:
            claim = self._queue.get_nowait()
        except Empty:
            return False
        assert claim is not None
        self._run(Slot(), claim)
        return True

    def next_claim(self) -> Claim:
        """Takes the claim that waits longest out of the queue."""
        claim = self._queue.get_nowait()
        assert claim is not None
        return claim

    def begin_next(self) -> Run:
        """Begins the claim that waits longest, as a thread would, and leaves it running."""
        claim = self.next_claim()
        run = self._executor.load(claim, self._clock.monotonic_us(), lambda _run, _why: None)
        self._desk.begin(run)
        return run

    def end(self, run: Run, value: Any = None) -> None:
        """Ends a run that was left running."""
        self._desk.finish(run)
        self.room.leave(run.claim)
        self._settle(self._executor.succeeded(run, value, 0), run.claim)

    @property
    def first(self) -> Claim:
        """The claim that waits longest."""
        claim = self._queue.get_nowait()
        assert claim is not None
        self._queue.put(claim)
        return claim


def staff_of(crew: Crew) -> InProcess:
    staff = crew.staff
    assert isinstance(staff, InProcess)
    return staff


class Rig:
    """A worker in pieces, on an engine that fails on command."""

    def __init__(self, app: App, slots: int = 2, name: str = "", resources: Mapping[str, int] | None = None) -> None:
        self.app = app
        self.resources = resources or {}
        self.clock = FakeClock()
        self.engine = FaultyEngine(MemoryEngine(name, app.limits))
        self.engine.open()
        travel(self.engine, self.clock)
        getattr(app, "_held").engine = self.engine  # noqa: B009 - the one way to put an engine that fails under an app
        self.crew = self.new_crew(slots)
        self.pool = self._by_hand(self.crew, slots)
        self.crew.heartbeat.announce()

    def new_crew(self, slots: int) -> Crew:
        def make_staff(office: Office) -> InProcess:
            return InProcess(self.app, "threads", slots, office, self.clock, self.engine)

        settings, bus = self.app.settings, self.app.bus
        return Crew(
            self.engine,
            settings,
            bus,
            self.clock,
            make_staff,
            kind="threads",
            queues=None,
            name="by hand",
            resources=self.resources,
        )

    def _by_hand(self, crew: Crew, slots: int) -> ByHand:
        self.staff = staff_of(crew)
        staff = self.staff
        pool = ByHand(slots, crew, staff.executor, staff.settle, self.clock)
        staff.pool = pool
        return pool

    def second(self, slots: int = 2) -> Rig:
        """Another worker of the same app on the same store."""
        other = object.__new__(Rig)
        other.app, other.clock, other.engine, other.resources = self.app, self.clock, self.engine, self.resources
        other.crew = self.new_crew(slots)
        other.pool = other._by_hand(other.crew, slots)
        other.crew.heartbeat.announce()
        return other

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def now_us(self) -> int:
        return self.clock.monotonic_us()

    def advance(self, seconds: float) -> None:
        self.clock.advance(int(seconds * 1e6))

    def consume(self) -> float | None:
        return self.crew.consumer.tick(self.now_us)

    def settle(self) -> float | None:
        """One step of the settler, once its patience is over."""
        self.clock.advance(10_000)
        self.crew.settler.tick(self.now_us)
        return self.crew.settler.tick(self.now_us + 10_000)

    def watch(self) -> float | None:
        return self.staff.watchman.tick(self.now_us)

    def beat(self) -> float | None:
        return self.crew.heartbeat.tick(self.now_us)

    def ring(self) -> float | None:
        return self.crew.bellman.tick(self.now_us)

    def sweep(self) -> float | None:
        return self.crew.janitor.tick(self.now_us)

    def work(self) -> None:
        """Steps everything until nothing is left to do."""
        while self.consume() == 0 or self.pool.waiting() or self.crew.settler.unsettled:
            while self.pool.run_next():
                pass
            self.settle()

    # ── what the store says ─────────────────────────────────────────────────────────────────────────────

    def job(self, job_id: JobId) -> Job:
        (job,) = self.engine.inner.fetch([job_id])
        assert job is not None
        return job

    def record(self, job_id: JobId) -> Record:
        record = self.job(job_id).record
        assert record is not None
        return record

    def state(self, job_id: JobId) -> State:
        return self.record(job_id).state

    def card_info(self) -> bytes:
        (card,) = self.engine.inner.tally(TallyQuery()).cards
        return card.info

    def counted(self, name: str) -> int:
        tally = self.engine.inner.tally(TallyQuery(span="day"))
        return sum(bucket.n for bucket in tally.buckets if bucket.name == name)

    def close(self) -> None:
        self.app.close()
        self.engine.close()
