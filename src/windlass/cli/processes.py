"""`windlass inspect processes`: each worker, its supervisor, its runners, and what they run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from windlass.cli.inspection import NOBODY, reported
from windlass.cli.options import store_options
from windlass.cli.output import Sheet, megabytes, put_json, put_sheet, say, seconds

if TYPE_CHECKING:
    from windlass.ops.processes import ActiveView, ProcessView
    from windlass.ops.stats import WorkerView

NUMBERS = ("pid", "busy", "rss", "cpu", "cpu%", "ended", "restarts", "elapsed")
HEADS = ("process", "state", *NUMBERS, "task", "job")
BLANK = ("",) * len(HEADS)
SPARE = ("job", "cpu", "ended", "state", "cpu%", "task")


@click.command(
    epilog="""\b
Examples:
  windlass inspect processes
  windlass inspect processes --json
Workers are asked for a fresh report, and have half a second for it; what one last said is shown where it does not
answer. CPU is what a process has used since its start, CPU% that as an average over its life, as ps shows it."""
)
@store_options
def processes(name: str | None, url: str | None, as_json: bool) -> None:
    """Show every process of every worker: state, slots in use, memory, CPU, restarts, and the jobs it runs."""
    from windlass.ops import stats

    with reported(name, url) as here:
        found = stats.workers(here.engine)
    if as_json:
        fields = ("id", "name", "host", "state", "beat_us", "processes")
        put_json([{field: getattr(one, field) for field in fields} for one in found])
    elif found:
        put_sheet(tree(found) if sys.stdout.isatty() else flat(found))
    else:
        say(NOBODY)


def tree(found: Sequence[WorkerView]) -> Sheet:
    """For people: a line for each worker, below it its processes, beside each the jobs that it runs."""
    rows: list[tuple[object, ...]] = []
    for worker in found:
        rows.append((worker.label, worker.state, *BLANK[2:]))
        for process in worker.processes:
            first, *others = _lines(process)
            rows.append((f"  {process.label}", *first))
            rows += [(*BLANK[3:], *line[-3:]) for line in others]
        if not worker.processes:
            rows.append(("  no report", *BLANK[1:]))
    return Sheet(HEADS, rows, right=NUMBERS, short=["task", "process"], spare=SPARE)


def flat(found: Sequence[WorkerView]) -> Sheet:
    """For programs: a whole line for each job that runs, and for each process that runs none."""
    rows: list[tuple[object, ...]] = [(worker.label, *BLANK) for worker in found if not worker.processes]
    rows += [
        (worker.label, process.label, *line)
        for worker in found
        for process in worker.processes
        for line in _lines(process)
    ]
    return Sheet(("worker", *HEADS), rows)


def _lines(process: ProcessView) -> Iterator[tuple[object, ...]]:
    """The columns behind the first, for each job that it runs; once where it runs none."""
    busy = f"{len(process.active)}/{process.slots}" if process.slots else ""
    share = "" if process.cpu_percent is None else f"{process.cpu_percent:.1f}"
    runs = process.role not in ("supervisor", "spare")
    facts = (
        process.state,
        process.pid,
        busy,
        megabytes(process.rss),
        seconds(process.cpu_s),
        share,
        f"{process.ended:,}" if runs else "",
        process.restarts if runs else "",
    )
    for job in process.active or (None,):
        yield (*facts, *_job(job))


def _job(job: ActiveView | None) -> tuple[str, str, str]:
    from windlass.core.durations import show_span

    return ("", "", "") if job is None else (show_span(job.elapsed_us), job.task, job.id)
