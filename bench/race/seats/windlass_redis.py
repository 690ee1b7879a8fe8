"""Windlass on a server, with its defaults: results kept for a day. RACE_TASK says whether the task is a coroutine."""

import os
from collections.abc import Sequence

import marks

from windlass import App

app = App(os.environ["RACE_STORE"])
work = app.task(name="work")(marks.awork if os.environ.get("RACE_TASK") == "async" else marks.work)


def send(number: int, hold_s: float = 0.0) -> None:
    """One job."""
    work.delay(number, marks.TEXT, hold_s)


def send_many(numbers: Sequence[int]) -> None:
    """Many at once."""
    work.delay_many([(number, marks.TEXT, 0.0) for number in numbers])


def call(number: int) -> int:
    """One job and its result."""
    return work.delay(number, marks.TEXT, 0.0).get(timeout=30)


async def adelay(number: int) -> None:
    """One job, from a coroutine."""
    await work.adelay(number, marks.TEXT, 0.0)
