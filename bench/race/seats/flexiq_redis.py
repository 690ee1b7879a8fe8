"""FlexiQ on Redis. The settings are those of some that drained fastest here.

A worker thread had about one job a second, whatever the poll interval: with the default of one thread per core it
drains two or three jobs a second, with 400 several hundred.
"""

import os
from collections.abc import Sequence

import marks
from flexiq import Queue

queue = Queue(
    backend="redis",
    db_url=os.environ["RACE_STORE"],
    workers=400,
    pool_size=20,
    scheduler_poll_interval_ms=5,
    scheduler_batch_size=1_000,
)
work = queue.task(name="work")(marks.work)


def send(number: int, hold_s: float = 0.0) -> None:
    """One job."""
    work.delay(number, marks.TEXT, hold_s)


def send_many(numbers: Sequence[int]) -> None:
    """Many at once."""
    work.map([(number, marks.TEXT, 0.0) for number in numbers])


def call(number: int) -> int:
    """One job and its result, which is asked for every 5 ms."""
    return work.delay(number, marks.TEXT, 0.0).result(timeout=30, poll_interval=0.005, max_poll_interval=0.005)
