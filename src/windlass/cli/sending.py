"""`windlass call`, `send` and `result`: jobs sent from a shell, and what came of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.completion import queue_names, task_names
from windlass.cli.editing import value_of
from windlass.cli.main import FAILED
from windlass.cli.options import (
    DURATION,
    INSTANT,
    Whole,
    amounts,
    an_app,
    app_option,
    json_option,
    refuse_to_make,
    url_option,
)
from windlass.cli.output import put, put_json, say
from windlass.cli.picking import nearest
from windlass.core.plural import number_of
from windlass.core.redact import MASK, redact_url
from windlass.core.secret import Secret, is_marked

if TYPE_CHECKING:
    from windlass.app.app import App
    from windlass.app.handle import Handle
    from windlass.app.task import Sender
    from windlass.ops.why import Why

BATCH = 1_000
OTHER_QUEUE = "The task may have a queue of its own: name the app with -A, or the queue with -q."
"""Where nobody takes the queue, and the app, which knows the queue of the task, was not named."""
Line = tuple[int, Any]
"""The number of a line, and the call it is."""


def send_options(function: Any) -> Any:
    """The options of whoever sends."""
    for option in reversed(
        (
            app_option,
            url_option,
            click.option(
                "-q",
                "--queue",
                shell_complete=queue_names,
                help="The queue. [default: the task's where --app knows it, else default]",
            ),
            click.option("--delay", type=DURATION, help="Run it so much later, such as 90 or 15m."),
            click.option("--at", type=INSTANT, help="Run it then: 'in 10 minutes', 14:30, or 2027-01-15T08:00Z."),
            click.option("--expires", type=DURATION, help="Do not start it after so long."),
            click.option("-p", "--priority", type=Whole(0, 9), help="9 goes first."),
            click.option(
                "--memory", metavar="SIZE", help="Run it where so much is free, such as 512MB; it may use no more."
            ),
            click.option(
                "--needs",
                metavar="NAME=N",
                multiple=True,
                callback=amounts,
                help="Run it where so much of a resource is free, such as browser=1.",
            ),
            click.option(
                "--key", help="Send nothing while another job of this key has not ended; that one's id is printed."
            ),
            json_option,
        )
    ):
        function = option(function)
    return function


class Call(click.Command):
    """A command whose arguments may be negative numbers, and whose misspelt options are refused all the same."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from windlass.core.names import near_miss

        known = [name for one in self.get_params(ctx) for name in one.opts]
        for word in args[: args.index("--")] if "--" in args else args:
            name = word.partition("=")[0]
            if name.startswith("--") and name not in known:
                meant = near_miss(name, known)
                raise click.NoSuchOption(name, possibilities=[meant] if meant else None, ctx=ctx)
        return super().parse_args(ctx, args)


@click.command(
    cls=Call,
    context_settings={"ignore_unknown_options": True},
    epilog="""\b
Examples:
  windlass call tasks.add 2 3 --wait
  windlass call tasks.send_email 17 to=a@b.c urgent=true
  windlass call tasks.crawl '"2"' --delay 15m          the text 2, not the number
  windlass call -A tasks thumbnail cat.jpg             checked against the function, on the task's own queue
  windlass call tasks.echo -- --text-with-dashes
An argument is JSON where it can be read as such, else text; name=value gives it by name.""",
)
@click.argument("task", shell_complete=task_names)
@click.argument("arguments", nargs=-1)
@click.option("--wait", "waits", is_flag=True, help="Wait for its end and print its result.")
@click.option("--timeout", type=DURATION, help="Wait no longer than so.")
@send_options
def call(task: str, arguments: tuple[str, ...], waits: bool, timeout: Any, as_json: bool, **how: Any) -> None:
    """Send a job of TASK with these ARGUMENTS, and print its id."""
    args, kwargs = _arguments(arguments)
    with an_app(how.pop("name"), how.pop("url")) as app:
        sender, remark = _sender(app, task, how, as_json=as_json)
        hint = OTHER_QUEUE if how["queue"] is None and not app.tasks and not as_json else ""
        handle = sender.delay(*args, **kwargs)
        hand_over(app, handle, remark, hint, waits=waits or timeout is not None, timeout=timeout, as_json=as_json)


