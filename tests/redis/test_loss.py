"""Connections that are lost: what is sent again, what waits, what is said, and who is told."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from tests.servers.namespace import Namespace
from tests.servers.redis_server import RedisServer
from tests.soak.waiting import wait_for
from windlass.core.errors import StoreClosed, StoreUnavailable, UnfitServer
from windlass.core.ids import new_id
from windlass.core.job import Job, Request
from windlass.engines.protocol import Interest
from windlass.engines.redis import RedisEngine, read_address
from windlass.engines.redis.link import Link, Outage
from windlass.engines.redis.script import Script

ECHO = Script("echo", b"return {KEYS[1], ARGV[1]}")
COUNT = Script("count", b"return redis.call('INCR', KEYS[1])")
LOOK = Script("look", b"return redis.call('GET', KEYS[1])")

Connect = Callable[[str], Link]
NewServer = Callable[..., RedisServer]


def goes(link: Link) -> bool:
    try:
        return link.run(COUNT, [], repeat=True) > 0
    except StoreUnavailable:
        return False


def test_an_idle_connection_that_the_server_closed_is_not_used(valkey: Namespace, connect: Connect) -> None:
    link = connect(valkey.url)
    number = link.ask(b"CLIENT", b"ID")
    with valkey.client() as client:
        client.client_kill_filter(_id=number)
    assert link.run(COUNT, [], repeat=False) == 1
    assert link.ask(b"CLIENT", b"ID") != number


def test_an_outage_is_told_once_and_its_end_once(
    new_server: NewServer, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    server = new_server()
    link = connect(server.url())
    assert goes(link)
    server.kill()
    with caplog.at_level(logging.INFO, "windlass"):
        assert [goes(link) for _ in range(4)] == [False] * 4
        server.start()
        wait_for("the server to be found again", lambda: goes(link))
        assert goes(link)
    lost, back = caplog.records
    assert lost.levelname == "WARNING"
    assert "cannot be reached: the connection was refused. It is tried again until it is back." in lost.getMessage()
    assert back.levelname == "INFO"
    assert re.fullmatch(r"127\.0\.0\.1:\d+ is back, \d+\.\d s after its last answer\.", back.getMessage())


def test_an_outage_counts_from_the_last_answer_not_from_when_somebody_noticed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    monkeypatch.setattr("windlass.engines.redis.link.time", SimpleNamespace(monotonic=lambda: now_s))
    outage = Outage("db:6379")
    with caplog.at_level(logging.INFO, "windlass"):
        outage.over()
        now_s = 30.0
        outage.failed(StoreUnavailable("db:6379 cannot be reached.", "Wait."))
        now_s = 42.5
        outage.over()
    assert caplog.messages[-1] == "db:6379 is back, 42.5 s after its last answer."


def test_a_server_that_was_never_there_is_not_logged(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    link = connect("redis://127.0.0.1:1")
    assert [goes(link) for _ in range(3)] == [False] * 3
    assert caplog.records == []


def test_a_dead_server_is_not_asked_without_pause(connect: Connect) -> None:
    link = connect("redis://127.0.0.1:1")
    began = time.monotonic()
    assert [goes(link) for _ in range(7)] == [False] * 7
    assert time.monotonic() - began > 0.7  # the pauses that lie between them, at their shortest


def test_a_server_that_cannot_serve_is_not_asked_without_pause(new_server: NewServer, connect: Connect) -> None:
    server = new_server()
    link = connect(server.url())
    assert goes(link)
    with server.client() as client:
        client.config_set("replica-serve-stale-data", "no")
        client.replicaof("127.0.0.1", 1)
    began = time.monotonic()
    for _ in range(7):
        with pytest.raises(StoreUnavailable, match="has lost its master"):
            link.run(LOOK, [], repeat=True)
    assert time.monotonic() - began > 0.7


def test_closing_wakes_who_waits_for_a_dead_server(connect: Connect) -> None:
    link = connect("redis://127.0.0.1:1")
    ends: list[BaseException] = []

    def ask() -> None:
        try:
            while True:
                goes(link)
        except StoreClosed as error:
            ends.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    link.close()
    thread.join(30)
    assert len(ends) == 1


def test_a_restarted_server_is_another_one_and_that_is_told(new_server: NewServer, connect: Connect) -> None:
    server = new_server()
    link = connect(server.url())
    told: list[bytes] = []
    link.on_new_server(lambda: told.append(link.run_id))
    assert goes(link)
    before = link.run_id
    assert before
    server.restart()
    assert goes(link)
    assert told == [link.run_id]
    assert link.run_id != before


def test_a_silent_server_is_given_up_after_the_timeout(new_server: NewServer, connect: Connect) -> None:
    server = new_server()
    link = connect(f"{server.url()}?timeout=0.1")
    assert goes(link)
    server.freeze()
    with pytest.raises(StoreUnavailable, match=r"has not answered for 0\.1 s"):
        link.run(COUNT, [], repeat=True)
    with pytest.raises(StoreUnavailable):  # a new connection comes about, and nobody answers on it
        link.run(COUNT, [], repeat=True)
    server.thaw()
    wait_for("the server to answer again", lambda: goes(link))


def test_a_call_that_is_interrupted_leaves_no_answer_for_the_next(new_server: NewServer, connect: Connect) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(_number: int, _frame: object) -> None:
        raise Interrupted

    server = new_server()
    link = connect(f"{server.url()}?timeout=60")
    link.run(ECHO, [b"first"], repeat=True)
    before = signal.signal(signal.SIGUSR1, interrupt)
    server.freeze()
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(Interrupted):
            link.run(ECHO, [b"second"], repeat=True)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
        server.thaw()
    assert link.run(ECHO, [b"third"], repeat=True)[1] == b"third"


def test_many_threads_get_their_own_answers(valkey: Namespace, connect: Connect) -> None:
    link = connect(valkey.url)
    wrong: list[object] = []

    def ask(name: int) -> None:
        for turn in range(100):
            word = f"{name} {turn}".encode()
            answer = link.run(ECHO, [word], repeat=True)
            if answer[1] != word:
                wrong.append(answer)

    threads = [threading.Thread(target=ask, args=[name]) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_a_forked_child_never_uses_its_parents_connections(valkey: Namespace, connect: Connect) -> None:
    link = connect(valkey.url)
    mine = link.ask(b"CLIENT", b"ID")
    read, write = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover
        os.write(write, b"%d" % link.ask(b"CLIENT", b"ID"))
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(read, 100)) != mine
    os.close(read)
    os.close(write)
    assert link.ask(b"CLIENT", b"ID") == mine


def test_a_forked_child_does_not_end_what_its_parent_hears(valkey: Namespace, connect: Connect) -> None:
    link = connect(valkey.url)
    ear = link.subscription()
    ear.listen_on(frozenset([b"one"]))
    started = threading.Event()
    heard: list[object] = []

    def wait() -> None:
        started.set()
        heard.extend(ear.wait(3_600))

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait(30)
    child = os.fork()
    if not child:  # pragma: no cover
        ear.close()
        link.close()
        os._exit(0)
    os.waitpid(child, 0)
    wait_for("the ear to hear", lambda: link.ask(b"PUBLISH", b"one", b"x"))
    thread.join(30)
    assert heard == [(b"one", b"x")]


def test_a_forked_child_listens_with_an_ear_of_its_own(valkey: Namespace, connect: Connect) -> None:
    def ears() -> int:
        (number,) = (int(count) for count in connect(valkey.url).ask(b"PUBSUB", b"NUMSUB", channel)[1::2])
        return number

    engine = RedisEngine(read_address(valkey.url))
    engine.open()
    end = new_id()
    channel = b"{%b}:end:%b" % (valkey.name.encode(), end)
    engine.insert([Job(request=Request(id=end, task="task", queue="q", payload=b""))])
    assert engine.listen(Interest(ends=frozenset({end})), 0) == []
    assert ears() == 1
    done, told = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover
        engine.listen(Interest(ends=frozenset({end})), 0)
        os.write(told, b"x")
        signal.pause()
    assert os.read(done, 1) == b"x"
    both = ears()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(done)
    os.close(told)
    engine.close()
    assert both == 2


def test_a_check_that_refuses_the_new_server_refuses_the_call(new_server: NewServer, connect: Connect) -> None:
    def refuse() -> None:
        raise UnfitServer("It is another one.", "Look.")

    server = new_server()
    link = connect(server.url())
    link.on_new_server(refuse)
    assert goes(link)
    server.restart()
    with pytest.raises(UnfitServer):
        link.run(COUNT, [], repeat=True)


def test_a_cut_ear_says_so_and_another_one_hears(new_server: NewServer, connect: Connect) -> None:
    server = new_server()
    link = connect(server.url())
    ear = link.subscription()
    ear.listen_on(frozenset([b"one"]))
    server.restart()
    with pytest.raises(StoreUnavailable, match="was cut"):
        ear.wait(30)
    ear = link.subscription()
    ear.listen_on(frozenset([b"one"]))
    link.ask(b"PUBLISH", b"one", b"again")
    assert ear.wait(30) == [(b"one", b"again")]


def test_closing_the_link_wakes_its_ears(valkey: Namespace, connect: Connect) -> None:
    link = connect(valkey.url)
    ear = link.subscription()
    ends: list[BaseException] = []

    def wait() -> None:
        try:
            ear.wait(3_600)
        except StoreClosed as error:
            ends.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    link.close()
    thread.join(30)
    assert len(ends) == 1
    with pytest.raises(StoreClosed):
        link.subscription()
    with pytest.raises(StoreClosed):
        link.run(COUNT, [], repeat=True)


def test_an_ear_on_a_silent_server_finds_out(
    new_server: NewServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.engines.redis.ear.QUIET_S", 0.1)
    server = new_server()
    ear = connect(f"{server.url()}?timeout=0.2").subscription()
    for channels in (frozenset([b"one"]), frozenset[bytes]()):
        ear.listen_on(channels)
        assert ear.wait(0.5) == []  # it asks, and is answered
    ear.listen_on(frozenset([b"one"]))
    server.freeze()
    with pytest.raises(StoreUnavailable, match="has not answered"):
        ear.wait(3_600)
    server.thaw()
