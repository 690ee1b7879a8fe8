"""`windlass status`: queues, workers, what was done in the last minutes, what died; once, or until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from windlass.cli import dead, inspection, queues
from windlass.cli.options import DURATION, Store, store, store_options
from windlass.cli.output import Sheet, console, drawn, put, put_json, put_sheet
from windlass.cli.patience import through_outages
from windlass.core.clock import SystemClock
from windlass.core.durations import MINUTE_US, show_instant, to_us
from windlass.core.job import State
from windlass.core.plural import number_of
from windlass.core.redact import plain, redact_url
from windlass.ops import stats
from windlass.ops.stats import Moment, QueueView, WorkerView
from windlass.ops.view import ErrorGroup
from windlass.ops.watch import DeadWatch

if TYPE_CHECKING:
    from rich.console import RenderableType

MINUTES = 30
GROUPS = 5
BARS = "▁▂▃▄▅▆▇█"


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """Everything at one moment."""

    at_us: int
    store: str
    queues: tuple[QueueView, ...]
    workers: tuple[WorkerView, ...]
    minutes: tuple[Moment, ...]
    """What was done in each of the last minutes, the newest last; what is missing was idle."""
    dead: tuple[ErrorGroup, ...]

    def count(self, state: State) -> int:
        return sum(queue.counts.get(state, 0) for queue in self.queues)


@click.command(
    epilog="""\b
Examples:
  windlass status
  windlass status --watch
  windlass status --watch --every 10s >> status.log     a line each time
  windlass status --json | jq .queues"""
)
@click.option("-w", "--watch", is_flag=True, help="Go on until Ctrl-C.")
@click.option("--every", type=DURATION, default="2s", show_default=True, help="How often, with --watch.")
@store_options
def status(watch: bool, every: Any, name: str | None, url: str | None, as_json: bool) -> None:
    """Show queues, workers, the work of the last half hour, and the most frequent errors of dead jobs."""
    pause_s = max(0.1, to_us(every) / 1e6)
    with store(name, url) as here:
        if not watch:
            seen = look(here)
            put_json(seen) if as_json else _print(seen)
            return
        try:
            _lines(here, pause_s, as_json=as_json) if as_json or not sys.stdout.isatty() else _live(here, pause_s)
        except KeyboardInterrupt:
            return  # how a watch ends


def look(here: Store, dead_jobs: DeadWatch | None = None) -> Overview:
    """Everything as it is now. Who looks again and again passes a watch, which spares the dead jobs."""
    now_us = SystemClock().now_us()
    since_us = now_us - now_us % MINUTE_US - (MINUTES - 1) * MINUTE_US
    return Overview(
        at_us=now_us,
        store=redact_url(here.settings.url),
        queues=stats.queues(here.engine),
        workers=stats.workers(here.engine),
        minutes=stats.history(here.engine, "minute", since_us=since_us),
        dead=(dead_jobs or DeadWatch(here.engine)).look().groups[:GROUPS],
    )


# ── for people ──────────────────────────────────────────────────────────────────────────────────────────


def _print(seen: Overview) -> None:
    if sys.stdout.isatty():
        console().print(page(seen))
        return
    put(f"store\t{seen.store}")
    put(f"time\t{show_instant(seen.at_us)}")
    put(f"now\t{line(seen)}")
    put(f"done\t{_done(seen)}")
    for sheet in _sheets(seen):
        put("")
        put_sheet(sheet)


def page(seen: Overview) -> RenderableType:
    """The overview as a terminal shows it."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [
        Text.assemble((plain(seen.store), "bold"), f"  {show_instant(seen.at_us)}"),
        Text(line(seen)),
        Text(""),
        Text.assemble((sparkline(per_minute(seen)), "green"), f"  {_done(seen)}"),
    ]
    for sheet in _sheets(seen):
        parts += [Text(""), drawn(sheet)]
    return Group(*parts)


def _sheets(seen: Overview) -> Iterator[Sheet]:
    if seen.queues:
        yield queues.sheet_of(seen.queues)
    if seen.workers:
        yield inspection.sheet_of(seen.workers)
    if seen.dead:
        yield dead.sheet_of(seen.dead)


def line(seen: Overview) -> str:
    """The overview in a line."""
    slots = sum(worker.slots for worker in seen.workers)
    states = (State.READY, State.RUNNING, State.SCHEDULED, State.DEAD)
    counts = ", ".join(f"{seen.count(state):,} {state}" for state in states)
    return f"{number_of(len(seen.workers), 'worker')}, {number_of(slots, 'slot')}; {counts}"


def _done(seen: Overview) -> str:
    total = inspection.summed(seen.minutes)
    return f"{total.get('succeeded', 0):,} succeeded, {stats.failures(total):,} failed in {MINUTES} minutes"


def per_minute(seen: Overview) -> list[int]:
    """How many attempts ended in each of the last minutes, the newest last."""
    first_us = seen.at_us - seen.at_us % MINUTE_US - (MINUTES - 1) * MINUTE_US
    counts = [0] * MINUTES
    for moment in seen.minutes:
        place = (moment.start_us - first_us) // MINUTE_US
        if 0 <= place < MINUTES:
            counts[place] += sum(moment.counts.values())
    return counts


def sparkline(counts: Sequence[int]) -> str:
    """A bar for each number; the lowest for nothing, and for something at least the next."""
    most = max(*counts, 1)
    return "".join(BARS[0] if not n else BARS[max(1, round(n / most * (len(BARS) - 1)))] for n in counts)


# ── again and again ─────────────────────────────────────────────────────────────────────────────────────


def _lines(here: Store, pause_s: float, *, as_json: bool) -> None:
    dead_jobs = DeadWatch(here.engine)
    while True:
        seen = through_outages(lambda: look(here, dead_jobs))
        put_json(seen, line=True) if as_json else put(f"{show_instant(seen.at_us)}  {line(seen)}")
        sys.stdout.flush()
        time.sleep(pause_s)


def _live(here: Store, pause_s: float) -> None:
    from rich.live import Live

    dead_jobs = DeadWatch(here.engine)
    live = Live(page(look(here, dead_jobs)), console=console(), screen=True, auto_refresh=False)
    try:
        live.start()
        while True:
            seen = through_outages(lambda: look(here, dead_jobs), lambda said: live.update(said, refresh=True))
            live.update(page(seen), refresh=True)
            time.sleep(pause_s)
    finally:
        live.stop()  # also where Ctrl-C came during the start: `with` would leave the other screen standing
