"""`windlass worker`: runs an app's jobs until it is told to stop."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from windlass.cli.completion import queue_names
from windlass.cli.options import DURATION, SIZE, Whole, amounts, app_option
from windlass.cli.output import say
from windlass.cli.pidfile import holding
from windlass.worker.kind import KINDS

LEVELS = ("debug", "info", "warning", "error")
PATIENCE_S = 10.0
"""How long a worker may take to stop, besides its --drain, before whoever started it kills it."""


class PoolType(click.ParamType[str]):
    """A pool; a near miss is named, and so is what Celery calls otherwise."""

    name = "pool"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from windlass.core.names import near_miss

        if value in KINDS:
            return value
        if value in {"prefork", "processes"}:
            self.fail("Processes are a matter of -p, as in -p 4; the pool says what runs in each of them.", param, ctx)
        meant = {"async": "aio", "asyncio": "aio", "thread": "threads"}.get(value) or near_miss(value, KINDS)
        hint = f"Did you mean {meant}?" if meant else f"There are: {', '.join(KINDS)}."
        self.fail(f"There is no pool {value!a}. {hint}", param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(KINDS)}]"


class QueuesType(click.ParamType[list[str]]):
    """Names apart by commas."""

    name = "a,b"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        names = [name.strip() for name in str(value).split(",") if name.strip()]
        if not names:
            self.fail("No queue is named. Leave the option out for all of them.", param, ctx)
        return names


class ProcessesType(click.ParamType[int]):
    """How many processes."""

    name = "n|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from windlass.core.system import cores

        if value == "auto":
            return cores()
        return Whole(1, 1_000).convert(value, param, ctx)


def worker_options(function: Any) -> Any:
    """The options of whoever starts a worker."""
    for option in reversed(
        (
            click.argument("app", required=False),
            app_option,
            click.option(
                "-u", "--url", metavar="URL", help="The store of a worker without an APP. An app has its own."
            ),
            click.option(
                "-Q",
                "--queues",
                type=QueuesType(),
                shell_complete=queue_names,
                envvar="WINDLASS_QUEUES",
                help="Only these. [env: WINDLASS_QUEUES; default: all]",
            ),
            click.option(
                "-c",
                "--concurrency",
                type=Whole(1, 10_000),
                envvar="WINDLASS_CONCURRENCY",
                default=4,
                show_default=True,
                help="How many jobs at a time, of each kind (plain and async). [env: WINDLASS_CONCURRENCY]",
            ),
            click.option(
                "-P",
                "--pool",
                type=PoolType(),
                envvar="WINDLASS_POOL",
                default="auto",
                show_default=True,
                help="auto: async tasks on a loop (aio), others in threads; solo: one at a time. All but auto take "
                "only tasks of one kind. [env: WINDLASS_POOL]",
            ),
            click.option(
                "-p",
                "--processes",
                type=ProcessesType(),
                envvar="WINDLASS_PROCESSES",
                default="1",
                show_default=True,
                help="How many runners, each with -c slots; auto: as many as cores. [env: WINDLASS_PROCESSES]",
            ),
            click.option(
                "-n",
                "--name",
                "worker_name",
                metavar="NAME",
                default="",
                help="What others see. [default: the process id]",
            ),
            click.option(
                "--memory",
                type=SIZE,
                envvar="WINDLASS_MEMORY",
                help="What tasks with memory= may use in all. [env: WINDLASS_MEMORY; default: what there is]",
            ),
            click.option(
                "--resource",
                "resources",
                metavar="NAME=N",
                multiple=True,
                callback=amounts,
                help="What tasks with needs= share, as in browser=2. May be repeated.",
            ),
            click.option(
                "--scripts",
                metavar="DIR",
                multiple=True,
                help="Run the scripts of this folder too; without an APP only those. May be repeated. "
                "[default: the setting scripts]",
            ),
            click.option(
                "--max-jobs-per-runner",
                "--max-tasks-per-child",
                "max_jobs",
                type=Whole(1, 1_000_000_000),
                help="Replace a runner after so many jobs.",
            ),
            click.option(
                "--max-memory-per-runner",
                "--max-memory-per-child",
                "max_memory",
                type=SIZE,
                help="Replace a runner that has more in memory, once its jobs have ended.",
            ),
            click.option(
                "--drain",
                type=DURATION,
                envvar="WINDLASS_DRAIN",
                default="30s",
                show_default=True,
                help="How long running jobs may take to end when it is stopped. [env: WINDLASS_DRAIN]",
            ),
            click.option(
                "-l",
                "--log-level",
                "--loglevel",
                type=click.Choice(LEVELS, case_sensitive=False),
                envvar="WINDLASS_LOG_LEVEL",
                default="info",
                show_default=True,
                help="[env: WINDLASS_LOG_LEVEL]",
            ),
            click.option(
                "--log-format",
                type=click.Choice(("console", "json")),
                envvar="WINDLASS_LOG_FORMAT",
                default="console",
                show_default=True,
                help="[env: WINDLASS_LOG_FORMAT]",
            ),
            click.option(
                "-f",
                "--logfile",
                metavar="FILE",
                help="Write the log there; it may be moved away and is made anew. [default: stderr]",
            ),
            click.option(
                "--show-jobs/--no-show-jobs",
                default=None,
                help="A line for every job that ends. [default: on a terminal]",
            ),
        )
    ):
        function = option(function)
    return function


@click.command(
    epilog="""\b
