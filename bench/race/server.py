"""The ground of the group `redis`: one Valkey for the whole run, emptied for every measurement.

It keeps an append-only file and syncs it every second, as servers with jobs do. It rewrites that file between the
measurements only, so that no contestant pays for what another one wrote. A second way to it goes through a process that
delays (far.py). Who sends through RabbitMQ keeps only results there, and has a broker besides (rabbitmq.py).
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self

import redis

from bench.race import far, rabbitmq
from bench.race.entries import Product
from bench.race.ground import Fill
from bench.race.jemalloc import with_jemalloc
from bench.race.rabbitmq import Broker, RabbitMQ
from bench.race.tree import clock_s
from bench.report import ROOT
from tests.servers import binaries
from tests.servers.ports import free_port
from tests.servers.redis_server import RedisServer
from tests.soak.waiting import wait_for

# Emptied before the next contestant begins: a server of today frees what was there while others are measured.
CONFIG = ("auto-aof-rewrite-percentage 0", "lazyfree-lazy-user-flush no")
PINGS = 200


class ServerPlace:
    """The whole server, for one contestant, and the broker of one that has its own."""

    def __init__(
        self, product: Product, folder: Path, server: RedisServer, far_port: int, broker: Broker | None
    ) -> None:
        self._product, self._server, self._far_port, self._broker = product, server, far_port, broker
        self.folder = folder

    @property
    def store(self) -> str:
        return self._server.url()

    def env(self, *, far: bool) -> dict[str, str]:
        told = {"RACE_STORE": self._server.url(port=self._far_port if far else None)}
        return told if self._broker is None else told | {"RACE_AMQP": self._broker.url(far=far)}

    def stored(self, sent: int) -> int:
        """Counted by the contestant's own keys."""
        with self._server.client() as client:
            return client.eval(self._product.stored.lua, 0, sent)

    def waiting(self) -> int:
        raise RuntimeError("Nobody is killed in this group.")

    def cpu_s(self) -> float:
        """The server's CPU time, with that of its threads, and the broker's."""
        brokers_s = 0.0 if self._broker is None else self._broker.tree.cpu_s()
        return clock_s(self._server.process.pid) + brokers_s


class Server:
    """A server and the long way to it; at the end of the `with` nothing of them is left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        plain = binaries.valkey()
        quick = with_jemalloc(plain, ROOT / ".cache" / "jemalloc")
        self._allocator = "the C library's malloc" if quick is None else "jemalloc"
        self._server = RedisServer(quick or plain, folder / "server", appendonly="everysec", config=CONFIG)
        self._far_port = free_port()
        self._rabbitmq: RabbitMQ | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._server.end)
            self._server.start()
            stack.enter_context(far.way(self._far_port, self._server.port, self._folder / "far.log"))
            wait_for("the long way", self._is_far_open)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def facts(self) -> dict[str, str | int]:
        """What the figures depend on: the server's version, and what a round trip takes, both ways."""
        with self._server.client() as client:
            version = client.info("server")["valkey_version"]
        return {
            "valkey": version,
            "allocator": self._allocator,
            "round_trip": f"{self._round_trip_ms(None):.2f} ms",
            "far_round_trip": f"{self._round_trip_ms(self._far_port):.2f} ms",
        }

    def prepare(self, product: Product) -> str:
        """The broker of who sends through one."""
        if not product.broker:
            return ""
        self._rabbitmq = rabbitmq.installed(ROOT / ".cache" / "rabbitmq")
        return self._rabbitmq.versions

    @contextmanager
    def fresh(self, product: Product, name: str) -> Generator[ServerPlace]:
        """The server, emptied; with a broker that was just started, if the product needs one."""
        folder = self._folder / name
        folder.mkdir(parents=True)
        try:
            self._empty()
            with self._broker_of(product, folder) as broker:
                yield ServerPlace(product, folder, self._server, self._far_port, broker)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def filled(self, product: Product, name: str, jobs: int, fill: Fill) -> Generator[ServerPlace]:
        """The server with these jobs alone: filled anew every time, for nobody measures the filling."""
        with self.fresh(product, name) as place:
            fill(place, jobs)
            yield place

    def _broker_of(self, product: Product, folder: Path) -> AbstractContextManager[Broker | None]:
        if not product.broker:
            return nullcontext()
        assert self._rabbitmq is not None, "it was not prepared"
        return rabbitmq.broker(self._rabbitmq, folder / "broker")

    def _empty(self) -> None:
        """Without a key, a script or a line in its file."""
        with self._server.client(socket_timeout=60) as client:
            client.flushall()
            client.script_flush()
            client.bgrewriteaof()
            wait_for("the file to be rewritten", lambda: _is_written(client))

    def _is_far_open(self) -> bool:
        with self._server.client(port=self._far_port) as client:
            try:
                return client.ping()
            except redis.ConnectionError:  # not there yet
                return False

    def _round_trip_ms(self, port: int | None) -> float:
        took_ms: list[float] = []
        with self._server.client(port=port) as client:
            for _ in range(PINGS):
                began = time.perf_counter()
                client.ping()
                took_ms.append((time.perf_counter() - began) * 1e3)
        return statistics.median(took_ms)


def _is_written(client: Any) -> bool:
    state = client.info("persistence")
    return not state["aof_rewrite_in_progress"] and not state["aof_rewrite_scheduled"]
