"""`windlass inspect`: what workers do and know, by the words that Celery's users type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from windlass.cli.main import Lazy
from windlass.cli.options import Store, store, store_options
from windlass.cli.output import Sheet, When, megabytes, put_json, put_sheet, say, seconds

if TYPE_CHECKING:
    from windlass.ops.stats import Moment, WorkerView
    from windlass.ops.view import JobLine

OF_PROCESSES = ("rss", "cpu", "restarts")
WORKERS = ("worker", "running", "slots", "state", "pool", "queues", "started", *OF_PROCESSES, "tasks", "pid", "id")
NOBODY = "No worker is running."

COMMANDS = {
    "active": ("inspection:active", "The jobs that run now, and where."),
    "processes": ("processes:processes", "Every process of every worker: memory, CPU, restarts, what it runs."),
    "registered": ("inspection:registered", "Every task, and which workers know it."),
    "stats": ("inspection:stats", "Jobs of every task by state, and the last hour."),
    "workers": ("inspection:workers", "Every worker that lives."),
}


@click.command(
    cls=Lazy,
    commands=COMMANDS,
    epilog="""\b
Examples:
  windlass inspect active
  windlass inspect workers --json""",
)
def inspect() -> None:
    """See what workers do and know. It reads the store: a worker that does not answer is shown as it last was."""


@contextmanager
def reported(name: str | None, url: str | None) -> Generator[Store]:
    """The store, when every worker has been asked for a fresh report and has had a moment for it."""
    from windlass.ops.processes import call_roll

    with store(name, url) as here:
        call_roll(here.engine)
        yield here


@click.command(
    epilog="""\b
Examples:
  windlass inspect active
  windlass inspect active --json
Where nothing stands under ELAPSED, a worker has the job and no slot has begun it."""
)
@store_options
def active(name: str | None, url: str | None, as_json: bool) -> None:
    """List the jobs that run now, by worker: the first hundred of each."""
    from windlass.ops import stats

    with reported(name, url) as here:
        found = stats.workers(here.engine)
    if as_json:
        put_json([{"id": one.id, "name": one.name, "host": one.host, "running": one.running} for one in found])
        return
    rows = [
        (job.id, job.task, job.queue, job.attempt, _elapsed(job), worker.label)
        for worker in found
        for job in worker.running
    ]
    if rows:
        heads = ("id", "task", "queue", "try", "elapsed", "worker")
        put_sheet(
            Sheet(heads, rows, right=["try", "elapsed"], short=["task", "worker"], spare=["try", "queue", "worker"])
        )
    else:
        say("No job is running." if found else NOBODY)


def _elapsed(job: JobLine) -> str:
    from windlass.core.clock import SystemClock
    from windlass.core.durations import show_span

    return "" if job.started_us is None else show_span(SystemClock().now_us() - job.started_us)


@click.command(epilog="\b\nExamples:\n  windlass inspect registered\n  windlass inspect registered | cut -f1")
@store_options
def registered(name: str | None, url: str | None, as_json: bool) -> None:
    """List every task that a worker knows or a job names. Without a worker its jobs wait for one."""
    from windlass.ops import stats

    with store(name, url) as here:
        found = stats.tasks(here.engine)
    if as_json:
        put_json({task.name: {"workers": task.workers, "queues": task.queues} for task in found})
    elif found:
        rows = [(task.name, ", ".join(task.queues), ", ".join(task.workers) or "none") for task in found]
        put_sheet(Sheet(("task", "queues", "workers"), rows, short=["workers", "queues", "task"]))
    else:
        say("No worker is running, and there is no job.")


@click.command(epilog="\b\nExamples:\n  windlass inspect stats\n  windlass inspect stats --json")
@store_options
def stats(name: str | None, url: str | None, as_json: bool) -> None:
    """Count the jobs of every task by state, and what became of them in the last hour."""
    from windlass.core.clock import SystemClock
    from windlass.core.durations import HOUR_US
    from windlass.core.job import State
    from windlass.ops import stats as counted

    since_us = SystemClock().now_us() - HOUR_US
    with store(name, url) as here:
        hours = counted.outcomes(here.engine, "minute", since_us=since_us)
        found = [(task, hours.get(task.name, {})) for task in counted.tasks(here.engine)]
    if as_json:
        put_json({task.name: {"jobs": task.counts, "last_hour": hour} for task, hour in found})
        return
    if not found:
        say("No worker is running, and there is no job.")
        return
    states = (State.READY, State.RUNNING, State.SCHEDULED, State.HELD, State.DEAD, State.SUCCEEDED)
    numbers = (*map(str, states), "done/h", "failed/h")
    rows = [
        (
            task.name,
            *(f"{task.counts.get(state, 0):,}" for state in states),
            f"{hour.get('succeeded', 0):,}",
            f"{counted.failures(hour):,}",
        )
        for task, hour in found
    ]
    heads = ("task", *numbers)
    put_sheet(Sheet(heads, rows, right=numbers, short=["task"], spare=["held", "succeeded", "scheduled"]))


@click.command(
    epilog="""\b
Examples:
  windlass inspect workers
  windlass inspect workers --json
RSS and CPU are those of all its processes, RESTARTS how many of them were replaced."""
)
@store_options
def workers(name: str | None, url: str | None, as_json: bool) -> None:
    """List every worker that lives: what it has, what it takes, since when."""
    put_workers(name, url, as_json=as_json)


def put_workers(name: str | None, url: str | None, *, as_json: bool) -> None:
    """Every worker that lives, as of now."""
    from windlass.ops import stats

    with reported(name, url) as here:
        found = stats.workers(here.engine)
    if as_json:
        put_json(found)
    elif found:
        put_sheet(sheet_of(found))
    else:
        say(NOBODY)


def sheet_of(found: tuple[WorkerView, ...]) -> Sheet:
    """A row for each worker."""
    rows = [
        (
            one.label,
            one.claims,
            one.slots,
            one.state,
            one.pool,
            "all" if one.queues is None else ", ".join(one.queues),
            When(one.started_us),
            megabytes(one.rss),
            seconds(one.cpu_s),
            one.restarts if one.processes else "",
            "all" if one.tasks is None else len(one.tasks),
            one.pid,
            one.id,
        )
        for one in found
    ]
    numbers = ["running", "slots", *OF_PROCESSES, "tasks", "pid"]
    spare = ["id", "tasks", "pool", "pid", "cpu", "state", "restarts", "rss"]
    return Sheet(WORKERS, rows, right=numbers, short=["queues", "worker"], spare=spare)


def summed(moments: tuple[Moment, ...]) -> dict[str, int]:
    """What was counted in all of them, by outcome."""
    total: Counter[str] = Counter()
    for one in moments:
        total.update(one.counts)
    return dict(total)
