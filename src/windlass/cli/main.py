"""`windlass`: finds the command, and turns whatever goes wrong into one sentence and an exit code.

    0 done   1 it failed   2 it was asked for wrongly   3 the store cannot be reached   130 interrupted

Commands are imported when they are called: `windlass --help` must not wait for what it does not use.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from windlass.core.errors import WindlassError

FAILED, USAGE, UNREACHABLE, INTERRUPTED = 1, 2, 3, 130

COMMANDS: dict[str, tuple[str, str]] = {
    "worker": ("worker:worker", "Run jobs: windlass worker tasks.py"),
    "dev": ("dev:dev", "Run jobs, and start anew whenever the code changes."),
    "call": ("sending:call", "Send one job, and wait for its result if asked to."),
    "send": ("sending:send", "Send many jobs of one task, a line of JSON each."),
    "script": ("scripts:script", "Send a file to be run as a process: windlass script jobs/report.py"),
    "result": ("sending:result", "Show what came of a job."),
    "jobs": ("jobs:jobs", "Look at jobs, and cancel, retry or delete them."),
    "dead": ("dead:dead", "Dead jobs by their errors: look, retry, purge."),
    "queues": ("queues:queues", "Look at queues, pause, resume or purge them."),
    "workers": ("workers:workers", "Look at workers, and drain, stop or restart them."),
    "inspect": ("inspection:inspect", "What workers do and know."),
    "status": ("status:status", "How everything is, once or until Ctrl-C."),
    "health": ("health:health", "Say in one line whether work can be done: for probes."),
    "doctor": ("doctor:doctor", "Look for what is wrong, and say what to do."),
    "config": ("config:config", "Show the settings in force, and where each was set."),
    "backup": ("backup:backup", "Copy the store into a file, while jobs go on."),
    "completion": ("completion:completion", "Print the script that completes commands in a shell."),
}
"""Each command with its home and its line in the list, so that the list needs no command's code."""

EXAMPLES = """\b
Examples:
  windlass worker tasks.py            run the jobs of the app in tasks.py
  windlass call tasks.add 2 3 --wait  send a job and print its result
  windlass status --watch             how everything is, until Ctrl-C
  windlass dead list                  what died, by error
"""


class Lazy(click.Group):
    """A group whose commands are imported when they are called."""

    def __init__(self, commands: dict[str, tuple[str, str]], **more: Any) -> None:
        super().__init__(**more)
        self._homes = commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._homes)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = self._homes.get(cmd_name)
        if home is None:
            return None
        module, _, name = home[0].partition(":")
        return getattr(import_module(f"windlass.cli.{module}"), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._homes.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._homes and not args[0].startswith("-"):
            from windlass.core.names import near_miss

            meant = near_miss(args[0], self._homes)
            hint = f"Did you mean {meant!r}?" if meant else f"There are: {', '.join(self._homes)}."
            raise click.UsageError(f"There is no command {args[0]!a}. {hint}", ctx)
        return super().resolve_command(ctx, args)


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        from windlass import __version__

        click.echo(f"windlass {__version__}")
        ctx.exit()


@click.command(
    cls=Lazy,
    commands=COMMANDS,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
def cli() -> None:
    """Windlass: a task queue that starts in a folder and grows to a cluster."""


def main() -> NoReturn:
    """Runs the command line, and exits."""
    try:
        status: Any = cli.main(prog_name="windlass", standalone_mode=False)
    except click.exceptions.Exit as done:
        status = done.exit_code
    except click.ClickException as error:
        _show(error)
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        status = INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough. Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except Exception as error:
        status = _told(error)
    sys.exit(status if isinstance(status, int) else 0)


class _Screen(StringIO):
    """Takes what click would show; a terminal, for click would cut some escapes out that are to be spelled out."""

    def isatty(self) -> bool:
        return True


def _show(error: click.ClickException) -> None:
    """What click says of the error; it may quote a name or a URL from elsewhere."""
    from windlass.cli.output import say

    screen = _Screen()
    error.show(screen)
    say(screen.getvalue().removesuffix("\n"))


def _told(error: Exception) -> int:
    from windlass.cli.output import say
    from windlass.core.errors import JobDead, WindlassError

    if not isinstance(error, WindlassError):
        raise error
    todo = "`windlass jobs show` has its traceback and its log." if isinstance(error, JobDead) else error.todo
    say(f"Error: {error.message} {todo}")
    return exit_code(error)


def exit_code(error: WindlassError) -> int:
    """The exit code that says which kind of trouble it was."""
    from windlass.core.errors import ConfigError, InputError, StoreError

    if isinstance(error, StoreError) or isinstance(error.__cause__, StoreError):
        return UNREACHABLE  # also if somebody has waited until his time was over
    return USAGE if isinstance(error, (ConfigError, InputError)) else FAILED
