"""`windlass doctor`: a list of checks, and what to do about each that is not well."""

from __future__ import annotations

import os
from pathlib import Path

import click

from windlass.cli.main import FAILED, UNREACHABLE
from windlass.cli.options import json_option, store, url_option
from windlass.cli.output import put, put_json, say
from windlass.core.plural import number_of

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command(
    epilog="""\b
Examples:
  windlass doctor
  windlass doctor --url sqlite:////var/lib/shop/jobs.db --json
Exit codes: 0 no problem (there may be warnings), 1 at least one, 3 the store cannot be reached.
The store's file is read as a whole."""
)
@url_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, url: str | None, as_json: bool) -> None:
    """Check the machine, the settings, the store and those who work on it; change nothing."""
    from windlass import __version__
    from windlass.core.errors import StoreError, WindlassError
    from windlass.engines.findings import Level, problem
    from windlass.ops.doctor import of_machine, of_store, worst

    code = FAILED
    findings = list(of_machine(url, os.environ, Path.cwd()))
    if worst(findings) is not Level.PROBLEM:  # with settings that nobody can read there is no store to look for
        try:
            with store(None, url) as here:
                findings += of_store(here.engine, __version__)
        except WindlassError as error:
            findings.append(problem("store", error.message, error.todo))
            code = UNREACHABLE if isinstance(error, StoreError) else FAILED
    levels = [finding.level for finding in findings]
    problems, warnings = levels.count(Level.PROBLEM), levels.count(Level.WARNING)
    if as_json:
        put_json({"ok": not problems, "problems": problems, "warnings": warnings, "findings": findings})
    else:
        for finding in findings:
            put_finding(finding.name, finding.level, finding.said, finding.todo)
        say(f"{number_of(len(findings), 'check')}: {number_of(problems, 'problem')}, {number_of(warnings, 'warning')}.")
    ctx.exit(code if problems else 0)


def put_finding(name: str, level: str, said: str, todo: str) -> None:
    """A line, and below it what to do."""
    from windlass.core.redact import plain, redact_text

    colour = None if os.environ.get("NO_COLOR") else _COLOURS[level]  # click leaves colours out on a pipe by itself
    click.echo(f"{click.style(f'{level:<8}', fg=colour)}{name:<12}{plain(redact_text(said))}")
    if todo:
        put(f"{'':<20}→ {todo}")
