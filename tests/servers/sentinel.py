"""A master and its replica, watched by three Sentinels that promote the replica when the master is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import redis

from tests.servers.redis_server import HOST, RedisServer, account, query
from tests.soak.waiting import wait_for

SERVICE = "service"
SENTINELS = 3


class Sentinel(RedisServer):
    """One that watches."""

    mode = ("--sentinel",)


class Watched:
    """Two servers, watched. Who kills or freezes the master waits for the promotion, and may bring it back."""

    def __init__(self, binary: Path, folder: Path, *, password: str | None = None) -> None:
        """The password is that of the servers; Sentinels ask for none."""
        self._binary = binary
        self._folder = folder
        self._password = password
        self.servers: list[RedisServer] = []
        self.sentinels: list[Sentinel] = []

    def start(self) -> Watched:
        """With the replica in step, and every Sentinel knowing all others."""
        first = self._server()
        self.wait_for_replica(self._server(f"replicaof {HOST} {first.port}"))
        for n in range(SENTINELS):
            sentinel = Sentinel(self._binary, self._folder / f"sentinel{n}", config=self._watch(first, n))
            self.sentinels.append(sentinel)
            sentinel.start()
            # A replica that has not answered for five pings is not promoted, and who was just promoted is connected to
            # after one: the time after which a server is taken for dead lies well between the two.
            _ask(sentinel, "DEBUG", "PUBLISH-PERIOD", 100, "INFO-PERIOD", 200, "PING-PERIOD", 400)
        wait_for("all Sentinels to know one another", lambda: all(map(_knows_all, self.sentinels)))
        return self

    def end(self) -> None:
        """For good. Watchers first: nobody has to be promoted any more."""
        for server in [*self.sentinels, *self.servers]:
            server.end()

    def url(self, namespace: str = "") -> str:
        """Names the Sentinels, who know the master."""
        hosts = ",".join(f"{HOST}:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{account(self._password)}{hosts}/{SERVICE}/0{query(namespace)}"

    def master(self) -> RedisServer | None:
        """Whom all Sentinels that are awake name; None as long as they differ."""
        named = {_named(sentinel) for sentinel in self.sentinels if sentinel.is_awake()}
        return next((server for server in self.servers if named == {server.port}), None)

    def wait_for_master(self) -> RedisServer:
        """Whom all of them name at last."""
        master = wait_for("a master that all Sentinels name", self.master)
        assert master is not None
        return master

    def kill_master(self) -> RedisServer:
        """The one that is gone now."""
        master = self.wait_for_master()
        master.kill()
        return master

    def wait_for_promotion(self, lost: RedisServer) -> RedisServer:
        """The one that has taken over from the one that was lost, and takes writes."""
        other = next(server for server in self.servers if server is not lost)
        wait_for("a promotion", lambda: self.master() is other and _state(other, "role") == "master")
        return other

    def wait_for_replica(self, server: RedisServer) -> None:
        """Until one that came back follows the master of today, in step with it."""
        wait_for("a server to follow", lambda: _state(server, "master_link_status") == "up")

    def _server(self, *config: str) -> RedisServer:
        folder = self._folder / f"server{len(self.servers)}"
        server = RedisServer(
            self._binary, folder, password=self._password, config=("repl-diskless-sync-delay 0", *config)
        )
        self.servers.append(server)
        return server.start()

    def _watch(self, master: RedisServer, n: int) -> list[str]:
        # One is quicker than the others to see a death, and gets their votes. Alike, they all ask at once, nobody gets
        # two votes, and they try again after six seconds.
        return [
            f"sentinel monitor {SERVICE} {HOST} {master.port} 1",
            f"sentinel down-after-milliseconds {SERVICE} {1500 + 2000 * n}",
            f"sentinel failover-timeout {SERVICE} 3000",
            *([f"sentinel auth-pass {SERVICE} {self._password}"] if self._password else []),
        ]


def _ask(sentinel: RedisServer, *words: Any) -> Any:
    with sentinel.client(decode_responses=True) as client:
        return client.execute_command("SENTINEL", *words)


def _named(sentinel: RedisServer) -> int:
    return int(_ask(sentinel, "GET-MASTER-ADDR-BY-NAME", SERVICE)[1])


def _knows_all(sentinel: RedisServer) -> bool:
    """The others, and a replica in step: whom it has not seen in step before a death, it does not promote after it."""
    master = _pairs(_ask(sentinel, "MASTER", SERVICE))
    replicas = [_pairs(found) for found in _ask(sentinel, "REPLICAS", SERVICE)]
    return (
        master["flags"] == "master"
        and master["num-other-sentinels"] == str(SENTINELS - 1)
        and [(replica["flags"], replica["master-link-status"]) for replica in replicas] == [("slave", "ok")]
    )


def _pairs(found: list[str]) -> dict[str, str]:
    return dict(zip(found[::2], found[1::2], strict=True))


def _state(server: RedisServer, what: str) -> Any:
    """What it says about its replication. Whoever is promoted or made to follow cuts all connections, ours too."""
    try:
        with server.client() as client:
            return client.info("replication").get(what)
    except redis.ConnectionError:
        return None
