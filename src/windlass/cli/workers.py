"""`windlass workers`: who works, and to drain, stop or restart them from anywhere that reaches the store."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from windlass.cli.bulk import Manner, ask, bulk_options, end
from windlass.cli.completion import worker_names
from windlass.cli.inspection import NOBODY, put_workers
from windlass.cli.main import Lazy
from windlass.cli.options import DURATION, Store, store, store_options
from windlass.cli.output import console, put, put_json, say

if TYPE_CHECKING:
    from windlass.core.commands import Do
    from windlass.engines.protocol import Card, Engine
    from windlass.ops.command import Progress

F = TypeVar("F", bound=Callable[..., Any])

STEP_S: Final = 0.25

COMMANDS = {
    "list": ("workers:list_workers", "Every worker that lives."),
    "drain": ("workers:drain", "Take no more jobs, let what runs end, then end."),
    "stop": ("workers:stop", "End as by SIGTERM: what has not ended in the drain time goes back."),
    "restart": ("workers:restart", "Replace the runners by fresh ones, one after the other."),
}


@click.command(
    cls=Lazy,
    commands=COMMANDS,
    epilog="""\b
Examples:
  windlass workers list
  windlass workers drain mail-1 --wait""",
)
def workers() -> None:
    """Look at workers, and drain, stop or restart them: the store is all that must be reached."""


@click.command(
    name="list",
    epilog="""\b
Examples:
  windlass workers list
  windlass workers list --json""",
)
@store_options
def list_workers(name: str | None, url: str | None, as_json: bool) -> None:
    """List every worker that lives, as `inspect workers` does."""
    put_workers(name, url, as_json=as_json)


def order_options(function: F) -> F:
    """Which workers, and how."""
    for option in (
        bulk_options,
        click.option("--timeout", type=DURATION, help="Wait no longer than so."),
        click.option("--wait", "waits", is_flag=True, help="Wait until it is done."),
        click.option("--all", "every", is_flag=True, help="All that a NAME means; without a NAME all there are."),
        click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=worker_names),
    ):
        function = option(function)
    return store_options(function)


@click.command(
    epilog="""\b
Examples:
  windlass workers drain mail-1
  windlass workers drain mail-1@web-3 --wait --timeout 15m
  windlass workers drain web-3 --all --yes               all on that host
A NAME is a worker's name, name@host, host or id. Jobs that run may take as long as they like.
It is exit code 1 if it is not done when --timeout is over; the order stands all the same."""
)
@order_options
def drain(**asked: Any) -> None:
    """Let workers take no more jobs, and end when all that they run has ended."""
    _give("drain", **asked)


@click.command(
    epilog="""\b
Examples:
  windlass workers stop mail-1
  windlass workers stop mail-1 --wait
  windlass workers stop --all --dry-run
A NAME is a worker's name, name@host, host or id. What runs has the drain time of its worker (worker --drain);
what has not ended by then goes back, and another worker runs it."""
)
@order_options
def stop(**asked: Any) -> None:
    """End workers as SIGTERM does."""
    _give("stop", **asked)


@click.command(
    epilog="""\b
Examples:
  windlass workers restart mail-1
  windlass workers restart --all --yes --wait --timeout 10m     after a deployment: new code everywhere
