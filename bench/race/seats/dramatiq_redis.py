"""Dramatiq with its Redis broker, and results in a database of their own on the one server.

Where there is a RabbitMQ, messages go through it, and only results lie on the server. Messages are persistent there and
their queue is durable, which are the defaults. A send waits for the broker's confirmation, which is not the default: in
this race it returns when the store has the job, whoever sends.
"""

import os

import dramatiq
import marks
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

store = os.environ["RACE_STORE"].removesuffix("/0")
if "RACE_AMQP" in os.environ:
    from dramatiq.brokers.rabbitmq import RabbitmqBroker

    broker = RabbitmqBroker(url=os.environ["RACE_AMQP"], confirm_delivery=True)
else:
    from dramatiq.brokers.redis import RedisBroker

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
