"""Each fault of the proxy is what it says, before a real server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.servers.namespace import Namespace
from tests.servers.proxy import Proxy
from tests.servers.redis_server import RedisServer
from tests.soak.waiting import wait_for

SOON_S = 0.1
"""How long a client waits for what will not come."""


@pytest.fixture
def proxy(valkey_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(valkey_server.port) as proxy:
        yield proxy


@pytest.fixture
def client(valkey_server: RedisServer, proxy: Proxy) -> Iterator[Any]:
    """Connected through the proxy."""
    with valkey_server.client(port=proxy.port) as client:
        client.ping()
        yield client


@pytest.fixture
def impatient(valkey_server: RedisServer, proxy: Proxy) -> Iterator[Any]:
    """Connected through the proxy, by a client that gives up soon."""
    with valkey_server.client(port=proxy.port, socket_timeout=SOON_S) as client:
        wait_for("a first answer", lambda: answered(client))
        yield client


@pytest.fixture
def key(valkey: Namespace) -> str:
    return f"{{{valkey.name}}}:k"


def answered(client: Any) -> bool:
    try:
        return client.ping()
    except redis.TimeoutError:
        return False


def test_everything_passes_and_is_counted(proxy: Proxy, client: Any, key: str) -> None:
    before = proxy.counts()
    text = "x" * 300_000
    client.set(key, text)
    assert client.get(key) == text.encode()
    after = proxy.counts()
    assert (after.connections, after.open, after.swallowed, after.spoilt) == (1, 1, 0, 0)
    assert 300_000 < after.to_server - before.to_server < 301_000
    assert 300_000 < after.to_client - before.to_client < 301_000
    client.close()
    wait_for("the end of the connection", lambda: proxy.counts().open == 0)


def test_a_reset_ends_what_is_there_and_lets_others_in(proxy: Proxy, client: Any) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port)) as raw:
        raw.sendall(b"PING\r\n")
        assert raw.recv(100) == b"+PONG\r\n"
        proxy.reset_all()
        with pytest.raises(ConnectionResetError):
            raw.recv(100)
    assert proxy.counts().open == 0
    assert client.ping()
    assert proxy.counts().connections == 3


def test_new_connections_are_refused_and_old_ones_stay(proxy: Proxy, client: Any, valkey_server: RedisServer) -> None:
    proxy.refuse()
    assert client.ping()
    with valkey_server.client(port=proxy.port) as other:
        with pytest.raises(redis.ConnectionError, match="refused"):
            other.ping()
        proxy.pass_on()
        assert other.ping()


def test_a_black_hole_swallows_both_ways(
    proxy: Proxy, impatient: Any, valkey_server: RedisServer, valkey: Namespace, key: str
) -> None:
    proxy.black_hole()
    for _ in range(2):  # on the connection that was there, and on a new one
        with pytest.raises(redis.TimeoutError):
            impatient.set(key, "1")
    assert proxy.counts().swallowed
    assert proxy.counts().open == 2  # the server has heard nothing of their ends
    assert valkey.keys() == set()
    proxy.pass_on()
    wait_for("a connection that works", lambda: answered(impatient))
    assert valkey.keys() == set()


def test_half_open_means_done_and_not_answered(proxy: Proxy, impatient: Any, valkey: Namespace, key: str) -> None:
    proxy.half_open()
    with pytest.raises(redis.TimeoutError):
        impatient.set(key, "1")
    wait_for("what the server was told", lambda: valkey.keys() == {key.encode()})


def test_what_was_held_back_arrives_after_its_sender_gave_up(
    proxy: Proxy, impatient: Any, valkey: Namespace, key: str
) -> None:
    proxy.hold()
    with pytest.raises(redis.TimeoutError):
        impatient.set(key, "1")
    assert valkey.keys() == set()
    proxy.pass_on()
    wait_for("what was held back", lambda: valkey.keys() == {key.encode()})


def test_a_dropped_reply_is_to_a_request_that_was_done(proxy: Proxy, client: Any, key: str) -> None:
    proxy.drop_replies(2, holding=b"INCR")
    assert client.incr(key) == 1
    with pytest.raises(redis.ConnectionError):
        client.incr(key)
    assert client.incr(key) == 3
    assert proxy.counts().spoilt == 1


def test_replies_are_spoilt_only_so_often(proxy: Proxy, client: Any, key: str) -> None:
    proxy.drop_replies(holding=b"INCR", times=1)
    with pytest.raises(redis.ConnectionError):
        client.incr(key)
    assert [client.incr(key), client.incr(key)] == [2, 3]


def test_a_reply_is_cut_in_its_middle(proxy: Proxy, client: Any, key: str) -> None:
    client.set(key, "x" * 200_000)
    before = proxy.counts().to_client
    proxy.cut_replies(100_000, holding=b"GET")
    with pytest.raises(redis.ConnectionError):
        client.get(key)
    assert proxy.counts().to_client - before == 100_000
    proxy.pass_on()
    assert len(client.get(key)) == 200_000


@pytest.mark.parametrize("way", ["to_server_ms", "to_client_ms"])
def test_each_direction_can_be_slow(proxy: Proxy, impatient: Any, valkey: Namespace, key: str, way: str) -> None:
    proxy.delay(**{way: 3 * SOON_S * 1000})
    with pytest.raises(redis.TimeoutError):
        impatient.set(key, "1")
    wait_for("what was sent, late", lambda: valkey.keys() == {key.encode()})


def test_who_connects_to_a_server_that_is_gone_is_reset(proxy: Proxy, valkey_server: RedisServer) -> None:
    with Proxy(1) as to_nobody, valkey_server.client(port=to_nobody.port) as client:
        with pytest.raises(redis.ConnectionError):
            client.ping()
        assert to_nobody.counts().connections == 1
