"""Changes to many jobs: counted first, asked about, shown while they go on, and told of at the end.

Jobs that are named by their ids are meant: nobody is asked. What a query finds is counted and asked about. It is exit
code 1 if a named job was left as it is, or if a query that names anything changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import click

from windlass.cli.options import dry_run_option, yes_option
from windlass.cli.output import console, put, put_json, say
from windlass.core.plural import number_of

if TYPE_CHECKING:
    from windlass.ops.steer import Progress, Steered

F = TypeVar("F", bound=Callable[..., Any])

SHOWN = 10
STEP = 100
"""So many are changed in one step: a bar for fewer would only flicker."""


class Manner(NamedTuple):
    """How it was asked for."""

    yes: bool
    dry_run: bool
    as_json: bool


class Deed(NamedTuple):
    """What is to be done: `Cancel` 3 jobs, 3 jobs were `cancelled`."""

    verb: str
    done: str


def bulk_options(function: F) -> F:
    """The options of whoever changes many."""
    return yes_option(dry_run_option(function))


def change_named(deed: Deed, judge: Callable[[], Steered], act: Callable[[], Steered], manner: Manner) -> None:
    """Changes the jobs that were named by their ids; a dry run judges them, and ends as the change would."""
    if manner.dry_run:
        steered = judge()
        _tell_refusals(steered, manner)
        _tell_dry_run(deed, steered.changed, manner, steered)
    else:
        steered = act()
        _tell(deed, steered, manner)
    if steered.refused:
        end(1)


def change_found(
    deed: Deed,
    count: int,
    act: Callable[[Progress | None], Steered],
    manner: Manner,
    *,
    none: Callable[[], str],
    narrow: bool = True,
) -> None:
    """Changes what a query finds. `none` is said where there is nothing; `narrow`: that is a failure."""
    if manner.dry_run:
        _tell_dry_run(deed, count, manner)
        return
    if not count:
        if manner.as_json:
            put_json({"changed": 0, "refused": 0, "refusals": []})
        say(none())
        end(1 if narrow else 0)
    ask(f"{deed.verb} {number_of(count)}?", manner)
    with _bar(deed, count) as progress:
        steered = act(progress)
    _tell(deed, steered, manner)
    if narrow and not steered.changed:
        end(1)


def ask(question: str, manner: Manner) -> None:
    """Goes on only if the person agrees; where nobody can be asked, it must have been said beforehand."""
    if manner.yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"{question} Nobody is there to answer: say --yes, or --dry-run to see the number.")
    if not click.confirm(question, err=True):
        say("Nothing was changed.")
        end(1)


def end(code: int) -> NoReturn:
    """Ends the command with that exit code; the store is closed on the way."""
    click.get_current_context().exit(code)


@contextmanager
def _bar(deed: Deed, count: int) -> Generator[Progress | None]:
    """A bar on a terminal, and a word about how far it came if it is interrupted."""
    gone = 0

    def watch(done: int, _total: int) -> None:
        nonlocal gone
        gone = done

    try:
        if count <= STEP or not sys.stderr.isatty():
            yield watch
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console(err=True), transient=True) as bar:
            shown = bar.add_task(deed.verb, total=count)

            def draw(done: int, total: int) -> None:
                watch(done, total)
                bar.update(shown, completed=done, total=total)

            yield draw
    except KeyboardInterrupt:
        say(f"{number_of(gone)} of {count:,} gone through so far. The same command goes on.")
        raise


def _tell_dry_run(deed: Deed, count: int, manner: Manner, judged: Steered | None = None) -> None:
    if manner.as_json:
        left = {} if judged is None else {"refused": judged.refused, "refusals": judged.refusals}
        put_json({"would_change": count, **left})
    else:
        put(f"{number_of(count)} would be {deed.done}{_left(judged)}.")


def _tell(deed: Deed, steered: Steered, manner: Manner) -> None:
    if manner.as_json:
        put_json(steered)
        return
    _tell_refusals(steered, manner)
    say(f"{number_of(steered.changed)} {deed.done}{_left(steered)}.")


def _tell_refusals(steered: Steered, manner: Manner) -> None:
    if manner.as_json:
        return
    for refused in steered.refusals[:SHOWN]:
        say(f"{refused.id}: {refused.why}")
    if steered.refused > SHOWN:
        say(f"… and {steered.refused - SHOWN:,} more like these.")


def _left(steered: Steered | None) -> str:
    return f", {steered.refused:,} left as is" if steered is not None and steered.refused else ""
