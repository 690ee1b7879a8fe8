"""The link to a server: answers, one clear error each, and what is tried again."""

from __future__ import annotations

import os
import platform
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers import binaries
from tests.servers.namespace import Namespace
from tests.servers.redis_server import RedisServer
from tests.soak.waiting import wait_for
from windlass.core.errors import StoreClosed, StoreCorrupt
from windlass.core.ids import new_id
from windlass.engines.protocol import Beat, Card
from windlass.engines.redis import RedisEngine, read_address
from windlass.engines.redis.link import Link
from windlass.engines.redis.refusals import Refused
from windlass.engines.redis.script import Script
from windlass.engines.redis.wire import Cut, Wire

ECHO = Script("echo", b"return {KEYS[1], ARGV[1], ARGV[2]}")
COUNT = Script("count", b"return redis.call('INCR', KEYS[1])")
SAY = Script("say", b"return redis.call('PUBLISH', ARGV[1], ARGV[2])")

Connect = Callable[[str], Link]


def test_a_script_gets_the_one_key_and_its_arguments_as_bytes(namespace: Namespace, connect: Connect) -> None:
    link = connect(namespace.url)
    assert link.run(ECHO, [b"\xff\x00", 7], repeat=True) == [link.address.meta_key, b"\xff\x00", b"7"]


def test_scripts_that_the_server_forgot_are_sent_again(namespace: Namespace, connect: Connect) -> None:
    link = connect(namespace.url)
    assert link.run(COUNT, [], repeat=False) == 1
    link.ask(b"SCRIPT", b"FLUSH")
    assert link.run(COUNT, [], repeat=False) == 2
    assert link.ask(b"SCRIPT", b"EXISTS", COUNT.sha) == [1]


@pytest.mark.parametrize("way", ["return redis.error_reply('{}')", "error('{}', 0)"])
def test_a_scripts_refusal_keeps_its_code_and_its_detail(way: str, namespace: Namespace, connect: Connect) -> None:
    link = connect(namespace.url)
    no = Script("no", way.format("WINDLASS GONE worker 1").encode())
    with pytest.raises(Refused) as caught:
        link.run(no, [], repeat=True)
    assert (caught.value.code, caught.value.detail) == ("GONE", "worker 1")


def test_a_key_of_another_type_is_named_as_such(namespace: Namespace, connect: Connect) -> None:
    link = connect(namespace.url)
    link.ask(b"HSET", link.address.meta_key, b"a", b"1")
    with pytest.raises(StoreCorrupt, match="has a type that Windlass does not give it"):
        link.run(COUNT, [], repeat=True)


def test_an_ear_hears_what_scripts_publish(namespace: Namespace, connect: Connect) -> None:
    link = connect(namespace.url)
    one, two, three = (f"{namespace.name}:{word}".encode() for word in ("one", "two", "three"))
    ear = link.subscription()
    ear.listen_on(frozenset([one, two]))
    assert link.run(SAY, [one, b"hello"], repeat=True) == 1
    assert link.run(SAY, [two, b"\x00"], repeat=True) == 1
    heard = ear.wait(30)
    heard += ear.wait(30) if len(heard) < 2 else []
    assert heard == [(one, b"hello"), (two, b"\x00")]
    ear.listen_on(frozenset([two, three]))
    assert [link.run(SAY, [name, b""], repeat=True) for name in (one, two, three)] == [0, 1, 1]
    ear.listen_on(frozenset())
    assert len(ear.wait(30)) == 2
    assert ear.wait(0.01) == []


def test_closing_an_ear_wakes_who_waits_in_it(valkey: Namespace, connect: Connect) -> None:
    ear = connect(valkey.url).subscription()
    ear.listen_on(frozenset([b"one"]))
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            ear.wait(3_600)
        except StoreClosed as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    ear.close()
    thread.join(30)
    assert len(raised) == 1
    with pytest.raises(StoreClosed):
        ear.wait(0)


# ── wires ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def wire(valkey: Namespace) -> Iterator[Wire]:
    address = read_address(valkey.url)
    wire = Wire(address.nodes[0], address, login=address.login, db=address.db)
    yield wire
    wire.close()


def test_an_answer_may_come_in_many_pieces(wire: Wire) -> None:
    assert wire.call(b"EVAL", b"return string.rep('x', 1000000)", 0) == b"x" * 1_000_000
    assert wire.is_usable()


def test_what_is_no_answer_cuts_the_wire(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        monkeypatch.setattr(wire, "_socket", ours)
        theirs.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(Cut):
            wire.read()


def test_a_wire_that_was_closed_does_not_open_itself_again(wire: Wire) -> None:
    wire.close()
    with pytest.raises(Cut):
        wire.call(b"PING")


# ── names of connections ────────────────────────────────────────────────────────────────────────────────────


def wait_for_names(server: RedisServer, *expected: str) -> None:
    """Until the server calls our connections so, the one that asks left out; it forgets a moment later who has left."""

    def are_there() -> bool:
        own = client.client_id()
        return [str(each["name"]) for each in client.client_list() if int(each["id"]) != own] == [*expected]

    with server.client() as client:
        wait_for(f"connections {expected}", are_there)


@pytest.mark.parametrize("binary", [binaries.valkey, binaries.redis62])
def test_the_server_shows_whose_each_connection_is(
    binary: Callable[[], Path], new_server: Callable[..., RedisServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "node", lambda: "Ann's PC\n\u00e9")
    server = new_server(binary())
    engine = RedisEngine(read_address(server.url()))
    engine.open()
    try:
        wait_for_names(server, f"windlass-client-{os.getpid()}@Ann's-PC--")
        card = Card(worker=new_id(), name="", host="", pid=1, queues=None, tasks=None, lease_us=15_000_000)
        engine.renew(Beat(card=card, beat=0))
        wait_for_names(server, f"windlass-worker-{os.getpid()}@Ann's-PC--")
        engine.renew(Beat(card=card, beat=1, bye=True))
    finally:
        engine.close()


def test_who_listens_is_named_too(
    new_server: Callable[..., RedisServer], connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "node", lambda: "box")
    server = new_server()
    link = connect(server.url())
    link.subscription().listen_on(frozenset([b"one"]))
    link.ask(b"PING")
    wait_for_names(server, *[f"windlass-client-{os.getpid()}@box"] * 2)


def test_a_server_that_lets_us_have_no_name_serves_us_all_the_same(
    new_server: Callable[..., RedisServer], connect: Connect
) -> None:
    server = new_server()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all", "-client", "-info")
    link = connect(f"redis://ann:pw@127.0.0.1:{server.port}")
    assert link.run(ECHO, [b"x"], repeat=True)[1] == b"x"
    wait_for_names(server, "")
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "ann", "+info")
    link.subscription().close()
    assert link.run_id, "the answer after the refusal is that of INFO"
