"""What a job shows whose process died under it: an error, as if its task had raised it."""

from __future__ import annotations

import signal

from windlass.core.errors import Crashed, MemoryLimit
from windlass.core.limits import show_apart


def over_memory(used: int, memory: int, what: str = "The task") -> MemoryLimit:
    """The error of a job that was killed because it used more bytes than its memory."""
    much, allowed = show_apart(used, memory)
    return MemoryLimit(
        f"{what} used {much}, more than its memory of {allowed}.",
        "Let it use less, or give it more: memory=…, or --memory.",
    )


def crashed(status: int) -> Crashed:
    """The error of a job whose process ended with that status, as `subprocess` tells it."""
    return Crashed(f"The process that ran it {ending(status)}.", "Look for what it last said in the worker's log.")


def runner_died(status: int) -> Crashed:
    """The error of a script whose runner ended with that status, and took it along."""
    return Crashed(f"The runner of the script {ending(status)}, and the script with it.", "Its log has what it said.")


def silent() -> Crashed:
    """The error of a job whose process did not get any further, and was killed for it."""
    return Crashed(
        "The process that ran it showed no sign of life for long, and was killed.",
        "A library may hold the interpreter's lock, or the process was stopped.",
    )


def unjudged(why: str) -> Crashed:
    """The error of a job whose process was killed for its sake, and nobody could say what its policy makes of it."""
    return Crashed(
        f"The process that ran it was killed for its {why}, and no runner said what follows.",
        "A hook or a retry policy may hang, or all runners are held up.",
    )


def ending(status: int) -> str:
    """How a process ended, as the end of a sentence about it."""
    if status >= 0:
        return f"ended with exit code {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal has no name
        return f"was killed by signal {-status}"