@click.command(
    epilog="""\b
Examples:
  windlass send tasks.crawl < urls.jsonl
  windlass send tasks.send_email --from mails.jsonl --queue mail
  windlass send tasks.log_in      then type ["ann", {"$secret": "…"}] and Ctrl-D: no history, no ps shows it
A line is a list of arguments, or an object of arguments by name; anything else is the only argument."""
)
@click.argument("task", shell_complete=task_names)
@click.option("--from", "source", type=click.File("rb"), default="-", help="The file. [default: stdin]")
@send_options
def send(task: str, source: Any, as_json: bool, **how: Any) -> None:
    """Send a job of TASK for every line of a file, a JSON value each."""
    with an_app(how.pop("name"), how.pop("url")) as app:
        sender, remark = _sender(app, task, how, as_json=as_json)
        sent, heard = 0, True
        try:
            for batch in _in_batches(_lines(source)):
                for handles in _send_batch(sender, batch):
                    sent += len(handles)
                    heard = heard and _put_ids(handles, as_json=as_json)
        finally:
            say(f"{number_of(sent)} sent.")
            if sent and remark:
                say(remark)


@click.command(
    epilog="""\b
Examples:
  windlass result 0198f2b0-6b3c-7000-8000-0123456789ab
  windlass result 0198f2b0-6b3c-7000-8000-0123456789ab --wait --timeout 10"""
)
@click.argument("job_id")
@click.option("--wait", "waits", is_flag=True, help="Wait for its end.")
@click.option("--timeout", type=DURATION, help="Wait no longer than so.")
@app_option
@url_option
@json_option
def result(job_id: str, waits: bool, timeout: Any, name: str | None, url: str | None, as_json: bool) -> None:
    """Print the result of a job; what it died of, or why it has none yet."""
    with an_app(name, url) as app:
        handle = app.result(job_id)
        refuse_to_make(app.settings.url)
        _put_outcome(handle, timeout if waits or timeout is not None else 0, as_json=as_json)


def hand_over(
    app: App,
    handle: Handle[Any],
    remark: str = "",
    hint: str = "",
    *,
    waits: bool,
    timeout: Any = None,
    as_json: bool,
) -> None:
    """Tells where the job is that was sent, and waits for its end if asked to."""
    from windlass.ops.why import Cause

    if waits:
        _tell_before_waiting(app, handle, remark, hint, as_json=as_json)
        _put_outcome(handle, timeout, as_json=as_json)
        return
    found = _explained(app, handle)
    put_json({"id": handle.id, "queue": found and found.queue}) if as_json else put(handle.id)
    if handle.duplicate and not as_json:
        say("Nothing was sent: this job of the same key or id is there already.")
    if found is not None and not as_json:
        say(f"The job is on the queue {found.queue}.")
        if found.cause in {Cause.NOT_DUE, Cause.TOO_BIG}:
            say(found.said)
    if remark or (hint and _is_not_taken(found)):
        say(remark or hint)


# ── arguments ───────────────────────────────────────────────────────────────────────────────────────────


def _arguments(words: tuple[str, ...]) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for place, word in enumerate(words, 1):
        name, sign, value = word.partition("=")
        if sign and name in kwargs:
            raise click.UsageError(f"`{name}` is given twice. Give it once.")
        if sign and name.isidentifier():
            kwargs[name] = value_of(value)
        elif kwargs:
            # It is not quoted: it may be a secret.
            raise click.UsageError(f"Argument {place} follows one by name. Give those by position first.")
        else:
            args.append(value_of(word))
    return args, kwargs


