"""A Cluster: three masters, and a replica of each that takes over when its master is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import redis

from tests.servers.client import plain_client
from tests.servers.redis_server import HOST, RedisServer, query
from tests.soak.waiting import wait_for

SLOTS = 16_384
MASTERS = 3
CONFIG = (
    "cluster-enabled yes",
    "cluster-config-file nodes.conf",
    "cluster-node-timeout 1000",
    "cluster-migration-barrier 9",  # nobody moves to another master: each keeps its own replica
    "repl-diskless-sync-delay 0",
)


class Cluster:
    """Six servers that know one another. Who kills or freezes one waits for the promotion, and may bring it back."""

    def __init__(self, binary: Path, folder: Path, *, config: tuple[str, ...] = ()) -> None:
        self.nodes = [RedisServer(binary, folder / str(n), config=CONFIG + config) for n in range(2 * MASTERS)]

    def start(self) -> Cluster:
        """With all slots covered, and every replica in step with its master."""
        for epoch, node in enumerate(self.nodes, start=1):
            node.start()
            _ask(node, "SET-CONFIG-EPOCH", epoch)
        for node in self.nodes:
            for other in self.nodes:
                _ask(node, "MEET", HOST, other.port)
        masters, replicas = self.nodes[:MASTERS], self.nodes[MASTERS:]
        for n, master in enumerate(masters):
            _ask(master, "ADDSLOTS", *range(SLOTS * n // MASTERS, SLOTS * (n + 1) // MASTERS))
        wait_for("all nodes to know one another", lambda: all(map(self._knows_all, self.nodes)))
        for master, replica in zip(masters, replicas, strict=True):
            _ask(replica, "REPLICATE", _ask(master, "MYID"))
        self.wait_until_ok()
        return self

    def end(self) -> None:
        """For good."""
        for node in self.nodes:
            node.end()

    def url(self, namespace: str = "") -> str:
        """Names every node: one that is down must not keep anybody from the others."""
        hosts = ",".join(f"{HOST}:{node.port}" for node in self.nodes)
        return f"redis+cluster://{hosts}{query(namespace)}"

    def client(self, key: str, **options: Any) -> Any:
        """A plain client of the node that has this key now."""
        return plain_client(self.master_of(key).url(), **options)

    def wait_until_ok(self) -> None:
        """Until all nodes that are awake see the same masters cover all slots, with the same replicas in step."""
        wait_for("the cluster to be ok", self._is_ok)

    def master_of(self, key: str) -> RedisServer:
        """Who has this key, as a node that is awake sees it."""
        witness = self._awake()[0]
        slot = _ask(witness, "KEYSLOT", key)
        port = next(master for first, last, master, *_ in _owners(witness) if first <= slot <= last)
        return next(node for node in self.nodes if node.port == port)

    def kill_master_of(self, key: str) -> RedisServer:
        """The one that is gone now."""
        master = self.master_of(key)
        master.kill()
        return master

    def wait_for_promotion(self, key: str, lost: RedisServer) -> RedisServer:
        """The replica that has taken over from the one that was lost."""
        wait_for("a promotion", lambda: self.master_of(key) is not lost)
        self.wait_until_ok()
        return self.master_of(key)

    def _awake(self) -> list[RedisServer]:
        return [node for node in self.nodes if node.is_awake()]

    def _is_ok(self) -> bool:
        awake = self._awake()
        try:
            return (
                all("cluster_state:ok" in _ask(node, "INFO") for node in awake)
                and len({_owners(node) for node in awake}) == 1
                and all(map(_is_in_step, awake))
            )
        except redis.ConnectionError:  # a replica that loads what its master sent
            return False

    def _knows_all(self, node: RedisServer) -> bool:
        lines = _ask(node, "NODES").splitlines()
        return len(lines) == len(self.nodes) and not any("handshake" in line for line in lines)


def _ask(node: RedisServer, *words: Any) -> Any:
    with node.client(decode_responses=True) as client:
        return client.execute_command("CLUSTER", *words)


def _owners(node: RedisServer) -> tuple[tuple[int, ...], ...]:
    """First slot, last slot, the port of its master and those of its replicas, as this node sees it."""
    parts = _ask(node, "SLOTS")
    return tuple(
        sorted((first, last, master[1], *sorted(r[1] for r in replicas)) for first, last, master, *replicas in parts)
    )


def _is_in_step(node: RedisServer) -> bool:
    with node.client() as client:
        info = client.info("replication")
    return info["role"] == "master" or info["master_link_status"] == "up"
