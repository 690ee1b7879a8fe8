"""In process: a real worker, in threads beside the test, on the test's own store."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from windlass.app.app import App
from windlass.core.durations import SECOND_US, Duration, to_us
from windlass.core.errors import NotFinished
from windlass.core.job import ENDED, Record, State
from windlass.testing.sent import SentJob, SentJobs
from windlass.testing.stage import Stage, StageClock, StageStore, staged
from windlass.worker.worker import Worker

DRAIN_S = 5
"""How long the last jobs have after a test; one that hangs must not hang all tests."""
PATIENCE_S = 10


class TestWorker(Worker):
    """A worker that a test can wait for."""

    __test__ = False  # for pytest, which would take the name for that of a test class

    def __init__(self, stage: Stage, slots: int = 4) -> None:
        super().__init__(stage.app, slots, name="test", drain=DRAIN_S)
        self.app = stage.app
        self.clock = stage.clock
        self.sent = stage.sent

    def wait(self, timeout: Duration = PATIENCE_S) -> None:
        """Returns once everything that was sent has ended, and whatever that has sent; what is delayed may wait.

        Retries are waited for as they are in life: travel, where a policy waits long.
        """
        until_s = time.monotonic() + to_us(timeout) / SECOND_US
        # Asked again at the end: what has ended may have sent more.
        while left := self._open():
            for job in left:
                if not job.handle.wait(max(0.0, until_s - time.monotonic())):
                    raise NotFinished(
                        f"After {timeout} s some jobs have not ended: {self._shown()}.",
                        "Wait longer, or let time pass for what is scheduled: windlass_clock.travel(…).",
                    )

    def _open(self) -> list[SentJob]:
        """What has not ended, without what was sent for later."""
        return [job for job in self.sent() if (record := self._record(job)) and not _may_wait(job, record)]

    def _record(self, job: SentJob) -> Record | None:
        (found,) = self.app.engine.fetch([job.handle.job_id], frozenset())
        return None if found is None else found.record

    def _shown(self) -> str:
        shown = [f"{job!r} is {record.state}" for job in self._open() if (record := self._record(job))]
        return "; ".join(shown)


def _may_wait(job: SentJob, record: Record) -> bool:
    """Whether it has ended, or was sent for later and nobody has tried it yet."""
    for_later = job.delay > 0 or job.at is not None
    return record.state in ENDED or (for_later and record.state is State.SCHEDULED and not record.settled_fence)


@contextmanager
def run_in_process(app: App, slots: int = 4) -> Generator[TestWorker]:
    """Within the `with`, a worker runs the app's jobs in the background, in a store of their own."""
    sent = SentJobs(app)
    store = StageStore(sent, app.limits)
    stage = Stage(app, StageClock(store), sent)
    with staged(app, store, stage.clock), TestWorker(stage, slots) as worker:
        yield worker
