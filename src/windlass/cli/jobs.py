"""`windlass jobs`: what there is, everything about one, its log; and to cancel, retry or delete some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.bulk import Deed, Manner, bulk_options, change_found, change_named
from windlass.cli.main import FAILED, Lazy
from windlass.cli.options import Store, Whole, store, store_options
from windlass.cli.output import Sheet, When, put, put_json, put_sheet, say
from windlass.cli.picking import filters, is_narrow, job_ids, misspelt, query

if TYPE_CHECKING:
    from windlass.core.ids import JobId
    from windlass.engines.protocol import Change, Query
    from windlass.ops.view import JobLine, LineView

LIMIT = 50
LOOK_S = 1.0
"""How often a log that is followed is looked at: a running job's lines come with its worker's next writes."""
HEADS = ("id", "state", "task", "queue", "try", "when", "error")

COMMANDS = {
    "list": ("jobs:list_jobs", "Jobs by state, queue, task, tag, worker or time."),
    "show": ("jobs:show", "Everything about a job; with --why only why it waits."),
    "logs": ("jobs:logs", "What a job wrote to its log; -f goes on until it ends."),
    "cancel": ("jobs:cancel", "Let jobs not run, or ask running ones to stop."),
    "retry": ("jobs:retry", "Run dead, cancelled or expired jobs once more."),
    "delete": ("jobs:delete", "Forget jobs that do not run."),
}


@click.command(
    cls=Lazy,
    commands=COMMANDS,
    epilog="""\b
Examples:
  windlass jobs list --state dead --since 2h
  windlass jobs show 0198f2b0-6b3c-7000-8000-0123456789ab""",
)
def jobs() -> None:
    """Look at jobs, and steer them."""


# ── looking ─────────────────────────────────────────────────────────────────────────────────────────────


@click.command(
    name="list",
    epilog="""\b
Examples:
  windlass jobs list
  windlass jobs list --state scheduled --queue mail
  windlass jobs list --task charge --since 15m --limit 500 --json
  windlass jobs list --state dead | cut -f1""",
)
@filters
@click.option("--limit", type=Whole(1, 100_000), default=LIMIT, show_default=True, help="At most so many.")
@store_options
def list_jobs(name: str | None, url: str | None, as_json: bool, limit: int, **asked: Any) -> None:
    """List jobs; without --state the last that came first, ended ones by their end."""
    with store(name, url) as here:
        which = query(here, **asked)
        found, more = gather(here, which, limit)
        if as_json:
            put_json(found)
        elif found:
            put_sheet(sheet_of(found))
        else:
            say(f"No job matches.{misspelt(here, which)}")
    if more:
        say(f"There are more than {limit:,}: --limit shows them.")


@click.command(
    epilog="""\b
Examples:
  windlass jobs show 0198f2b0-6b3c-7000-8000-0123456789ab
  windlass jobs show 0198f2b0-6b3c-7000-8000-0123456789ab --why"""
)
@click.argument("job_id")
@click.option("--why", "only_why", is_flag=True, help="Only why it is not running, and what to do about it.")
@store_options
def show(job_id: str, only_why: bool, name: str | None, url: str | None, as_json: bool) -> None:
    """Show everything about a job: times, arguments, result, each attempt with its error, log, progress."""
    with store(name, url) as here:
        if not only_why:
            put_job(here, job_id, as_json=as_json)
            return
        from windlass.cli.remedy import remedy, with_remedy
        from windlass.ops.processes import call_roll
        from windlass.ops.why import explain

        (wanted,) = job_ids([job_id])
        call_roll(here.engine)  # what a worker has free is told by its last beat
        found = explain(here.engine, wanted)
        if as_json:
            todo = remedy(found.cause, found.queue)
            put_json({"id": job_id, "why": found.said, "cause": found.cause, "todo": todo})
        else:
            put(with_remedy(found.said, found.cause, found.queue))


@click.command(
    epilog="""\b
