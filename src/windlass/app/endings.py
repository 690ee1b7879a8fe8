"""How a task says its own end: raise one of these, from any depth.

    raise RetryAfter(30)      try again in 30 s; counts as an attempt
    raise Snooze(60)          not yet: run again in a minute; costs no attempt
    raise Cancel("sold out")  nothing is to be done any more
    raise Dead("no such id")  no further try would help, whatever the retry policy says

`Interrupted` goes the other way: the worker raises it inside a task whose time is over, whose cancel was asked for, or
which another worker may run by now. It is no `Exception`, so that a broad `except Exception` in a task does not swallow
it.
"""

from __future__ import annotations

from typing import Final

from windlass.core.durations import Duration, to_us
from windlass.core.text import storable

LONGEST_REASON: Final = 1_000
"""In characters; what else there is to say belongs into the job's log."""


class Ending(Exception):
    """What a task raises to say how this attempt ends."""


def _as_text(reason: object) -> str | None:
    """The reason as it can be stored, whatever was given for one: `raise Dead(error)` is a task's last word."""
    if reason is None or reason == "":
        return None
    try:
        text = storable(str(reason))
    except Exception:
        text = f"({type(reason).__qualname__} without text)"
    return text if len(text) <= LONGEST_REASON else text[:LONGEST_REASON] + "…"


class RetryAfter(Ending):
    """Ends the attempt; the next one starts after `delay`, if the task has one left."""

    def __init__(self, delay: Duration, reason: str | None = None) -> None:
        super().__init__(_as_text(reason) or "asked to be tried again")
        self.delay_us = to_us(delay)


class Snooze(Ending):
    """Puts the job back for `delay`. It costs no attempt and may be repeated for ever."""

    def __init__(self, delay: Duration, reason: str | None = None) -> None:
        self.reason = _as_text(reason)
        super().__init__(self.reason or "snoozed")
        self.delay_us = to_us(delay)


class Cancel(Ending):
    """Ends the job as cancelled."""

    def __init__(self, reason: str | None = None) -> None:
        said = _as_text(reason)
        super().__init__(said or "cancelled by its task")
        self.reason = said or "task"


class Dead(Ending):
    """Ends the job as dead, without another try."""

    def __init__(self, reason: str | None = None) -> None:
        said = _as_text(reason)
        super().__init__(said or "given up by its task")
        self.reason = said or "task"


class Interrupted(BaseException):
    """The worker stops the task; clean up and let it pass."""


class TimedOut(Interrupted):
    """The task's timeout is over."""


class CancelAsked(Interrupted):
    """Somebody cancelled the running job."""


class Cut(Interrupted):
    """The worker has lost touch with the store."""

    def __init__(self) -> None:
        super().__init__("The worker lost touch with the store; another one may run the job now.")
