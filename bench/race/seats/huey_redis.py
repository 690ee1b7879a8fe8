"""Huey with RedisHuey: a job leaves the server when a worker takes it; results are kept until they are read."""

import os

import marks
from huey import RedisHuey

huey = RedisHuey("race", url=os.environ["RACE_STORE"])
work = huey.task()(marks.work)


def send(number: int, hold_s: float = 0.0) -> None:
    """One job. There is no way to send many at once."""
    work(number, marks.TEXT, hold_s)


def call(number: int) -> int:
    """One job and its result, which is asked for every 5 ms at the latest."""
    return work(number, marks.TEXT, 0.0).get(blocking=True, timeout=30, max_delay=0.005)
