"""The tasks of the tests with limits. Each run leaves marks in a file, which a test can see from outside.

A line is `word pid job …`. A file's name in `until` is what a test makes to let a task go on.
"""

import asyncio
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from windlass import App, Cut, MemoryLimit, Middleware, Request, Retry, TimedOut, current_job

HERE = Path(os.environ["YARD"])
MB = 1_000_000


def mark(*words: object) -> None:
    """One line: whole or not at all, whoever else writes."""
    with (HERE / "marks").open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def tell(word: str, *more: object) -> None:
    mark(word, os.getpid(), current_job().id, *more)


class Lanes(Middleware):
    """A job with a tag is sent to the lane of that name."""

    def before_send(self, request: Request) -> Request:
        return msgspec.structs.replace(request, lane=request.tags[0]) if request.tags else request


app = App(middleware=[Lanes()])


@app.task(name="touch")
def touch() -> int:
    tell("begin")
    tell("end")
    return os.getpid()


@app.task(name="hold")
def hold(until: str) -> int:
    """Runs until a file is there."""
    tell("begin")
    wait(until)
    tell("end")
    return os.getpid()


@app.task(name="hold_async")
async def hold_async(until: str) -> int:
    tell("begin")
    while not (HERE / until).exists():
        await asyncio.sleep(0.005)
    tell("end")
    return os.getpid()


def wait(until: str) -> None:
    while not (HERE / until).exists():
        time.sleep(0.005)


# ── timeouts ────────────────────────────────────────────────────────────────────────────────────────────────


@app.task(name="heeds", timeout=1)
def heeds() -> None:
    tell("begin")
    try:
        wait("never")
    except TimedOut:
        tell("heeded")
        raise


def ignore_everything() -> None:
    while True:
        with suppress(BaseException):
            wait("never")


@app.task(name="swallows", timeout=1, grace=0.2)
def swallows() -> None:
    tell("begin")
    ignore_everything()


@app.task(name="swallows_at_first", timeout=2, grace=0.2, retry=Retry(2, base=0.01, on=TimeoutError))
def swallows_at_first() -> int:
    tell("begin")
    if current_job().attempt == 1:
        ignore_everything()
    return current_job().attempt


@app.task(name="never_again", timeout=1, grace=0, retry=Retry(2, not_on=TimeoutError))
def never_again() -> None:
    tell("begin")
    ignore_everything()


def by_hand(attempt: int) -> float:
    mark("asked", os.getpid(), attempt)
    return 0.01


@app.task(name="asks_for_its_delay", timeout=1, grace=0, retry=Retry.custom(by_hand, retries=1))
def asks_for_its_delay() -> None:
    tell("begin")
    ignore_everything()


@app.task(name="patient")
def patient() -> None:
    """Has no timeout of its own."""
    tell("begin")
    ignore_everything()


@app.task(name="backtracks", timeout=1, grace=0.2)
def backtracks() -> None:
    """Holds the GIL until it is killed."""
    tell("begin")
    re.match(r"(a+)+$", "a" * 64 + "b")


@app.task(name="blocks_the_loop", timeout=1, grace=0.2)
async def blocks_the_loop() -> None:
    """Gives the loop no turn in which it could be cancelled."""
    tell("begin")
    ignore_everything()


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────


@app.task(name="grows", memory="60MB")
def grows(to_mb: int, seconds: float = 0) -> int:
    """And stays so for a while."""
    tell("begin")
    parts = fill(to_mb)
    time.sleep(seconds)
    return len(parts)


def fill(to_mb: int) -> list[bytes]:
    """So much more in memory, whatever it was before; above the limit it waits for its end."""
    parts = [b"x" * MB for _ in range(to_mb)]
    if to_mb > 60:
        wait("never")
    return parts


@app.task(name="grows_at_first", memory="60MB", retry=Retry(1, base=0.01, on=MemoryLimit))
def grows_at_first() -> int:
    tell("begin")
    return len(fill(200 if current_job().attempt == 1 else 1))


@app.task(name="grows_elsewhere", memory="60MB")
def grows_elsewhere() -> None:
    tell("begin")
    subprocess.Popen([sys.executable, "-c", f"x = b'x' * {200 * MB}; input()"], stdin=subprocess.PIPE).wait()


kept: list[bytes] = []


@app.task(name="leaves_behind")
def leaves_behind(mb: int) -> int:
    """A library that keeps what it has."""
    kept.extend(b"x" * MB for _ in range(mb))
    return os.getpid()


@app.task(name="takes")
def takes(amount: int, until: str | None = None) -> int:
    """Says how much of something it was promised."""
    tell("begin", amount)
    if until is None:
        time.sleep(0.02)
    else:
        wait(until)
    tell("end", amount)
    return os.getpid()


@app.task(name="again")
def again(seconds: float) -> None:
    """Sees to it that another of its kind waits when it ends, until a file is there."""
    tell("begin")
    time.sleep(seconds)
    if not (HERE / "enough").exists():
        again.delay(seconds)


# ── the lease ───────────────────────────────────────────────────────────────────────────────────────────────


@app.task(name="in_lane")
def in_lane(until: str) -> int:
    tell("begin")
    try:
        wait(until)
    except Cut:
        tell("cut")
        raise
    return os.getpid()


@app.task(name="guarded")
def guarded() -> int:
    """Runs until a file is there that is called as its fence is, and does not heed a cut.

    Its effect is guarded by the fence, as a store of somebody else would do it.
    """
    fence = current_job().fence
    tell("begin", fence)
    while not (HERE / f"{fence}").exists():
        with suppress(Cut):
            wait(f"{fence}")
    with (HERE / "effects").open("a+") as file:
        file.seek(0)
        if fence > max(map(int, file.read().split()), default=0):
            file.write(f"{fence}\n")
    tell("end", fence)
    return os.getpid()
