"""What to type so that a job that waits can run: the words of this door for the causes that `ops.why` names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from windlass.ops.why import Cause

REMEDIES: Final[dict[str, str | None]] = {
    "queue_paused": "Resume it: windlass queues resume {queue}",
    "no_worker": "For example: windlass worker tasks.py",
    "queue_not_taken": "Start one: windlass worker tasks.py -Q {queue}",
    "task_not_known": "Start one with its code: windlass worker tasks.py -Q {queue}",
    "scripts_not_run": "For example: windlass worker --scripts jobs/",
    "too_big": None,  # the sentence says how large one would have to be
    "not_due": None,
}


def remedy(cause: Cause | None, queue: str) -> str | None:
    """The command that removes the cause, introduced in a word or two; None where there is none."""
    todo = None if cause is None else REMEDIES[cause]
    return None if todo is None else todo.format(queue=queue)


def with_remedy(said: str, cause: Cause | None, queue: str) -> str:
    """The sentence why a job waits, and behind it what to type."""
    todo = remedy(cause, queue)
    return said if todo is None else f"{said} {todo}"