Examples:
  windlass worker tasks.py                    the app in tasks.py, all queues
  windlass worker shop.tasks:app -Q mail -c 8
  windlass worker tasks.py -p auto --pool solo      a process per core, one job at a time in each
  windlass worker tasks.py -p 2 --memory 4GB --resource browser=2
  windlass worker tasks.py --until-empty      work off what is there, then exit
  windlass worker --scripts jobs/             no app: the scripts in jobs/, sent by windlass script
Stop it with Ctrl-C or SIGTERM: running jobs may end; a second one ends it at once."""
)
@worker_options
@click.option("--until-empty", is_flag=True, help="Stop when no job is left that could run now.")
@click.option("--pidfile", metavar="FILE", help="Write the process id there; refused while another one lives.")
@click.option("--lifeline", type=int, hidden=True, help="A pipe: stop when its other end is closed.")
def worker(
    app: str | None, name: str | None, until_empty: bool, pidfile: str | None, lifeline: int | None, **how: Any
) -> None:
    """Run the jobs of APP: a file (tasks.py), a module (shop.tasks) or an app in it (shop.tasks:app)."""
    if lifeline is not None:
        from windlass.core.durations import SECOND_US, to_us
        from windlass.worker.lifeline import hold_on_to

        hold_on_to(lifeline, to_us(how["drain"]) / SECOND_US + PATIENCE_S)
    with nullcontext() if pidfile is None else holding(Path(pidfile)):
        run_worker(app or name, until_empty=until_empty, **how)


def run_worker(
    app_name: str | None,
    *,
    url: str | None,
    until_empty: bool,
    processes: int,
    queues: list[str] | None,
    concurrency: int,
    pool: Any,
    worker_name: str,
    memory: int | None,
    resources: dict[str, int] | None,
    scripts: tuple[str, ...],
    max_jobs: int | None,
    max_memory: int | None,
    drain: Any,
    log_level: str,
    log_format: str,
    logfile: str | None,
    show_jobs: bool | None,
) -> None:
    """Runs a worker until a signal comes, or until nothing is left to do."""
    from windlass.core.settings import load

    settings = None
    if app_name is not None and url is not None:
        raise click.UsageError("An app brings its store along: App(url), or WINDLASS_URL. Leave --url out.")
    if app_name is None:
        settings = load({"url": url}).settings
        if not scripts and not settings.scripts:
            raise click.UsageError(
                "Which app? Give a file or a module, as in: windlass worker tasks.py; or folders with --scripts."
            )
    from windlass.core.durations import SECOND_US, to_us
    from windlass.core.errors import BrokenApp
    from windlass.core.names import check_label, check_name
    from windlass.observe import logs
    from windlass.worker.budget import read_resources
    from windlass.worker.plan import Plan
    from windlass.worker.supervisor import Supervisor

    plan = Plan(
        app=app_name or "",
        settings=settings,
        scripts=scripts,
        processes=processes,
        kind=pool,
        slots=1 if pool == "solo" else concurrency,
        name=check_label("worker name", worker_name) or f"{os.getpid()}",
        queues=None if queues is None else tuple(check_name("queue", queue) for queue in queues),
        drain_s=to_us(drain) / SECOND_US,
        max_jobs=max_jobs,
        max_memory=max_memory,
        resources=read_resources(memory, resources or {}),
        level=log_level,
        form=log_format,
        file=logfile,
    )
    _set_up_logs(log_level, log_format, logfile)
    supervisor = Supervisor(plan)
    if show_jobs or (show_jobs is None and logfile is None and sys.stderr.isatty()):
        logs.tell_jobs(supervisor.bus)
    try:
        supervisor.run(until_empty=until_empty)
    except BrokenApp as broken:
        say(broken.traceback.rstrip())
        raise


def _set_up_logs(level: str, form: str, file: str | None) -> None:
    from windlass.observe import logs

    try:
        logs.set_up(level, form, file)
    except OSError as error:
        raise click.UsageError(f"The log file {file} cannot be written: {error.strerror}.") from None
