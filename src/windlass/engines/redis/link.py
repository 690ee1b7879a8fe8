"""Calls to the server: each comes back with an answer or one clear error, soon.

`run` executes a script. After a cut connection it is sent once more where the caller says that repeating is safe;
nothing else is tried again here. While a server is away, a call waits up to a second before it asks again: however
often a thread calls, it asks about once a second.

    threads ─► run ─► pool of idle wires ── a fresh one: route.open, our name, INFO server ─► the node that has our keys
                                                                         └─► another run id: `on_new_server` is told
"""

from __future__ import annotations

import logging
import os
import platform
import random
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, TypeVar

from windlass.core.errors import StoreClosed, StoreError, StoreUnavailable
from windlass.engines.redis.address import Address
from windlass.engines.redis.ear import Ear
from windlass.engines.redis.refusals import code_of, refusal, unreachable
from windlass.engines.redis.route import route_of
from windlass.engines.redis.script import Script
from windlass.engines.redis.wire import Answered, Argument, Cut, Unconnected, Wire

log = logging.getLogger(__name__)

A = TypeVar("A")

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0
IDLE: Final = 16
"""So many idle connections are kept; there are as many more as threads call at once."""
REDIRECTIONS: Final = 3

Role = Literal["client", "worker"]
_UNFIT: Final = re.compile(r"[^!-~]")
"""What a server takes in no name: spaces, control characters, all that is not ASCII."""


class Outage:
    """Whether a server is away, and when it may be asked again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._is_away = False
        self._answered_s: float | None = None
        self._pause_s = 0.0
        self._not_before_s = 0.0

    def left_s(self) -> float:
        """How long nobody should ask."""
        return self._not_before_s - time.monotonic() if self._is_away else 0.0

    def failed(self, error: StoreError) -> None:
        """Whoever asks next waits a little; the first failure is logged."""
        with self._lock:
            now_s = time.monotonic()
            # Who opens a store for the first time sees the error itself.
            error.logged = self._answered_s is not None
            if not self._is_away:
                self._is_away, self._pause_s, self._not_before_s = True, 0.0, 0.0
                if error.logged:
                    log.warning("%s It is tried again until it is back.", error.message)
            if now_s >= self._not_before_s:  # several threads that fail together count as one
                self._pause_s = min(max(self._pause_s * 2, FIRST_PAUSE_S), LONGEST_PAUSE_S)
                self._not_before_s = now_s + self._pause_s * random.uniform(0.5, 1)

    def over(self) -> None:
        """It has answered."""
        now_s = time.monotonic()
        if self._is_away:
            with self._lock:
                if self._is_away and self._answered_s is not None:
                    log.info("%s is back, %.1f s after its last answer.", self._name, now_s - self._answered_s)
                self._is_away = False
        self._answered_s = now_s


class Pool:
    """What one process holds of a link; a forked child makes its own, and leaves its parent's sockets alone."""

    def __init__(self, address: Address) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.idle: list[Wire] = []
        self.ears: set[Ear] = set()
        self.route = route_of(address)
        self.outage = Outage(str(address))
        self.closing = threading.Event()

    def pop(self) -> Wire | None:
        with self.lock:
            return self.idle.pop() if self.idle else None

    def clear(self) -> None:
        """Where one connection was lost, the others most likely are as well."""
        with self.lock:
            idle, self.idle = self.idle, []
        for wire in idle:
            wire.close()


