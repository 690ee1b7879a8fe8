"""The ground of the group `redis`: one Valkey for the whole run, emptied for every measurement.

It keeps an append-only file and syncs it every second, as servers with jobs do. It rewrites that file between the
measurements only, so that no contestant pays for what another one wrote. A second way to it goes through a process that
delays (far.py).
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import redis

from bench.race.entries import Product
from bench.race.ground import Fill
from bench.race.jemalloc import with_jemalloc
from bench.race.tree import Tree, clock_s
from bench.report import ROOT
from tests.servers import binaries
from tests.servers.ports import free_port
from tests.servers.redis_server import RedisServer
from tests.soak.waiting import wait_for

# Emptied before the next contestant begins: a server of today frees what was there while others are measured.
CONFIG = ("auto-aof-rewrite-percentage 0", "lazyfree-lazy-user-flush no")
PINGS = 200


class ServerPlace:
    """The whole server, for one contestant."""

    def __init__(self, product: Product, folder: Path, server: RedisServer, far_port: int) -> None:
        self._product, self._server, self._far_port = product, server, far_port
        self.folder = folder

    @property
    def store(self) -> str:
        return self._server.url()

    @property
    def far_store(self) -> str:
        return self._server.url(port=self._far_port)

    def stored(self, sent: int) -> int:
        """Counted by the contestant's own keys."""
        with self._server.client() as client:
            return client.eval(self._product.stored.lua, 0, sent)

    def waiting(self) -> int:
        raise RuntimeError("Nobody is killed in this group.")

    def cpu_s(self) -> float:
        """The server's CPU time, with that of its threads."""
        return clock_s(self._server.process.pid)


class Server:
    """A server and the long way to it; at the end of the `with` nothing of them is left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        plain = binaries.valkey()
        quick = with_jemalloc(plain, ROOT / ".cache" / "jemalloc")
        self._allocator = "the C library's malloc" if quick is None else "jemalloc"
        self._server = RedisServer(quick or plain, folder / "server", appendonly="everysec", config=CONFIG)
        self._far_port = free_port()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._server.end)
            self._server.start()
            command = [sys.executable, "-m", "bench.race.far", str(self._far_port), str(self._server.port)]
            env = os.environ | {"PYTHONPATH": str(ROOT)}
            stack.enter_context(Tree(command, cwd=ROOT, env=env, log=self._folder / "far.log"))
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

    @contextmanager
    def fresh(self, product: Product, name: str) -> Generator[ServerPlace]:
        """The server, emptied."""
        folder = self._folder / name
        folder.mkdir(parents=True)
        try:
            self._empty()
            yield ServerPlace(product, folder, self._server, self._far_port)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def filled(self, product: Product, name: str, jobs: int, fill: Fill) -> Generator[ServerPlace]:
        """The server with these jobs alone: filled anew every time, for nobody measures the filling."""
        with self.fresh(product, name) as place:
            fill(place, jobs)
            yield place

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
