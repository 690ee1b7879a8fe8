"""A server in the hands of a test: it keeps what it promised to keep, and never outlives the tests."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.servers import redis_server
from tests.servers.client import plain_client
from tests.servers.fixtures import GIVEN
from tests.servers.namespace import Namespace
from tests.servers.ports import free_port
from tests.servers.redis_server import RedisServer, ServerFailed
from tests.soak.waiting import wait_for

NewServer = Callable[..., RedisServer]


def info(server: RedisServer, part: str) -> dict[str, object]:
    with server.client() as client:
        return client.info(part)


def test_the_two_servers_are_of_the_versions_they_say(valkey_server: RedisServer, redis62_server: RedisServer) -> None:
    assert str(info(valkey_server, "server")["valkey_version"]).startswith("9.")
    assert str(info(redis62_server, "server")["redis_version"]).startswith("6.2.")


def test_every_test_has_a_namespace_of_its_own(valkey: Namespace, redis62: Namespace) -> None:
    assert valkey.name != redis62.name
    assert valkey.url.endswith(f"/0?namespace={valkey.name}")
    with valkey.client() as client:
        client.set(f"{{{valkey.name}}}:meta", "x")
        client.set("{other}:meta", "x")
        assert valkey.keys() == {f"{{{valkey.name}}}:meta".encode()}
        valkey.clear()
        assert valkey.keys() == set()
        assert client.delete("{other}:meta") == 1


def test_a_server_that_runs_already_is_taken_where_one_is_named(
    monkeypatch: pytest.MonkeyPatch, redis62_server: RedisServer, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv(GIVEN, redis62_server.url())
    taken: Namespace = request.getfixturevalue("any_redis")
    assert taken.server_url == redis62_server.url()


def test_what_is_fsynced_outlives_a_kill_and_the_port_stays(new_server: NewServer) -> None:
    server = new_server(appendonly="always")
    port, run = server.port, info(server, "server")["run_id"]
    with server.client() as client:
        client.set("kept", "1")
        server.kill()
        with pytest.raises(redis.ConnectionError):
            client.get("kept")
        server.restart()
        assert client.get("kept") == b"1"
    assert server.port == port
    assert info(server, "server")["run_id"] != run


def test_without_a_file_a_kill_forgets_all(new_server: NewServer) -> None:
    server = new_server()
    with server.client() as client:
        client.set("lost", "1")
        server.kill()
        server.start()
        assert client.get("lost") is None


def test_a_frozen_server_keeps_its_connections_and_answers_nothing(new_server: NewServer) -> None:
    server = new_server()
    with server.client(socket_timeout=0.2) as client:
        client.set("a", "1")
        server.freeze()
        with pytest.raises(redis.TimeoutError):
            client.get("a")
        server.thaw()
        wait_for("an answer", lambda: client.get("a") == b"1")
    server.freeze()
    server.stop()
    assert server.process.has_ended()


def test_a_password_is_asked_for_on_both_ways(new_server: NewServer) -> None:
    server = new_server(password="p@ss/word")
    for url in (server.url(), server.socket_url()):
        with plain_client(url) as client:
            assert client.ping()
    with plain_client(server.url(password="wrong")) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_a_server_that_cannot_start_says_why(new_server: NewServer) -> None:
    with pytest.raises(ServerFailed, match="ended"):
        new_server(config=["maxmemory nonsense"])


def test_a_port_that_somebody_was_quicker_to_take_is_given_up(
    monkeypatch: pytest.MonkeyPatch, new_server: NewServer
) -> None:
    first = new_server()
    ports = iter([first.port, first.port, 0])
    monkeypatch.setattr(redis_server, "free_port", lambda: next(ports) or free_port())
    second = new_server()
    assert second.port != first.port
    with second.client() as client:
        assert client.ping()


def answers(path: Path) -> bool:
    try:
        with plain_client(f"unix://{path}") as client:
            return client.ping()
    except redis.ConnectionError:
        return False


DIES = """
import os, sys
from pathlib import Path
from tests.servers import binaries
from tests.servers.redis_server import RedisServer
RedisServer(binaries.valkey(), Path(sys.argv[1])).start()
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell nobody of his parent's death")
def test_no_server_is_left_behind_by_tests_that_were_killed(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(tmp_path / "r")], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_for("the end of the server", lambda: not answers(tmp_path / "r" / "s"))
