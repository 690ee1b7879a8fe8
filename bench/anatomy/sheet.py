"""The sheet: a result as a table, steps by contestants, and its place in docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.anatomy.result import ELSE, Column, Result
from bench.anatomy.steps import KERNEL, STEPS, UNKNOWN
from bench.anatomy.verbs import OTHER, TOLD_APART
from bench.race.table import STORE, head, markdown, write_between

BEGIN, END = "<!-- anatomy -->", "<!-- end of anatomy -->"

Key = tuple[str, str]
Costs = Mapping[Key, float]

SENDING: tuple[Key, ...] = (("sender", "encode, round trip"), ("server", "insert"))
OF_SUPERVISOR, OF_RUNNER = (tuple((who, step) for step in (*STEPS[who], KERNEL, UNKNOWN)) for who in STEPS)
OF_FLOOR: Key = ("worker", "all of it")
OF_SERVER: tuple[Key, ...] = tuple(("server", what) for what in (*TOLD_APART, ELSE))
NAMES: Mapping[Key, str] = {
    ("server", "claim"): "server: claim, the script or the commands",
    ("server", "settle"): "server: settle, the script or the commands",
    ("server", OTHER): "server: other scripts",
    ("server", ELSE): "server: parsing, sockets, append-only file",
}
"""Where a row is named otherwise than by who and what."""


def table(result: Result) -> str:
    """Everything that is generated."""
    costs = [column.cost() for column in result.columns]
    rows = [["µs of CPU per job", *(column.name for column in result.columns)]]
    rows += [_row(_name(key), costs, (key,)) for key in SENDING]
    rows.append(_row("**to send it**", costs, SENDING))
    for title, keys in (("supervisor", OF_SUPERVISOR), ("runner", OF_RUNNER)):
        rows += [_row(_name(key), costs, (key,)) for key in keys]
        rows.append(_row(f"*{title}*", costs, keys))
    worker = (*OF_SUPERVISOR, *OF_RUNNER, OF_FLOOR)
    rows.append(_row("**worker**", costs, worker))
    rows += [_row(_name(key), costs, (key,)) for key in OF_SERVER]
    rows.append(_row("**server**", costs, OF_SERVER))
    rows.append(_row("**to run it**", costs, (*worker, *OF_SERVER)))
    rows.append(["jobs/s while it drains", *map(_per_s, result.columns)])
    return f"{head(result, STORE['redis'], 'anatomy')}\n\n{markdown(rows, '---:')}"


def put(page: Path, result: Result) -> None:
    """Writes the table between its markers."""
    write_between(page, BEGIN, END, table(result))


def _name(key: Key) -> str:
    return NAMES.get(key, ": ".join(key))


def _row(name: str, costs: Iterable[Costs], keys: Iterable[Key]) -> list[str]:
    """The sum of some rows in each column; a dash where a contestant has none of them."""
    keys = tuple(keys)
    found = [[cost[key] for key in keys if key in cost] for cost in costs]
    return [name, *(f"{sum(each):.1f}" if each else "–" for each in found)]


def _per_s(column: Column) -> str:
    return f"{column.median(lambda drain: drain.per_s):,.0f}"
