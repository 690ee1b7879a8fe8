"""Huey with SqliteHuey: WAL; RACE_FSYNC says whether commits are synced (yes is SQLite's default, and Huey's).

Results are kept until they are read. A task leaves the store when a worker takes it.
"""

import os

import marks
from huey import SqliteHuey

huey = SqliteHuey(filename=os.environ["RACE_STORE"], fsync=os.environ["RACE_FSYNC"] == "yes")
work = huey.task()(marks.work)


def send(number: int, hold_s: float = 0.0) -> None:
    """One job. There is no way to send many at once."""
    work(number, marks.TEXT, hold_s)
