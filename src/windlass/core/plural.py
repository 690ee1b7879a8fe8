"""Numbers in sentences: `1 job is`, `12,000 jobs are`."""

from __future__ import annotations


def number_of(count: int, noun: str = "job") -> str:
    """`1 job`, `12,000 jobs`, `2 processes`."""
    return f"{count:,} {noun}{'' if count == 1 else 'es' if noun.endswith('s') else 's'}"


def agreeing(count: int, one: str = "is", many: str = "are") -> str:
    """The verb for so many."""
    return one if count == 1 else many
