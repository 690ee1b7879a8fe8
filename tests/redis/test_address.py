"""What URLs of the redis engine mean, and what is said of those that mean nothing."""

from __future__ import annotations

import pytest

from windlass.core.errors import BadUrl
from windlass.core.redact import redact_url
from windlass.engines.connect import connect
from windlass.engines.redis import RedisEngine
from windlass.engines.redis.address import Address, Login, Node, Tls, read_address
from windlass.engines.schemes import REDIS

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://localhost", Address(kind="single", nodes=(Node("localhost", 6379),))),
        ("valkey://localhost:7000/3", Address(kind="single", nodes=(Node("localhost", 7000),), db=3)),
        ("REDIS://localhost?db=2", Address(kind="single", nodes=(Node("localhost", 6379),), db=2)),
        ("redis://[::1]:7000", Address(kind="single", nodes=(Node("::1", 7000),))),
        (
            "redis://ann:p%40ss%2F@db.example/1",
            Address(kind="single", nodes=(Node("db.example", 6379),), login=Login("ann", "p@ss/"), db=1),
        ),
        ("redis://:pw@localhost", Address(kind="single", nodes=(Node("localhost", 6379),), login=Login("", "pw"))),
        ("rediss://localhost", Address(kind="single", nodes=(Node("localhost", 6379),), tls=Tls())),
        (
            "valkeys://localhost?ca=ca.pem&cert=me.crt&key=me.key",
            Address(
                kind="single",
                nodes=(Node("localhost", 6379),),
                tls=Tls(ca="ca.pem", cert="me.crt", key="me.key"),
            ),
        ),
        (
            "rediss://localhost?verify=no",
            Address(kind="single", nodes=(Node("localhost", 6379),), tls=Tls(verify=False)),
        ),
        ("unix:///run/redis.sock", Address(kind="socket", nodes=(Node("/run/redis.sock"),))),
        (
            "unix://ann:pw@/run/redis.sock?db=1",
            Address(kind="socket", nodes=(Node("/run/redis.sock"),), login=Login("ann", "pw"), db=1),
        ),
        (
            "redis+sentinel://u:pw@one:1,two/shop/2?sentinel_user=s&sentinel_password=spw",
            Address(
                kind="sentinel",
                nodes=(Node("one", 1), Node("two", 26379)),
                login=Login("u", "pw"),
                sentinel_login=Login("s", "spw"),
                service="shop",
                db=2,
            ),
        ),
        ("valkeys+cluster://a:1,b:2", Address(kind="cluster", nodes=(Node("a", 1), Node("b", 2)), tls=Tls())),
        (
            "redis://localhost?namespace=shop.eu&timeout=0.5&connect_timeout=1",
            Address(
                kind="single",
                nodes=(Node("localhost", 6379),),
                namespace="shop.eu",
                timeout_s=0.5,
                connect_timeout_s=1.0,
            ),
        ),
    ],
)
def test_a_url_says_where_the_server_is_and_how_to_be_let_in(url: str, address: Address) -> None:
    assert read_address(url) == address


