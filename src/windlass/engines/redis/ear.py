"""Sleeping until something is published. What is published while nobody listens is lost: the store is the truth."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final, cast

from windlass.core.errors import StoreClosed
from windlass.engines.redis.address import Address
from windlass.engines.redis.refusals import refusal, unreachable
from windlass.engines.redis.wire import Answered, Cut, Wire

QUIET_S: Final = 10.0
"""After so long a silence the server is asked whether it is still there: a line that was cut far away stays silent."""

Message = tuple[bytes, bytes]
"""The channel, and what was published there."""


class Ear:
    """A connection of its own that hears channels; one thread uses it at a time, any may close it."""

    def __init__(self, wire: Wire, address: Address, gone: Callable[[Ear], object]) -> None:
        self._wire = wire
        self._address = address
        self._gone = gone
        self._channels: frozenset[bytes] = frozenset()
        self._heard: list[Message] = []
        self._lock = threading.Lock()
        self._busy = self._closed = False
        self._heard_s = time.monotonic()
        self._asked_s: float | None = None

    @property
    def run_id(self) -> bytes:
        """Which life of which server it hears."""
        return self._wire.run_id

    @property
    def channels(self) -> frozenset[bytes]:
        """What it hears, whether anybody waits for it or not."""
        return self._channels

    def listen_on(self, channels: frozenset[bytes]) -> None:
        """Hears exactly these from now on; returns when the server has confirmed it."""
        self._use(lambda: self._listen_on(channels))

    def wait(self, timeout_s: float) -> list[Message]:
        """All that was published: at least one message, or none after the time is over."""
        return self._use(lambda: self._wait(time.monotonic() + timeout_s))

    def close(self) -> None:
        """Ends it; who waits is woken."""
        with self._lock:
            self._closed = True
            if self._busy:
                self._wire.shut()  # who uses it closes it
            else:
                self._wire.close()
        self._gone(self)

    def _use(self, action: Callable[[], Any]) -> Any:
        with self._lock:
            if self._closed:
                raise _closed()
            self._busy = True
        try:
            return action()
        except (Answered, Cut) as error:
            if self._closed:
                raise _closed() from None
            self.close()
            raise (
                refusal(error.text, self._address) if isinstance(error, Answered) else unreachable(error, self._address)
            ) from None
        except BaseException:
            self.close()  # half a message may have been read
            raise
        finally:
            with self._lock:
                self._busy = False
                if self._closed:
                    self._wire.close()

    def _listen_on(self, channels: frozenset[bytes]) -> None:
        changes = ((b"SUBSCRIBE", channels - self._channels), (b"UNSUBSCRIBE", self._channels - channels))
        for command, some in changes:
            if some:
                self._wire.send(command, *sorted(some))
        for command, some in changes:
            confirmed = 0
            while confirmed < len(some):
                confirmed += self._take_in() == command.lower()
        self._channels = channels

    def _wait(self, until_s: float) -> list[Message]:
        while not self._heard:
            left_s = until_s - time.monotonic()
            if not self._wire.has_news(max(0.0, min(left_s, self._until_asking_s()))):
                if left_s <= 0:
                    return []
                continue
            self._take_in()
        while self._wire.has_news():
            self._take_in()
        heard, self._heard = self._heard, []
        return heard

    def _until_asking_s(self) -> float:
        """How long silence may go on; asks the server when it was long enough, and gives it up when it stays silent."""
        now_s = time.monotonic()
        if self._asked_s is None:
            left_s = self._heard_s + QUIET_S - now_s
            if left_s > 0:
                return left_s
            self._wire.send(b"PING")
            self._asked_s = now_s
        left_s = self._asked_s + self._address.timeout_s - now_s
        if left_s <= 0:
            raise Cut(str(self._wire.node), silent=True)
        return left_s

    def _take_in(self) -> bytes:
        """Reads what comes next, and says what it is; messages are kept."""
        found = self._wire.read()
        self._heard_s, self._asked_s = time.monotonic(), None
        if not isinstance(found, list):
            return b"pong"  # of one that listens on nothing
        kind, *rest = cast("list[bytes]", found)
        if kind == b"message":
            self._heard.append((rest[0], rest[1]))
        return kind


def _closed() -> StoreClosed:
    return StoreClosed("The engine was closed.", "Open it again.")
