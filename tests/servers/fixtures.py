"""Servers for every test folder (tests/conftest.py makes these known to all).

One Valkey, one Redis 6.2 and one Cluster for each process of pytest, started when they are first asked for, and in them
a fresh namespace for each test. Imports wait until then: most tests need neither a server nor redis-py.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.cluster import Cluster
    from tests.servers.namespace import Namespace
    from tests.servers.redis_server import RedisServer
    from tests.servers.sentinel import Watched

GIVEN = "WINDLASS_TEST_REDIS_URL"
"""Names a server that runs already, for tests that need no power over it."""


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The shared Valkey. To be asked, never to be hurt."""
    from tests.servers import binaries
    from tests.servers.redis_server import RedisServer

    yield from _running(RedisServer(binaries.valkey(), tmp_path_factory.mktemp("valkey")))


@pytest.fixture(scope="session")
def redis62_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The shared Redis 6.2. To be asked, never to be hurt."""
    from tests.servers import binaries
    from tests.servers.redis_server import RedisServer

    yield from _running(RedisServer(binaries.redis62(), tmp_path_factory.mktemp("redis62")))


@pytest.fixture
def valkey(valkey_server: RedisServer) -> Iterator[Namespace]:
    """A namespace of its own on Valkey."""
    yield from _cleared(valkey_server.url(), _fresh_name())


@pytest.fixture
def redis62(redis62_server: RedisServer) -> Iterator[Namespace]:
    """A namespace of its own on Redis 6.2."""
    yield from _cleared(redis62_server.url(), _fresh_name())


@pytest.fixture
def any_redis(request: pytest.FixtureRequest) -> Iterator[Namespace]:
    """A namespace of its own on the server that WINDLASS_TEST_REDIS_URL names, else on Valkey."""
    url = os.environ.get(GIVEN) or request.getfixturevalue("valkey_server").url()
    yield from _cleared(url, _fresh_name())


@pytest.fixture
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves a key which is not in the engine's map, is of another type, or would go by itself."""
    from tests.servers.leaks import strays
    from tests.servers.namespace import Namespace

    givers = ("valkey", "redis62", "any_redis", "cluster", "namespace")
    # Asked for before the test, so that they are still there after it.
    spaces: list[object] = [request.getfixturevalue(name) for name in givers if name in request.fixturenames]
    yield
    assert [stray for space in spaces if isinstance(space, Namespace) for stray in strays(space)] == []


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Callable[..., RedisServer]]:
    """Starts servers that belong to the test alone: a Valkey, unless `binary` names another program.

    Options are those of RedisServer.
    """
    from tests.servers import binaries
    from tests.servers.redis_server import RedisServer

    started: list[RedisServer] = []
    numbers = itertools.count()

    def start(binary: Path | None = None, **options: Any) -> RedisServer:
        server = RedisServer(binary or binaries.valkey(), tmp_path / f"r{next(numbers)}", **options)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.end()


@pytest.fixture(scope="session")
def cluster_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The shared Cluster. To be asked, never to be hurt."""
    from tests.servers import binaries
    from tests.servers.cluster import Cluster

    yield from _running(Cluster(binaries.valkey(), tmp_path_factory.mktemp("cluster")))


@pytest.fixture
def cluster(cluster_servers: Cluster) -> Iterator[Namespace]:
    """A namespace of its own in the Cluster."""
    name = _fresh_name()
    yield from _cleared(cluster_servers.url(), name, cluster_servers.master_of(f"{{{name}}}").url())


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A Cluster that belongs to the test alone."""
    from tests.servers import binaries
    from tests.servers.cluster import Cluster

    yield from _running(Cluster(binaries.valkey(), tmp_path / "c"))


@pytest.fixture
def own_watched(tmp_path: Path) -> Iterator[Watched]:
    """A master with a password, its replica and their Sentinels, which belong to the test alone."""
    from tests.servers import binaries
    from tests.servers.sentinel import Watched

    yield from _running(Watched(binaries.valkey(), tmp_path / "w", password="secret"))


class Runs(Protocol):
    """A server, or several."""

    def start(self) -> object: ...
    def end(self) -> None: ...


S = TypeVar("S", bound=Runs)


def _running(servers: S) -> Iterator[S]:
    try:
        servers.start()
        yield servers
    finally:
        servers.end()


def _fresh_name() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


def _cleared(server_url: str, name: str, node_url: str = "") -> Iterator[Namespace]:
    from tests.servers.namespace import Namespace

    namespace = Namespace(server_url, name, node_url)
    yield namespace
    namespace.clear()
