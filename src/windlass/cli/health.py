"""`windlass health`: one line and an exit code, for whoever watches over a worker."""

from __future__ import annotations

import platform

import click

from windlass.cli.completion import queue_names
from windlass.cli.main import FAILED, UNREACHABLE
from windlass.cli.options import json_option, store, url_option
from windlass.cli.output import put, put_json


@click.command(
    epilog="""\b
Examples:
  windlass health --live                  the worker of this host beats: a liveness probe
  windlass health --live --name mail-1    the one of that name, where a host has several
  windlass health --ready --queue mail    somebody takes the jobs of that queue
Exit codes: 0 yes, 1 no, 3 the store cannot be reached."""
)
@click.option("--live", "question", flag_value="live", help="Workers of this host have beaten within their lease.")
@click.option("--ready", "question", flag_value="ready", help="The store answers and a worker lives, on any host.")
@click.option("--name", metavar="NAME", help="With --live: only the worker of this name.")
@click.option("-q", "--queue", shell_complete=queue_names, help="With --ready: a worker that takes this queue.")
@url_option
@json_option
@click.pass_context
def health(
    ctx: click.Context, question: str | None, name: str | None, queue: str | None, url: str | None, as_json: bool
) -> None:
    """Say whether work can be done, in one line."""
    if question is None:
        raise click.UsageError("Which question? Give --live (this host's worker) or --ready (anybody works).")
    if name is not None and question == "ready":
        raise click.UsageError("--name goes with --live. With --ready, name a queue: --queue.")
    if queue is not None and question == "live":
        raise click.UsageError("--queue goes with --ready. With --live, name a worker: --name.")
    from windlass.core.errors import StoreError
    from windlass.core.names import check_name
    from windlass.ops.health import Health, live, ready

    if queue is not None:
        check_name("queue", queue)
    code = FAILED
    try:
        with store(None, url) as here:
            found = ready(here.engine, queue) if question == "ready" else live(here.engine, platform.node(), name)
    except StoreError as error:
        found, code = Health(ok=False, said=str(error)), UNREACHABLE
    if as_json:
        put_json(found)
    else:
        put(f"{question if found.ok else f'not {question}'}: {found.said}")
    ctx.exit(0 if found.ok else code)
