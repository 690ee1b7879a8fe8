"""What commands print: tables for people, JSON for programs, and nothing that a terminal would obey.

What a command found goes to stdout, what it has to say about it to stderr. Names, arguments and errors come from
elsewhere: whatever a terminal takes for an order is spelled out, not carried out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from windlass.core.redact import plain

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str) -> None:
    """A remark, for people."""
    click.echo(plain(text, lines=True), err=True)


def put(text: str) -> None:
    """What was asked for."""
    click.echo(plain(text, lines=True))


def put_json(value: Any) -> None:
    """What was asked for, for programs: one JSON value in ASCII, on one line where nobody reads it."""
    import msgspec

    made = msgspec.to_builtins(value, enc_hook=str)
    click.echo(json.dumps(made, indent=2 if sys.stdout.isatty() else None))


def console(*, err: bool = False) -> Console:
    """Where rich draws; it knows NO_COLOR, pipes and the width of the terminal."""
    from rich.console import Console

    return Console(stderr=err, highlight=False, markup=False)


def put_table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """A table on a terminal; on a pipe columns apart by tabs, for grep and cut."""
    shown = [["" if cell is None else plain(str(cell)) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in [list(heads), *shown]:
            click.echo("\t".join(row))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, justify="right" if head in right else "left", overflow="fold")
    for row in shown:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)
