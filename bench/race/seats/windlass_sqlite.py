"""Windlass on sqlite, with its defaults: WAL, synced at every commit, results kept for a day."""

import os
from collections.abc import Sequence

import marks

from windlass import App

app = App(f"sqlite:///{os.environ['RACE_STORE']}")
work = app.task(name="work")(marks.work)


def send(number: int, hold_s: float = 0.0) -> None:
    """One job."""
    work.delay(number, marks.TEXT, hold_s)


def send_many(numbers: Sequence[int]) -> None:
    """Many at once."""
    work.delay_many([(number, marks.TEXT, 0.0) for number in numbers])
