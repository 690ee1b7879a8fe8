"""Functions that become tasks: what they are called, where they are, and which cannot be one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from windlass.core.errors import BadValue


def task_name(function: Callable[..., Any]) -> str:
    """module.function. What a program itself defines is named as another process would import it."""
    module = function.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec, file = getattr(main, "__spec__", None), _main_file()
        module = spec.name if spec is not None else Path(file).stem if file is not None else "main"
        module = module.removesuffix(".__main__")
    return f"{module}.{function.__qualname__}".replace(".<locals>", "").replace("<lambda>", "lambda")


def refuse_what_is_none(function: Callable[..., Any]) -> None:
    """A generator, a class and a method cannot be tasks."""
    import inspect

    qualname = getattr(function, "__qualname__", "")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function) or isinstance(function, type):
        raise BadValue(f"{qualname} is a generator or a class: it has no result.", "Decorate a function that returns.")
    inside = qualname.rpartition(".")[0]
    if inside and not inside.endswith("<locals>"):
        first = next(iter(inspect.signature(function).parameters), "")
        if first in {"self", "cls"}:
            raise BadValue(
                f"{qualname} is a method: a job cannot bring its object along.",
                "Decorate a function, and give it an id to load the object by.",
            )


def where(function: Callable[..., Any]) -> str:
    """Its file and line, for people."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)


def is_interactive(function: Callable[..., Any]) -> bool:
    """In a notebook or a shell, defining a function again is how one corrects it."""
    return function.__module__ == "__main__" and _main_file() is None


def _main_file() -> str | None:
    file = getattr(sys.modules["__main__"], "__file__", None)
    # A program that is read from a pipe calls itself <stdin>.
    return None if file is None or file.startswith("<") else file
