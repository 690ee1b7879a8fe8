"""`windlass script`: a file, sent to be run as a process of its own by a worker that was given its folder."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.options import DURATION, Whole
from windlass.cli.sending import hand_over, open_store, send_options


class Words(click.Command):
    """A command whose own options come before `--`; one that it does not have may be meant for the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            what = f"windlass script has no option {error.option_name}."
            raise click.UsageError(
                f"{what} What is meant for the script goes after --: … -- {error.option_name}"
            ) from None


@click.command(
    cls=Words,
    epilog="""\b
Examples:
  windlass script jobs/report.py
  windlass script jobs/report.py --name "Daily report" --memory 256MB --at "in 1 minute" -- --day 2026-11-15
  windlass script jobs/backup.sh --timeout 1h --retry 3 --wait
A worker runs it that was started with --scripts jobs/ and sees the file there: .py by its own Python, others by
their first line (#!). Follow what it prints with: windlass jobs logs -f ID""",
)
@click.argument("path")
@click.argument("words", nargs=-1, metavar="[-- ARGUMENT]...")
@click.option("--name", "title", default="", metavar="TEXT", help="What people call it.")
@click.option("--timeout", type=DURATION, help="End it after so long: SIGTERM, and SIGKILL after --grace.")
@click.option("--grace", type=DURATION, help="How long it may take to heed SIGTERM. [default: 5s]")
@click.option("--tag", "tags", multiple=True, help="To find it by: windlass jobs list --tag. May be repeated.")
@click.option("--retry", type=Whole(0, 1_000_000), help="Try it again so often when it fails.")
@click.option("--wait", "waits", is_flag=True, help="Wait for its end; the exit code says whether it succeeded.")
@send_options
def script(path: str, words: tuple[str, ...], title: str, waits: bool, as_json: bool, **how: Any) -> None:
    """Send the file PATH to be run with these ARGUMENTS, and print the job's id."""
    from windlass.app import scripts
    from windlass.cli.options import an_app

    with an_app(how.pop("name"), how.pop("url")) as app:
        said = {name: value for name, value in how.items() if value not in (None, ())}
        # Refused before the store is opened, which may make it.
        sender = scripts.sender(app, said.pop("retry", None), said)
        arguments = scripts.arguments(app, path, words, title)
        open_store(app, as_json=as_json)
        hand_over(app, sender.delay(**arguments), waits=waits, as_json=as_json)
