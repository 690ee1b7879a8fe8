"""TLS: who is trusted, who is let in, and what is said where one side speaks it and the other does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.servers.namespace import Namespace
from tests.servers.proxy import Proxy
from tests.servers.redis_server import RedisServer
from tests.servers.tls import Authority
from windlass.core.errors import NotADatabase, StoreError, StoreUnavailable
from windlass.engines.redis.link import Link
from windlass.engines.redis.script import Script

COUNT = Script("count", b"return redis.call('INCR', KEYS[1])")

Connect = Callable[[str], Link]
Front = Callable[..., int]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "tls")


@pytest.fixture
def front(authority: Authority, valkey_server: RedisServer) -> Iterator[Front]:
    """Starts a TLS front before the server; gives its port."""
    with ExitStack() as stack:

        def start(*, ask_clients: bool = False) -> int:
            context = authority.context(ask_clients=ask_clients)
            return stack.enter_context(Proxy(valkey_server.port, tls=context)).port

        yield start


def refused(link: Link) -> StoreError:
    with pytest.raises(StoreError) as caught:
        link.run(COUNT, [], repeat=True)
    return caught.value


def test_scripts_run_and_ears_hear_over_tls(
    front: Front, authority: Authority, valkey: Namespace, connect: Connect
) -> None:
    link = connect(f"rediss://127.0.0.1:{front()}?ca={authority.ca}&namespace={valkey.name}")
    number = link.ask(b"CLIENT", b"ID")
    assert [link.run(COUNT, [], repeat=False) for _ in range(3)] == [1, 2, 3]
    assert link.ask(b"CLIENT", b"ID") == number  # one connection did it all
    ear = link.subscription()
    ear.listen_on(frozenset([b"one"]))
    for _ in range(3):
        link.ask(b"PUBLISH", b"one", b"x")
    heard = ear.wait(30)
    while len(heard) < 3:
        heard += ear.wait(30)
    assert heard == [(b"one", b"x")] * 3
    assert ear.wait(0.01) == []


def test_a_server_whom_nobody_vouches_for_is_not_trusted(front: Front, valkey: Namespace, connect: Connect) -> None:
    port = front()
    error = refused(connect(f"rediss://127.0.0.1:{port}"))
    assert isinstance(error, StoreUnavailable)
    assert "its certificate is not accepted" in error.message
    assert connect(f"rediss://127.0.0.1:{port}?verify=no&namespace={valkey.name}").run(COUNT, [], repeat=True) == 1


def test_a_server_under_another_name_is_not_trusted(front: Front, authority: Authority, connect: Connect) -> None:
    error = refused(connect(f"rediss://127.1:{front()}?ca={authority.ca}"))
    assert "its certificate is not accepted" in error.message


def test_a_server_that_asks_for_certificates_lets_ours_in(
    front: Front, authority: Authority, valkey: Namespace, connect: Connect
) -> None:
    url = f"rediss://localhost:{front(ask_clients=True)}?ca={authority.ca}&namespace={valkey.name}"
    assert "certificate" in refused(connect(url)).message
    assert connect(f"{url}&cert={authority.cert}&key={authority.key}").run(COUNT, [], repeat=True) == 1


def test_a_file_that_is_not_there_is_missed(front: Front, connect: Connect) -> None:
    error = refused(connect(f"rediss://127.0.0.1:{front()}?ca=/nowhere/ca.pem"))
    assert "a file of the certificates is not there" in error.message


def test_a_plain_url_does_not_fit_a_server_with_tls(front: Front, connect: Connect) -> None:
    error = refused(connect(f"redis://127.0.0.1:{front()}?timeout=1"))
    assert isinstance(error, (StoreUnavailable, NotADatabase))
    assert "TLS" in str(error)


@pytest.mark.parametrize("which", ["valkey_server", "redis62_server"])
def test_a_url_with_tls_does_not_fit_a_plain_server(
    which: str, request: pytest.FixtureRequest, connect: Connect
) -> None:
    server: RedisServer = request.getfixturevalue(which)
    error = refused(connect(f"rediss://127.0.0.1:{server.port}?timeout=0.5&connect_timeout=0.5"))
    assert isinstance(error, StoreUnavailable)
    assert "TLS" in str(error)
