"""`windlass dead`: what died, grouped by its error, to be looked at, run again or thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli import jobs
from windlass.cli.bulk import Deed, Manner, bulk_options, change_named, end
from windlass.cli.editing import edited, edits, function_of, has_edits
from windlass.cli.jobs import change_ids, change_query, gather, put_job
from windlass.cli.main import Lazy
from windlass.cli.options import Store, Whole, store, store_options
from windlass.cli.output import Sheet, When, put, put_json, put_sheet, say
from windlass.cli.picking import error_option, job_ids, misspelt, query, queue_option, since_option, task_option
from windlass.core.plural import number_of

if TYPE_CHECKING:
    from windlass.core.ids import JobId
    from windlass.engines.protocol import Change
    from windlass.ops.view import ErrorGroup

HEADS = ("count", "first", "last", "error", "tasks", "fingerprint", "example")

COMMANDS = {
    "list": ("dead:list_dead", "Dead jobs by error: how many, since when, an example."),
    "show": ("dead:show", "Everything about a dead job."),
    "retry": ("dead:retry", "Run dead jobs once more, one of them with other arguments."),
    "purge": ("dead:purge", "Delete dead jobs."),
}


@click.command(
    cls=Lazy,
    commands=COMMANDS,
    epilog="""\b
Examples:
  windlass dead list
  windlass dead retry --error 4f2c9a10b2c3d4e5""",
)
def dead() -> None:
    """Look after dead jobs: those that failed and have no try left."""


def narrowing(function: Any) -> Any:
    """The options that say which dead jobs."""
    for option in (since_option, task_option, queue_option, error_option):
        function = option(function)
    return function


every_option = click.option("--all", "every", is_flag=True, help="All dead jobs of the store.")


@click.command(
    name="list",
    epilog="""\b
Examples:
  windlass dead list
  windlass dead list --queue mail --since 1d
  windlass dead list --error 4f2c --ungrouped --limit 500""",
)
@narrowing
@click.option("--ungrouped", is_flag=True, help="Each job by itself, the newest first.")
@click.option("--limit", type=Whole(1, 100_000), default=50, show_default=True, help="At most so many.")
@store_options
def list_dead(name: str | None, url: str | None, as_json: bool, ungrouped: bool, limit: int, **asked: Any) -> None:
    """List what the newest 10,000 dead jobs died of, the most frequent first."""
    from windlass.ops import view

    with store(name, url) as here:
        which = query(here, state="dead", **asked)
        if ungrouped:
            found, more = gather(here, which, limit)
            sheet = jobs.sheet_of(found)
        else:
            groups = view.error_groups(here.engine, which)
            found, more = groups.groups[:limit], len(groups.groups) > limit
            sheet = sheet_of(found)
            if groups.more:
                say(f"Only the newest {number_of(groups.looked_at)} were looked at.")
        if as_json:
            put_json(found)
        elif found:
            put_sheet(sheet)
        else:
            say(f"No dead job.{misspelt(here, which)}")
    if more:
        say(f"There are more than {limit:,}: --limit shows them.")


def sheet_of(groups: tuple[ErrorGroup, ...]) -> Sheet:
    """A row for each error."""
    rows = [
        (
            one.count,
            When(one.first_us),
            When(one.last_us),
            one.error,
            ", ".join(one.tasks),
            one.fingerprint or "-",
            one.example,
        )
        for one in groups
    ]
    under = {"error": (("fingerprint", "tasks"), ("example",))}
    return Sheet(HEADS, rows, right=["count"], short=["error"], under=under)


@click.command(epilog="\b\nExamples:\n  windlass dead show 0198f2b0-6b3c-7000-8000-0123456789ab")
@click.argument("job_id")
@store_options
def show(job_id: str, name: str | None, url: str | None, as_json: bool) -> None:
    """Show everything about a dead job: each attempt with its error and traceback, arguments, log."""
    with store(name, url) as here:
        put_job(here, job_id, as_json=as_json)


# ── again, or away ──────────────────────────────────────────────────────────────────────────────────────


@click.command(
    epilog="""\b
Examples:
  windlass dead retry 0198f2b0-6b3c-7000-8000-0123456789ab
  windlass dead retry --error 4f2c9a10b2c3d4e5
  windlass dead retry --queue mail --since 2h --dry-run
  windlass dead retry 0198f2b0-6b3c-7000-8000-0123456789ab --edit to=a@b.c --edit 0=17
  windlass dead retry 0198f2b0-6b3c-7000-8000-0123456789ab --args '[17]' --kwargs '{"to": "a@b.c"}'
