"""listen: sleeping until something is published. A hint may be lost; the store is the truth.

Each listening thread has an ear, a connection that hears channels: its own (on which scripts ring an idle worker),
those of the jobs whose ends it waits for, those of the worker and the bell it listens for. It first listens, then looks
at the store, where it becomes idle in the same step. Once a second, as a net, it looks again, at the store's version
first: as long as that is the one of its last claim, no work has come. Of all workers the one that sweeps has that
number told to the others (glance.py), on the channel `head`: a worker hears it where it waits for orders, which it does
all the time. Nobody else may: what is told to an ear that nobody uses fills the server's memory.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from windlass.core.errors import StoreClosed, StoreUnavailable
from windlass.core.ids import WorkerId, new_id
from windlass.engines.protocol import Hint, Interest
from windlass.engines.redis.ear import Ear
from windlass.engines.redis.glance import Glance
from windlass.engines.redis.link import Link
from windlass.engines.redis.values import read_told

NET_S: Final = 0.9
SPARE: Final = 8
"""So many ears are kept for the next who listen."""
HEAD: Final = b"head"
MOST_ENDS: Final = 100
"""Ids that one look asks for."""

Run = Callable[[str, Sequence[bytes | str | int]], Any]


class Post:
    """An ear with the name by which scripts ring it."""

    def __init__(self, ear: Ear) -> None:
        self.ear = ear
        self.name = new_id().hex()
        self.pid = os.getpid()
        self.idle = False
        """Whether a script may ring it: not any more once one has."""
        self.rung = False
        """Whether one has, and it was not heard: that word would be taken for a later one."""


class Listeners:
    """The ears of one engine."""

    def __init__(self, link: Link, run: Run, glance: Glance) -> None:
        self._link = link
        self._run = run
        self._glance = glance
        self._prefix = link.address.prefix
        self._lock = threading.Lock()
        self._spare: list[Post] = []
        self._workers: set[WorkerId] = set()
        self._closed = False

    def close(self) -> None:
        """No ear is handed out any more; the link closes those that are in use, which wakes who waits."""
        with self._lock:
            self._closed = True
            self._spare.clear()

    def serve(self, worker: WorkerId) -> None:
        """That one is a worker, and alive: from now on it is told what a sweep has found."""
        self._workers.add(worker)

    def forget(self, worker: WorkerId) -> None:
        """It is gone, and with it the ear that nobody uses any more."""
        with self._lock:
            self._workers.discard(worker)
            deaf = [post for post in self._spare if self._prefix + HEAD in post.ear.channels]
            self._spare = [post for post in self._spare if post not in deaf]
        for post in deaf:
            post.ear.close()

    def listen(self, interest: Interest, looked: int, timeout_s: float) -> list[Hint]:
        """What the listener should know: hints, or nothing after the time is over."""
        try:
            return self._listen(interest, looked, time.monotonic() + timeout_s)
        except StoreClosed:
            if not self._closed:
                raise
            return [Hint(kind="closed")]

    def _listen(self, interest: Interest, looked: int, until_s: float) -> list[Hint]:
        rooms = _rooms(interest)
        while True:
            channels = self._channels(interest)
            post = self._take(channels)
            try:
                post.ear.listen_on(channels | {self._prefix + b"ear:" + post.name.encode()})
                hints = self._wait(post, interest, rooms, looked, until_s)
                self._rise(post, rooms)
                if post.rung:
                    post.ear.close()
                    return [*(hints or ()), Hint(kind="work")]
            except BaseException:
                post.ear.close()
                with suppress(StoreUnavailable, StoreClosed):
                    self._rise(post, rooms)
                raise
            self._give_back(post)
            if hints is not None:
                return hints

    def _wait(
        self, post: Post, interest: Interest, rooms: tuple[str, ...], looked: int, until_s: float
    ) -> list[Hint] | None:
        """Hints; None where the ear is not on the server that runs our scripts any more, and hears nothing of them."""
        hints = self._look(post, interest, rooms, looked)
        while True:
            left_s = until_s - time.monotonic()
            if hints or left_s <= 0:
                return hints
            if not self._is_here(post):
                return None
            heard = post.ear.wait(min(left_s, NET_S))
            if heard:
                hints = [hint for channel, data in heard if (hint := self._hint(channel, data, post)) is not None]
                post.idle = post.idle and not any(hint.kind == "work" for hint in hints)
                continue
            if not self._is_quiet(interest, looked):
                hints = self._look(post, interest, rooms, looked)

    def _is_quiet(self, interest: Interest, looked: int) -> bool:
        """Whether a look would find nothing: who waits for work alone sees by the store's version that none came."""
        if interest.ends or interest.queues == () or interest.worker is None or looked < 0:
            return False
        return self._glance.look().version == looked

    def _look(self, post: Post, interest: Interest, rooms: tuple[str, ...], looked: int) -> list[Hint]:
        """What happened before; where nothing did, the listener is idle from now on."""
        if not rooms and not interest.ends:
            return []  # orders are only ever published
        seen = looked if interest.worker is not None else -1
        head = msgspec.msgpack.encode((seen, rooms, "look"))
        ends = sorted(interest.ends)
        hints: list[Hint] = []
        for start in range(0, max(1, len(ends)), MOST_ENDS):
            was_idle, post.idle = post.idle, bool(rooms)  # before it is known: an answer may be lost
            work, is_idle, *ended = self._run("listen", [_idler(post, rooms), head, *ends[start : start + MOST_ENDS]])
            hints += [Hint(kind="end", id=job_id) for job_id in ended]
            post.rung = post.rung or (was_idle and not is_idle)
            if (work and not start) or post.rung:
                hints.append(Hint(kind="work"))
            post.idle = bool(rooms) and not work and not ended
        return hints

    def _rise(self, post: Post, rooms: tuple[str, ...]) -> None:
        """No script rings it from now on."""
        if post.idle:
            _, is_idle = self._run("listen", [_idler(post, rooms), msgspec.msgpack.encode((-1, rooms, "rise"))])
            post.idle, post.rung = False, post.rung or not is_idle

    # ── ears ────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, channels: frozenset[bytes]) -> Post:
        """The one that hears most of these: it has the least to change, and none is left to hear what nobody reads."""
        with self._lock:
            if self._closed:
                raise StoreClosed("The engine was closed.", "Open it again.")
            stale = [post for post in self._spare if not self._is_here(post)]
            self._spare = [post for post in self._spare if post not in stale]
            found = max(reversed(self._spare), key=lambda post: len(post.ear.channels & channels), default=None)
            if found is not None:
                self._spare.remove(found)
        for post in stale:
            post.ear.close()
        return found or Post(self._link.subscription())

    def _is_here(self, post: Post) -> bool:
        """Whether the ear is ours, not that of a process we were forked from, and on the server that answers us."""
        return post.ear.run_id == self._link.run_id and post.pid == os.getpid()

    def _give_back(self, post: Post) -> None:
        with self._lock:
            is_left = not self._workers and self._prefix + HEAD in post.ear.channels
            if not self._closed and not is_left and len(self._spare) < SPARE and self._is_here(post):
                self._spare.append(post)
                return
        post.ear.close()

    # ── channels ────────────────────────────────────────────────────────────────────────────────────────

    def _channels(self, interest: Interest) -> frozenset[bytes]:
        names = [b"end:" + job_id for job_id in interest.ends]
        names += [b"order:" + each.hex().encode() for each in (interest.worker, interest.bell) if each is not None]
        if interest.worker in self._workers and interest.queues == ():
            names.append(HEAD)
        return frozenset(self._prefix + name for name in names)

    def _hint(self, channel: bytes, data: bytes, post: Post) -> Hint | None:
        kind, _, what = channel.removeprefix(self._prefix).partition(b":")
        match kind:
            case b"head":
                if self._is_here(post):
                    self._glance.tell(data)
                return None
            case b"end":
                # What a server says that lost its place meanwhile may be told otherwise by the one that has it.
                return Hint(kind="end", id=what, job=read_told(what, data) if self._is_here(post) else None)
            case b"order":
                return Hint(kind="order", id=bytes.fromhex(what.decode()))
            case _:
                return Hint(kind="work", queue=data.partition(b" ")[2].decode(errors="replace"))


def _idler(post: Post, rooms: tuple[str, ...]) -> str:
    """Who is idle, as a script finds it in each of its rooms: whoever rings it takes it out of all of them."""
    return " ".join([post.name, *rooms]) if len(rooms) > 1 else post.name


def _rooms(interest: Interest) -> tuple[str, ...]:
    """Where the listener is idle: a room for each queue, and one for those who take any."""
    return ("*",) if interest.queues is None else interest.queues
