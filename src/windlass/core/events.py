"""Each step of a job's life can be watched, and watching can neither stop nor slow a job.

Whoever takes a step asks `bus.wanted(Started)` before it builds the event: no subscriber, no cost. Handlers
run where the step happened and must return at once; one with slow work subscribes a `Mailbox`, which takes
an event in constant time, drops the oldest when full, and is emptied by its owner's own thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

log = logging.getLogger("windlass.events")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What all events have: the instant. Subscribing to `Event` itself means all of them."""

    at_us: int


class Sent(Event, frozen=True, kw_only=True):
    """A job was acknowledged by the store, or answered as a duplicate of another."""

    job: bytes
    task: str
    queue: str
    duplicate_of: bytes | None = None


class Claimed(Event, frozen=True, kw_only=True):
    """A worker holds a job under a new fence."""

    job: bytes
    task: str
    queue: str
    worker: bytes
    fence: int
    waited_us: int = 0


class Started(Event, frozen=True, kw_only=True):
    """The user's function is about to be called."""

    job: bytes
    task: str
    worker: bytes
    fence: int
    attempt: int


class Settled(Event, frozen=True, kw_only=True):
    """The end of an attempt reached the store, which answered accepted, already or stale."""

    job: bytes
    task: str
    worker: bytes
    fence: int
    attempt: int
    outcome: str
    state: str
    answer: str = "accepted"
    ran_us: int = 0


class Renewed(Event, frozen=True, kw_only=True):
    """A worker's lease was renewed."""

    worker: bytes
    claims: int
    took_us: int = 0


class Swept(Event, frozen=True, kw_only=True):
    """A sweep did something."""

    worker: bytes | None = None
    lost: int = 0
    chores: int = 0
    expired: int = 0
    removed: int = 0


class WorkerLost(Event, frozen=True, kw_only=True):
    """A worker is dead; its jobs were taken from it."""

    worker: bytes
    jobs: int


class SetAside(Event, frozen=True, kw_only=True):
    """A record that cannot be read was put out of the way; the queue goes on."""

    job: bytes
    reason: str


class ClockBehind(Event, frozen=True, kw_only=True):
    """The store's clock stands behind what it showed before; order is kept by the counter."""

    behind_us: int


class StoreNotice(Event, frozen=True, kw_only=True):
    """The store has something to tell the operator: nearly full, on a network file system, repaired."""

    code: str
    text: str


EventT = TypeVar("EventT", bound=Event)
_Handler = Callable[[Any], object]


class Bus:
    """Hands events to subscribers; no error of theirs reaches the publisher."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Replaced whole, never changed in place: publish and wanted read it without the lock.
        self._handlers: dict[type[Event], tuple[_Handler, ...]] = {}
        self._failed: list[_Handler] = []

    def wanted(self, event_type: type[Event]) -> bool:
        """Whether anybody listens: False means that building the event would be waste."""
        handlers = self._handlers
        return bool(handlers) and (event_type in handlers or Event in handlers)

    def subscribe(self, event_type: type[EventT], handler: Callable[[EventT], object]) -> None:
        """From now on `handler` gets every event of this type; subscribing twice changes nothing."""
        with self._lock:
            now = self._handlers.get(event_type, ())
            if handler not in now:
                self._handlers = {**self._handlers, event_type: (*now, handler)}

    def unsubscribe(self, event_type: type[EventT], handler: Callable[[EventT], object]) -> None:
        """From now on `handler` gets no event of this type; without a subscription nothing changes."""
        with self._lock:
            left = tuple(one for one in self._handlers.get(event_type, ()) if one != handler)
            handlers = {**self._handlers, event_type: left}
            if not left:
                del handlers[event_type]
            self._handlers = handlers
            self._failed = [one for one in self._failed if one != handler]

    def publish(self, event: Event) -> None:
        """Gives the event to each subscriber; one that fails is logged once and the rest still get it."""
        handlers = self._handlers
        for handler in (*handlers.get(type(event), ()), *handlers.get(Event, ())):
            try:
                handler(event)
            except BaseException:
                self._report(handler, event)

    def _report(self, handler: _Handler, event: Event) -> None:
        with self._lock:
            # Once per subscriber: a broken exporter must not fill the disk with a traceback per job.
            if handler in self._failed:
                return
            self._failed.append(handler)
        name = cast("str", getattr(handler, "__qualname__", None) or repr(handler))
        log.exception("Subscriber %s failed on %s; later failures are not logged.", name, type(event).__name__)


class Mailbox:
    """Takes events without ever blocking or growing: the oldest go when it is full, and are counted."""

    def __init__(self, size: int = 10_000) -> None:
        self._events: deque[Event] = deque(maxlen=size)
        self.dropped = 0

    def __call__(self, event: Event) -> None:
        """Keeps the event; use the mailbox itself as the handler."""
        if len(self._events) == self._events.maxlen:
            self.dropped += 1
        self._events.append(event)

    def take(self, most: int = 1000) -> list[Event]:
        """Up to `most` of the events kept, oldest first; they are gone from the mailbox."""
        taken: list[Event] = []
        while len(taken) < most:
            try:
                taken.append(self._events.popleft())
            except IndexError:
                break
        return taken
