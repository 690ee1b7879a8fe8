"""Story J: the state machine of the conformance suite on the newest Valkey, the oldest Redis and a Cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.servers import binaries
from tests.servers.cluster import Cluster
from tests.servers.histories import Histories
from tests.servers.namespace import Namespace
from tests.servers.redis_server import RedisServer
from windlass.testing.conformance.machine import soak_machine

SERVERS = ("valkey", "redis62", "cluster")
EXAMPLES = 50
"""Histories of one round; a round has a seed of its own."""
STEPS = 80


def run_histories(server: str, seed: int, examples: int = EXAMPLES, steps: int = STEPS) -> None:
    """Raises with the shortest history that breaks a rule or leaves a key behind, and the seed that leads to it."""
    # A socket's path has hardly a hundred characters.
    with tempfile.TemporaryDirectory(prefix="wl-") as folder, _running(server, Path(folder)) as histories:
        soak_machine(histories.make, name=server, seed=seed, examples=examples, steps=steps, leaks=histories.leaks)


@contextmanager
def _running(server: str, folder: Path) -> Generator[Histories]:
    if server == "cluster":
        cluster = Cluster(binaries.valkey(), folder)
        try:
            cluster.start()
            yield Histories(Namespace(cluster.url(), "h"), lambda name: cluster.master_of(f"{{{name}}}").url())
        finally:
            cluster.end()
        return
    alone = RedisServer(binaries.valkey() if server == "valkey" else binaries.redis62(), folder)
    try:
        alone.start()
        yield Histories(Namespace(alone.url(), "h"))
    finally:
        alone.end()
