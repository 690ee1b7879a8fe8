"""RQ. Results are kept for 500 s (the default)."""

import os
from collections.abc import Sequence

import marks
from redis import Redis
from rq import Queue

queue = Queue(connection=Redis.from_url(os.environ["RACE_STORE"]))


def send(number: int, hold_s: float = 0.0) -> None:
    """One job."""
    queue.enqueue(marks.work, number, marks.TEXT, hold_s)


def send_many(numbers: Sequence[int]) -> None:
    """Many in one pipeline."""
    queue.enqueue_many([Queue.prepare_data(marks.work, (number, marks.TEXT, 0.0)) for number in numbers])


def call(number: int) -> int:
    """One job and its result."""
    result = queue.enqueue(marks.work, number, marks.TEXT, 0.0).latest_result(timeout=30)
    return result.return_value
