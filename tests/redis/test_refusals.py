"""What a server refuses, real servers saying it: one clear error each, and nothing changed."""

from __future__ import annotations

import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers import binaries
from tests.servers.redis_server import RedisServer
from tests.soak.waiting import wait_for
from windlass.core.errors import (
    AccessDenied,
    NotADatabase,
    NotWritable,
    StoreError,
    StoreFull,
    StoreUnavailable,
    UnfitServer,
)
from windlass.engines.redis.address import read_address
from windlass.engines.redis.link import Link
from windlass.engines.redis.refusals import refusal
from windlass.engines.redis.script import Script

COUNT = Script("count", b"return redis.call('INCR', KEYS[1])")
LOOK = Script("look", b"return redis.call('GET', KEYS[1])")
FOR_EVER = Script("for_ever", b"while true do end")

Connect = Callable[[str], Link]
NewServer = Callable[..., RedisServer]
SECRET = "s3cr3t"
KEY = "{windlass}:meta"


@pytest.fixture(params=["valkey", "redis62"])
def binary(request: pytest.FixtureRequest) -> Path:
    return binaries.valkey() if request.param == "valkey" else binaries.redis62()


def refused(link: Link, script: Script = COUNT) -> StoreError:
    with pytest.raises(StoreError) as caught:
        link.run(script, [], repeat=True)
    assert caught.value.message.endswith(".")
    assert caught.value.todo
    assert SECRET not in str(caught.value)
    return caught.value


def test_a_wrong_password_is_refused_and_never_shown(binary: Path, new_server: NewServer, connect: Connect) -> None:
    server = new_server(binary, password="right")
    bare = f"redis://127.0.0.1:{server.port}"
    error = refused(connect(bare))
    assert isinstance(error, AccessDenied)
    assert "wants a password" in error.message
    for account in (f":{SECRET}", f"ann:{SECRET}"):
        error = refused(connect(f"redis://{account}@127.0.0.1:{server.port}"))
        assert isinstance(error, AccessDenied)
        assert "does not accept the password" in error.message
    with server.client() as client:
        assert client.dbsize() == 0


def test_a_password_for_a_server_that_has_none_is_named(binary: Path, new_server: NewServer, connect: Connect) -> None:
    host = f"127.0.0.1:{new_server(binary).port}"
    error = refused(connect(f"redis://:{SECRET}@{host}"))
    assert isinstance(error, AccessDenied)
    assert error.message == f"The URL gives a password to a server that has none: {host}."
    assert "Leave it out of the URL" in error.todo
    assert "does not accept the password" in refused(connect(f"redis://ann:{SECRET}@{host}")).message, "no such user"
    error = refused(connect(f"redis+sentinel://{host}/shop?sentinel_password={SECRET}"))
    assert isinstance(error, AccessDenied)
    assert "the option sentinel_password" in error.todo


@pytest.mark.parametrize(
    ("rights", "missing"),
    [
        ("~{windlass}:* +@all -evalsha", "may not run EVALSHA"),
        ("~other:* +@all", "may not use the keys {windlass}:*"),
    ],
)
def test_a_missing_right_is_named(
    binary: Path, new_server: NewServer, connect: Connect, rights: str, missing: str
) -> None:
    server = new_server(binary)
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "ann", "on", f">{SECRET}", *rights.split())
    error = refused(connect(f"redis://ann:{SECRET}@127.0.0.1:{server.port}"))
    assert isinstance(error, AccessDenied)
    assert missing in error.message
    assert "ACL SETUSER ann" in error.todo


def test_a_right_that_a_script_lacks_is_missed_as_such(binary: Path, new_server: NewServer, connect: Connect) -> None:
    server = new_server(binary)
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "ann", "on", f">{SECRET}", "~*", "+@all", "-incr")
    assert isinstance(refused(connect(f"redis://ann:{SECRET}@127.0.0.1:{server.port}")), AccessDenied)


def test_a_channel_without_a_right_is_named(new_server: NewServer, connect: Connect) -> None:
    server = new_server()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "ann", "on", f">{SECRET}", "~*", "resetchannels", "+@all")
    ear = connect(f"redis://ann:{SECRET}@127.0.0.1:{server.port}").subscription()
    with pytest.raises(AccessDenied, match="may not use the channels"):
        ear.listen_on(frozenset([b"{windlass}:work"]))


def test_a_database_that_is_not_there_is_named(binary: Path, new_server: NewServer, connect: Connect) -> None:
    server = new_server(binary)
    error = refused(connect(f"redis://127.0.0.1:{server.port}/99"))
    assert isinstance(error, UnfitServer)
    assert "has no database 99" in error.message


def test_a_replica_is_refused_and_nothing_is_written(binary: Path, new_server: NewServer, connect: Connect) -> None:
    master = new_server(binary)
    replica = new_server(binary, config=[f"replicaof 127.0.0.1 {master.port}"])
    error = refused(connect(replica.url()))
    assert isinstance(error, NotWritable)
    assert "is a read-only replica" in error.message
    with master.client() as client:
        assert not client.exists(KEY)