class Link:
    """The way from this process to a namespace on a server; any thread may use it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.run_id = b""
        """Which life of the server was seen last; empty where it does not tell."""
        self._told: list[Callable[[], None]] = []
        self._role: Role = "client"
        self._pool = Pool(address)

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, script: Script, args: Sequence[Argument], *, repeat: bool) -> Any:
        """What a script returns. `repeat`: it may be sent twice, should its first answer be lost."""
        rest = (b"1", self.address.meta_key, *args)

        def talk(wire: Wire) -> Any:
            try:
                return wire.call(b"EVALSHA", script.sha, *rest)
            except Answered as error:
                if code_of(error.text) != "NOSCRIPT":
                    raise
            # The server was restarted, or somebody flushed its scripts: this runs and remembers it in one step.
            return wire.call(b"EVAL", script.source, *rest)

        return self._converse(talk, repeat=repeat)

    def ask(self, *command: Argument) -> Any:
        """The answer to a command that may as well be sent twice."""
        return self._converse(lambda wire: wire.call(*command), repeat=True)

    def _converse(self, talk: Callable[[Wire], A], *, repeat: bool) -> A:
        """Talks over a connection, and once more over another where the first talk cannot have done anything twice."""
        redirections = REDIRECTIONS
        while True:
            pool = self._mine()
            wire = self._take(pool)
            try:
                answer = talk(wire)
            except Answered as error:
                self._give_back(pool, wire)
                redirections -= 1
                if not self._redirected(pool, wire, error) or not redirections:
                    raise _noted(pool, refusal(error.text, self.address)) from None
            except Cut as error:
                self._lost(pool)
                if not repeat or error.silent:
                    raise _noted(pool, unreachable(error, self.address)) from None
                repeat = False
            except BaseException:
                wire.close()  # an answer may be on the way that nobody waits for
                raise
            else:
                pool.outage.over()
                self._give_back(pool, wire)
                return answer

    def _redirected(self, pool: Pool, wire: Wire, error: Answered) -> bool:
        """Whether the call, which was refused, will fare better elsewhere."""
        code = code_of(error.text)
        if not pool.route.may_change or code not in {"MOVED", "READONLY", "CLUSTERDOWN", "MASTERDOWN"}:
            return False
        self._lost(pool)
        if code == "MOVED":
            pool.route.moved(error.text, wire.node)
        return code in {"MOVED", "READONLY"}

    # ── connections ─────────────────────────────────────────────────────────────────────────────────────────

    def _mine(self) -> Pool:
        if self._pool.pid != os.getpid():
            self._pool, self._role = Pool(self.address), "client"  # a worker is the parent's
        return self._pool

    def _take(self, pool: Pool) -> Wire:
        """A connection, not before the server may be asked again."""
        self._wait_for_turn(pool)
        while (wire := pool.pop()) is not None:
            if wire.is_usable():
                return wire
            wire.close()
        return self._open(pool)

    def _wait_for_turn(self, pool: Pool) -> None:
        left_s = pool.outage.left_s()
        if pool.closing.wait(left_s) if left_s > 0 else pool.closing.is_set():
            raise _closed()

    def _open(self, pool: Pool) -> Wire:
        wire = None
        try:
            wire = pool.route.open()
            wire.run_id = _introduce(wire, _name(self._role))
            self._note(pool, wire.run_id)
        except BaseException as error:
            if wire is not None:
                wire.close()
            if isinstance(error, (Unconnected, Cut, Answered)):
                raise self._away(pool, error) from None
            raise
        return wire

    def _away(self, pool: Pool, error: Unconnected | Cut | Answered) -> Exception:
        pool.route.forget()
        if isinstance(error, Answered):
            found = refusal(error.text, self.address)
        else:
            found = unreachable(error, self.address)
            pool.clear()
        if isinstance(found, StoreError):
            pool.outage.failed(found)
        return found

    def _give_back(self, pool: Pool, wire: Wire) -> None:
        with pool.lock:
            if len(pool.idle) < IDLE and not pool.closing.is_set() and wire.run_id == self.run_id:
                pool.idle.append(wire)
                return
        wire.close()

    def _lost(self, pool: Pool) -> None:
        pool.route.forget()
        pool.clear()

    def _note(self, pool: Pool, run_id: bytes) -> None:
        with pool.lock:
            before, self.run_id = self.run_id, run_id
        if before and run_id != before:
            for callback in self._told:
                callback()

    # ── besides ─────────────────────────────────────────────────────────────────────────────────────────────

    def on_new_server(self, callback: Callable[[], None]) -> None:
        """Calls it, in the thread that finds out, whenever the server is another one than before, or was restarted."""
        self._told.append(callback)

    def serve_as(self, role: Role) -> None:
        """The server is told so with every connection from now on; those that lie idle are made anew."""
        if role != self._role:
            self._role = role
            self._mine().clear()

    def subscription(self) -> Ear:
        """An ear on the node that runs our scripts: what they publish is heard there."""
        pool = self._mine()
        self._wait_for_turn(pool)
        ear = Ear(self._open(pool), self.address, pool.ears.discard)
        pool.ears.add(ear)
        if pool.closing.is_set():
            ear.close()
        return ear

    def close(self) -> None:
        """Ends all connections; who waits in an ear, or for a server that is away, is woken."""
        pool = self._mine()
        pool.closing.set()
        pool.clear()
        for ear in list(pool.ears):
            ear.close()


def _name(role: Role) -> str:
    """What CLIENT LIST shows of this process: `windlass-worker-4711@web-1`."""
    return f"windlass-{role}-{os.getpid()}@{_UNFIT.sub('-', platform.node())}"


def _introduce(wire: Wire, name: str) -> bytes:
    """Tells the server our name, and gives its run id: both in one round trip, and neither where we may not."""
    wire.send(b"CLIENT", b"SETNAME", name)
    wire.send(b"INFO", b"server")
    with suppress(Answered):
        wire.read()
    try:
        info: bytes = wire.read()
    except Answered as error:
        if code_of(error.text) == "NOPERM" or "unknown command" in error.text:
            return b""
        raise
    return next((line[7:] for line in info.splitlines() if line.startswith(b"run_id:")), b"")


def _noted(pool: Pool, error: A) -> A:
    """The same error; if it says that the server is away, whoever calls next waits a little."""
    if isinstance(error, StoreUnavailable):
        pool.outage.failed(error)
    else:
        pool.outage.over()
    return error


def _closed() -> StoreClosed:
    return StoreClosed("The engine was closed.", "Open it again.")
