"""`windlass backup`: a copy of the store in one file, while jobs go on."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import click

from windlass.cli.options import json_option, store, url_option
from windlass.cli.output import console, put, put_json, say


@click.command(
    epilog="""\b
Examples:
  windlass backup jobs-2027-01-15.db
  windlass backup /mnt/backup/jobs.db --force     replace yesterday's
To restore one, stop all workers and put it in the store's place, or give its path in the URL."""
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@url_option
@json_option
def backup(file: Path, force: bool, url: str | None, as_json: bool) -> None:
    """Copy the store into FILE: one file that stands alone, on the disk when this returns."""
    from windlass.ops.backup import backup

    if not force and os.path.lexists(file):
        raise click.UsageError(f"{file} exists. Name another file, or replace it with --force.")
    with store(None, url) as here:
        shown = sys.stderr.isatty() and not as_json
        with console(err=True).status(f"Copying into {file} …") if shown else nullcontext():
            made = backup(here.engine, file, overwrite=force)
    size = made.stat().st_size
    if as_json:
        put_json({"file": str(made), "bytes": size})
    else:
        put(str(made))
        say(f"{size / 1e6:,.1f} MB copied.")