@pytest.mark.parametrize("scheme", REDIS)
def test_every_scheme_that_is_known_makes_an_engine(scheme: str) -> None:
    kind, secure = REDIS[scheme]
    rest = {"single": "host/0", "socket": "/run/redis.sock", "sentinel": "host/service", "cluster": "host"}[kind]
    assert isinstance(connect(f"{scheme}://{rest}"), RedisEngine)
    address = read_address(f"{scheme}://{rest}")
    assert (address.kind, address.tls is not None) == (kind, secure)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://localhost", "no URL of the redis engine"),
        ("redis://", "names no host"),
        ("redis://:6379", "cannot be read"),
        ("redis://localhost:99999", "99999 is no port"),
        ("redis://localhost:0", "0 is no port"),
        ("redis://localhost:port", "cannot be read"),
        ("redis://[::1", "cannot be read"),
        ("redis://localhost#1", "cannot be read"),
        ("redis://localhost/\0", "cannot be read"),
        ("redis://a,b", "names several hosts"),
        ("redis://a/one", "'one' is no database"),
        ("redis://a/-1", "'-1' is no database"),
        ("redis://a/1/2", "says too much"),
        ("redis://a/1?db=2", "says too much"),
        ("redis://a?namespace=", "A namespace name cannot be empty"),
        ("redis://a?namespace=a%7Db", "has the character '}'"),
        ("redis://a?namespaces=a", "no option 'namespaces'"),
        ("redis://a?namespace=a&namespace=b", "stands twice"),
        ("redis://a?namespace", "options in"),
        ("redis://a?timeout=0", "timeout` cannot be"),
        ("redis://a?timeout=1e9", "timeout` cannot be"),
        ("redis://a?connect_timeout=61", "timeout` cannot be"),
        ("redis://a?ca=ca.pem", "is for TLS"),
        ("rediss://a?verify=maybe", "`verify` cannot be 'maybe'"),
        ("rediss://a?key=k", "a key and no certificate"),
        ("unix://", "names no socket"),
        ("unix://run/redis.sock", "names no socket"),
        ("unix:///run/", "names no socket"),
        ("redis+sentinel://a,b", "names no service"),
        ("redis+sentinel://a,,b/x", "names no host"),
        ("redis+cluster://a,b/1", "names a database"),
        ("redis+cluster://a?db=1", "no option 'db'"),
        (f"redis://{SECRET}@localhost", "a user without a password"),
        (f"redis://ann:{SECRET}@x@localhost", "cannot be read"),
        (f"redis://ann:{SECRET}/x@localhost", "An @ stands after"),
        (f"redis://ann:1/{SECRET}@localhost", "An @ stands after"),
        (f"redis://ann:1?{SECRET}=x@localhost", "An @ stands after"),
        (f"redis://ann:{SECRET}@localhost:port", "cannot be read"),
        (f"redis+sentinel://ann:{SECRET}@one,two", "names no service"),
        (f"redis+sentinel://one,two?sentinel_password={SECRET}", "names no service"),
        (f"redis+sentinel://one,two/a/b/c?sentinel_password={SECRET}", "says too much"),
    ],
)
def test_a_url_that_means_nothing_is_refused_in_two_sentences(url: str, said: str) -> None:
    with pytest.raises(BadUrl) as caught:
        read_address(url)
    assert said in caught.value.message
    assert caught.value.todo
    assert SECRET not in str(caught.value)


def test_an_address_never_shows_its_passwords() -> None:
    address = read_address(f"redis+sentinel://ann:{SECRET}@one,two/shop?sentinel_password={SECRET}")
    assert SECRET not in repr(address) + str(address)
    assert str(address) == "Service shop (sentinels one:26379, two:26379)"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"redis://:{SECRET}@localhost/0", "redis://:***@localhost/0"),
        (f"unix://ann:{SECRET}@/run/redis.sock", "unix://ann:***@/run/redis.sock"),
        (f"redis+sentinel://ann:{SECRET}@one:1,two:2/shop", "redis+sentinel://ann:***@one:1,two:2/shop"),
        (f"redis+sentinel://ann:{SECRET},x@one:1,two/shop", "redis+sentinel://ann:***@one:1,two/shop"),
        (
            f"redis+sentinel://one:1,two/shop?sentinel_password={SECRET}&db=1",
            "redis+sentinel://one:1,two/shop?sentinel_password=***&db=1",
        ),
        ("rediss+cluster://:123/4@one:1,two:2", "rediss+cluster://:***@one:1,two:2"),
        ("redis+cluster://one:1,two:2?x=a@b", "redis+cluster://one:1,two:2?x=a@b"),
    ],
)
def test_urls_with_lists_of_hosts_are_shown_without_passwords(url: str, shown: str) -> None:
    assert redact_url(url) == shown


def test_all_keys_of_a_namespace_share_its_hash_tag() -> None:
    address = read_address("redis://localhost?namespace=shop")
    assert (address.prefix, address.meta_key) == (b"{shop}:", b"{shop}:meta")
