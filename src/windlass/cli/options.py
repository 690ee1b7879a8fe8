"""Options that several commands share, and what they stand for: a store, an app."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from windlass.app.app import App
    from windlass.core.settings import Settings
    from windlass.engines.protocol import Engine

F = TypeVar("F", bound=Callable[..., Any])

url_option = click.option(
    "-u", "--url", metavar="URL", help="The store, such as sqlite:///jobs.db. Default: WINDLASS_URL, else the settings."
)
app_option = click.option(
    "-A",
    "--app",
    "name",
    metavar="APP",
    envvar="WINDLASS_APP",
    help="The app: tasks.py, shop.tasks or shop.tasks:app. [env: WINDLASS_APP]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
dry_run_option = click.option("-n", "--dry-run", is_flag=True, help="Say what would be done, and do nothing.")


class DurationType(click.ParamType[Any]):
    """Seconds, or a text such as 15m; kept as it was written."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from windlass.core.durations import to_us
        from windlass.core.errors import InputError

        try:
            to_us(float(value) if _is_number(value) else value)
        except InputError as error:
            self.fail(str(error), param, ctx)
        return float(value) if _is_number(value) else value


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


DURATION = DurationType()


class InstantType(click.ParamType[Any]):
    """When: "in 10 minutes", a time of day, or a date and a time; those of this machine's zone where none is named."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from windlass.core.clock import SystemClock
        from windlass.core.errors import InputError
        from windlass.core.moments import read_moment

        try:
            return read_moment(str(value), SystemClock().now_us())
        except InputError as error:
            self.fail(str(error), param, ctx)


INSTANT = InstantType()


class SizeType(click.ParamType[int]):
    """An amount of memory such as 512MB, in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from windlass.core.errors import InputError
        from windlass.worker.budget import read_memory

        try:
            return read_memory(int(value) if str(value).isdecimal() else value)
        except InputError as error:
            self.fail(str(error), param, ctx)


SIZE = SizeType()


def amounts(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> dict[str, int] | None:
    """Amounts by name, from words such as browser=2; None where there are none. For the callback of an option."""
    found: dict[str, int] = {}
    for word in words:
        name, sign, amount = word.partition("=")
        if not sign or not (amount.isascii() and amount.isdigit()):
            raise click.BadParameter(
                f"It takes a name and a whole number, such as browser=1, not {word!a}.", ctx, param
            )
        if name in found:
            raise click.BadParameter(f"{name} is given twice. Give it once.", ctx, param)
        found[name] = int(amount)
    return found or None


class Whole(click.IntRange):
    """A whole number within bounds, which are said together where it is none: click speaks of integer ranges."""

    def __init__(self, least: int, most: int) -> None:
        super().__init__(least, most)
        self._bounds = f"from {least:,} to {most:,}"
        self._allowed = range(least, most + 1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            number = self._allowed.start - 1
        if number not in self._allowed:
            self.fail(f"It takes a whole number {self._bounds}, not {value!a}.", param, ctx)
        return number


class Store(NamedTuple):
    """An open store, and the settings that say what is a secret and how long things are kept."""

    engine: Engine
    settings: Settings
    app: App | None


def store_options(function: F) -> F:
    """The options of whoever looks into a store: which one, and for whom it is shown."""
    return app_option(url_option(json_option(function)))


@contextmanager
def store(name: str | None, url: str | None) -> Generator[Store]:
    """The store that is named or set, or the app's. Reading must not make one: a file that is not there is an error.

    What there is to say of it at every open is left to workers and to the doctor.
    """
    from windlass.core.settings import load
    from windlass.engines.connect import connect
    from windlass.engines.findings import untold

    app = None if name is None or _outvoted(url) else load_app(name)
    settings = load({"url": url}).settings if app is None else app.settings
    engine = connect(settings.url, settings)
    refuse_to_make(settings.url)
    with untold():
        engine.open()
        try:
            yield Store(engine, settings, app)
        finally:
            engine.close()


def _outvoted(url: str | None) -> bool:
    """Whether a URL was typed where the app comes from the environment only."""
    if url is None:
        return False
    if click.get_current_context().get_parameter_source("name") is ParameterSource.COMMANDLINE:
        raise click.UsageError("An app brings its store along: give --app or --url, not both.")
    return True


def refuse_to_make(url: str) -> None:
    """Refuses to look into a store that is not there: opening it would make it."""
    from windlass.core.errors import StoreUnavailable
    from windlass.core.redact import redact_url
    from windlass.engines.connect import sqlite_path

    if url.startswith("sqlite:") and not sqlite_path(url).exists():
        raise StoreUnavailable(
            f"There is no store {redact_url(url)}.",
            "Name one with --url or WINDLASS_URL; a worker or the first send makes it.",
        )


def load_app(name: str) -> App:
    """The app of that name."""
    from windlass.app.locate import load

    return load(name)


@contextmanager
def an_app(name: str | None, url: str | None) -> Generator[App]:
    """The app that is named; else one without tasks, on the store that is named or set, of which no more is said."""
    from windlass.app.app import App
    from windlass.engines.findings import untold

    with untold(), App(url) if name is None or _outvoted(url) else load_app(name) as app:
        yield app
