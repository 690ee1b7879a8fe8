"""What every job of the race does, whoever runs it: it writes one mark, 16 bytes: its number and the time it started.

The marks are how the race knows what ran, how often and when, without asking any contestant. The clock is the
machine's monotonic one, which all processes share.
"""

import asyncio
import os
import struct
import time
from functools import cache

TEXT = "x" * 173
"""The second argument of every job, so that arguments take about 200 bytes."""


@cache
def _file() -> int:
    """Opened once; a write of this size goes to the end whole, whoever else writes."""
    return os.open(os.environ["RACE_MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def _mark(number: int) -> None:
    os.write(_file(), struct.pack("<qq", number, time.monotonic_ns()))


def work(number: int, text: str, hold_s: float) -> int:
    """The task: marks its start, sleeps if it is told to, and gives its number as the result."""
    _mark(number)
    if hold_s:
        time.sleep(hold_s)
    return number


async def awork(number: int, text: str, hold_s: float) -> int:
    """The same as a coroutine."""
    _mark(number)
    if hold_s:
        await asyncio.sleep(hold_s)
    return number
