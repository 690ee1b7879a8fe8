"""Celery with the SQLAlchemy transport and the database result backend, each on an SQLite file of its own."""

import os
from collections.abc import Sequence

import marks
from celery import Celery, group

store = os.environ["RACE_STORE"]
app = Celery("race", broker=f"sqla+sqlite:///{store}", backend=f"db+sqlite:///{store}.results")
app.conf.update(worker_prefetch_multiplier=128, worker_enable_remote_control=False)
work = app.task(name="work")(marks.work)


def send(number: int, hold_s: float = 0.0) -> None:
    """One job."""
    work.delay(number, marks.TEXT, hold_s)


def send_many(numbers: Sequence[int]) -> None:
    """A group: the way Celery documents; it sends its members one by one."""
    group(work.s(number, marks.TEXT, 0.0) for number in numbers).apply_async()
