"""Servers for every test folder (tests/conftest.py makes these known to all).

One Valkey and one Redis 6.2 for each process of pytest, started when they are first asked for, and in them a fresh
namespace for each test. Imports wait until then: most tests need neither a server nor redis-py.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.namespace import Namespace
    from tests.servers.redis_server import RedisServer

GIVEN = "WINDLASS_TEST_REDIS_URL"
"""Names a server that runs already, for tests that need no power over it."""


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The shared Valkey. To be asked, never to be hurt."""
    from tests.servers import binaries

    yield from _running(binaries.valkey(), tmp_path_factory.mktemp("valkey"))


@pytest.fixture(scope="session")
def redis62_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The shared Redis 6.2. To be asked, never to be hurt."""
    from tests.servers import binaries

    yield from _running(binaries.redis62(), tmp_path_factory.mktemp("redis62"))


@pytest.fixture
def valkey(valkey_server: RedisServer) -> Iterator[Namespace]:
    """A namespace of its own on Valkey."""
    yield from _fresh(valkey_server.url())


@pytest.fixture
def redis62(redis62_server: RedisServer) -> Iterator[Namespace]:
    """A namespace of its own on Redis 6.2."""
    yield from _fresh(redis62_server.url())


@pytest.fixture
def any_redis(request: pytest.FixtureRequest) -> Iterator[Namespace]:
    """A namespace of its own on the server that WINDLASS_TEST_REDIS_URL names, else on Valkey."""
    url = os.environ.get(GIVEN) or request.getfixturevalue("valkey_server").url()
    yield from _fresh(url)


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


def _running(binary: Path, folder: Path) -> Iterator[RedisServer]:
    from tests.servers.redis_server import RedisServer

    server = RedisServer(binary, folder)
    try:
        yield server.start()
    finally:
        server.end()


def _fresh(server_url: str) -> Iterator[Namespace]:
    from tests.servers.namespace import Namespace

    namespace = Namespace(server_url, f"t{uuid.uuid4().hex[:12]}")
    yield namespace
    namespace.clear()
