"""An engine that fails on command: it loses answers, refuses calls, or is down, and counts what it did.

A lost answer is the fault that matters most: the store did what was asked and the caller cannot know. Every
verb may be repeated then, so whoever sits on this engine can show that a repeat changes nothing.

```python
engine = FaultyEngine(MemoryEngine())
engine.plan("insert", [Fault.LOSE])   # the next insert happens, its receipt is lost
engine.chance(seed=7, lose=0.1, refuse=0.1)  # then one call in five goes wrong, always the same ones
engine.down(); ...; engine.up()
```
"""

from __future__ import annotations

import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Literal, TypeVar, get_args

from windlass.core.clock import Clock
from windlass.core.errors import BadValue, StoreUnavailable
from windlass.core.ids import JobId
from windlass.core.job import Job
from windlass.engines.protocol import (
    ALL_PARTS,
    Amended,
    Amendment,
    Beat,
    Capabilities,
    Claims,
    Engine,
    Fact,
    Hint,
    Interest,
    Note,
    Opened,
    Order,
    Orders,
    Page,
    Part,
    Put,
    Query,
    Receipt,
    Settlement,
    Sweep,
    Swept,
    Tally,
    TallyQuery,
    Verdict,
    Written,
)
from windlass.testing.clock import travel

T = TypeVar("T")

Verb = Literal[
    "open",
    "insert",
    "claim",
    "settle",
    "renew",
    "note",
    "sweep",
    "fetch",
    "search",
    "amend",
    "tally",
    "read",
    "write",
    "listen",
    "signal",
]
VERBS: tuple[Verb, ...] = get_args(Verb)


class Fault(StrEnum):
    """What can go wrong with a call, besides nothing."""

    LOSE = "lose"
    """The call happens; its answer does not arrive."""
    REFUSE = "refuse"
    """The call does not happen."""


