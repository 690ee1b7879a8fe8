"""docket: results are kept for a quarter of an hour (the default). `python docket_redis.py` is its worker.

The command line takes whole seconds only, and its worker is to look for work every 5 ms, as those of others are. With
200 jobs at a time, as others have, it failed with "Too many connections"; with 50 it does not.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import marks
from docket import Docket, Worker

docket = Docket(url=os.environ["RACE_STORE"])
tasks = [marks.awork]


@asynccontextmanager
async def opened() -> AsyncGenerator[None]:
    """The sender's connections."""
    async with docket:
        docket.register(marks.awork)
        yield


async def send(number: int, hold_s: float = 0.0) -> None:
    """One job."""
    await docket.add(marks.awork)(number, marks.TEXT, hold_s)


async def send_many(numbers: Sequence[int]) -> None:
    """Many in one pipeline."""
    await docket.add_many([docket.call(marks.awork)(number, marks.TEXT, 0.0) for number in numbers])


async def call(number: int) -> int:
    """One job and its result."""
    execution = await docket.add(marks.awork)(number, marks.TEXT, 0.0)
    return await execution.get_result(timeout=timedelta(seconds=30))


if __name__ == "__main__":
    asyncio.run(
        Worker.run(
            url=os.environ["RACE_STORE"],
            concurrency=50,
            message_batch=50,
            minimum_check_interval=timedelta(milliseconds=5),
            tasks=["docket_redis:tasks"],
        )
    )
