"""The tasks of the tests with runners: some do well, some are the death of their process. Each run leaves marks."""

import asyncio
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from windlass import App, Dead, Retry, current_job

app = App(sweep=0.2)
FOLDER = Path(os.environ["MARKS_FOLDER"])


def mark(word: str) -> None:
    """One line: whole or not at all, whoever else writes."""
    with (FOLDER / "marks").open("a") as file:
        file.write(f"{word} {os.getpid()} {current_job().id}\n")


# ── tasks that do well ──────────────────────────────────────────────────────────────────────────────────


@app.task(name="touch")
def touch() -> int:
    mark("begin")
    mark("end")
    return os.getpid()


@app.task(name="touch_later")
async def touch_later() -> int:
    mark("begin")
    await asyncio.sleep(0)
    mark("end")
    return os.getpid()


@app.task(name="hold")
def hold(until: str) -> int:
    """Runs until a file is there."""
    mark("begin")
    while not (FOLDER / until).exists():
        time.sleep(0.005)
    mark("end")
    return os.getpid()


@app.task(name="hold_later")
async def hold_later(until: str) -> int:
    mark("begin")
    while not (FOLDER / until).exists():
        await asyncio.sleep(0.005)
    mark("end")
    return os.getpid()


@app.task(name="tell")
def tell(until: str) -> None:
    """Says something, and goes on until a file is there."""
    job = current_job()
    job.log("half of it")
    job.progress(1, 2)
    while not (FOLDER / until).exists():
        time.sleep(0.005)
    job.log("all of it")


@app.task(name="send")
def send() -> str:
    """Sends a job from inside a job."""
    return touch.delay().id


# ── tasks that fail ─────────────────────────────────────────────────────────────────────────────────────


@app.task(name="fails")
def fails(text: str) -> None:
    raise ValueError(text)


@app.task(name="fails_once", retry=Retry(1, base=0.01))
def fails_once() -> int:
    if current_job().attempt == 1:
        raise ValueError("not yet")
    return current_job().attempt


@app.task(name="exits")
def exits() -> None:
    sys.exit(3)


@app.task(name="raises_in_a_thread")
def raises_in_a_thread() -> int:
    thread = threading.Thread(target=lambda: 1 // 0)
    thread.start()
    thread.join()
    return os.getpid()


# ── tasks that their process does not survive ───────────────────────────────────────────────────────────


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


WAYS = {"segfault": lambda: ctypes.string_at(0), "exit": lambda: os._exit(3), "kill": kill, "abort": os.abort}


@app.task(name="dies", retry=Retry(10, base=0.01))
def dies(way: str) -> None:
    mark("begin")
    WAYS[way]()


@app.task(name="dies_untried", retry=0)
def dies_untried(way: str) -> None:
    mark("begin")
    WAYS[way]()


@app.task(name="dies_once")
def dies_once() -> int:
    """Dies the first time."""
    mark("begin")
    first = FOLDER / f"{current_job().id} was here"
    if not first.exists():
        first.touch()
        kill()
    return os.getpid()


@app.task(name="holds_the_gil")
def holds_the_gil() -> None:
    """In C, where no thread of this process gets a turn."""
    mark("begin")
    ctypes.PyDLL(None).sleep(600)


@app.task(name="grows")
def grows(megabytes: int) -> int:
    """Leaves something behind in memory."""
    mark("begin")
    _kept.append(b"x" * (megabytes << 20))
    mark("end")
    return os.getpid()


_kept: list[bytes] = []


@app.task(name="starts_a_program")
def starts_a_program() -> None:
    """And waits for it for long."""
    program = subprocess.Popen(["sleep", "600"])
    mark(f"program:{program.pid}")
    program.wait()


@app.task(name="leaves_a_thread")
def leaves_a_thread() -> int:
    """Python waits for that thread at the end of the process, for ever."""
    threading.Thread(target=time.sleep, args=(600,)).start()
    return os.getpid()


@app.task(name="dies_into_a_grave", dead_queue="graves")
def dies_into_a_grave() -> None:
    mark("begin")
    kill()


@app.task(name="babbles")
def babbles() -> None:
    """Writes to the socket of its runner what is no message, as damaged memory would."""
    mark("begin")
    os.write(int(sys.argv[1]), b"\x03\0\0\0xyz")
    time.sleep(600)


@app.task(name="ends_oddly")
def ends_oddly(how: str) -> None:
    """Says its end as nobody should."""
    reasons: dict[str, Any] = {"error": ValueError("no such id"), "half": "b\udcff", "number": 404, "long": "x" * 10**6}
    raise Dead(reasons[how])


@app.task(name="ends_a_child")
def ends_a_child() -> int | None:
    """Ends a process that it has forked, as `multiprocessing` does."""
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    child.start()
    child.terminate()
    child.join(30)
    return child.exitcode


@app.task(name="forks")
def forks() -> int:
    """Comes back from one call in two processes."""
    mark("begin")
    child = os.fork()
    if child:
        mark(f"child:{child}")
    return os.getpid()
