"""A file that says which process works, for process managers that go by one."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import click

from windlass.core.system import LOCK_EX, LOCK_NB, flock


@contextmanager
def holding(path: Path) -> Generator[None]:
    """Within it the file holds this process's id, under a lock: what a dead process left there is no hindrance."""
    descriptor = _open_locked(path)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _open_locked(path: Path) -> int:
    while True:
        descriptor = _open(path)
        try:
            _take(descriptor, path)
            _refuse_others(descriptor, path)
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # whoever had it took it away meanwhile


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise click.UsageError(f"The file {path} cannot be written: {error.strerror}.") from None


def _take(descriptor: int, path: Path) -> None:
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        other = os.read(descriptor, 32).decode(errors="replace").strip() or "another one"
        raise click.UsageError(
            f"{path} says that process {other} works already. Stop that one, or name another file."
        ) from None


def _refuse_others(descriptor: int, path: Path) -> None:
    """What somebody has written there for another purpose is not ours to overwrite."""
    there = os.read(descriptor, 32).strip()
    os.lseek(descriptor, 0, os.SEEK_SET)
    if there and not there.isdigit():
        raise click.UsageError(f"{path} holds something other than a process id. Name another file.")