With other arguments it is a new job, whose id is printed; the dead one stays and names it. What is shown as *** is kept
where it is left so. Named jobs are not asked about."""
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@narrowing
@every_option
@edits
@bulk_options
@store_options
def retry(ids: tuple[str, ...], every: bool, edit: tuple[str, ...], args: Any, kwargs: Any, **asked: Any) -> None:
    """Run the dead jobs named once more, or all of an error, a queue, a task; all attempts are before them again."""
    from windlass.engines.protocol import Change

    deed = Deed("Retry", "put back in the queue")
    if not has_edits(edit, args, kwargs):
        _change(Change.RETRY, deed, ids, every, asked)
        return
    manner, name, url = _manner(asked)
    if len(ids) != 1 or every or any(asked.values()):
        raise click.UsageError("Other arguments are for one job. Give one id, and no option that finds jobs.")
    (job_id,) = job_ids(ids)
    with store(name, url) as here:
        _resend(here, job_id, edited(here, job_id, edit, args, kwargs), manner)


@click.command(
    epilog="""\b
Examples:
  windlass dead purge 0198f2b0-6b3c-7000-8000-0123456789ab
  windlass dead purge --error 4f2c9a10b2c3d4e5
  windlass dead purge --all --dry-run
A dead job goes by itself after 30 days: the setting keep_dead."""
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@narrowing
@every_option
@bulk_options
@store_options
def purge(ids: tuple[str, ...], every: bool, **asked: Any) -> None:
    """Delete the dead jobs named, or all of an error, a queue, a task."""
    from windlass.engines.protocol import Change

    _change(Change.DELETE, Deed("Delete", "deleted"), ids, every, asked)


def _change(change: Change, deed: Deed, ids: tuple[str, ...], every: bool, asked: dict[str, Any]) -> None:
    manner, name, url = _manner(asked)
    named = job_ids(ids)
    if sum((bool(named), every, any(asked.values()))) != 1:
        raise click.UsageError("Which dead jobs? Give their ids, or --error, --queue, --task, --since, or --all.")
    with store(name, url) as here:
        if named:
            _refuse_the_living(here, named)
            _change_named(here, change, deed, named, manner)
        else:
            change_query(here, change, deed, query(here, state="dead", **asked), manner)


def _change_named(here: Store, change: Change, deed: Deed, named: list[JobId], manner: Manner) -> None:
    from windlass.engines.protocol import Change
    from windlass.ops import steer

    if change is not Change.DELETE:  # of what is not dead any more a retry takes nothing away
        change_ids(here, change, deed, named, manner)
        return
    change_named(deed, lambda: steer.judge(here.engine, change, named), lambda: steer.bury(here.engine, named), manner)


def _manner(asked: dict[str, Any]) -> tuple[Manner, str | None, str | None]:
    """How it was asked for and where; the options that say which jobs stay."""
    manner = Manner(asked.pop("yes"), asked.pop("dry_run"), asked.pop("as_json"))
    return manner, asked.pop("name"), asked.pop("url")


def _refuse_the_living(here: Store, named: list[JobId]) -> None:
    """What is not dead is for `windlass jobs`: a purge by a mistaken id must not take a waiting job."""
    from windlass.core.ids import show_id
    from windlass.core.job import State
    from windlass.ops.lookup import find, record_of

    for job_id in named:
        state = record_of(find(here.engine, job_id, frozenset())).state
        if state is not State.DEAD:
            raise click.UsageError(f"The job {show_id(job_id)} is {state}, not dead. `windlass jobs` is for those.")


def _resend(here: Store, job_id: JobId, arguments: dict[str, Any], manner: Manner) -> None:
    from windlass.core.ids import show_id
    from windlass.ops import steer

    limits = here.settings.limits
    request = steer.remake(here.engine, job_id, **arguments, secret_names=here.settings.secret_names, limits=limits)
    if (known := function_of(here, request.task)) is not None:
        known.signature.decode(request.payload, limits)  # as the worker will read them
    if manner.dry_run:
        put_json({"would_change": 1}) if manner.as_json else put("1 job would be sent in its place.")
        return
    receipt = steer.resend(here.engine, request, limits)
    sent = receipt.duplicate_of in {None, receipt.id}
    if manner.as_json:
        put_json({"id": show_id(receipt.id) if sent else None, "duplicate_of": _shown(receipt.duplicate_of)})
    elif sent:
        put(show_id(receipt.id))
    if not sent:
        say(f"Job {_shown(receipt.duplicate_of)} has the same unique key and has not ended: nothing was sent.")
        end(1)


def _shown(job_id: JobId | None) -> str | None:
    from windlass.core.ids import show_id

    return None if job_id is None else show_id(job_id)
