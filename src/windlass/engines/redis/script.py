"""A Lua script and the name by which a server remembers it."""

from __future__ import annotations

import hashlib


class Script:
    """The source of one verb, and the SHA-1 of it that EVALSHA takes."""

    __slots__ = ("name", "sha", "source")

    def __init__(self, name: str, source: bytes) -> None:
        self.name = name
        self.source = source
        self.sha = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()

    def __repr__(self) -> str:
        return f"Script({self.name!r})"