Examples:
  windlass jobs logs 0198f2b0-6b3c-7000-8000-0123456789ab
  windlass jobs logs 0198f2b0-6b3c-7000-8000-0123456789ab -f"""
)
@click.argument("job_id")
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Go on until the job has ended; 1 is the exit code of one that has not succeeded.",
)
@store_options
def logs(job_id: str, follow: bool, name: str | None, url: str | None, as_json: bool) -> None:
    """Print the log of a job: when, in which attempt, what."""
    from windlass.cli.patience import through_outages
    from windlass.core.job import State
    from windlass.engines.protocol import Interest
    from windlass.ops import view

    (wanted,) = job_ids([job_id])
    with store(name, url) as here:
        page = view.log(here.engine, wanted)
        if as_json and not follow:
            put_json(page.lines)
            return
        seen = _put_log(page.lines, as_json=as_json)
        if follow and not page.lines and not page.ended:
            _tell_why(here, wanted)
        while follow and not page.ended:
            through_outages(lambda: here.engine.listen(Interest(ends=frozenset({wanted})), LOOK_S))
            page = through_outages(lambda after=seen: view.log(here.engine, wanted, after))
            seen = _put_log(page.lines, seen, as_json=as_json)
        if follow and page.state is State.SUCCEEDED:
            say("The job is succeeded.")
        elif follow:
            _tell_why(here, wanted)
            click.get_current_context().exit(FAILED)


def _tell_why(here: Store, job_id: JobId) -> None:
    """Why nothing comes, or why it did not succeed."""
    from windlass.cli.remedy import with_remedy
    from windlass.ops.why import explain

    found = explain(here.engine, job_id)
    say(with_remedy(found.said, found.cause, found.queue))


def _put_log(lines: tuple[LineView, ...], seen: int = 0, *, as_json: bool) -> int:
    """Prints the lines; the number of the last one that was printed so far."""
    from windlass.cli.job_page import log_lines

    if as_json:
        for line in lines:
            put_json(line, line=True)
    else:
        for text in log_lines(lines, seen):
            put(text)
    return lines[-1].number if lines else seen


def put_job(here: Store, job_id: str, *, as_json: bool) -> None:
    """Everything about the job, redacted."""
    from windlass.cli.job_page import lines
    from windlass.ops import view

    (wanted,) = job_ids([job_id])
    found = view.job(here.engine, wanted, secret_names=here.settings.secret_names, limits=here.settings.limits)
    if as_json:
        put_json(found)
        return
    for line in lines(found):
        put(line)


def gather(here: Store, which: Query, limit: int) -> tuple[list[JobLine], bool]:
    """So many of the jobs that the query finds, and whether there are more. A page may be short, or empty."""
    import msgspec

    from windlass.ops import view

    found: list[JobLine] = []
    cursor: str | None = None
    while True:
        page = view.jobs(here.engine, msgspec.structs.replace(which, limit=min(1_000, limit + 1), cursor=cursor))
        found += page.jobs
        cursor = page.cursor
        if cursor is None or len(found) > limit:
            return found[:limit], len(found) > limit


def sheet_of(found: list[JobLine]) -> Sheet:
    """A row for each job."""
    rows = [
        (job.id, job.state, job.script or job.task, job.queue, job.attempt, When(_when(job)), job.error or job.reason)
        for job in found
    ]
    return Sheet(HEADS, rows, right=["try"], short=["error", "task"], spare=["try", "queue", "error"])


def _when(job: JobLine) -> int:
    """The instant that matters: its end, its start, when it is due, or its coming."""
    from windlass.core.job import State

    if job.state is State.SCHEDULED:
        return job.due_us
    return job.ended_us or (job.claimed_us if job.state is State.RUNNING else None) or job.created_us


# ── steering ────────────────────────────────────────────────────────────────────────────────────────────


@click.command(
    epilog="""\b
Examples:
  windlass jobs cancel 0198f2b0-6b3c-7000-8000-0123456789ab --reason "not needed"
  windlass jobs cancel --queue mail --state scheduled --dry-run
What waits is cancelled at once, what runs is asked to stop. Named jobs are not asked about."""
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@filters
@click.option("--reason", metavar="TEXT", help="Kept with each of them.")
@bulk_options
@store_options
def cancel(ids: tuple[str, ...], reason: str | None, **asked: Any) -> None:
    """Cancel the jobs named, or all that the options find and that have not ended."""
    from windlass.engines.protocol import Change

    steer_jobs(Change.CANCEL, Deed("Cancel", "cancelled or asked to stop"), ids, asked, reason)


@click.command(
    epilog="""\b
Examples:
  windlass jobs retry 0198f2b0-6b3c-7000-8000-0123456789ab
  windlass jobs retry --task charge --since 1h
  windlass jobs retry --state cancelled --queue mail --yes
Without --state it means dead jobs. To change arguments: windlass dead retry --help"""
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@filters
@bulk_options
@store_options
def retry(ids: tuple[str, ...], **asked: Any) -> None:
    """Run the jobs named once more, or all dead ones that the options find."""
    from windlass.engines.protocol import Change

    steer_jobs(Change.RETRY, Deed("Retry", "put back in the queue"), ids, asked)


@click.command(
    epilog="""\b
Examples:
  windlass jobs delete 0198f2b0-6b3c-7000-8000-0123456789ab
  windlass jobs delete --state succeeded --queue mail --dry-run
A running job cannot be deleted: cancel it first."""
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@filters
@bulk_options
@store_options
def delete(ids: tuple[str, ...], **asked: Any) -> None:
    """Delete the jobs named, or all that the options find, whatever their state but running."""
    from windlass.engines.protocol import Change

    steer_jobs(Change.DELETE, Deed("Delete", "deleted"), ids, asked)


def steer_jobs(
    change: Change, deed: Deed, ids: tuple[str, ...], asked: dict[str, Any], reason: str | None = None
) -> None:
    """Changes the jobs named, or those that the options find."""
    manner = Manner(asked.pop("yes"), asked.pop("dry_run"), asked.pop("as_json"))
    name, url = asked.pop("name"), asked.pop("url")
    if bool(ids) is any(asked.values()):
        raise click.UsageError("Which jobs? Give their ids, or options such as --queue or --state; not both.")
    named = job_ids(ids)
    with store(name, url) as here:
        if named:
            change_ids(here, change, deed, named, manner, reason)
        else:
            change_query(here, change, deed, query(here, **asked), manner, reason)


def change_ids(
    here: Store, change: Change, deed: Deed, named: list[JobId], manner: Manner, reason: str | None = None
) -> None:
    """Changes the jobs named."""
    from windlass.ops import steer

    change_named(
        deed,
        lambda: steer.judge(here.engine, change, named),
        lambda: steer.apply(here.engine, change, named, reason=reason),
        manner,
    )


def change_query(
    here: Store, change: Change, deed: Deed, which: Query, manner: Manner, reason: str | None = None
) -> None:
    """Changes all that the query finds and that the change is for."""
    from windlass.ops import steer

    found = steer.look(here.engine, change, which)
    change_found(
        deed,
        found.count,
        lambda progress: steer.apply(here.engine, change, found, reason=reason, progress=progress),
        manner,
        none=lambda: f"No job matches.{misspelt(here, which)}",
        narrow=is_narrow(which),
    )
