"""`make demo`: two workers and a producer on a temporary SQLite file, and what the store says of them.

    DEMO_SECONDS=60    how long it lasts; Ctrl-C ends it before
    DEMO_KEEP=1        the store stays, and its URL is printed
    DEMO_PICTURE=FILE  the last screen is saved there as SVG

Reading order: `tasks.py` and `producer.py` (the shop), `look.py` (what the store says), `view.py` and `lines.py` (how
it is shown), `stage.py` and `terminal.py` (processes, signals).
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live

import lines
from look import Look, News, Watcher
from stage import Stage
from terminal import asked_to_stop, can_draw
from view import draw
from windlass import Settings, WindlassError, connect
from windlass.engines.protocol import Engine
from windlass.ops import stats

WORKERS = ("box-1", "box-2")
LOOK_S = 0.25
LINE_EVERY = 4
START_S = 60
MOST_S = 24 * 3600


class CannotShow(Exception):
    """A sentence that says why there is no demo."""


@dataclass(frozen=True)
class Wishes:
    """What the environment says."""

    seconds: float
    keep: bool
    picture: str | None


def wishes() -> Wishes:
    """What the environment says, checked."""
    text = os.environ.get("DEMO_SECONDS") or "60"
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= MOST_S:
        raise CannotShow(f"DEMO_SECONDS is {text!a}. Give a number of seconds above 0, such as 60.")
    keep = os.environ.get("DEMO_KEEP", "") not in {"", "0"}
    return Wishes(seconds, keep, os.environ.get("DEMO_PICTURE") or None)


def run(wanted: Wishes, asked: threading.Event, stage: Stage, engine: Engine) -> Look:
    """Shows the shop until it is time; gives the store as it is when nobody works any more."""
    for name in WORKERS:
        stage.start_worker(name)
    _wait_for_workers(asked, stage, engine)
    watcher = Watcher(engine)
    if not asked.is_set():
        stage.start_producer()
    console = Console(highlight=False)

    def look_until_the_end(show: Callable[[Look], None]) -> None:
        while True:
            look = watcher.look()
            show(look)
            if look.passed_s >= wanted.seconds or asked.wait(LOOK_S):
                return
            if said := stage.cannot_go_on():
                raise CannotShow(said)

    if can_draw():
        with Live(console=console, screen=True, auto_refresh=False) as live:
            look_until_the_end(lambda look: live.update(draw(look, stage.url, wanted.seconds, console), refresh=True))
    else:
        look_until_the_end(_Printer())
    if wanted.picture is not None:
        _save(wanted, watcher.look(), stage.url)
    print("Stopping: what runs may end, the rest goes back to the store.", flush=True)
    stage.stop()
    return watcher.look()


def _wait_for_workers(asked: threading.Event, stage: Stage, engine: Engine) -> None:
    print(f"Starting {len(WORKERS)} workers on {stage.url} …", flush=True)
    for _ in range(int(START_S / LOOK_S)):
        if len(stats.workers(engine)) == len(WORKERS) or asked.wait(LOOK_S):
            return
        if said := stage.ended_early():
            raise CannotShow(said)
    raise CannotShow(f"The workers have not started within {START_S} s.")


class _Printer:
    """Prints a line of figures about once a second, and before it what is new since the last one."""

    def __init__(self) -> None:
        self._looks = 0
        self._news: list[News] = []

    def __call__(self, look: Look) -> None:
        self._news += look.fresh
        if self._looks % LINE_EVERY == 0:
            print(*lines.told(self._news), lines.status(look), sep="\n", flush=True)
            self._news.clear()
        self._looks += 1


def _save(wanted: Wishes, look: Look, url: str) -> None:
    assert wanted.picture is not None
    console = Console(record=True, width=100, height=30, force_terminal=True, file=io.StringIO(), highlight=False)
    console.print(draw(look, url, wanted.seconds, console))
    console.save_svg(wanted.picture, title="make demo")


def main() -> int:
    """Runs the demo; 0 also when it was stopped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ✔ gets ?, not an error
    try:
        wanted = wishes()
        with asked_to_stop() as asked, Stage(keep=wanted.keep) as stage:
            engine = connect(stage.url, Settings())
            engine.open()
            try:
                last = run(wanted, asked, stage, engine)
            finally:
                engine.close()
            kept_url = stage.url if wanted.keep else None
        print("", *lines.summary(last), "", *lines.next_steps(kept_url), sep="\n", flush=True)
    except BrokenPipeError:  # whoever read our lines has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (CannotShow, WindlassError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
