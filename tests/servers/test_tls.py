"""TLS before a real server: who is trusted, who is let in, and what the wrong kind of client meets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.servers.client import plain_client
from tests.servers.proxy import Proxy
from tests.servers.redis_server import RedisServer
from tests.servers.tls import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def front(valkey_server: RedisServer, authority: Authority) -> Iterator[Proxy]:
    with Proxy(valkey_server.port, tls=authority.context()) as front:
        yield front


def connect(server: RedisServer, front: Proxy, **options: Any) -> Any:
    return plain_client(server.url(scheme="rediss", port=front.port), **options)


def test_who_trusts_the_authority_is_served(valkey_server: RedisServer, front: Proxy, authority: Authority) -> None:
    with connect(valkey_server, front, ssl_ca_certs=str(authority.ca)) as client:
        assert client.ping()
        assert client.echo("x" * 300_000) == b"x" * 300_000


def test_who_trusts_others_does_not_talk_to_it(valkey_server: RedisServer, front: Proxy, tmp_path: Path) -> None:
    client = connect(valkey_server, front, ssl_ca_certs=str(Authority(tmp_path).ca))
    with client, pytest.raises(redis.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        client.ping()


def test_a_plain_client_is_not_answered(valkey_server: RedisServer, front: Proxy) -> None:
    with valkey_server.client(port=front.port) as client, pytest.raises(redis.ConnectionError):
        client.ping()
    assert front.counts().to_server == 0


def test_a_certificate_is_asked_for(valkey_server: RedisServer, authority: Authority) -> None:
    trust = {"ssl_ca_certs": str(authority.ca)}
    own = {"ssl_certfile": str(authority.cert), "ssl_keyfile": str(authority.key)}
    with Proxy(valkey_server.port, tls=authority.context(ask_clients=True)) as front:
        with connect(valkey_server, front, **trust, **own) as client:
            assert client.ping()
        with connect(valkey_server, front, **trust) as client, pytest.raises(redis.ConnectionError):
            client.ping()


def test_faults_strike_behind_tls_too(valkey_server: RedisServer, front: Proxy, authority: Authority) -> None:
    with connect(valkey_server, front, ssl_ca_certs=str(authority.ca)) as client:
        front.drop_replies(holding=b"ECHO", times=1)
        with pytest.raises(redis.ConnectionError):
            client.echo("lost")
        assert client.echo("heard") == b"heard"
        front.reset_all()
        front.pass_on()
        assert client.ping()
