"""A script as a job: which file, with which words. What whoever sends it and whoever runs it agree on."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from windlass.core.durations import LAST_US
from windlass.core.errors import BadValue
from windlass.core.limits import DEFAULT, Limits
from windlass.core.signature import Signature

SCRIPT: Final = "windlass.script"
"""The task of all scripts. Those workers know it that were given folders with scripts."""
LONGEST_NAME: Final = 200
LONGEST_PATH: Final = 4_096


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of it."""

    path: str
    """As it was given: its worker looks for it."""
    args: tuple[str, ...] = ()
    name: str = ""
    """What people call it."""
    by: str = ""
    """Who sent it."""
    sent_us: int = 0


def _call(path: str, args: list[str] | None = None, name: str = "", by: str = "", sent_us: int = 0) -> int:
    """What the arguments of such a job are; its result is the exit code."""
    raise NotImplementedError(path, args, name, by, sent_us)


_signature = Signature(_call)
_names: Final = ("path", "args", "name", "by", "sent_us")


def as_script(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Script | None:
    """The script that a job's arguments say, for people; None where they say none."""
    try:
        return msgspec.convert({**dict(zip(_names, args, strict=False)), **kwargs}, Script)
    except msgspec.ValidationError:
        return None


def read_script(payload: bytes, limits: Limits = DEFAULT) -> Script:
    """The script of a job; refused where it could not be one."""
    args, kwargs = _signature.decode(payload, limits)
    found = dict(zip(_names, args, strict=False)) | kwargs
    script = new_script(found["path"], found.get("args") or (), found.get("name", ""))
    by, sent_us = found.get("by", ""), found.get("sent_us", 0)
    if len(by) > LONGEST_NAME or not 0 <= sent_us < LAST_US:
        raise BadValue("Nobody can have sent a script so.", "Send it by app.script or by windlass script.")
    return msgspec.structs.replace(script, by=by, sent_us=sent_us)


def new_script(path: object, args: Sequence[object] = (), name: object = "") -> Script:
    """Refuses what no process could be started with."""
    text = str(path) if isinstance(path, Path) else path
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST_PATH:
        raise BadValue(f"A script cannot be {path!r:.60}.", 'Give the path of its file: "jobs/report.py".')
    if isinstance(args, str) or not all(isinstance(word, str) for word in args):
        raise BadValue("The arguments of a script are a list of text.", 'Give each by itself: ["--day", "2026-11-15"].')
    words = tuple(str(word) for word in args)
    if any("\0" in word for word in (text, *words)):
        raise BadValue("A script's path and arguments cannot hold a NUL.", "Leave it out: no process can be given one.")
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        raise BadValue(f"A script's name cannot be {name!r:.60}.", f"Give text of at most {LONGEST_NAME} characters.")
    return Script(path=text, args=words, name=name)


def whoever_sends() -> str:
    """This user, host and process, for a script's log."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container may have users without a name
        user = "somebody"
    return f"{user}@{socket.gethostname()}"[: LONGEST_NAME // 2] + f" (process {os.getpid()})"
