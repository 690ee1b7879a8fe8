"""A stage: the user's own app on a store of its own, for one test. Nothing of the test reaches the app's real store.

    stage.app      the user's app, which meanwhile sends to a fresh store in memory
    stage.clock    the time of that store; `travel` moves it
    stage.sent     what was sent

Afterwards the app is as it was. Tasks that were defined inside a function, such as a test, go too.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import msgspec

from windlass.app.app import App
from windlass.core.durations import LONGEST_US, Duration, to_us
from windlass.core.job import Job
from windlass.core.limits import Limits
from windlass.engines.memory import MemoryEngine
from windlass.engines.protocol import Beat, Engine, Orders, Receipt, Sweep
from windlass.testing.clock import MovedClock, travel
from windlass.testing.sent import SentJobs


class StageStore(MemoryEngine):
    """A store in memory that notes what is sent to it."""

    def __init__(self, sent: SentJobs, limits: Limits) -> None:
        super().__init__(limits=limits)
        self._sent = sent

    def insert(self, jobs: Sequence[Job], /) -> list[Receipt]:
        receipts = super().insert(jobs)
        self._sent.note(jobs, receipts)
        return receipts

    def renew(self, beat: Beat, /) -> Orders:
        # A test that travels an hour would else find its worker dead: nobody beats inside a jump.
        card = msgspec.structs.replace(beat.card, lease_us=LONGEST_US)
        return super().renew(msgspec.structs.replace(beat, card=card))


class StageClock(MovedClock):
    """The time of a stage."""

    def __init__(self, store: Engine) -> None:
        super().__init__()
        self._store = store

    def travel(self, duration: Duration) -> None:
        """Lets time pass: what is delayed comes due, what has a time to live runs out of it."""
        self.advance(to_us(duration))
        # The sweep moves what is due by the store's own hand, and so wakes a worker that sleeps.
        while self._store.sweep(Sweep()).more:
            pass


class Stage:
    """What a test has of its stage."""

    def __init__(self, app: App, clock: StageClock, sent: SentJobs) -> None:
        self.app = app
        self.clock = clock
        self.sent = sent


@contextmanager
def staged(app: App, store: StageStore, clock: StageClock) -> Generator[None]:
    """Puts the app on that store, in that time; afterwards it is as it was."""
    tasks = dict(app.tasks)
    travel(store, clock)
    before = travel(app, clock)
    store.open()
    try:
        with app.on(store):
            yield
    finally:
        store.close()
        travel(app, before)
        for name, task in list(app.tasks.items()):
            # A module that the test happened to import first is imported once: its tasks stay.
            if name not in tasks and "<locals>" in task.function.__qualname__:
                del app.tasks[name]