def _lines(source: Any) -> Iterator[Line]:
    for number, line in enumerate(source, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _wrong(number, f"is not JSON: {error}.") from None
        yield number, [found] if is_marked(found) or not isinstance(found, (list, dict)) else found


def _wrong(number: int, what: str) -> click.UsageError:
    return click.UsageError(f"Line {number} {what} What stood before it has been sent.")


def _send_batch(sender: Sender[..., Any], batch: list[Line]) -> Iterator[Sequence[Handle[Any]]]:
    """Sends the lines together; where one is refused, one by one up to that."""
    from windlass.core.errors import InputError

    try:
        yield sender.delay_many([call for _, call in batch])
    except InputError:
        for number, call in batch:
            try:
                yield sender.delay_many([call])
            except InputError as error:
                raise _wrong(number, f"is refused: {error}") from None


def _put_ids(handles: Sequence[Handle[Any]], *, as_json: bool) -> bool:
    """Prints their ids; False once nobody reads them any more, which is no reason to stop sending."""
    try:
        for handle in handles:
            put_json({"id": handle.id}, line=True) if as_json else put(handle.id)
    except BrokenPipeError:
        return False
    return True


def _in_batches(calls: Iterator[Line]) -> Iterator[list[Line]]:
    batch: list[Line] = []
    wrong: click.UsageError | None = None
    try:
        for one in calls:
            batch.append(one)
            if len(batch) == BATCH:
                yield batch
                batch = []
    except click.UsageError as error:
        wrong = error  # told after what stood before it is sent
    if batch:
        yield batch
    if wrong is not None:
        raise wrong


def _sender(app: App, task: str, how: dict[str, Any], *, as_json: bool) -> tuple[Sender[..., Any], str]:
    """Who sends, and what is to be said about it once it is sent."""
    options = {name: value for name, value in how.items() if value is not None}
    app.named(task).using(**options)  # refused before the store is opened, which may make it
    open_store(app, as_json=as_json)
    full, remark = _full_name(app, task)
    sender = app.named(full)
    return sender.using(**options) if options else sender, remark


def open_store(app: App, *, as_json: bool) -> None:
    """Opens it, and says so where it is new: in another folder it is another one. One that ends here is refused."""
    from windlass.engines.connect import sqlite_path

    url = app.settings.url
    is_new = url.startswith("sqlite:") and not sqlite_path(url).exists()
    what = app.engine.capabilities
    if is_new and not as_json:
        say(f"A new store begins here: {redact_url(url)} in {Path.cwd()}.")
    if not what.processes:
        raise click.UsageError(
            f"A store of the {what.name} engine ends with this command, and the job with it: name another, such as "
            "sqlite:///jobs.db."
        )


def _full_name(app: App, task: str) -> tuple[str, str]:
    """The task of that name, or the only one whose last part it is. Nobody knows it: it is sent all the same."""
    from windlass.ops.cards import take_stock

    cards = take_stock(app.engine).cards
    known = set(app.tasks) | {name for card in cards for name in card.tasks or ()}
    if task in known:
        return task, ""
    ending = sorted(name for name in known if name.endswith(f".{task}"))
    if len(ending) == 1:
        return ending[0], ""
    if len(ending) > 1:
        raise click.UsageError(f"{task} may be {', '.join(ending)}. Write it whole.")
    meant = nearest(task, known)
    hint = f" Did you mean {meant}?" if meant else ""
    if app.tasks:
        raise click.UsageError(f"The app has no task {task!a}.{hint}")
    return task, f"No running worker knows {task}: the job waits for one.{hint}"


def _tell_before_waiting(app: App, handle: Handle[Any], remark: str, hint: str, *, as_json: bool) -> None:
    """Where the job is, and at once why it will not run by itself: nobody should have to wait for that."""
    from windlass.cli.remedy import with_remedy
    from windlass.ops.why import Cause

    found = _explained(app, handle)
    if not as_json:
        say(f"{handle.id} …" if found is None else f"{handle.id} on the queue {found.queue} …")
    cause = None if found is None else found.cause
    if found is not None and cause is not None:
        say(with_remedy(found.said, cause, found.queue))
    if hint and _is_not_taken(found):
        say(hint)
    if remark and cause not in {Cause.NO_WORKER, Cause.TASK_NOT_KNOWN}:
        say(remark)  # else it was just said


def _is_not_taken(found: Why | None) -> bool:
    from windlass.ops.why import Cause

    return found is not None and found.cause is Cause.QUEUE_NOT_TAKEN


def _explained(app: App, handle: Handle[Any]) -> Why | None:
    """Where the job is, and why it waits; None where that cannot be told any more: it is sent all the same."""
    from windlass.core.errors import WindlassError
    from windlass.ops.why import explain

    try:
        return explain(app.engine, handle.job_id)
    except WindlassError:
        return None


# ── results ─────────────────────────────────────────────────────────────────────────────────────────────


def _put_outcome(handle: Handle[Any], timeout: Any, *, as_json: bool) -> None:
    """The result; for programs also that there is none, as one JSON value, and why."""
    from windlass.core.errors import JobCancelled, JobDead, JobExpired, NotFinished, StoreUnavailable
    from windlass.core.job import ENDED

    try:
        _put_result(handle, timeout, as_json=as_json)
    except (NotFinished, JobDead, JobCancelled, JobExpired) as error:
        if not as_json or isinstance(error.__cause__, StoreUnavailable):
            raise  # where the store cannot be reached, there is no state to show
        state = handle.state
        if isinstance(error, NotFinished) and state in ENDED:
            return _put_outcome(handle, 0, as_json=True)  # it ended since: null would be taken for its result
        put_json({"id": handle.id, "state": state, "result": None, "why": handle.why()})
        click.get_current_context().exit(FAILED)


def _put_result(handle: Handle[Any], timeout: Any, *, as_json: bool) -> None:
    value = handle.get(timeout)
    if isinstance(value, Secret):
        value = MASK
    if as_json:
        put_json({"id": handle.id, "state": "succeeded", "result": value})
    elif isinstance(value, str):
        put(value)
    elif value is not None:
        put_json(value)