class FaultyEngine:
    """Passes every verb on to the engine it wraps, except where it was told otherwise.

    For each call the first of these decides: it is down; the verb's plan; the chances. `close` never fails,
    so that a test can always clean up. `done[verb, fault]` counts the faults, `calls[verb]` all calls.
    """

    def __init__(self, inner: Engine) -> None:
        self.inner = inner
        self.done: Counter[tuple[Verb, Fault]] = Counter()
        self.calls: Counter[Verb] = Counter()
        self._lock = threading.Lock()
        self._down = False
        self._plans: dict[Verb, deque[Fault | None]] = {}
        self._random: random.Random | None = None
        self._chances: tuple[float, float] = (0.0, 0.0)
        self._verbs: frozenset[Verb] = frozenset()

    # ── commands ────────────────────────────────────────────────────────────────────────────────────────

    def plan(self, verb: Verb, faults: Iterable[Fault | None]) -> None:
        """The next calls of this verb meet these faults, one each; None lets a call through."""
        if verb not in VERBS:
            raise BadValue(f"{verb!r} is not a verb that can fail.", f"Take one of {', '.join(VERBS)}.")
        with self._lock:
            self._plans.setdefault(verb, deque()).extend(faults)

    def lose(self, verb: Verb, times: int = 1) -> None:
        """The next calls of this verb happen, and their answers are lost."""
        self.plan(verb, [Fault.LOSE] * times)

    def refuse(self, verb: Verb, times: int = 1) -> None:
        """The next calls of this verb do not happen."""
        self.plan(verb, [Fault.REFUSE] * times)

    def chance(self, *, seed: int, lose: float = 0.0, refuse: float = 0.0, verbs: Iterable[Verb] = VERBS) -> None:
        """From now on calls of these verbs fail by chance; the same seed and calls give the same faults."""
        if not (lose >= 0 and refuse >= 0 and lose + refuse <= 1):
            raise BadValue(f"The chances {lose} and {refuse} are not possible.", "Their sum is 0 to 1.")
        with self._lock:
            self._random = random.Random(seed)
            self._chances = (lose, refuse)
            self._verbs = frozenset(verbs)

    def down(self) -> None:
        """Nothing gets through until `up`."""
        with self._lock:
            self._down = True

    def up(self) -> None:
        """The store can be reached again; plans go on where they were."""
        with self._lock:
            self._down = False

    def calm(self) -> None:
        """No faults any more: plans and chances are forgotten, and the store is up."""
        with self._lock:
            self._down, self._random = False, None
            self._plans.clear()

    @property
    def faults(self) -> int:
        """How many calls went wrong so far."""
        with self._lock:
            return self.done.total()

    # ── the one place where a call may go wrong ─────────────────────────────────────────────────────────

    def _next(self, verb: Verb) -> Fault | None:
        with self._lock:
            self.calls[verb] += 1
            fault = self._decide(verb)
            if fault is not None:
                self.done[verb, fault] += 1
            return fault

    def _decide(self, verb: Verb) -> Fault | None:
        if self._down:
            return Fault.REFUSE
        plan = self._plans.get(verb)
        if plan:
            return plan.popleft()
        if self._random is None or verb not in self._verbs:
            return None
        lose, refuse = self._chances
        drawn = self._random.random()
        if drawn < lose:
            return Fault.LOSE
        return Fault.REFUSE if drawn < lose + refuse else None

    def _through(self, verb: Verb, call: Callable[[], T]) -> T:
        # The lock is not held here: a listener that sleeps must not keep others from the store.
        fault = self._next(verb)
        if fault is Fault.REFUSE:
            raise StoreUnavailable(f"The store refused {verb} (by command).", "Repeat it.")
        answer = call()
        if fault is Fault.LOSE:
            raise StoreUnavailable(f"The answer to {verb} was lost (by command).", "Repeat it.")
        return answer

    # ── the sixteen verbs ───────────────────────────────────────────────────────────────────────────────

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    @property
    def _clock(self) -> Clock:
        """The wrapped engine's clock, so that `travel` reaches it through this engine."""
        return getattr(self.inner, "_clock")  # noqa: B009 - private on purpose, see testing/clock.py

    @_clock.setter
    def _clock(self, clock: Clock) -> None:
        travel(self.inner, clock)

    def open(self) -> Opened:
        return self._through("open", self.inner.open)

    def close(self) -> None:
        self.inner.close()

    def insert(self, jobs: Sequence[Job], /) -> list[Receipt]:
        return self._through("insert", lambda: self.inner.insert(jobs))

    def claim(self, order: Order, /) -> Claims:
        return self._through("claim", lambda: self.inner.claim(order))

    def settle(self, settlements: Sequence[Settlement], /) -> list[Verdict]:
        return self._through("settle", lambda: self.inner.settle(settlements))

    def renew(self, beat: Beat, /) -> Orders:
        return self._through("renew", lambda: self.inner.renew(beat))

    def note(self, notes: Sequence[Note], /) -> list[Verdict]:
        return self._through("note", lambda: self.inner.note(notes))

    def sweep(self, sweep: Sweep, /) -> Swept:
        return self._through("sweep", lambda: self.inner.sweep(sweep))

    def fetch(
        self, ids: Sequence[JobId], /, parts: frozenset[Part] = ALL_PARTS, log_after: int = 0
    ) -> list[Job | None]:
        return self._through("fetch", lambda: self.inner.fetch(ids, parts, log_after))

    def search(self, query: Query, /) -> Page:
        return self._through("search", lambda: self.inner.search(query))

    def amend(self, amendment: Amendment, /) -> Amended:
        return self._through("amend", lambda: self.inner.amend(amendment))

    def tally(self, query: TallyQuery, /) -> Tally:
        return self._through("tally", lambda: self.inner.tally(query))

    def read(self, keys: Sequence[str], /) -> list[Fact | None]:
        return self._through("read", lambda: self.inner.read(keys))

    def write(self, puts: Sequence[Put], /) -> list[Written]:
        return self._through("write", lambda: self.inner.write(puts))

    def listen(self, interest: Interest, timeout_s: float, /) -> list[Hint]:
        return self._through("listen", lambda: self.inner.listen(interest, timeout_s))

    def signal(self, hints: Sequence[Hint], /) -> None:
        self._through("signal", lambda: self.inner.signal(hints))
