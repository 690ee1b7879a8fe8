"""Engines for a state machine: every history has a namespace of its own, all of them on one server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from tests.servers.namespace import Namespace
from windlass.core.limits import Limits
from windlass.engines.protocol import Engine
from windlass.engines.redis import RedisEngine, read_address

STAYS = {"meta", "news", "facts", "factx", "rules", "tat"}
"""What a namespace that was ever used keeps: its counters, and the facts that people wrote."""
HISTORY = ("hist:", "hb:")
"""Kept for as long as history is, whatever becomes of the jobs."""


def left_behind(namespace: Namespace) -> list[str]:
    """Keys that should have gone with the last job and the last worker."""
    return [ascii(name) for name in namespace.names() if name not in STAYS and not name.startswith(HISTORY)]


class Histories:
    """What a state machine needs to know of a server: how an engine is made, and what its history left there."""

    def __init__(self, where: Namespace, node_of: Callable[[str], str] = lambda _name: "") -> None:
        """`node_of`: the URL of the node that has a namespace, where they lie on several."""
        self._where = where
        self._node_of = node_of
        self._numbers = count()
        self._made: dict[Engine, Namespace] = {}

    def make(self, limits: Limits) -> Engine:
        name = f"{self._where.name}-{next(self._numbers)}"
        namespace = self._where._replace(name=name, node_url=self._node_of(name))
        engine = RedisEngine(read_address(namespace.url), limits)
        self._made[engine] = namespace
        return engine

    def leaks(self, engine: Engine) -> Sequence[str]:
        """At the end of a history; the rest of it goes, so that the next ones have fewer keys to look through."""
        namespace = self._made.pop(engine)
        left = left_behind(namespace)
        namespace.clear()
        return left

    def clear(self) -> None:
        """Of histories that did not come to their end."""
        for namespace in self._made.values():
            namespace.clear()
