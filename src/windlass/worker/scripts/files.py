"""Which file a script is: looked for beneath the allowed folders, and opened there.

What was opened is what runs, by its descriptor. So a link that leads out of the folder is refused, whether it was there
from the start or is put in the file's place a moment later.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from windlass.core.errors import BadScript, BadSetting
from windlass.core.system import open_beneath, open_folder, pread

FIRST_LINE = 256
"""As much of it as Linux looks at."""


PASSING = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ETXTBSY})
"""What keeps a script from starting and says nothing against it: the host has no room now, or its file is written."""


class Later(Exception):
    """It cannot be started now, for that reason."""


class Found(NamedTuple):
    """An opened script."""

    descriptor: int
    path: Path
    """As the worker sees it, for people and for the script itself."""
    is_python: bool


def check_folders(folders: Sequence[str]) -> None:
    """Refuses what is no folder, before a worker starts with it."""
    for folder in folders:
        if not Path(folder).is_dir():
            raise BadSetting(f"There is no folder of scripts {folder!a}.", "Make it, or name another one.")


def find(path: str, folders: Sequence[str]) -> Found:
    """Opens the script, or says why it may not be run."""
    wanted = Path(os.path.normpath(Path.cwd() / path))
    for folder in folders:
        top = Path(os.path.normpath(Path.cwd() / folder))
        if wanted == top or wanted.is_relative_to(top):
            return _open(top, wanted.relative_to(top), wanted)
    raise BadScript(
        f"The script {str(wanted)!a} is not in a folder of scripts of this worker.",
        f"Those are {' and '.join(folders)}, and a relative path begins in {Path.cwd()}.",
    )


def _open(top: Path, rest: Path, path: Path) -> Found:
    try:
        folder = open_folder(top)
    except OSError as error:
        raise BadScript(
            f"The folder of scripts {str(top)!a} cannot be opened: {error.strerror}.", "Make it, or name another one."
        ) from None
    try:
        descriptor = open_beneath(folder, str(rest))
    except OSError as error:
        raise Later(error.strerror) if error.errno in PASSING else _refusal(path, error) from None
    finally:
        os.close(folder)
    try:
        return _checked(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise


def _refusal(path: Path, error: OSError) -> BadScript:
    if error.errno in (errno.EXDEV, errno.ELOOP):
        return BadScript(f"The script {str(path)!a} is a link out of its folder.", "Put the file itself there.")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return BadScript(
            f"There is no script {str(path)!a} on this worker's machine.", "Put it there, and retry the job."
        )
    return BadScript(f"The script {str(path)!a} cannot be opened: {error.strerror}.", "Let the worker read it.")


def unstartable(found: Found, error: Exception) -> Exception:
    """Why the kernel does not start a file that may be run: mostly for its first line, or for want of something."""
    if isinstance(error, OSError) and error.errno in PASSING:
        return Later(error.strerror)
    reason = error.strerror if isinstance(error, OSError) else error
    first, path = pread(found.descriptor, FIRST_LINE, 0).split(b"\n")[0], str(found.path)
    if not first.startswith(b"#!"):
        todo = "Its first line names its program: #!/bin/sh."
        return BadScript(f"The script {path!a} cannot be started: {reason}.", todo)
    program = first[2:].strip(b" \t").decode(errors="backslashreplace")
    todo = (
        "Write its lines as Unix has them: dos2unix."
        if program.endswith("\r")
        else "Install that, or correct the line."
    )
    return BadScript(f"The script {path!a} cannot be started by {program!a}: {reason}.", todo)


def _checked(descriptor: int, path: Path) -> Found:
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise BadScript(f"{str(path)!a} is {what}, not a script.", "Name a file.")
    is_python = path.suffix == ".py"
    if not is_python and not mode & 0o111:
        raise BadScript(f"The script {str(path)!a} is not executable.", f"Run: chmod +x {path.name}")
    return Found(descriptor, path, is_python)
