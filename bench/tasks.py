"""The app of the workers with processes: `windlass worker bench.tasks`, its store in WINDLASS_URL."""

from __future__ import annotations

import os

from bench.stores import LIMITS, TASK
from bench.work import count
from windlass import App, Settings

app = App(settings=Settings(url=os.environ["WINDLASS_URL"], limits=LIMITS))


@app.task(name=TASK)
def noop(text: str) -> None:
    """What every job of a drain does."""


@app.task(name="bench.work")
def work(units: int) -> int:
    """Keeps a core busy."""
    return count(units)
