"""`windlass queues`: how full they are, and to stop, start or empty them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.bulk import Deed, Manner, bulk_options, change_found, end
from windlass.cli.main import Lazy
from windlass.cli.options import Store, store, store_options, yes_option
from windlass.cli.output import Sheet, put_json, put_sheet, say
from windlass.cli.picking import misspelt, nearest, strange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from windlass.engines.protocol import Engine
    from windlass.ops.stats import QueueView

HEADS = ("queue", "ready", "running", "scheduled", "held", "dead", "workers", "rule")
SHOWN = 10

COMMANDS = {
    "list": ("queues:list_queues", "Every queue: how many jobs are where, who takes them, its rule."),
    "pause": ("queues:pause", "Let nothing more of it start."),
    "resume": ("queues:resume", "Let it go on."),
    "purge": ("queues:purge", "Delete what waits in it."),
}


@click.command(
    cls=Lazy,
    commands=COMMANDS,
    epilog="""\b
Examples:
  windlass queues list
  windlass queues pause mail""",
)
def queues() -> None:
    """Look at queues, pause, resume or purge them."""


@click.command(
    name="list",
    epilog="""\b
Examples:
  windlass queues list
  windlass queues list mail reports --json""",
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@store_options
def list_queues(names: tuple[str, ...], name: str | None, url: str | None, as_json: bool) -> None:
    """List queues that have jobs or that a worker names; a paused one without either only if it is NAMED."""
    from windlass.core.names import check_name
    from windlass.ops import stats

    wanted = {check_name("queue", one) for one in names}
    with store(name, url) as here:
        found = [one for one in stats.queues(here.engine, wanted) if not wanted or one.name in wanted]
    if as_json:
        put_json(found)
    elif found:
        put_sheet(sheet_of(found))
    else:
        say("No queue has a job, and no worker names one.")


def sheet_of(found: Sequence[QueueView]) -> Sheet:
    """A row for each queue."""
    from windlass.core.job import State

    states = (State.READY, State.RUNNING, State.SCHEDULED, State.HELD, State.DEAD)
    rows = [
        (one.name, *(f"{one.counts.get(state, 0):,}" for state in states), one.workers, _rule(one)) for one in found
    ]
    return Sheet(HEADS, rows, right=HEADS[1:7], short=["rule", "queue"], spare=["held", "rule"])


def _rule(one: QueueView) -> str:
    from windlass.core.clock import SystemClock
    from windlass.core.durations import show_span

    said: list[str] = ["paused"] if one.paused else []
    if one.shut_until_us is not None and (left_us := one.shut_until_us - SystemClock().now_us()) > 0:
        said.append(f"breaker open for {show_span(left_us)}")
    if one.limit is not None:
        said.append(f"{one.limit} at a time")
    if one.rate is not None:
        said.append(str(one.rate))
    return ", ".join(said)


# ── steering ────────────────────────────────────────────────────────────────────────────────────────────


@click.command(
    epilog="""\b
Examples:
  windlass queues pause mail
  windlass queues pause mail reports
What runs goes on. It is exit code 1 if all were paused already."""
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@yes_option
@store_options
def pause(names: tuple[str, ...], **asked: Any) -> None:
    """Let no further job of these queues start, until they are resumed."""
    from windlass.ops import steer

    _turn(names, steer.pause, paused=True, **asked)


@click.command(
    epilog="""\b
Examples:
  windlass queues resume mail
It is exit code 1 if none was paused."""
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@store_options
def resume(names: tuple[str, ...], **asked: Any) -> None:
    """Let paused queues go on."""
    from windlass.ops import steer

    _turn(names, steer.resume, paused=False, **asked)


@click.command(
    epilog="""\b
Examples:
  windlass queues purge mail --dry-run
  windlass queues purge mail --yes
What runs and what has ended stays. It is exit code 1 if nothing waits."""
)
@click.argument("queue", metavar="NAME")
@bulk_options
@store_options
def purge(queue: str, name: str | None, url: str | None, as_json: bool, yes: bool, dry_run: bool) -> None:
    """Delete every job of the queue that waits: ready, scheduled or held."""
    from windlass.core.names import check_name
    from windlass.engines.protocol import Change, Query
    from windlass.ops import steer

    check_name("queue", queue)
    with store(name, url) as here:
        found = steer.look_waiting(here.engine, queue)
        change_found(
            Deed("Delete", "deleted"),
            found.count,
            lambda progress: steer.apply(here.engine, Change.DELETE, found, progress=progress),
            Manner(yes, dry_run, as_json),
            none=lambda: f"Nothing waits in the queue {queue}.{misspelt(here, Query(queue=queue))}",
        )


def _turn(
    names: tuple[str, ...],
    turn: Callable[[Engine, str], bool],
    *,
    paused: bool,
    name: str | None,
    url: str | None,
    as_json: bool,
    yes: bool = True,
) -> None:
    from windlass.core.names import check_name
    from windlass.ops.cards import listing

    wanted = list(dict.fromkeys(check_name("queue", one) for one in names))
    with store(name, url) as here:
        known = _known(here)
        if paused and not yes:
            _refuse_near_misses(wanted, known)
        turned = [one for one in wanted if turn(here.engine, one)]
    if as_json:
        put_json({"changed": turned})
    for one in () if as_json else wanted:
        if one in turned:
            say(f"The queue {one} is {'paused' if paused else 'resumed'}.")
        elif paused:
            say(f"The queue {one} was paused already.")
        else:
            hint = "" if one in known else f" {strange('queue', one, known)}"
            say(f"The queue {one} was not paused.{hint}")
    for one in turned if paused else ():
        if one not in known:
            say(f"No job and no worker names the queue {one} yet; known: {listing(known, SHOWN)}.")
    if not turned:
        end(1)


def _known(here: Store) -> list[str]:
    from windlass.ops import stats

    return [queue.name for queue in stats.queues(here.engine)]


def _refuse_near_misses(wanted: list[str], known: list[str]) -> None:
    """Somebody who pauses in a hurry must not believe that it stands still."""
    for one in wanted:
        if one not in known and nearest(one, known) is not None:
            raise click.UsageError(f"{strange('queue', one, known)} With --yes it is paused.")
