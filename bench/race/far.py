"""`python -m bench.race.far PORT SERVER_PORT`: a way to a server on which everything takes half a millisecond longer.

Each piece of a stream is passed on EACH_WAY_S after it came, in order and however much there is of it: a round trip
takes a millisecond more, and nothing else is slower. The event loops at hand count in whole milliseconds; `select`
counts in microseconds, so one thread waits there for the next socket or the next piece that is due. What the system
wakes it too late, it asks to be woken earlier.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import statistics
import sys
import time
from collections import deque
from pathlib import Path

from bench.race.tree import Tree
from bench.report import ROOT

EACH_WAY_S = 0.0005
PIECE = 262_144
HOST = "127.0.0.1"
SLACK_NS = 1_000
"""How late Linux may wake us; by default it is 50 µs, a tenth of the delay."""
PR_SET_TIMERSLACK = 29


class Way:
    """One direction of one connection: what came in, when it is due, and what the other side has not taken yet."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source, self.target = source, target
        self.pieces: deque[tuple[float, bytes]] = deque()
        self.rest = memoryview(b"")
        self.is_open = True

    def take(self, now: float) -> None:
        """What has come; an end of the stream is a piece as well, an empty one."""
        try:
            piece = self.source.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        self.is_open = bool(piece)
        self.pieces.append((now + EACH_WAY_S, piece))

    def give(self, now: float) -> bool:
        """What is due, as far as it is taken. False: this direction has ended."""
        try:
            while True:
                while self.rest:
                    self.rest = self.rest[self.target.send(self.rest) :]
                if not self.pieces or self.pieces[0][0] > now:
                    return True
                _, piece = self.pieces.popleft()
                if not piece:
                    self.target.shutdown(socket.SHUT_WR)
                    return False
                self.rest = memoryview(piece)
        except BlockingIOError:
            return True
        except OSError:
            return False


def lateness_s() -> float:
    """How much longer than EACH_WAY_S a wait of that length takes here, usually."""
    took_s: list[float] = []
    for _ in range(51):
        began = time.monotonic()
        select.select([], [], [], EACH_WAY_S)
        took_s.append(time.monotonic() - began)
    return max(0.0, statistics.median(took_s) - EACH_WAY_S)


class Proxy:
    """All connections, in one thread."""

    def __init__(self, port: int, server_port: int) -> None:
        self._server_port = server_port
        self._late_s = lateness_s()
        self._listener = socket.create_server((HOST, port), backlog=512)
        self._listener.setblocking(False)
        self._ways: dict[socket.socket, Way] = {}
        """By the socket that each reads from."""

    def serve(self) -> None:
        """Until it is killed."""
        while True:
            now = time.monotonic()
            due = min((way.pieces[0][0] for way in self._ways.values() if way.pieces and not way.rest), default=None)
            readers = [self._listener, *(source for source, way in self._ways.items() if way.is_open)]
            writers = [way.target for way in self._ways.values() if way.rest]
            wait_s = None if due is None else max(0.0, due - self._late_s - now)
            ready, _, _ = select.select(readers, writers, [], wait_s)
            now = time.monotonic()
            for source in ready:
                if source is self._listener:
                    self._accept()
                else:
                    self._ways[source].take(now)
            for way in list(self._ways.values()):
                if (way.pieces or way.rest) and not way.give(now):
                    self._end(way)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection((HOST, self._server_port))
        for end in (client, server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ways[client] = Way(client, server)
        self._ways[server] = Way(server, client)

    def _end(self, way: Way) -> None:
        """Both directions: nobody here closes half a connection."""
        for end in (way.source, way.target):
            self._ways.pop(end, None)
            end.close()


def way(port: int, server_port: int, log: Path) -> Tree:
    """The process: whoever connects to `port` soon after takes the long way to the server."""
    command = [sys.executable, "-m", "bench.race.far", str(port), str(server_port)]
    return Tree(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, log=log, name="long way")


def main(port: str, server_port: str) -> None:
    """Serves at `port`."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, SLACK_NS)
    Proxy(int(port), int(server_port)).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
