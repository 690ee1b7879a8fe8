"""What commands print: tables for people, JSON for programs, and nothing that a terminal would obey.

What a command found goes to stdout, what it has to say about it to stderr. Names, arguments and errors come from
elsewhere: whatever a terminal takes for an order is spelled out, not carried out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from windlass.core.redact import plain, redact_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

GAP: Final = 2
LEAST: Final = 16
"""A column that may be cut short keeps so many characters."""
COLOURS: Final = {
    "running": "green",
    "dead": "red",
    "paused": "yellow",
    "cancelled": "yellow",
    "expired": "yellow",
    "succeeded": "dim",
}


class When(int):
    """An instant in microseconds: how long ago on a terminal, when exactly on a pipe."""


# ── lines ───────────────────────────────────────────────────────────────────────────────────────────────


def say(text: str) -> None:
    """A remark, for people. It may quote an error, which may quote a URL with a password."""
    click.echo(plain(redact_text(text), lines=True), err=True)


def put(text: str) -> None:
    """What was asked for."""
    click.echo(plain(text, lines=True))


def put_json(value: Any, *, line: bool = False) -> None:
    """What was asked for, for programs: one JSON value in ASCII, on one line where nobody reads it."""
    import msgspec

    made = msgspec.to_builtins(value, enc_hook=str)
    click.echo(json.dumps(made, indent=2 if sys.stdout.isatty() and not line else None))


def ago(us: int) -> str:
    """`3m 5s ago`, `in 2h`, `now`."""
    from windlass.core.clock import SystemClock
    from windlass.core.durations import SECOND_US, show_span

    since_us = SystemClock().now_us() - us
    if abs(since_us) < SECOND_US:
        return "now"
    return f"{show_span(since_us)} ago" if since_us > 0 else f"in {show_span(-since_us)}"


def moment(us: int) -> str:
    """`2027-01-15 08:00:00 UTC (3m 5s ago)`."""
    from windlass.core.durations import show_instant

    return f"{show_instant(us)} ({ago(us)})"


def megabytes(size: int) -> str:
    """`42 MB`, as far as people care about memory; nothing where nothing is known."""
    return f"{size / 1e6:,.0f} MB" if size else ""


def seconds(cpu_s: float) -> str:
    """`1m 5s` of CPU; nothing where nothing is known."""
    from windlass.core.durations import show_span

    return show_span(round(cpu_s * 1e6)) if cpu_s else ""


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────


def console(*, err: bool = False) -> Console:
    """Where rich draws; it knows NO_COLOR, pipes and the width of the terminal."""
    from rich.console import Console

    return Console(stderr=err, highlight=False, markup=False, emoji=False)


class Sheet(NamedTuple):
    """A table before it is shown. How it is fitted into a terminal that is too narrow is said here too."""

    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    right: Sequence[str] = ()
    short: Sequence[str] = ()
    """Columns that may be cut."""
    spare: Sequence[str] = ()
    """Columns that may be left out, one after the other."""
    under: Mapping[str, Sequence[Sequence[str]]] = {}
    """Columns that stand below another one, line by line."""


def put_sheet(sheet: Sheet) -> None:
    """A table on a terminal; on a pipe all its columns apart by tabs, for grep and cut."""
    if sys.stdout.isatty():
        console().print(drawn(sheet))
        return
    for row in [sheet.heads, *(map(_exact, row) for row in sheet.rows)]:
        click.echo("\t".join(row))


def drawn(sheet: Sheet) -> Table:
    """The table as rich draws it, as wide as the terminal at most."""
    from rich.table import Table
    from rich.text import Text

    found = [dict(zip(sheet.heads, map(_shown, row), strict=True)) for row in sheet.rows]
    below = {head for lines in sheet.under.values() for line in lines for head in line}
    lines = {head: [(head,), *sheet.under.get(head, ())] for head in sheet.heads if head not in below}
    cells = {
        head: [["  ".join(map(row.__getitem__, line)) for line in many] for row in found]
        for head, many in lines.items()
    }
    natural = {head: max(len(head), *map(_width, column), 1) for head, column in cells.items()}
    widths = _fitted(natural, sheet, console().width)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for head, width in widths.items():
        justify = "right" if head in sheet.right else "left"
        table.add_column(head.upper(), justify=justify, width=width, no_wrap=True, overflow="ellipsis")
    for place in range(len(found)):
        shown = (cells[head][place] for head in widths)
        table.add_row(
            *(
                Text("\n").join([Text(first, COLOURS.get(first, "")), *(Text(line, "dim") for line in rest)])
                for first, *rest in shown
            )
        )
    return table


def _fitted(widths: dict[str, int], sheet: Sheet, most: int) -> dict[str, int]:
    """The widths that fit: spare columns go until the others, cut as far as they may be, have room."""

    def excess(least: bool) -> int:
        wanted = (min(width, LEAST) if least and head in sheet.short else width for head, width in widths.items())
        return sum(wanted) + GAP * len(widths) - most

    for head in sheet.spare:
        if excess(least=True) > 0:
            del widths[head]
    for head in (head for head in sheet.short if head in widths):
        widths[head] -= max(0, min(excess(least=False), widths[head] - LEAST))
    return widths


def _width(lines: list[str]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, lines))


def _shown(cell: object) -> str:
    return ago(cell) if isinstance(cell, When) else _text(cell)


def _exact(cell: object) -> str:
    from windlass.core.durations import show_instant

    return show_instant(cell) if isinstance(cell, When) else _text(cell)


def _text(cell: object) -> str:
    return "" if cell is None else plain(str(cell))
