"""Other arguments for a job that is sent again: `--edit name=value`, or `--args` and `--kwargs` whole.

People edit what they were shown: the redacted arguments. Where the mask was left standing, `ops.steer.remake` puts the
secret back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from windlass.cli.options import Store
from windlass.core.plural import number_of
from windlass.core.secret import MARK

if TYPE_CHECKING:
    from windlass.app.task import Task
    from windlass.core.ids import JobId

F = TypeVar("F", bound=Callable[..., Any])


class JsonType(click.ParamType[Any]):
    """A JSON value of one kind."""

    def __init__(self, kind: type, name: str) -> None:
        self.kind = kind
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            found = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError) as error:
            self.fail(f"It is not JSON: {error}.", param, ctx)
        if not isinstance(found, self.kind):
            self.fail(f"It must be a JSON {self.name}.", param, ctx)
        return found


def edits(function: F) -> F:
    """The options that change arguments."""
    edit = click.option("--edit", multiple=True, metavar="NAME=VALUE", help="One other argument, by name or place.")
    args = click.option("--args", type=JsonType(list, "array"), help="All arguments by position.")
    kwargs = click.option("--kwargs", type=JsonType(dict, "object"), help="All arguments by name.")
    return edit(args(kwargs(function)))


def has_edits(edit: tuple[str, ...], args: Any, kwargs: Any) -> bool:
    """Whether any argument is to be another."""
    return bool(edit) or args is not None or kwargs is not None


def value_of(text: str) -> Any:
    """JSON where it can be read as such, else text; a secret that is misspelt is refused."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if text.lstrip().startswith("{") and MARK in text:
            # As text it would be shown to everybody; nor is it quoted here.
            raise click.UsageError(
                f'An argument looks like a secret and is not JSON. Write it so: \'{{"{MARK}": "…"}}\'.'
            ) from None
        return text


def edited(here: Store, job_id: JobId, edit: tuple[str, ...], args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments as `remake` takes them: None where they stay."""
    if not edit:
        return {"args": args, "kwargs": kwargs}
    from windlass.ops import view

    shown = view.job(here.engine, job_id, secret_names=here.settings.secret_names, limits=here.settings.limits)
    if shown.unreadable is not None:
        raise click.UsageError(f"{shown.unreadable} Give --args and --kwargs whole.")
    made_args: list[Any] = list(shown.args if args is None else args)
    made_kwargs: dict[str, Any] = dict(cast("dict[str, Any]", shown.kwargs if kwargs is None else kwargs))
    for word in edit:
        _put(here, shown.task, word, made_args, made_kwargs)
    return {"args": made_args, "kwargs": made_kwargs}


def _put(here: Store, task: str, word: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    name, sign, text = word.partition("=")
    if not sign or not name:
        # It is not quoted: it may be a secret.
        raise click.UsageError("An edit names no argument. Write NAME=VALUE, or 0=VALUE for the first by position.")
    value = value_of(text)
    by_place = name.isascii() and name.isdigit() and len(name) < 10
    place = int(name) if by_place else _place(here, task, name, args, kwargs)
    if place is None:
        kwargs[name] = value
    elif place < len(args):
        args[place] = value
    else:
        raise click.UsageError(
            f"The job has {number_of(len(args), 'argument')} by position, from 0 on; {name} is none of them."
        )


def _place(here: Store, task: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> int | None:
    """Where the argument stands by position; None: by name. Only the function knows, if it came by position."""
    if name in kwargs or not args:
        return None
    known = function_of(here, task)
    if known is None:
        raise click.UsageError(
            f"The job has {number_of(len(args), 'argument')} by position, "
            f"and only its function knows which one is {name!a}. "
            "Name the app with --app, or give the place: --edit 0=VALUE."
        )
    place = known.signature.place_of(name)
    return place if place is not None and place < len(args) else None


def function_of(here: Store, task: str) -> Task[..., Any] | None:
    """The task, where the app that was named has it."""
    return None if here.app is None else here.app.tasks.get(task)
