"""Celery with its Redis transport and result backend, each in a database of its own on the one server.

Where there is a RabbitMQ, messages go through it, and only results lie on the server. Messages are persistent there and
their queue is durable, which are the defaults. A send waits for the broker's confirmation, which is not the default: in
this race it returns when the store has the job, whoever sends.

A message is acknowledged when it is taken, which is the default; with `acks_late` it would come back after an hour, or
from RabbitMQ at once.
"""

import os
from collections.abc import Sequence

import marks
from celery import Celery, group

store = os.environ["RACE_STORE"].removesuffix("/0")
app = Celery("race", broker=os.environ.get("RACE_AMQP", f"{store}/0"), backend=f"{store}/1")
app.conf.update(
    worker_prefetch_multiplier=int(os.environ["RACE_PREFETCH"]),
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)
if "RACE_AMQP" in os.environ:
    app.conf.broker_transport_options = {"confirm_publish": True}
work = app.task(name="work")(marks.work)


def send(number: int, hold_s: float = 0.0) -> None:
    """One job."""
    work.delay(number, marks.TEXT, hold_s)


def send_many(numbers: Sequence[int]) -> None:
    """A group: the way Celery documents; it sends its members one by one."""
    group(work.s(number, marks.TEXT, 0.0) for number in numbers).apply_async()


def call(number: int) -> int:
    """One job and its result."""
    return work.delay(number, marks.TEXT, 0.0).get(timeout=30)
