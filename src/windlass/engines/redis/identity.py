"""Which store this is: an id that lies in it, and is gone with all else when it is emptied or the server loses it."""

from __future__ import annotations

from contextlib import suppress

from windlass.core.errors import StoreFull
from windlass.core.ids import new_id
from windlass.engines.redis.link import Link


def identity(link: Link) -> bytes | None:
    """The id of the store, which is given one if it has none; None where the server has no room for it."""
    key = link.address.meta_key
    found: bytes | None = link.ask(b"HGET", key, b"id")
    if found is None:
        with suppress(StoreFull):
            link.ask(b"HSETNX", key, b"id", new_id().hex())
        found = link.ask(b"HGET", key, b"id")  # somebody may have been first
    return found
