"""The tasks of the stories, as a user writes them: one module, imported by whoever sends and by whoever works."""

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

from windlass import App, Cancel, Dead, Retry, RetryAfter, Snooze, current_job

app = App(routes={"*.crawl": "web"})  # WINDLASS_URL, else sqlite:///windlass.db beside you


@dataclass
class Page:
    url: str
    words: int


@app.task(queue="mail", retry=Retry(5, base=0.01, cap=600), timeout=30, priority=5, tags=["mail"])
def send_email(order_id: int, to: str) -> str:
    return f"order {order_id} to {to}"


@app.task
async def crawl(url: str) -> Page:
    await asyncio.sleep(0)
    return Page(url, len(url))


@app.task
def who() -> int:
    return os.getpid()


@app.task(retry=Retry(3, base=0.001))
def flaky(marks: str, failures: int) -> int:
    """Fails the first so many times; each run leaves a mark in a file."""
    runs = mark(marks)
    if runs <= failures:
        raise ConnectionError(f"try {runs}")
    return runs


@app.task
def ends(how: str, marks: str) -> str:
    runs = mark(marks)
    match how, runs:
        case "retry", 1:
            raise RetryAfter(0.01)
        case "snooze", 1:
            raise Snooze(0.01)
        case "cancel", _:
            raise Cancel("sold out")
        case "dead", _:
            raise Dead("no such order")
        case _:
            return f"attempt {current_job().attempt}"


@app.task
def tell(lines: int) -> str:
    job = current_job()
    for number in range(lines):
        job.log(f"line {number}")
        job.progress(number + 1, lines, "telling")
    return job.id


@app.task
def hold_on(seconds: float, marks: str) -> str:
    mark(marks)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.005)
    return "done"


@app.task
async def hold_on_async(seconds: float, marks: str) -> str:
    mark(marks)
    await asyncio.sleep(seconds)
    return "done"


@app.task
def send_again(count: int) -> list[str]:
    """A task that sends."""
    return [send_email.delay(number, "x@y.z").id for number in range(count)]


def mark(marks: str) -> int:
    """Adds a line to a file and says how many there are: what a test can see of runs in another process."""
    with Path(marks).open("a") as file:
        file.write(f"{os.getpid()}\n")
    return len(Path(marks).read_text().splitlines())
