"""The tables of a result, in Markdown, and their place in docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.race.result import Finish, Result, Run
from bench.report import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- race: {group} -->", "<!-- end of race: {group} -->"


def _per_s(value: float) -> str:
    return f"{value:,.0f}"


def _short(value: float) -> str:
    return f"{value:,.2f}" if value < 10 else f"{value:,.1f}"


Columns = dict[str, tuple[str, Callable[[float], str]]]

COLUMNS: dict[str, Columns] = {
    "embedded": {
        "send_one_per_s": ("send one by one /s", _per_s),
        "send_many_per_s": ("send many /s", _per_s),
        "drain_per_s": ("drain /s", _per_s),
        "start_p50_ms": ("send to start p50 ms", _short),
        "start_p95_ms": ("p95 ms", _short),
        "send_one_cpu_s": ("CPU s per 10,000: send", _short),
        "drain_cpu_s": ("drain", _short),
        "growth_x": ("× with the backlog", _short),
        "rss_mb": ("RSS MB", _per_s),
        "pss_mb": ("PSS MB", _per_s),
        "import_ms": ("import ms", _per_s),
        "rerun_s": ("runs again after kill -9", lambda value: f"{value:.2f} s"),
    },
    "redis": {
        "drain_per_s": ("drain /s", _per_s),
        "far_per_s": ("drain /s, 1 ms away", _per_s),
        "drain_cpu_s": ("CPU s per 10,000: worker", _short),
        "server_cpu_s": ("server", _short),
        "send_one_per_s": ("send one by one /s", _per_s),
        "send_many_per_s": ("send many /s", _per_s),
        "send_one_cpu_s": ("CPU s per 10,000 sends", _short),
        "start_p50_ms": ("send to start p50 ms", _short),
        "start_p95_ms": ("p95 ms", _short),
        "answer_p50_ms": ("send to result p50 ms", _short),
        "answer_p95_ms": ("p95 ms", _short),
        "rss_mb": ("RSS MB", _per_s),
        "pss_mb": ("PSS MB", _per_s),
    },
}
"""The figures of everybody in a group."""
ALSO: dict[str, Columns] = {
    "redis": {
        "send_together_per_s": ("adelay from 1,000 coroutines /s", _per_s),
        "idle_cpu_s": ("server CPU s a minute of 8 idle workers", lambda value: f"{value:.3f}"),
        "growth_x": ("CPU of a job, backlog of 1,000,000 over 10,000", _short),
    },
}
"""The figures of those entries that are asked for more."""
STORE = {
    "embedded": "SQLite {python_sqlite} (apsw: {sqlite})",
    "redis": "Valkey {valkey} ({allocator}; append-only file, synced every second; a round trip takes {round_trip}, "
    "the long way {far_round_trip})",
}


def tables(result: Result) -> str:
    """Everything that is generated: figures, footnotes, bars, who ran how."""
    notes = Notes()
    figures = _figures(result.finishes, COLUMNS[result.group], notes)
    also = ALSO.get(result.group, {})
    asked = [finish for finish in result.finishes if finish.figures.keys() & also.keys()]
    more = _figures(asked, also, notes) if asked else ""
    top = head(result, STORE[result.group], f"race_{result.group}")
    parts = [top, figures, more, notes.shown(), _bars(result), _who(result.finishes)]
    return "\n\n".join(part for part in parts if part)


def put(page: Path, result: Result) -> None:
    """Writes the tables between the markers of the group."""
    write_between(page, BEGIN.format(group=result.group), END.format(group=result.group), tables(result))


def write_between(page: Path, begin: str, end: str, text: str) -> None:
    """Writes a text in the place of whatever stands between two lines of a page."""
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} has no lines {begin} and {end}.")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


class Notes:
    """Footnotes, each said once."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def of(self, text: str) -> str:
        """The mark of a footnote."""
        if text not in self._said:
            self._said.append(text)
        return f"<sup>{self._said.index(text) + 1}</sup>"

    def shown(self) -> str:
        return "\n".join(f"{number}. {text}" for number, text in enumerate(self._said, 1))


def head(run: Run, store: str, evidence: str) -> str:
    """Of which code on which machine the figures are, and where all of them stand."""
    machine = run.machine
    return (
        f"Commit `{run.commit[:12]}`, {run.at[:10]}, medians of {run.rounds} rounds; {machine['cores']} cores "
        f"({machine['cpu']}), {machine['system']}, Python {machine['python']} with "
        f"{store.format_map(machine)}, load average {machine['load']}. "
        f"[Every figure of every round](evidence/{evidence}.json)."
        + (" A quick run: the figures mean nothing." if run.quick else "")
    )


def _figures(finishes: Sequence[Finish], columns: Columns, notes: Notes) -> str:
    rows = [["", *(title for title, _ in columns.values())]]
    for finish in finishes:
        name = f"**{finish.entry.name}**" if finish.product.kind == "ours" else finish.entry.name
        if finish.error is not None:
            outcome = "failed" if finish.ran else "not run"
            name += notes.of(f"{finish.entry.name}, {finish.version}, {outcome}: {_plain(finish.error)}")
        rows.append([name, *(_cell(finish, figure, show, notes) for figure, (_, show) in columns.items())])
    return markdown(rows, "---:")


def _cell(finish: Finish, figure: str, show: Callable[[float], str], notes: Notes) -> str:
    value = finish.median(figure)
    if value is not None:
        return show(value)
    if figure in finish.product.lacks:
        return "–" + notes.of(finish.product.lacks[figure])
    if figure == "rerun_s" and finish.median("lost"):
        return "never" + notes.of("Nothing is left in its store that a worker would take.")
    if figure == "rerun_s" and (later_s := finish.median("later_than_s")):
        return f"> {later_s:.0f} s"
    return "–"


def _bars(result: Result) -> str:
    if not result.bars:
        return ""
    rows = [["must reach", "measured", "bar", ""]]
    for line in result.bars:
        values = [round_.value for round_ in line.rounds]
        measured = f"{line.measured:.2f} {line.bar.unit} ({min(values):.2f}–{max(values):.2f})"
        passed = {True: "reached", False: "**missed**", None: "not judged"}[line.passed]
        rows.append([line.bar.sentence, measured, line.bar.shown(), passed])
    return markdown(rows, "---")


def _who(finishes: Sequence[Finish]) -> str:
    rows = [["", "versions", "worker", "an acknowledged job is", "results", "a job in work is", "backlog"]]
    for finish in finishes:
        product = finish.product
        rows.append(
            [
                finish.entry.name,
                finish.version,
                f"`{product.worker}{' ' if finish.entry.options else ''}{finish.entry.options}`",
                finish.entry.acknowledged,
                product.results,
                product.taken,
                ", ".join(f"{jobs:,}" for jobs in finish.backlog),
            ]
        )
    return markdown(rows, "---")


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def markdown(rows: Sequence[Sequence[str]], align: str) -> str:
    """A table whose first row is its head and whose first column stands on the left."""
    head, *rest = rows
    line = ["---", *([align] * (len(head) - 1))]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, line, *rest])
