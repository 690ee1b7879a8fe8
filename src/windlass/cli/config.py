"""`windlass config`: the settings in force, and where each was set."""

from __future__ import annotations

import click

from windlass.cli.options import json_option, url_option
from windlass.cli.output import Sheet, put_json, put_sheet


@click.command(
    epilog="""\b
Examples:
  windlass config
  windlass config --show-origin     which variable or file set it
Arguments come before WINDLASS_* variables, those before windlass.toml or pyproject.toml."""
)
@click.option("--show-origin", is_flag=True, help="Say where each was set.")
@url_option
@json_option
def config(show_origin: bool, url: str | None, as_json: bool) -> None:
    """Show the settings in force, as they would be written down; passwords are masked."""
    from windlass.core.settings import load, shown_values

    loaded = load({"url": url})
    shown = shown_values(loaded.settings)
    origins = {name: origin for name, (_, origin) in loaded.origins.items()}
    if as_json:
        put_json({name: {"value": shown[name], "origin": origins[name]} for name in shown} if show_origin else shown)
    elif show_origin:
        put_sheet(Sheet(("setting", "value", "origin"), [(name, shown[name], origins[name]) for name in shown]))
    else:
        put_sheet(Sheet(("setting", "value"), list(shown.items())))
