"""A file that says which process works, for process managers that go by one."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import click

from windlass.core.system import is_running


@contextmanager
def holding(path: Path) -> Generator[None]:
    """Within it the file holds this process's id. One of a process that lives is refused."""
    other = _owner(path)
    if other is not None and other != os.getpid() and is_running(other):
        raise click.UsageError(f"{path} says that process {other} works already. Stop that one, or name another file.")
    try:
        path.write_text(f"{os.getpid()}\n", encoding="ascii")
    except OSError as error:
        raise click.UsageError(f"The file {path} cannot be written: {error.strerror}.") from None
    try:
        yield
    finally:
        if _owner(path) == os.getpid():
            path.unlink(missing_ok=True)


def _owner(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
