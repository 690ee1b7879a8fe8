"""The order of ready jobs: one integer per job, set once, that makes old jobs overtake urgent ones.

    rank = due time in µs - priority x aging step          the smallest rank runs first

A job of priority 9 is ranked as if it had been sent nine steps earlier. It overtakes what was sent within
those nine steps and nothing older, so no job waits behind one sent more than nine steps after it, and no
rank is ever rewritten while a job waits: aging costs nothing.
"""

from __future__ import annotations

TOP_PRIORITY = 9


def rank(due_us: int, priority: int, step_us: int) -> int:
    """The place of a job among the ready ones."""
    return due_us - priority * step_us


def next_order(last: int, now_us: int) -> int:
    """The first of a run of order values: ahead of every earlier one even if the clock went back."""
    return max(last + 1, now_us)


def next_fence(previous: int, now_us: int) -> int:
    """A fence greater than every fence the job ever had, also after a restore from an old backup."""
    return max(previous + 1, now_us)


def aging_bound_us(step_us: int) -> int:
    """How long a job can be overtaken by others."""
    return TOP_PRIORITY * step_us
