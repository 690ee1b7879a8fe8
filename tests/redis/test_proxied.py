"""A network that spoils what passes: what was sent twice, what was not, and what the caller is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.servers.namespace import Namespace
from tests.servers.proxy import Proxy
from tests.servers.redis_server import RedisServer
from tests.soak.waiting import wait_for
from windlass.core.errors import StoreUnavailable
from windlass.engines.redis.link import Link
from windlass.engines.redis.script import Script

COUNT = Script("count", b"return redis.call('INCR', KEYS[1])")
SAY = Script("say", b"return redis.call('PUBLISH', ARGV[1], ARGV[2])")

Connect = Callable[[str], Link]


@pytest.fixture
def proxy(valkey_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(valkey_server.port) as proxy:
        yield proxy


@pytest.fixture
def link(proxy: Proxy, valkey: Namespace, connect: Connect) -> Link:
    """A link through the proxy that has counted to one."""
    link = connect(f"redis://127.0.0.1:{proxy.port}/0?namespace={valkey.name}&timeout=0.3&connect_timeout=0.3")
    assert link.run(COUNT, [], repeat=False) == 1
    return link


def goes(link: Link) -> bool:
    try:
        return link.run(COUNT, [], repeat=True) > 0
    except StoreUnavailable:
        return False


def test_a_lost_reply_is_asked_for_again_where_that_is_safe(link: Link, proxy: Proxy) -> None:
    proxy.drop_replies(holding=b"EVALSHA", times=1)
    assert link.run(COUNT, [], repeat=True) == 3


def test_a_lost_reply_is_an_error_where_asking_again_is_not_safe(link: Link, proxy: Proxy, valkey: Namespace) -> None:
    proxy.drop_replies(holding=b"EVALSHA", times=1)
    with pytest.raises(StoreUnavailable, match="was cut"):
        link.run(COUNT, [], repeat=False)
    assert int(valkey.client().get(link.address.meta_key)) == 2
    assert link.run(COUNT, [], repeat=False) == 3


def test_replies_that_are_lost_again_and_again_are_not_asked_for_without_end(
    link: Link, proxy: Proxy, valkey: Namespace
) -> None:
    proxy.drop_replies(holding=b"EVALSHA")
    with pytest.raises(StoreUnavailable, match="was cut"):
        link.run(COUNT, [], repeat=True)
    assert int(valkey.client().get(link.address.meta_key)) == 3


def test_half_a_reply_is_none(link: Link, proxy: Proxy) -> None:
    proxy.cut_replies(1, holding=b"EVALSHA", times=1)
    with pytest.raises(StoreUnavailable, match="was cut"):
        link.run(COUNT, [], repeat=False)
    assert link.run(COUNT, [], repeat=False) == 3


def test_connections_that_were_reset_while_idle_are_replaced_at_once(link: Link, proxy: Proxy) -> None:
    proxy.reset_all()
    wait_for("the reset to arrive", lambda: goes(link))
    assert link.run(COUNT, [], repeat=False) == 3


@pytest.mark.parametrize("fault", ["black_hole", "half_open", "hold"])
def test_a_line_that_is_silent_is_given_up_and_found_again(link: Link, proxy: Proxy, fault: str) -> None:
    getattr(proxy, fault)()
    with pytest.raises(StoreUnavailable, match=r"has not answered for 0\.3 s"):
        link.run(COUNT, [], repeat=True)
    assert not goes(link)
    proxy.pass_on()
    wait_for("the line to be found again", lambda: goes(link))


def test_a_refused_line_is_found_again(link: Link, proxy: Proxy) -> None:
    proxy.refuse()
    proxy.reset_all()
    wait_for("the line to be lost", lambda: not goes(link))
    proxy.pass_on()
    wait_for("the line to be found again", lambda: goes(link))


def test_a_slow_line_is_no_lost_one(link: Link, proxy: Proxy) -> None:
    proxy.delay(to_server_ms=20, to_client_ms=20)
    assert link.run(COUNT, [], repeat=False) == 2


def test_an_ear_finds_out_that_its_line_was_reset(link: Link, proxy: Proxy) -> None:
    ear = link.subscription()
    ear.listen_on(frozenset([b"one"]))
    proxy.reset_all()
    with pytest.raises(StoreUnavailable, match="was cut"):
        ear.wait(3_600)
    again = link.subscription()
    again.listen_on(frozenset([b"one"]))
    link.run(SAY, [b"one", b"hello"], repeat=True)
    assert again.wait(30) == [(b"one", b"hello")]
