"""`windlass script`: a file, sent to be run as a process of its own by a worker that was given its folder."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.options import DURATION, Whole
from windlass.cli.sending import hand_over, refuse_what_ends_here, send_options


@click.command(
    epilog="""\b
Examples:
  windlass script jobs/report.py
  windlass script jobs/report.py --name "Daily report" --memory 256MB --at "in 1 minute" -- --day 2026-11-15
  windlass script jobs/backup.sh --timeout 1h --retry 3 --wait
A worker runs it that was started with --scripts jobs/ and sees the file there: .py by its own Python, others by
their first line (#!). Follow what it prints with: windlass jobs logs -f ID"""
)
@click.argument("path")
@click.argument("words", nargs=-1, metavar="[-- ARGUMENT]...")
@click.option("--name", "title", default="", metavar="TEXT", help="What people call it.")
@click.option("--timeout", type=DURATION, help="End it after so long: SIGTERM, and SIGKILL after --grace.")
@click.option("--grace", type=DURATION, help="How long it may take to heed SIGTERM. [default: 5s]")
@click.option("--retry", type=Whole(0, 1_000_000), help="Try it again so often when it fails.")
@click.option("--wait", "waits", is_flag=True, help="Wait for its end; the exit code says whether it succeeded.")
@send_options
def script(path: str, words: tuple[str, ...], title: str, waits: bool, as_json: bool, **how: Any) -> None:
    """Send the file PATH to be run with these ARGUMENTS, and print the job's id."""
    from windlass.app import scripts
    from windlass.cli.options import an_app

    with an_app(how.pop("name"), how.pop("url")) as app:
        said = {name: value for name, value in how.items() if value is not None}
        # Refused before the store is opened, which may make it.
        sender = scripts.sender(app, said.pop("retry", None), said)
        arguments = scripts.arguments(app, path, words, title)
        refuse_what_ends_here(app)
        hand_over(app, sender.delay(**arguments), waits=waits, as_json=as_json)
