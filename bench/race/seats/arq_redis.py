"""ARQ: its worker polls; every 5 ms instead of every half second, and with room for a hundred jobs."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import marks
from arq import ArqRedis, func
from arq.connections import RedisSettings

AT_ONCE = 100
pool = ArqRedis.from_url(os.environ["RACE_STORE"])


async def work(ctx: dict, number: int, text: str, hold_s: float) -> int:
    """The task, as ARQ calls it."""
    return await marks.awork(number, text, hold_s)


class WorkerSettings:
    """What `arq arq_redis.WorkerSettings` runs."""

    functions = (func(work, name="work", keep_result=86_400),)
    redis_settings = RedisSettings.from_dsn(os.environ["RACE_STORE"])
    max_jobs = 100
    queue_read_limit = 1_000
    poll_delay = 0.005


@asynccontextmanager
async def opened() -> AsyncGenerator[None]:
    """The sender's connections."""
    async with pool:
        yield


async def send(number: int, hold_s: float = 0.0) -> None:
    """One job."""
    await pool.enqueue_job("work", number, marks.TEXT, hold_s)


async def send_many(numbers: Sequence[int]) -> None:
    """There is no call for many: a hundred calls side by side."""
    for start in range(0, len(numbers), AT_ONCE):
        await asyncio.gather(*map(send, numbers[start : start + AT_ONCE]))


async def call(number: int) -> int:
    """One job and its result, which is asked for every 5 ms."""
    job = await pool.enqueue_job("work", number, marks.TEXT, 0.0)
    return await job.result(timeout=30, poll_delay=0.005)
