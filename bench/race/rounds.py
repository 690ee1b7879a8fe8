"""Rounds: every measurement is made of all contestants, one right after the other; who is first changes by the round.

What drifts on the machine falls on neighbours alike, so ratios are taken within a round. A contestant that fails keeps
the figures it has, is asked nothing more, and the error is part of the result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.race.contestant import Contestant
from bench.race.groups import Group, Measurement
from bench.race.result import Finish
from bench.rounds import say

Shown = Callable[[str], None]
"""Tells people what has been done."""

NEEDED = {"start": "start_p50_ms", "answer": "answer_p50_ms", "kill": "rerun_s"}
"""A step that is left out for those who lack this figure."""


Pair = tuple[Contestant, Finish]


def run(group: Group, pairs: Sequence[Pair], rounds: int) -> None:
    """Fills the finishes with figures."""
    plan = _plan(group, pairs)
    with _progress(len(pairs) + rounds * sum(len(those) for _, _, those in plan)) as shown:
        for contestant, finish in pairs:
            _ask(contestant, finish, "setup", Contestant.setup, shown, "")
        for number in range(rounds):
            for step, measurement, those in plan:
                for contestant, finish in those if number % 2 == 0 else reversed(those):
                    _ask(contestant, finish, step, measurement, shown, f"round {number + 1}: ")


def _plan(group: Group, pairs: Sequence[Pair]) -> list[tuple[str, Measurement, Sequence[Pair]]]:
    """Who is asked what in a round."""
    of_all = [(step, measurement, pairs) for step, measurement in group.steps.items()]
    of_some = [
        (step, measurement, [pair for pair in pairs if step in pair[0].entry.also])
        for step, measurement in group.also.items()
    ]
    return of_all + of_some


def _ask(contestant: Contestant, finish: Finish, step: str, measurement: Measurement, shown: Shown, when: str) -> None:
    head = f"{when}{contestant.entry.name} {step}"
    # Whoever lost a job or took a minute would do so again; the waiting is long.
    settled = step == "kill" and finish.figures.keys() & {"lost", "later_than_s"}
    if finish.error is not None or NEEDED.get(step) in contestant.product.lacks or settled:
        shown(f"{head}: –")
        return
    try:
        figures = measurement(contestant)
    except Exception as error:  # whatever it is, it is the contestant's result
        finish.error = f"{step}: {error}"
        shown(f"{head}: FAILED: {error}")
    else:
        finish.add(figures)
        shown(f"{head}: " + ", ".join(f"{name} {value:,.4g}" for name, value in figures.items()))


@contextmanager
def _progress(steps: int) -> Generator[Shown]:
    """A bar where somebody looks, plain lines where not."""
    if not sys.stderr.isatty():
        yield say
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=steps)

        def shown(line: str) -> None:
            bar.console.print(line, highlight=False, markup=False)
            bar.update(task, advance=1, description=line.rpartition(": ")[0])

        yield shown
