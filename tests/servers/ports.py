"""Ports for servers that are stopped and started again."""

from __future__ import annotations

import random
import socket

FIRST, LAST = 11_000, 20_999
"""Below those that systems give to clients. Out of these, a client that keeps knocking at a stopped server is sooner or
later given the very port it knocks at: it connects to itself, and the server cannot come back. The nodes of a Cluster
listen 10,000 higher, too."""

_chance = random.SystemRandom()  # the seed of the tests is the same in every worker


def free_port() -> int:
    """A port on which nobody listens now. Somebody may be quicker: whoever listens on it must be ready to ask again."""
    while True:
        port = _chance.randint(FIRST, LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
