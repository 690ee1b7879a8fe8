"""Taskiq with taskiq-redis, and uvloop. RACE_BROKER: a list, which loses what a worker took, or a stream with acks.

Results are in a database of their own on the one server, for a day.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import marks
from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend, RedisStreamBroker

AT_ONCE = 100
store = os.environ["RACE_STORE"].removesuffix("/0")
kinds = {"list": ListQueueBroker, "stream": RedisStreamBroker}
broker = kinds[os.environ["RACE_BROKER"]](f"{store}/0").with_result_backend(
    RedisAsyncResultBackend(f"{store}/1", result_ex_time=86_400)
)
work = broker.task(task_name="work")(marks.awork)


@asynccontextmanager
async def opened() -> AsyncGenerator[None]:
    """The sender's connections."""
    await broker.startup()
    try:
        yield
    finally:
        await broker.shutdown()


async def send(number: int, hold_s: float = 0.0) -> None:
    """One job."""
    await work.kiq(number, marks.TEXT, hold_s)


async def send_many(numbers: Sequence[int]) -> None:
    """There is no call for many: a hundred calls side by side."""
    for start in range(0, len(numbers), AT_ONCE):
        await asyncio.gather(*map(send, numbers[start : start + AT_ONCE]))


async def call(number: int) -> int:
    """One job and its result, which is asked for every 5 ms."""
    task = await work.kiq(number, marks.TEXT, 0.0)
    return (await task.wait_result(check_interval=0.005, timeout=30)).return_value
