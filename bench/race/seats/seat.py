"""Runs in a contestant's own environment: `python seat.py MODULE VERB [number …]` sends jobs and prints what it took.

A contestant's module offers

    send(number, hold_s=0.0)   sends one job; it returns when the store has acknowledged it
    send_many(numbers)         the same for many at once, the fastest way it documents; left out if there is none

and the task, which is `marks.work`. The path of the store is in RACE_STORE. How its worker is started stands in
entries.toml. Nothing here may need a package: it runs on whatever the contestant needs.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable
from importlib import metadata
from types import ModuleType
from typing import Any

CHUNK = 1_000
"""How many go into one call of `send_many`."""
WARM = 100
"""Sends before the clock starts: connections are open, code is warm."""


def fill(seat: ModuleType, jobs: int) -> dict[str, Any]:
    """Puts in so many jobs, by the fastest way there is."""
    if hasattr(seat, "send_many"):
        for start in range(0, jobs, CHUNK):
            seat.send_many(range(start, min(start + CHUNK, jobs)))
    else:
        for number in range(jobs):
            seat.send(number)
    return {"jobs": jobs}


def sends(seat: ModuleType, many: int, ones: int, limit_s: float) -> dict[str, Any]:
    """The pace of sending: many at once if it can be had, then one by one. Each ends after `limit_s` at the latest."""
    found: dict[str, Any] = {}
    for number in range(WARM):
        seat.send(number)
    if hasattr(seat, "send_many"):
        chunk = min(CHUNK, many)
        found["many"] = _timed(lambda start: seat.send_many(range(start, start + chunk)), many, chunk, limit_s)
    else:
        # The file has the size that it has for the others by now: a file that grows makes every sync dearer.
        fill(seat, ones)
    found["ones"] = _timed(seat.send, ones, 1, limit_s)
    return found


def paced(seat: ModuleType, jobs: int, apart_s: float) -> dict[str, Any]:
    """One job after the other with a pause between them; says when each was sent."""
    sent_ns: list[int] = []
    seat.send(jobs)  # opens the store; it is not counted
    for number in range(jobs):
        time.sleep(apart_s)
        sent_ns.append(time.monotonic_ns())
        seat.send(number)
    return {"sent_ns": sent_ns}


def hold(seat: ModuleType, hold_s: float) -> dict[str, Any]:
    """Sends one job that takes so long."""
    seat.send(0, hold_s)
    return {}


def versions() -> dict[str, Any]:
    """What is installed here."""
    return {"packages": {package.metadata["Name"]: package.version for package in metadata.distributions()}}


def _timed(send: Callable[[int], object], jobs: int, step: int, limit_s: float) -> dict[str, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    until, done = wall + limit_s, 0
    while done < jobs and time.perf_counter() < until:
        send(done)
        done += step
    return {"jobs": done, "wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


def main(module: str, verb: str, *numbers: str) -> None:
    """Does what it is asked and prints one line of JSON, the last one of its output."""
    if verb == "versions":
        answer = versions()
    else:
        given = [float(number) if "." in number else int(number) for number in numbers]
        verbs: dict[str, Callable[..., dict[str, Any]]] = {"fill": fill, "sends": sends, "paced": paced, "hold": hold}
        answer = verbs[verb](importlib.import_module(module), *given)
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
