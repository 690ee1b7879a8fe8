"""A look at the store, drawn: for a terminal of 80 × 24 and larger ones, on a dark ground or a light one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, cast

from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from look import Look, News, about, task_name
from windlass import State
from windlass.core.redact import plain
from windlass.ops.view import JobView

# Colours of the terminal's own palette, which its owner has made fit for its ground; no white, no black. Its yellow is
# the one that nobody can read on white: what is tried again is orange.
STYLES: Final = {
    "succeeded": "green",
    "retrying": "dark_orange3",
    "dead": "red",
    "cancelled": "magenta",
    "running": "cyan",
    "ready": "blue",
}
SIGNS: Final = {"succeeded": "✔", "retrying": "↻", "dead": "✖", "cancelled": "⊘", "running": "▶", "ready": "…"}
BLOCKS: Final = " ▁▂▃▄▅▆▇█"
WIDE: Final = 100
WIDER: Final = 110
TALL: Final = 30
TALLER: Final = 36


def draw(look: Look, url: str, seconds: float, console: Console) -> Layout:
    """The whole screen."""
    width, height = console.size
    right = 27 if width < WIDE else 44
    moving = 6 if height < TALL else 6 + (height - 24) // 4
    page = Layout()
    page.split_column(
        Layout(_title(look, url, seconds), size=1),
        Layout(_totals(look, width), size=1),
        Layout(name="figures", size=len(look.queues) + 3 if look.queues else 8),
        Layout(name="work", size=moving),
        Layout(_boxed("what happened", _news(look.news, width)), minimum_size=4),
    )
    page["figures"].split_row(
        Layout(_boxed("queues", _queues(look))),
        Layout(_boxed("throughput", _throughput(look, right - 4, len(look.queues))), size=right),
    )
    page["work"].split_row(
        Layout(_boxed("running", _moving(look.moving, 13 if width < WIDER else 20))),
        Layout(_boxed("workers", _workers(look)), size=right),
    )
    if height >= TALL:
        page.add_split(Layout(_boxed("why is it not running?", _waiting(look)), size=4 if height < TALLER else 5))
    return page


def _boxed(title: str, inside: RenderableType) -> Panel:
    return Panel(inside, title=f"[bold]{title}[/]", title_align="left", border_style="dim", padding=(0, 1))


def _title(look: Look, url: str, seconds: float) -> RenderableType:
    left = Text.assemble((" windlass", "bold"), (" demo  ", ""), (plain(url), "dim"), no_wrap=True, overflow="ellipsis")
    right = Text(f"{_clock(min(look.passed_s, seconds))} of {_clock(seconds)} · Ctrl-C stops ", style="dim")
    line = Table.grid(expand=True)
    line.add_column(ratio=1)
    line.add_column(justify="right", no_wrap=True)
    line.add_row(left, right)
    return line


def _totals(look: Look, width: int) -> Text:
    counts = look.counts
    shown = [
        ("succeeded", counts[State.SUCCEEDED], "succeeded"),
        ("retrying", look.retried, "retried"),
        ("dead", counts[State.DEAD], "dead"),
        ("cancelled", counts[State.CANCELLED], "cancelled"),
        ("running", counts[State.RUNNING], "running"),
        ("ready", counts[State.READY], "ready"),
    ]
    line = Text(" ", no_wrap=True, overflow="ellipsis")
    for kind, number, word in shown[: 5 if width < WIDE else 6]:
        line.append(f"{SIGNS[kind]} {number:,} {word}", style=f"bold {STYLES[kind]}").append("  ")
    return line


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────────

COLUMNS: Final = (
    ("ready", State.READY, "ready"),
    ("running", State.RUNNING, "running"),
    ("later", State.SCHEDULED, "retrying"),
    ("done", State.SUCCEEDED, "succeeded"),
    ("dead", State.DEAD, "dead"),
    ("cancelled", State.CANCELLED, "cancelled"),
)


def _queues(look: Look) -> Table:
    table = _table()
    table.add_column("queue", no_wrap=True)
    for head, _, kind in COLUMNS:
        table.add_column(head, justify="right", style=STYLES[kind], no_wrap=True)
    for queue in look.queues:
        numbers = (queue.counts.get(state, 0) for _, state, _ in COLUMNS)
        table.add_row(plain(queue.name), *(f"{number:,}" if number else Text("·", style="dim") for number in numbers))
    return table


def _throughput(look: Look, width: int, height: int) -> RenderableType:
    """Two lines of figures and between them a chart of the last seconds, scaled to its peak."""
    rates = look.rates[-width:]
    peak, lines = max(rates, default=0.0), max(1, height - 1)
    eighths = [round(rate / peak * lines * 8) if peak else 0 for rate in rates]
    chart = [
        "".join(BLOCKS[max(0, min(8, level - line * 8))] for level in eighths).rjust(width)
        for line in reversed(range(lines))
    ]
    minute = f"{look.minute.total():,} runs, {look.minute['failed']:,} failed" + (" this minute" if width > 30 else "")
    return Group(
        Text.assemble((f"{look.rate:,.0f}/s", "bold"), (f"  peak {peak:,.0f}/s", "dim"), no_wrap=True),
        *(Text(line, style=STYLES["succeeded"], no_wrap=True) for line in chart),
        Text(minute, style="dim", no_wrap=True, overflow="ellipsis"),
    )


# ── work ────────────────────────────────────────────────────────────────────────────────────────────────


def _moving(jobs: Sequence[JobView], bar_width: int) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(no_wrap=True, width=13, style=STYLES["running"])
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column(no_wrap=True, width=bar_width)
    table.add_column(no_wrap=True, justify="right", width=4, style="dim")
    for job in jobs:
        done, total = _progress(job.progress)
        bar: RenderableType = Text("asked to stop" if job.cancel_asked else f"attempt {job.attempt}", style="dim")
        if total and not job.cancel_asked:
            bar = ProgressBar(total, done, width=bar_width, style="dim", complete_style=STYLES["running"])
        table.add_row(task_name(job), Text(plain(about(job))), bar, f"{done / total:.0%}" if total else "")
    return table


def _progress(said: Any) -> tuple[float, float]:
    """How much is done, of how much; of 0 where the task did not say."""
    report = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
    return report.get("done", 0), report.get("total") or 0


def _workers(look: Look) -> Table:
    table = Table.grid(padding=(0, 1))
    for _ in range(3):
        table.add_column(no_wrap=True)
    for worker in sorted(look.workers, key=lambda worker: worker.name):
        busy = min(worker.claims, worker.slots)
        dots = Text.assemble(("●" * busy, STYLES["running"]), ("○" * (worker.slots - busy), "dim"))
        table.add_row(Text(plain(worker.name), style="bold"), dots, Text(str(worker.pid), style="dim"))
    return table


def _waiting(look: Look) -> Text:
    if look.waiting is None:
        return Text("Nothing waits.", style="dim")
    name, why = look.waiting
    return Text.assemble((f"{plain(name)}: ", "bold"), plain(why), overflow="ellipsis")


# ── news ────────────────────────────────────────────────────────────────────────────────────────────────


def _news(news: Sequence[News], width: int) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(no_wrap=True, width=8, style="dim")
    table.add_column(no_wrap=True, width=11)
    table.add_column(no_wrap=True, width=13)
    table.add_column(no_wrap=True, width=16 if width < WIDE else 21, overflow="ellipsis")
    table.add_column(no_wrap=True, ratio=1, overflow="ellipsis", style="dim")
    for one in news:
        sign = Text(f"{SIGNS[one.kind]} {one.kind}", style=STYLES[one.kind])
        table.add_row(_time(one.at_us), sign, one.task, Text(plain(one.about)), Text(plain(one.word)))
    return table


def _table() -> Table:
    return Table(box=None, expand=True, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")


def _time(us: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(us // 1_000_000))


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
