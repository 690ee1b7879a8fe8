"""The tasks that runners run under fire: good ones, poison, and some that hold on.

`windlass worker tests.soak.tasks`, with the folder of the story in SOAK_FOLDER and the store in WINDLASS_URL.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import resource
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from tests.soak.recorder import Ledger
from tests.soak.runs import Marks
from windlass import App, current_job

FOLDER = Path(os.environ["SOAK_FOLDER"])

app = App()
marks = Marks(FOLDER / "marks")
ledger = Ledger(FOLDER / "ledger")


def _effect() -> None:
    job = current_job()
    ledger.put([(job.job_id, job.fence)])


@app.task(name="good", keep_result=0)
def good(ms: int) -> None:
    """Takes its time and has its effect."""
    marks.put("begin")
    time.sleep(ms / 1e3)
    _effect()
    marks.put("end")


@app.task(name="pill", keep_result=0)
def pill(kind: str) -> None:
    """Ends its process, each kind in its own way."""
    marks.put("begin")
    POISONS[kind]()


def _run_out_of_memory() -> None:
    """The kernel refuses memory, and the process aborts, as code in C and C++ does that cannot go on without.

    The limit is one of the whole process: nobody else gets a turn until it is dead, for a neighbour's `MemoryError`
    would be a failure of its own.
    """
    sys.setswitchinterval(1_000)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 20, resource.RLIM_INFINITY))
    try:
        bytearray(64 << 20)
    except MemoryError:
        os.abort()


POISONS: dict[str, Callable[[], object]] = {
    "segfault": lambda: ctypes.string_at(0),
    "sigkill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "memory": _run_out_of_memory,
    "exit": lambda: os._exit(0),
}


@app.task(name="hold", keep_result=0)
def hold() -> None:
    """Runs until the story lets its job go; then it has its effect."""
    marks.put("begin")
    gate = FOLDER / f"go-{current_job().job_id.hex()}"
    while not gate.exists():
        time.sleep(0.002)
    _effect()
    marks.put("end")


@app.task(name="deaf", keep_result=0)
def deaf() -> None:
    """Runs until the story lets this run go, whatever it is told meanwhile; then it has its effect."""
    marks.put("begin")
    gate = FOLDER / f"go-{current_job().fence}"
    while True:
        try:  # around all of it: it may be told anywhere
            while not gate.exists():
                time.sleep(0.002)
            break
        except BaseException:
            marks.put("told")
    _effect()
    marks.put("end")


@app.task(name="spin", keep_result=0, timeout=0.3, grace=0.2)
def spin() -> None:
    """A loop in C that never lets go of the GIL."""
    marks.put("begin")
    deque(itertools.repeat(None), maxlen=0)
