"""Which commands we send, as an ACL names them (`zadd`, `pubsub|numsub`); those of scripts are read from their text.

So the rights that are asked for at every open cannot miss one that a script calls. The files are read as they lie
there: to put every script together would take ten times as long as the rest of an opening.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Final

OF_LINK: Final = frozenset({"eval", "evalsha", "ping", "subscribe", "unsubscribe"})
"""What is sent besides scripts and cannot be done without; the rest of it may be refused (INFO, CONFIG, CLIENT)."""

_CALL: Final = re.compile(r"\b(?:call|send)\(([^,()]*)(?:, '([A-Z]+)')?")
_NAME: Final = re.compile(r"'([A-Z]+)'")


@cache
def commands() -> frozenset[str]:
    """All that a user of a server must be allowed to run."""
    lua = resources.files("windlass.engines.redis").joinpath("lua")
    folders = (lua, lua.joinpath("parts"), lua.joinpath("modules"))
    files = [file for folder in folders for file in folder.iterdir() if file.is_file()]
    return OF_LINK.union(*(called_in(file.read_text("utf-8")) for file in files))


def called_in(source: str) -> Iterator[str]:
    """The commands that a script's text calls."""
    for command, of_it in _CALL.findall(source):
        # It may be chosen before the call: `local range = newest and 'ZREVRANGE' or 'ZRANGE'`.
        chosen = re.search(rf"\blocal {command} = (.*)", source) if command.isidentifier() else None
        for name in _NAME.findall(chosen[1] if chosen else command):
            yield f"{name}|{of_it}".lower() if of_it else name.lower()
