"""Dramatiq with its Redis broker, and results in a database of their own on the one server."""

import os

import dramatiq
import marks
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

store = os.environ["RACE_STORE"].removesuffix("/0")
broker = RedisBroker(url=f"{store}/0")
broker.add_middleware(Results(backend=RedisBackend(url=f"{store}/1")))
dramatiq.set_broker(broker)
work = dramatiq.actor(marks.work, actor_name="work", store_results=True)


def send(number: int, hold_s: float = 0.0) -> None:
    """One job. There is no way to send many at once."""
    work.send(number, marks.TEXT, hold_s)


def call(number: int) -> int:
    """One job and its result."""
    return work.send(number, marks.TEXT, 0.0).get_result(block=True, timeout=30_000)
