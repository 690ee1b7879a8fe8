"""SAQ on Redis: a hundred jobs at a time in each process; results are kept for ten minutes (the default)."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import marks
from saq import Queue

AT_ONCE = 100
queue = Queue.from_url(os.environ["RACE_STORE"])


async def work(ctx: dict, *, number: int, text: str, hold_s: float) -> int:
    """The task, as SAQ calls it."""
    return await marks.awork(number, text, hold_s)


settings = {"queue": queue, "functions": [work], "concurrency": 100}


@asynccontextmanager
async def opened() -> AsyncGenerator[None]:
    """The sender's connections."""
    await queue.connect()
    try:
        yield
    finally:
        await queue.disconnect()


async def send(number: int, hold_s: float = 0.0) -> None:
    """One job."""
    await queue.enqueue("work", number=number, text=marks.TEXT, hold_s=hold_s)


async def send_many(numbers: Sequence[int]) -> None:
    """There is no call for many that does not wait for their ends: a hundred calls side by side."""
    for start in range(0, len(numbers), AT_ONCE):
        await asyncio.gather(*map(send, numbers[start : start + AT_ONCE]))


async def call(number: int) -> int:
    """One job and its result."""
    return await queue.apply("work", timeout=30, poll_interval=0.005, number=number, text=marks.TEXT, hold_s=0.0)
