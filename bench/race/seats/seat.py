"""Runs in a contestant's own environment: `python seat.py MODULE VERB [number …]` sends jobs and prints what it took.

A contestant's module offers

    send(number, hold_s=0.0)   sends one job; it returns when the store has acknowledged it
    send_many(numbers)         the same for many at once, the fastest way it documents; left out if there is none
    call(number)               sends one job, waits for its result and returns it; left out if nobody asks for it
    adelay(number)             sends one job from a coroutine; left out if nobody asks for it

and the task, which is `marks.work` or `marks.awork`. If `send` is a coroutine function, all of them are, one loop runs
them, and the module may have an async context manager `opened`, in which they happen. RACE_STORE says where the store
is. How its worker is started stands in the file of its group. Nothing here may need a package: it runs on whatever the
contestant needs.
"""

import asyncio
import importlib
import inspect
import json
import sys
import time
from collections.abc import Callable, Coroutine
from importlib import metadata
from types import ModuleType
from typing import Any

CHUNK = 1_000
"""How many go into one call of `send_many`."""
WARM = 100
"""Sends before the clock starts: connections are open, code is warm."""

Answer = dict[str, Any]


async def fill(seat: ModuleType, jobs: int) -> Answer:
    """Puts in so many jobs, by the fastest way there is."""
    cpu = time.process_time()
    if hasattr(seat, "send_many"):
        for start in range(0, jobs, CHUNK):
            await _done(seat.send_many(range(start, min(start + CHUNK, jobs))))
    else:
        for number in range(jobs):
            await _done(seat.send(number))
    return {"cpu_s": time.process_time() - cpu}


async def sends(seat: ModuleType, many: int, ones: int, limit_s: float) -> Answer:
    """The pace of sending: many at once if it can be had, then one by one. Each ends after `limit_s` at the latest."""
    found: Answer = {}
    for number in range(WARM):
        await _done(seat.send(number))
    if hasattr(seat, "send_many"):
        chunk = min(CHUNK, many)
        found["many"] = await _timed(lambda start: seat.send_many(range(start, start + chunk)), many, chunk, limit_s)
    else:
        # The file has the size that it has for the others by now: a file that grows makes every sync dearer.
        await fill(seat, ones)
    found["ones"] = await _timed(seat.send, ones, 1, limit_s)
    return found


async def together(seat: ModuleType, jobs: int, coroutines: int, limit_s: float) -> Answer:
    """The pace of so many coroutines that send one by one, side by side."""
    await seat.adelay(0)
    share, sent = jobs // coroutines, 0
    wall = time.perf_counter()

    async def one(first: int) -> None:
        nonlocal sent
        for number in range(first, first + share):
            if time.perf_counter() - wall > limit_s:
                return
            await seat.adelay(number)
            sent += 1

    await asyncio.gather(*(one(share * which) for which in range(coroutines)))
    return {"jobs": sent, "wall_s": time.perf_counter() - wall}


async def paced(seat: ModuleType, jobs: int, apart_s: float) -> Answer:
    """One job after the other with a pause between them; says when each was sent."""
    sent_ns: list[int] = []
    await _done(seat.send(jobs))  # opens the store; it is not counted
    for number in range(jobs):
        await _pause(seat, apart_s)
        sent_ns.append(time.monotonic_ns())
        await _done(seat.send(number))
    return {"sent_ns": sent_ns}


async def calls(seat: ModuleType, jobs: int, apart_s: float) -> Answer:
    """One job after the other, each with its result, with a pause between them; says how long each took."""
    took_ns: list[int] = []
    await _done(seat.call(jobs))  # opens the store; it is not counted
    for number in range(jobs):
        await _pause(seat, apart_s)
        began_ns = time.monotonic_ns()
        result = await _done(seat.call(number))
        took_ns.append(time.monotonic_ns() - began_ns)
        if result != number:
            raise ValueError(f"The result of job {number} is {result!r}.")
    return {"took_ns": took_ns}


async def hold(seat: ModuleType, hold_s: float) -> Answer:
    """Sends one job that takes so long."""
    await _done(seat.send(0, hold_s))
    return {}


def versions() -> Answer:
    """What is installed here."""
    return {"packages": {package.metadata["Name"]: package.version for package in metadata.distributions()}}


async def _timed(send: Callable[[int], Any], jobs: int, step: int, limit_s: float) -> Answer:
    wall, cpu = time.perf_counter(), time.process_time()
    until, done = wall + limit_s, 0
    while done < jobs and time.perf_counter() < until:
        sent = send(done)
        if sent is not None:
            await sent
        done += step
    return {"jobs": done, "wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


async def _done(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _pause(seat: ModuleType, seconds: float) -> None:
    if _needs_loop(seat):
        await asyncio.sleep(seconds)
    else:
        time.sleep(seconds)


def _needs_loop(seat: ModuleType) -> bool:
    return inspect.iscoroutinefunction(seat.send)


def _without_loop(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Runs what waits for nothing: around the calls of a product for plain code no loop must run."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("A module without coroutines waited for a loop.")


async def _in_loop(seat: ModuleType, work: Coroutine[Any, Any, Answer]) -> Answer:
    if not hasattr(seat, "opened"):
        return await work
    async with seat.opened():
        return await work


VERBS: dict[str, Callable[..., Coroutine[Any, Any, Answer]]] = {
    "fill": fill, "sends": sends, "together": together, "paced": paced, "calls": calls, "hold": hold,
}  # fmt: skip


def main(module: str, verb: str, *numbers: str) -> None:
    """Does what it is asked and prints one line of JSON, the last one of its output."""
    if verb == "versions":
        answer = versions()
    else:
        given = [float(number) if "." in number else int(number) for number in numbers]
        seat = importlib.import_module(module)
        work = VERBS[verb](seat, *given)
        looped = verb == "together" or _needs_loop(seat)
        answer = asyncio.run(_in_loop(seat, work)) if looped else _without_loop(work)
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