A NAME is a worker's name, name@host, host or id. A runner ends when its jobs have, and a new process takes its place;
the supervisor stays, and its options with it. Where the new code cannot be loaded, the old runners go on, and --wait
ends with exit code 1 and says why."""
)
@order_options
def restart(**asked: Any) -> None:
    """Replace the runners of workers by fresh processes, one after the other."""
    _give("restart", **asked)


# ── the order ───────────────────────────────────────────────────────────────────────────────────────────


def _give(
    do: Do,
    *,
    names: tuple[str, ...],
    every: bool,
    waits: bool,
    timeout: Any,
    yes: bool,
    dry_run: bool,
    name: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    from windlass.core.plural import number_of
    from windlass.ops import command
    from windlass.ops.processes import call_roll

    if not names and not every:
        raise click.UsageError(f"Which workers? Give their names, or --all to {do} every one there is.")
    manner = Manner(yes, dry_run, as_json)
    waits = waits or timeout is not None
    with store(name, url) as here:
        if waits:
            call_roll(here.engine)  # which runners are new is told by those of just before
        cards = _chosen(here.engine, names, every=every)
        if do == "restart":
            command.refuse_embedded(cards)
        if dry_run:
            _tell_dry_run(do, cards, as_json=as_json)
            return
        if not cards:
            _nobody(as_json=as_json)
        if every:
            ask(f"{do.capitalize()} {number_of(len(cards), 'worker')}?", manner)
        command.order(here.engine, [card.worker for card in cards], do)
        if not as_json:
            _tell_order(do, cards)
        if waits:
            _end(do, cards, _wait(here, do, cards, timeout), as_json=as_json)
        elif as_json:
            put_json({"told": _ids(cards)})


def _chosen(engine: Engine, names: tuple[str, ...], *, every: bool) -> list[Card]:
    from windlass.ops import command
    from windlass.ops.cards import take_stock

    cards = take_stock(engine).cards
    if not names:
        return sorted(cards, key=lambda card: card.worker)
    return command.find(cards, names) if every else command.find_each(cards, names, "Name one by its id, or say --all.")


def _nobody(*, as_json: bool) -> None:
    if as_json:
        put_json({"told": []})
    say(NOBODY)
    end(1)


def _tell_dry_run(do: Do, cards: Sequence[Card], *, as_json: bool) -> None:
    from windlass.ops.cards import label

    if as_json:
        put_json({"would_tell": _ids(cards)})
        return
    for card in cards:
        put(f"{label(card)} would be told to {do}.")
    if not cards:
        say(NOBODY)


def _tell_order(do: Do, cards: Sequence[Card]) -> None:
    from windlass.core.clock import SystemClock
    from windlass.core.plural import agreeing
    from windlass.ops.cards import is_late, labels

    say(f"{labels(cards)} {agreeing(len(cards), 'was', 'were')} told to {do}.")
    now_us = SystemClock().now_us()
    late = [card for card in cards if is_late(card, now_us)]
    if late:
        say(f"{labels(late)} gave no sign of life within the lease: an order is heard with the next one.")


def _ids(cards: Sequence[Card]) -> list[str]:
    from windlass.core.ids import show_id

    return [show_id(card.worker) for card in cards]


# ── its end ─────────────────────────────────────────────────────────────────────────────────────────────


def _wait(here: Store, do: Do, cards: Sequence[Card], timeout: Any) -> Progress:
    """Looks until all have done it, or the time is over."""
    from windlass.core.durations import to_us
    from windlass.ops import command
    from windlass.ops.processes import call_roll

    workers = {card.worker for card in cards}
    end_s = None if timeout is None else time.monotonic() + to_us(timeout) / 1e6
    with _line(do) as show:
        while True:
            if do == "restart":
                call_roll(here.engine, workers)
            seen = command.progress(here.engine, do, cards)
            if not seen.left or (end_s is not None and time.monotonic() >= end_s):
                return seen
            show(_waiting_for(here.engine, seen.left))
            time.sleep(STEP_S)


def _waiting_for(engine: Engine, left: Sequence[Card]) -> str:
    from windlass.core.plural import agreeing, number_of
    from windlass.engines.protocol import Query
    from windlass.ops.cards import labels

    jobs = sum(engine.search(Query(worker=card.worker, count=True)).count for card in left)
    return f"Waiting for {labels(left)}: {number_of(jobs)} {agreeing(jobs, 'runs', 'run')} there."


@contextmanager
def _line(do: Do) -> Generator[Callable[[str], None]]:
    """A line on a terminal that tells how far it is, and a word if it is interrupted."""
    try:
        if not sys.stderr.isatty():
            yield lambda _text: None
            return
        from rich.text import Text

        from windlass.core.redact import plain

        with console(err=True).status(Text()) as status:
            yield lambda text: status.update(Text(plain(text)))
    except KeyboardInterrupt:
        say(f"The order to {do} stands; nobody waits for it any more.")
        raise


def _end(do: Do, cards: Sequence[Card], seen: Progress, *, as_json: bool) -> None:
    """Tells what came of it, and by the exit code whether all have done it."""
    undone = {card.worker for card in (*seen.left, *seen.lost, *seen.failed)}
    done = [card for card in cards if card.worker not in undone]
    if as_json:
        parts = {"told": cards, "done": done, "left": seen.left, "lost": seen.lost, "failed": seen.failed}
        put_json({part: _ids(found) for part, found in parts.items()})
    else:
        _tell_end(do, done, seen)
    if undone:
        end(1)


def _tell_end(do: Do, done: Sequence[Card], seen: Progress) -> None:
    from windlass.core.plural import agreeing
    from windlass.core.redact import plain
    from windlass.ops.cards import label, labels
    from windlass.ops.command import setback

    did = ("has new runners", "have new runners") if do == "restart" else ("has ended", "have ended")
    if done:
        say(f"{labels(done)} {agreeing(len(done), *did)}.")
    if seen.lost:
        say(f"{labels(seen.lost)} ended instead.")
    for card in seen.failed:
        why = setback(card)
        say(f"{label(card)} goes on with its old runners. {plain(why.why) if why else ''}")
    if seen.left:
        say(f"{labels(seen.left)} {agreeing(len(seen.left), 'has', 'have')} not done it yet; the order stands.")
