"""`windlass inspect`: what workers do and know, by the words that Celery's users type."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from windlass.cli.main import Lazy
from windlass.cli.options import store, store_options
from windlass.cli.output import Sheet, When, put_json, put_sheet, say

if TYPE_CHECKING:
    from windlass.ops.stats import Moment, WorkerView

WORKERS = ("worker", "running", "slots", "pool", "queues", "started", "tasks", "pid", "id")
NOBODY = "No worker is running."

COMMANDS = {
    "active": ("inspection:active", "The jobs that run now, and where."),
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
    """See what workers do and know. It reads the store: no worker is asked, and none can fail to answer."""


@click.command(epilog="\b\nExamples:\n  windlass inspect active\n  windlass inspect active --json")
@store_options
def active(name: str | None, url: str | None, as_json: bool) -> None:
    """List the jobs that run now, by worker: the first hundred of each."""
    from windlass.ops import stats

    with store(name, url) as here:
        found = stats.workers(here.engine)
    if as_json:
        put_json([{"id": one.id, "name": one.name, "host": one.host, "running": one.running} for one in found])
        return
    rows = [
        (job.id, job.task, job.queue, job.attempt, When(job.claimed_us or job.created_us), worker.label)
        for worker in found
        for job in worker.running
    ]
    if rows:
        heads = ("id", "task", "queue", "try", "since", "worker")
        put_sheet(Sheet(heads, rows, right=["try"], short=["task", "worker"], spare=["try", "queue", "worker"]))
    else:
        say("No job is running." if found else NOBODY)


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
            f"{sum(hour.values()) - hour.get('succeeded', 0):,}",
        )
        for task, hour in found
    ]
    heads = ("task", *numbers)
    put_sheet(Sheet(heads, rows, right=numbers, short=["task"], spare=["held", "succeeded", "scheduled"]))


@click.command(epilog="\b\nExamples:\n  windlass inspect workers\n  windlass inspect workers --json")
@store_options
def workers(name: str | None, url: str | None, as_json: bool) -> None:
    """List every worker that lives: what it has, what it takes, since when."""
    from windlass.ops import stats

    with store(name, url) as here:
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
            one.pool,
            "all" if one.queues is None else ", ".join(one.queues),
            When(one.started_us),
            "all" if one.tasks is None else len(one.tasks),
            one.pid,
            one.id,
        )
        for one in found
    ]
    numbers = ["running", "slots", "tasks", "pid"]
    return Sheet(WORKERS, rows, right=numbers, short=["queues", "worker"], spare=["id", "tasks", "pid", "pool"])


def summed(moments: tuple[Moment, ...]) -> dict[str, int]:
    """What was counted in all of them, by outcome."""
    total: Counter[str] = Counter()
    for one in moments:
        total.update(one.counts)
    return dict(total)
