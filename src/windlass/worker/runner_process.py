"""A runner as its supervisor sees it: a process, a socket, a page, and the claims that it was given."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple

import msgspec

from windlass import __version__
from windlass.core.clock import Clock
from windlass.core.ids import JobId
from windlass.core.system import kill_group, shared_page, start_apart, wait_for_end
from windlass.engines.protocol import Claim
from windlass.worker.deaths import ending
from windlass.worker.frames import (
    CHUNK,
    Frame,
    FromRunner,
    Hello,
    Key,
    Reader,
    Unfit,
    Welcome,
    Why,
    decode_from_runner,
    encode,
)
from windlass.worker.page import share, shared_size
from windlass.worker.room import Room
from windlass.worker.service import log

HOARD_US = 500_000
"""How long claims wait in a runner that shows no sign of life, before others may have them."""

State = Literal["starting", "working", "retiring"]


class Sentence(NamedTuple):
    """Why a runner is killed by its supervisor: because of one of its jobs, for its silence, or since it must stop."""

    claim: Key | None
    why: Why | Literal["silence", "stop"]
    text: str
    used: int = 0
    """Bytes, where it is a matter of memory."""


class RunnerProcess:
    """One runner, from its start to its end."""

    def __init__(self, places: int, clock: Clock, on_end: Callable[[], None]) -> None:
        self._clock = clock
        self.number = 0
        self.state: State = "starting"
        self.hello: Hello | None = None
        self.rooms: dict[bool, Room] = {}
        self.claims: dict[Key, Claim] = {}
        self.judging: set[Key] = set()
        """Jobs of others about which it was asked."""
        self.unanswered: set[Key] = set()
        """Ends of which it wants to hear what the store says."""
        self.alone: Claim | None = None
        """The one claim that it has to itself, whether it has been sent already or waits for the others to end."""
        self.alone_sent = False
        self.alone_until_us = 0
        """How long it waits for them at most."""
        self.apart = False
        """Whether it was started for one suspect."""
        self.for_scripts = False
        """Whether it runs scripts, and no app's tasks."""
        self.stuck: set[JobId] = set()
        self.late: set[Key] = set()
        """Those of its jobs that are past their timeout: while there are any, it gets no more."""
        self.ended = 0
        self.restarts = 0
        self.base_rss = 0
        """What it had in memory before the job that it has to itself: others may have left something there."""
        self.sentence: Sentence | None = None
        self.unfit: Unfit | None = None
        """Why it cannot start, in its own words."""
        self.slow = False
        """Whether it was said that it takes long to start."""
        self.greeted_us = 0
        self.leaving = False
        """Whether it was told to end."""
        self.told_us = 0
        self.buried = threading.Event()
        self.code: int | None = None
        """How its process ended; None: it has not."""
        self.epoch = 0
        """Grows when claims are taken back from it by its page."""
        self.revoked_us = 0
        """When that was last done; 0: it has answered since."""
        self.started_us = clock.now_us()
        self.heard_us = clock.monotonic_us()
        """Since when it has been expected to look around."""
        self._reader: Reader[FromRunner] = Reader(decode_from_runner)
        self._sending = threading.Lock()
        self._unsent = bytearray()
        self._on_unsent = on_end
        self._deaf = False
        """Whether what it writes can be read no more."""
        self.is_mute = False
        """Whether nothing more comes from it: it ends, or at least its main thread has."""
        self._start(places)
        self._waiter = threading.Thread(target=self._wait, args=(on_end,), name="windlass-waitpid", daemon=True)
        self._waiter.start()

    def _start(self, places: int) -> None:
        self.link, theirs = socket.socketpair()
        self.link.setblocking(False)
        memory = shared_page(shared_size(places))
        self.page, self.ring = share(memory, places)
        numbers = (theirs.fileno(), memory, os.getpid())
        # -P: what lies in the working folder must not be taken for a module that we need ourselves.
        words = [sys.executable, "-P", "-m", "windlass.worker.runner", *map(str, numbers), __version__]
        try:
            self._process = start_apart(words, fds=[theirs.fileno(), memory])
        finally:
            theirs.close()
            os.close(memory)
        self.pid = self._process.pid

    def welcome(self, welcome: Welcome) -> None:
        """Tells it what to do: until then it has loaded nothing of the user's, and is nobody's."""
        self.number, self.for_scripts = welcome.number, welcome.scripts is not None
        self.heard_us, self.started_us = self._clock.monotonic_us(), self._clock.now_us()
        self.send(welcome)

    @property
    def name(self) -> str:
        """What people call it, at the beginning of a sentence."""
        what = "The runner of a suspect" if self.apart else f"Runner {self.number}"
        return "The script runner" if self.for_scripts else what

    def _wait(self, on_end: Callable[[], None]) -> None:
        self.code = wait_for_end(self._process)
        on_end()

    # ── what it can take ────────────────────────────────────────────────────────────────────────────────

    @property
    def is_open(self) -> bool:
        """Whether it takes claims now."""
        held_up = self.late or self.revoked_us
        return self.state == "working" and self.alone is None and not held_up and not self.apart

    @property
    def waits_to_be_alone(self) -> bool:
        """Whether a claim waits for its other jobs to end."""
        return self.alone is not None and not self.alone_sent

    @property
    def has_more(self) -> bool:
        """Whether it has claims that none of its slots can have started yet."""
        return any(room.waiting for room in self.rooms.values())

    def is_silent(self, now_us: int) -> bool:
        """Whether it has work and does not get any further with it."""
        return bool(self.claims) and now_us - max(self.page.looked_us, self.heard_us) >= HOARD_US

    def knows(self, task: str) -> bool:
        return self.hello is not None and task in self.hello.tasks

    @property
    def has_done_all(self) -> bool:
        """Whether nothing is left that it has to do or to hear."""
        return not self.claims and not self.judging and not self.unanswered

    def room_for(self, claim: Claim) -> Room:
        hello = self.hello
        assert hello is not None
        return self.rooms[hello.tasks.get(claim.task, False) if len(self.rooms) > 1 else next(iter(self.rooms))]

    def take_in(self, claim: Claim, now_us: int) -> None:
        """It is on its way there."""
        if not self.claims:
            self.heard_us = now_us
        self.claims[claim.id, claim.fence] = claim
        self.room_for(claim).enter((claim,))

    def let_go(self, key: Key, ran_us: int | None = None) -> Claim | None:
        """It does not have the claim any more; `ran_us`: how long it took, if it has run."""
        claim = self.claims.pop(key, None)
        if claim is not None:
            room = self.room_for(claim)
            room.leave(claim)
            if ran_us is not None:
                room.timed(ran_us)
            self.stuck.discard(claim.id)
            self.late.discard(key)
            if self.alone is claim:
                self.alone, self.alone_sent = None, False
        return claim

    # ── the socket ──────────────────────────────────────────────────────────────────────────────────────

    def tell(self, frame: Frame) -> None:
        """Sends what it can do without, unless much lies before it already."""
        if len(self._unsent) < CHUNK:
            self.send(frame)

    def send(self, frame: Frame) -> None:
        """Returns at once; what the socket cannot take yet is sent later, by `flush`."""
        data = encode(frame)
        with self._sending:
            if self._unsent:
                self._unsent += data
            else:
                self._unsent += data[self._try(data) :]
                if self._unsent:
                    self._on_unsent()

    def flush(self) -> None:
        with self._sending:
            del self._unsent[: self._try(self._unsent)]

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def _try(self, data: bytearray) -> int:
        try:
            return self.link.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)  # it is dead, and about to be buried

    def read(self) -> list[FromRunner]:
        """Frames that came."""
        frames = self._whole(self._receive())
        return frames + self._take() if self.ring.has_news else frames

    def read_to_the_end(self) -> list[FromRunner]:
        """Everything that it has written by now; of one that is dead, all that is left."""
        frames: list[FromRunner] = []
        while data := self._receive():
            frames += self._whole(data)
        return frames + self._take()

    def _take(self) -> list[FromRunner]:
        frames: list[FromRunner] = []
        try:
            frames += map(decode_from_runner, self.ring.take())
        except msgspec.DecodeError:
            self.ring.is_broken = True
        if self.ring.is_broken:
            self._give_up()
        return frames

    def _receive(self) -> bytes:
        try:
            data = b"" if self._deaf else self.link.recv(CHUNK)
        except BlockingIOError:
            return b""  # nothing yet
        except OSError:
            data = b""
        if not data:
            self.is_mute = True
        return data

    def _whole(self, data: bytes) -> list[FromRunner]:
        frames = self._reader.feed(data)
        if self._reader.is_broken:
            self._give_up()
        return frames

    def _give_up(self) -> None:
        if not self._deaf:
            log.error("%s writes what is no message: its memory is damaged.", self.name)
            self._deaf = True
            self.kill()

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────

    def kill(self) -> None:
        """Now, with whatever its tasks have started."""
        if self.code is None:
            kill_group(self.pid)

    def hang_up(self) -> None:
        """It sees that nobody is there any more, ends whatever it runs, and then itself."""
        with suppress(OSError):
            self.link.shutdown(socket.SHUT_WR)

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended, at the latest after so long."""
        self._waiter.join(timeout_s)
        return self.code is not None

    def close(self) -> None:
        self.link.close()

    @property
    def last_words(self) -> str:
        """How its process ended."""
        return ending(self.code or 0)
