"""streaQ, with uvloop: 32 jobs at a time in each process and 64 more fetched; results are kept for a day."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import marks
from streaq import Worker

worker = Worker(
    redis_url=os.environ["RACE_STORE"], concurrency=32, prefetch=64, anyio_kwargs={"use_uvloop": True}
)  # fmt: skip
work = worker.task(name="work", silent=True, ttl=timedelta(days=1))(marks.awork)


@asynccontextmanager
async def opened() -> AsyncGenerator[None]:
    """The sender's connections."""
    async with worker:
        yield


async def send(number: int, hold_s: float = 0.0) -> None:
    """One job."""
    await work.enqueue(number, marks.TEXT, hold_s)


async def send_many(numbers: Sequence[int]) -> None:
    """Many in one pipeline."""
    await worker.enqueue_many([work.enqueue(number, marks.TEXT, 0.0) for number in numbers])


async def call(number: int) -> int:
    """One job and its result."""
    task = await work.enqueue(number, marks.TEXT, 0.0)
    return (await task.result(timeout=30)).result