def test_a_replica_without_its_master_says_so(binary: Path, new_server: NewServer, connect: Connect) -> None:
    replica = new_server(binary)
    link = connect(replica.url())
    with replica.client() as client:
        client.config_set("replica-serve-stale-data", "no")
        client.replicaof("127.0.0.1", 1)
        error = refused(link, LOOK)
        client.replicaof("NO", "ONE")
    assert isinstance(error, StoreUnavailable)
    assert "has lost its master" in error.message


def test_out_of_memory_means_that_nothing_was_written(binary: Path, new_server: NewServer, connect: Connect) -> None:
    server = new_server(binary)
    with server.client() as client:
        client.config_set("maxmemory", 1)
        error = refused(connect(server.url()))
        assert isinstance(error, StoreFull)
        assert "out of memory: nothing was written" in error.message
        assert not client.exists(KEY)


def test_too_few_replicas_mean_that_nothing_was_written(new_server: NewServer, connect: Connect) -> None:
    server = new_server(config=["min-replicas-to-write 1"])  # Redis 6.2 does not ask where a script writes
    error = refused(connect(server.url()))
    assert isinstance(error, StoreUnavailable)
    assert "fewer replicas" in error.message


def test_a_disk_that_cannot_be_written_is_named(binary: Path, new_server: NewServer, connect: Connect) -> None:
    server = new_server(binary, config=["enable-protected-configs yes"] if binary == binaries.valkey() else [])
    away = server.folder / "away"
    away.mkdir()
    with server.client() as client:
        client.set("x", "1")
        client.config_set("save", "3600 1")
        client.config_set("dir", str(away))
        shutil.rmtree(away)
        client.bgsave()
        wait_for("the save to fail", lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
        error = refused(connect(server.url()))
        client.config_set("dir", str(server.folder))
    assert isinstance(error, StoreUnavailable)
    assert "cannot write to its disk" in error.message


def test_a_server_that_is_busy_with_a_script_says_so(binary: Path, new_server: NewServer, connect: Connect) -> None:
    server = new_server(binary, config=["lua-time-limit 1"])
    link = connect(f"{server.url()}?timeout=60")
    thread = threading.Thread(target=lambda: refused(link, FOR_EVER))
    thread.start()
    with server.client() as client:
        wait_for("the script to be slow", lambda: _is_busy(client))
        error = refused(connect(server.url()))
        client.script_kill()
    thread.join(30)
    assert isinstance(error, StoreUnavailable)
    assert "busy with somebody's script" in error.message


def _is_busy(client: object) -> bool:
    try:
        client.get("x")  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
    except Exception as error:
        return "BUSY" in str(error)
    return False


def test_a_server_that_takes_no_more_connections_says_so(new_server: NewServer, connect: Connect) -> None:
    server = new_server()
    with server.client() as client:
        client.config_set("maxclients", 1)
        error = refused(connect(server.url()))
        client.config_set("maxclients", 100)
    assert isinstance(error, StoreUnavailable)
    assert re.search("takes no more (connections|clients)", error.message)


def test_a_plain_server_is_no_cluster_and_no_sentinel(binary: Path, new_server: NewServer, connect: Connect) -> None:
    host = f"127.0.0.1:{new_server(binary).port}"
    error = refused(connect(f"redis+cluster://{host}"))
    assert isinstance(error, UnfitServer)
    assert "is no Cluster" in error.message
    error = refused(connect(f"redis+sentinel://{host}/shop"))
    assert isinstance(error, UnfitServer)
    assert "no sentinel answers there" in error.message


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("LOADING Redis is loading the dataset in memory", StoreUnavailable, "still reading its data"),
        ("CLUSTERDOWN Hash slot not served", StoreUnavailable, "is down"),
        ("MOVED 1 127.0.0.1:2", UnfitServer, "a node of a Cluster"),
        ("ERR strange \x1b[2J", StoreError, "answered: ERR strange \\x1b[2J."),
    ],
)
def test_errors_that_are_hard_to_bring_about_are_known(text: str, kind: type[StoreError], said: str) -> None:
    error = refusal(text, read_address("redis://localhost"))
    assert type(error) is kind
    assert said in str(error)


# ── what is no Redis ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def web_server() -> Iterator[int]:
    """The port of a server that answers everything as web servers do."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    taken, _ = listener.accept()
                except OSError:
                    return
                with taken:
                    taken.recv(1_000)
                    taken.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(30)


def test_a_web_server_is_no_redis(web_server: int, connect: Connect) -> None:
    error = refused(connect(f"redis://127.0.0.1:{web_server}"))
    assert isinstance(error, NotADatabase)
    assert "is no Redis server" in error.message


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://127.0.0.1:1", "127.0.0.1:1 cannot be reached: the connection was refused."),
        ("redis://no-such-host.invalid", "no-such-host.invalid:6379 cannot be reached: its name is not known."),
        ("redis://a..b", "its name is not known."),
        ("unix:///nowhere/redis.sock", "/nowhere/redis.sock cannot be reached: there is no such socket."),
        (f"unix:///{'x' * 200}", "path too long"),
        ("redis+sentinel://127.0.0.1:1/shop", "none of the sentinels answers"),
        ("redis+cluster://127.0.0.1:1", "none of its nodes answers"),
    ],
)
def test_a_server_that_is_not_there_is_named(url: str, said: str, connect: Connect) -> None:
    error = refused(connect(url))
    assert isinstance(error, StoreUnavailable)
    assert said in error.message
