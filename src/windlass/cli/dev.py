"""`windlass dev`: a worker that starts anew whenever the code changes.

    windlass dev            watches the files; runs none of the user's code, so nothing there can break it
     └─ windlass worker     a child in a process group of its own: Ctrl-C reaches it through the parent, once

The child holds on to a pipe of its parent (`worker/lifeline.py`) and so never outlives it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, cast

import click

from windlass.cli.output import say
from windlass.cli.worker import PATIENCE_S, worker_options

LOOK_MS = 500
"""How often, besides at changes, it is seen whether the worker still runs."""
SHOWN = 3

Watch = Callable[[threading.Event], Generator[set[tuple[Any, str]]]]


@click.command(
    context_settings={"default_map": {"drain": "5s", "show_jobs": True}},
    epilog="""\b
Examples:
  windlass dev tasks.py
  windlass dev shop.tasks:app -c 1 --log-level debug
What runs when a file changes has --drain to end, else it goes back to the queue. Needs the package watchfiles.""",
)
@worker_options
@click.pass_context
def dev(ctx: click.Context, app: str | None, name: str | None, drain: Any, **_: Any) -> None:
    """Run the jobs of APP, and start anew whenever a .py file below its folder changes."""
    from windlass.core.durations import SECOND_US, to_us

    named = app or name
    if named is None:
        raise click.UsageError("Which app? Give a file or a module, as in: windlass dev tasks.py")
    folder = folder_of(named)
    child = Child(words_of(ctx), to_us(drain) / SECOND_US + PATIENCE_S)
    go_on(child, watcher(folder), folder)


def folder_of(name: str) -> Path:
    """The folder whose files are watched: that of the file, or the outermost package that the app is in."""
    place = name.strip().partition(":")[0]
    if place.endswith(".py"):
        path = Path(place).resolve()
        if not path.is_file():
            from windlass.app.locate import did_you_mean

            raise click.UsageError(f"There is no file {place!a}. {did_you_mean(place)}".rstrip())
        folder = path.parent
        while (folder / "__init__.py").is_file() and (folder.parent / "__init__.py").is_file():
            folder = folder.parent
        return folder
    top = place.partition(".")[0]
    found = PathFinder.find_spec(top, ["", *sys.path]) if top else None
    if found is None:
        raise click.UsageError(f"There is no module {top!a}. Give a file or a module, as in: windlass dev tasks.py")
    if found.submodule_search_locations:
        return Path(next(iter(found.submodule_search_locations))).resolve()
    return Path(found.origin or "").resolve().parent


def words_of(ctx: click.Context) -> list[str]:
    """The command line that says what this one was told, its defaults included."""
    words: list[str] = []
    for param in ctx.command.params:
        value = ctx.params.get(param.name or "")
        if value is None or value == "":
            continue
        if isinstance(param, click.Argument):
            words.append(str(value))
        elif isinstance(param, click.Option) and param.is_flag:
            words += param.opts[:1] if value else param.secondary_opts[:1]
        elif isinstance(value, dict):
            words += [
                word
                for name, amount in cast("dict[str, int]", value).items()
                for word in (param.opts[0], f"{name}={amount}")
            ]
        elif isinstance(value, tuple):
            words += [word for one in cast("tuple[str, ...]", value) for word in (param.opts[0], one)]
        elif isinstance(value, list):
            words += [param.opts[0], ",".join(cast("list[str]", value))]
        else:
            words += [param.opts[0], str(value)]
    return words


def watcher(folder: Path) -> Watch:
    """Gives the changes of .py files below the folder, and an empty set now and then, until the event is set."""
    try:
        from watchfiles import PythonFilter, watch
    except ImportError:
        from windlass.core.errors import MissingExtra

        raise MissingExtra("Watching files needs the package watchfiles.", "Run: pip install watchfiles") from None

    def until(stopped: threading.Event) -> Generator[set[tuple[Any, str]]]:
        return watch(
            folder,
            watch_filter=PythonFilter(),
            stop_event=stopped,
            rust_timeout=LOOK_MS,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )

    return until


class Child:
    """The worker's process, and at most one after the other."""

    def __init__(self, words: list[str], patience_s: float) -> None:
        self._words = words
        self._patience_s = patience_s
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = False
        # Python opens it such that no child inherits it: the worker must not hold its own lifeline.
        self._theirs, self._ours = os.pipe()

    def start(self) -> None:
        """Starts a worker; whether it can is seen by `ended`."""
        # A .pyc is taken for fresh if the file has its size and its second: an edit soon after another would be missed.
        environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "windlass", "worker", *self._words, "--lifeline", str(self._theirs)]
        self._asked = False
        self._process = subprocess.Popen(  # noqa: S603 – our own command, given as a list
            command, env=environ, stdin=subprocess.DEVNULL, pass_fds=[self._theirs], process_group=0
        )

    def ended(self) -> int | None:
        """Its exit code, once, when it has ended by itself."""
        code = None if self._process is None else self._process.poll()
        if code is not None:
            self._process = None
        return code

    def ask(self, *, again: bool = False) -> None:
        """Asks it to stop; asked again, it ends at once."""
        if self._process is not None and (again or not self._asked):
            self._asked = True
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Lets it stop gracefully; one that does not is killed."""
        self.ask()
        if self._process is not None:
            try:
                self._process.wait(self._patience_s)
            except subprocess.TimeoutExpired:
                say("The worker does not stop, and is killed. Its jobs run again.")
                self._process.kill()
                self._process.wait()
            self._process = None


def go_on(child: Child, watch: Watch, folder: Path) -> None:
    """Until a signal comes: keeps a worker running with the code as it is."""
    stopped = threading.Event()

    def ask(_number: int, _frame: object) -> None:
        child.ask(again=stopped.is_set())
        stopped.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        say(f"Watching {folder}. Stop with Ctrl-C.")
        child.start()
        for changes in watch(stopped):
            if changes:
                say(f"{_shown(path for _, path in changes)} changed: the worker starts anew.")
                child.stop()
                if not stopped.is_set():
                    child.start()
            elif (code := child.ended()) is not None:
                say(f"The worker has ended with exit code {code}. It starts again when a file changes.")
    finally:
        child.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


def _shown(paths: Iterable[str]) -> str:
    from windlass.ops.cards import listing

    return listing(sorted(os.path.relpath(path) for path in paths), SHOWN)
