"""Servers that die and lines that fail under workers and senders: whatever was acknowledged runs, and runs once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.redis.works import Works
from tests.servers import binaries
from tests.servers.namespace import Namespace
from tests.servers.proxy import Proxy
from tests.servers.redis_server import RedisServer
from tests.soak.fleet import LOOK_S, payload
from tests.soak.waiting import wait_for
from windlass.core.errors import StoreFull
from windlass.core.ids import new_id
from windlass.core.job import Request
from windlass.engines.redis.scripts import script

NewServer = Callable[..., RedisServer]

QUICK = "timeout=1&connect_timeout=1"
"""How soon a silent line is given up: tests do not wait for what users have."""
OUTAGE_S = 3.0
MOST_ASKED = 60
"""So often a worker may ask for a server that is away: its loops about twice a second each, not thousands of times."""
FULL_S = 1.5
MOST_CALLS_A_SECOND = 60
"""So often all loops of a worker that has nothing to do ask, at the short beats and sweeps of these tests."""
MOST_LINES = 10
"""So many lines a server without memory may be worth: one for each time that something cannot be written."""


@pytest.fixture
def proxy(valkey_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(valkey_server.port) as proxy:
        yield proxy


def through(proxy: Proxy, namespace: Namespace) -> str:
    return f"{proxy.url(namespace.url)}&{QUICK}"


def test_a_server_that_is_killed_and_started_again_loses_nothing_and_runs_nothing_twice(
    new_server: NewServer, tmp_path: Path
) -> None:
    server = new_server(appendonly="always")
    with Works(tmp_path, Namespace(server.url(), "n")) as works:
        for _ in range(2):
            works.worker()
        for kills in range(1, 4):
            works.send(40)
            works.wait_runs(40 * kills - 20)
            server.kill()
            server.start()
        works.send(20)
        works.check()


FAULTS: dict[str, Callable[[Proxy], None]] = {
    "reset": Proxy.reset_all,
    "black hole": Proxy.black_hole,
    "half open": Proxy.half_open,
    "late": Proxy.hold,
    "refused": lambda proxy: (proxy.refuse(), proxy.reset_all())[1],
    "slow": lambda proxy: proxy.delay(to_server_ms=15, to_client_ms=15),
    "replies lost": lambda proxy: proxy.drop_replies(3, holding=b"EVALSHA"),
    "replies cut": lambda proxy: proxy.cut_replies(3, 4, holding=b"EVALSHA"),
}


def test_whatever_fails_between_a_worker_and_its_server_costs_no_job_and_no_second_run(
    proxy: Proxy, valkey: Namespace, tmp_path: Path
) -> None:
    dice = random.Random(7)
    names = list(FAULTS)
    dice.shuffle(names)
    with Works(tmp_path, valkey) as works:
        works.worker(url=through(proxy, valkey))
        for name in names:
            ran = len(works.sent)
            works.send(30)
            works.wait_runs(ran + dice.randint(1, 29))
            FAULTS[name](proxy)
            works.send(5)  # whether or not something was under way: of these the worker is told, and asks for them
            time.sleep(0.2 + 0.6 * dice.random())
            proxy.pass_on()
        assert proxy.counts().spoilt > 0
        assert proxy.counts().swallowed > 0
        works.check()


@pytest.mark.parametrize(("verb", "every"), [("insert", 1), ("claim", 1), ("claim", 2), ("settle", 1), ("renew", 1)])
def test_an_answer_that_is_lost_after_the_deed_is_done_makes_no_second_job_and_no_second_run(
    proxy: Proxy, valkey: Namespace, tmp_path: Path, verb: str, every: int
) -> None:
    """Every one of them: what the engine sends again by itself is lost, too, and its caller has to ask once more.

    Every second: of two claims the first looks for suspects and finds none, the other one brings jobs.
    """
    with Works(tmp_path, valkey._replace(server_url=proxy.url(valkey.server_url))) as works:
        works.worker()
        proxy.drop_replies(every, holding=script(verb).sha, times=4)
        wait_for("answers to be lost", lambda: works.send(5) and proxy.counts().spoilt == 4, step_s=LOOK_S)
        works.send(20)
        works.check()


def test_a_server_that_forgets_its_scripts_is_told_them_again(new_server: NewServer, tmp_path: Path) -> None:
    server = new_server()
    with Works(tmp_path, Namespace(server.url(), "n")) as works, server.client() as client:
        works.worker()
        for flushed in range(1, 6):
            works.send(20)
            works.wait_runs(20 * flushed - 10)
            client.script_flush()
        works.check()


def test_an_outage_under_load_is_waited_out_in_peace(new_server: NewServer, tmp_path: Path) -> None:
    server = new_server(appendonly="always")
    with Proxy(server.port) as proxy, Works(tmp_path, Namespace(server.url(), "n")) as works:
        worker = works.worker(url=through(proxy, works.namespace), slots=4)
        works.send(200)
        works.wait_runs(20)
        server.kill()
        before = proxy.counts().connections
        time.sleep(OUTAGE_S)
        asked = proxy.counts().connections - before
        server.start()
        works.send(20)
        works.check()
    assert asked < MOST_ASKED, "the server was asked without pause"
    lines = worker.lines()
    assert sum("It is tried again until it is back." in line for line in lines) == 1, worker.said()
    assert sum("was restarted" in line for line in lines) == 1, worker.said()
    assert not any("has to wait" in line for line in lines), "one line for the loss, however many loops wait"


@pytest.mark.parametrize("binary", [binaries.valkey, binaries.redis62])
def test_a_server_without_memory_takes_no_job_and_lets_those_it_has_end(
    new_server: NewServer, tmp_path: Path, binary: Callable[[], Path]
) -> None:
    server = new_server(binary())
    with Works(tmp_path, Namespace(server.url(), "n")) as works, server.client() as client:
        worker = works.worker()
        held = works.send(2, "hold")
        for job in held:
            works.wait_begun(job)
        works.send(20)
        client.config_set("maxmemory", 1)
        with pytest.raises(StoreFull, match="is out of memory: nothing was written"):
            works.insert([Request(id=new_id(), task="good", payload=payload(0))])
        for job in held:
            works.let_go(job)
        works.wait_ended()
        before = calls(client)
        time.sleep(FULL_S)
        asked = calls(client) - before
        client.config_set("maxmemory", 0)
        works.send(20)
        works.check()
    assert asked < FULL_S * MOST_CALLS_A_SECOND, "a full server was asked without pause"
    assert len(worker.lines()) < MOST_LINES, worker.said()


def calls(client: Any) -> int:
    """Scripts that the server has run."""
    stats = client.info("commandstats")
    return sum(stats[name]["calls"] for name in ("cmdstat_evalsha", "cmdstat_eval") if name in stats)
