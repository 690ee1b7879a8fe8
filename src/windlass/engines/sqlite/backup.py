"""A copy of the store that stands alone."""

from __future__ import annotations

import os
from pathlib import Path

from windlass.core.errors import BadValue
from windlass.core.system import sync_folder
from windlass.engines.sqlite import connection
from windlass.engines.sqlite.files import open_safely, refused
from windlass.engines.sqlite.hands import Hands


def backup(hands: Hands, target: str | os.PathLike[str]) -> Path:
    """Writes it, as the store is now, into a new file that is on the disk on return.

    Jobs go on meanwhile. Only if a checkpoint came in between is it copied once more, and writers wait for that.
    Whatever fails, no half of a copy is left behind.
    """
    path = Path(target).absolute()
    if path.exists() or path.is_symlink():
        raise BadValue(f"{path} exists.", "Name a file that does not.")
    try:
        epoch = hands.gate.epoch()
        _copy(hands, path)
        if hands.gate.epoch() != epoch:
            # A checkpoint may have moved pages under the copy (readers.py): once more, with the writers waiting.
            path.unlink()
            hands.gate.run(lambda: _copy(hands, path))
        _sync(path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _copy(hands: Hands, path: Path) -> None:
    hands.readers.check_in_place()
    os.close(open_safely(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    copier = connection.connect(hands.paths)
    try:
        with connection.translated(hands.paths):
            copier.execute("VACUUM INTO ?", (str(path),))
    finally:
        copier.close()


def _sync(path: Path) -> None:
    """Puts a file and its name on the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_folder(path.parent)
    except OSError as error:
        raise refused(path, error) from None
