"""A copy of a store in one file, where its engine can make one. What is there is replaced only where asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from windlass.core.errors import BadValue
from windlass.core.ids import new_id
from windlass.core.system import sync_folder
from windlass.engines.protocol import Engine

BY_SERVER: Final = {
    "redis": "There: BGSAVE, then copy dump.rdb, or copy the append-only file. The steps: docs/engines/redis.md#backup",
}
"""Engines whose servers make backups of their own, and how."""


@runtime_checkable
class BacksUp(Protocol):
    """An engine that can copy its store into a new file."""

    def backup(self, target: str | os.PathLike[str]) -> Path: ...


def backup(engine: Engine, target: Path, *, overwrite: bool = False) -> Path:
    """Copies the store into the file, whole and on the disk on return; jobs go on meanwhile."""
    if not isinstance(engine, BacksUp):
        raise _no_file(engine.capabilities.name)
    _refuse_what_cannot_be_made(target)
    if not overwrite or not os.path.lexists(target):
        return engine.backup(target)
    _refuse_what_is_no_backup(target)
    beside = target.with_name(f".{new_id().hex()}.part")  # short, whatever the target's name is
    try:
        engine.backup(beside)
        os.replace(beside, target)  # at once: whoever reads it has the old one or the new one
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(target.parent)
    return target.absolute()


def _no_file(name: str) -> BadValue:
    if name in BY_SERVER:
        return BadValue(f"A store of the {name} engine is backed up by its server, not by Windlass.", BY_SERVER[name])
    return BadValue(f"The {name} engine has no backup.", "Only a store in a file can be copied: sqlite:///jobs.db.")


def _refuse_what_cannot_be_made(target: Path) -> None:
    try:
        os.lstat(f"{target}-journal")  # SQLite makes it on the way: a name must leave room for that
    except FileNotFoundError:
        pass
    except OSError as error:
        raise BadValue(f"{target} cannot be made: {error.strerror}.", "Give another path.") from None


def _refuse_what_is_no_backup(target: Path) -> None:
    if target.is_symlink() or not target.is_file():
        raise BadValue(f"{target} is no plain file.", "Name another.")
    if any(Path(f"{target}{end}").exists() for end in (".d", "-wal")):
        # It may be the very store that is copied, or one that others have open.
        raise BadValue(f"{target} is a store that is in use or was.", "Name another file.")
