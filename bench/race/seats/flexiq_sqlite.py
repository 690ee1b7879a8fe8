"""FlexiQ on SQLite: WAL, not synced at commits. The settings are those of some that drained fastest here.

The defaults (a claim per poll, every 50 ms) drain a sixth of it; `push_dispatch` hears no sender of another process.
"""

import os
from collections.abc import Sequence

import marks
from flexiq import Queue

queue = Queue(db_path=os.environ["RACE_STORE"], workers=4, scheduler_poll_interval_ms=5, scheduler_batch_size=100)
work = queue.task(name="work")(marks.work)


def send(number: int, hold_s: float = 0.0) -> None:
    """One job."""
    work.delay(number, marks.TEXT, hold_s)


def send_many(numbers: Sequence[int]) -> None:
    """Many in one transaction."""
    work.map([(number, marks.TEXT, 0.0) for number in numbers])
