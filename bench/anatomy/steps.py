"""Steps: which of our code does what for a job, and so what a sampled stack was doing.

The innermost frame that the table names decides. What is called from everywhere (clocks, bells, codecs) is not named:
it belongs to whoever called it. Nor is the loop of all services, below which every stack of a supervisor lies: else
whatever the table does not know would pass as known. Only the time that the loop takes for itself is "the rest".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

Process = Literal["supervisor", "runner"]

REST, KERNEL, UNKNOWN = "the rest", "in the kernel", "not attributed"
LOOP, CORE = "windlass/worker/service.py", "windlass/core/"


class Frame(NamedTuple):
    """A function, as py-spy names it: its file from the package on, and its qualified name."""

    file: str
    function: str


NOWHERE = Frame("no file", "no function")

Stack = tuple[Frame, ...]
"""The outermost frame first; empty where no Python was found."""

STEPS: dict[Process, dict[str, tuple[str, ...]]] = {
    "supervisor": {
        "round trip": (
            "windlass/engines/redis/wire.py",
            "windlass/engines/redis/link.py",
            "windlass/engines/redis/engine.py RedisEngine._run",
        ),
        "decode": (
            "windlass/engines/redis/engine.py RedisEngine.claim",
            "windlass/engines/redis/values.py read_claim",
            "windlass/engines/redis/rows.py",
            "windlass/engines/redis/requests.py",
        ),
        "dispatch": (
            "windlass/worker/consumer.py",
            "windlass/worker/dispatcher.py",
            "windlass/worker/desk.py",
            "windlass/worker/room.py",
            "windlass/worker/roster.py",
            "windlass/worker/suspects.py",
            "windlass/worker/budget.py",
            "windlass/worker/crew.py Crew.hungry",
            "windlass/worker/foreman.py Foreman.wake",
            "windlass/worker/runners.py Runners.put",
            "windlass/worker/runners.py Runners.wishes",
            "windlass/worker/runner_process.py RunnerProcess.take_in",
            "windlass/worker/runner_process.py RunnerProcess.let_go",
            "windlass/worker/runner_process.py RunnerProcess.room_for",
        ),
        "pipe": (
            "windlass/worker/frames.py",
            "windlass/worker/foreman.py Foreman.rest",
            "windlass/worker/foreman.py Foreman._hear",
            "windlass/worker/runner_process.py RunnerProcess.send",
            "windlass/worker/runner_process.py RunnerProcess.tell",
            "windlass/worker/runner_process.py RunnerProcess.flush",
            "windlass/worker/runner_process.py RunnerProcess.read",
        ),
        "settle": (
            "windlass/worker/settler.py",
            "windlass/worker/runners.py Runners.hear",
            "windlass/worker/runners.py Runners.answered",
            "windlass/worker/crew.py Crew.settle",
            "windlass/worker/crew.py Crew._answered",
            "windlass/engines/redis/engine.py RedisEngine.settle",
            "windlass/engines/redis/values.py pack_settlement",
        ),
        REST: (
            "windlass/worker/heartbeat.py",
            "windlass/worker/janitor.py",
            "windlass/worker/bellman.py",
            "windlass/worker/warden.py",
            "windlass/worker/watchdog.py",
            "windlass/worker/judging.py",
            "windlass/worker/supervisor.py",
            "windlass/worker/foreman.py Foreman.tick",
            "windlass/worker/runner_process.py RunnerProcess._wait",
            "windlass/engines/redis/listen.py",
            "windlass/engines/redis/ear.py",
        ),
    },
    "runner": {
        "pipe": (
            "windlass/worker/frames.py",
            "windlass/worker/runner.py Line.send",
            "windlass/worker/runner.py Line.next",
            "windlass/worker/runner.py Runner.settle",
            "windlass/worker/runner.py Runner.obey",
            "windlass/worker/runner.py main",
        ),
        "decode": (
            "windlass/worker/executor.py Executor.bind",
            "windlass/core/signature.py",
        ),
        "run": (
            "windlass/worker/executor.py",
            "windlass/worker/in_process.py",
            "windlass/worker/pools/aio.py",
            "windlass/worker/pools/both.py",
            "windlass/worker/pools/pool.py",
            "windlass/worker/pools/threads.py",
        ),
        "the task itself": ("marks.py",),
        REST: (
            "windlass/worker/watchman.py",
            "windlass/worker/spool.py",
            "windlass/worker/runner.py Runner.send_notes",
            "windlass/worker/runner.py Runner.run_errands",
        ),
    },
}
"""By process and step: a file, or one function of it, with what is defined within. A function goes before its file."""

PLACES: Mapping[Process, Mapping[str, str]] = {
    process: {place: step for step, places in steps.items() for place in places} for process, steps in STEPS.items()
}


def step_of(stack: Stack, process: Process) -> str:
    """The step that a stack was at."""
    places = PLACES[process]
    for frame in reversed(stack):
        step = places.get(f"{frame.file} {frame.function.partition('.<locals>')[0]}") or places.get(frame.file)
        if step is not None:
            return step
    return REST if _innermost(stack).file == LOOP else UNKNOWN


def divided(samples: Mapping[Stack, int], process: Process) -> Counter[str]:
    """How many samples each step has."""
    steps: Counter[str] = Counter()
    for stack, count in samples.items():
        steps[step_of(stack, process)] += count
    return steps


def unknown(samples: Mapping[Stack, int], process: Process) -> Counter[str]:
    """The innermost frames of ours where samples belong to no step: what the table lacks."""
    frames: Counter[str] = Counter()
    for stack, count in samples.items():
        if step_of(stack, process) == UNKNOWN:
            frames[" ".join(_innermost(stack))] += count
    return frames


def _innermost(stack: Sequence[Frame]) -> Frame:
    """Of ours, or of all where none is ours. What is in core serves whoever calls it."""
    ours = [frame for frame in stack if frame.file.startswith("windlass/") and not frame.file.startswith(CORE)]
    return (ours or stack or [NOWHERE])[-1]
