"""The tasks of the tests with processes. Each run leaves marks in a file, which a test can see from outside."""

import os
import signal
import time
from pathlib import Path

from windlass import App, current_job

app = App(sweep=0.2)


def mark(marks: str, word: str) -> None:
    """One line: whole or not at all, whoever else writes."""
    with Path(marks).open("a") as file:
        file.write(f"{word} {os.getpid()} {current_job().id}\n")


@app.task(name="touch")
def touch(marks: str) -> int:
    mark(marks, "begin")
    mark(marks, "end")
    return os.getpid()


@app.task(name="hold")
def hold(marks: str, until: str) -> int:
    """Runs until a file is there."""
    mark(marks, "begin")
    while not Path(until).exists():
        time.sleep(0.005)
    mark(marks, "end")
    return os.getpid()


@app.task(name="kills")
def kills(marks: str) -> None:
    """Kills the process it runs in, as a segmentation fault or the kernel would."""
    mark(marks, "begin")
    os.kill(os.getpid(), signal.SIGKILL)
