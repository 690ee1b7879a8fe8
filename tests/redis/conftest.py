"""Links to real servers, closed at the end of each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.servers.namespace import Namespace
from windlass.engines.redis.address import read_address
from windlass.engines.redis.link import Link


@pytest.fixture
def connect() -> Iterator[Callable[[str], Link]]:
    """Makes a link to the server of a URL."""
    links: list[Link] = []

    def make(url: str) -> Link:
        links.append(Link(read_address(url)))
        return links[-1]

    yield make
    for link in links:
        link.close()


@pytest.fixture(autouse=True)
def check_leaks(request: pytest.FixtureRequest) -> None:
    """Looks for leaks after every test, but of the bare link: that is tried with scripts and keys of the test's own."""
    if "connect" not in request.fixturenames:
        request.getfixturevalue("no_leaks")


@pytest.fixture(params=["valkey", "redis62"])
def namespace(request: pytest.FixtureRequest) -> Namespace:
    """A namespace on each kind of server there is."""
    return request.getfixturevalue(request.param)
