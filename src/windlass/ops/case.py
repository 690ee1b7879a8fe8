"""A job that somebody asks about: what there is to know of it, asked of the store only when a reason needs it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

import msgspec

from windlass.core.gates import Gate, read_gate
from windlass.core.job import Job, State
from windlass.engines.protocol import Card, Engine, Query, Tally
from windlass.ops.cards import knows, listens, staying, take_stock
from windlass.ops.lookup import record_of

PAGE: Final = 1_000
LOOKS: Final = 2
"""Pages of a queue, or of running jobs, that are looked through: the answer is for a person, and must be quick."""
MOST_CARDS: Final = 20
"""With more workers than this, whether all are busy is not counted."""


class Case:
    """One job at one instant."""

    def __init__(self, engine: Engine, job: Job, now_us: int) -> None:
        self.engine = engine
        self.job = job
        self.request = job.request
        self.record = record_of(job)
        self.now_us = now_us

    @property
    def queue(self) -> str:
        return self.record.queue

    @cached_property
    def tally(self) -> Tally:
        return take_stock(self.engine)

    @property
    def cards(self) -> tuple[Card, ...]:
        return self.tally.cards

    @property
    def owner(self) -> Card | None:
        """The worker that runs it."""
        return next((card for card in self.cards if card.worker == self.record.worker), None)

    @cached_property
    def listening(self) -> list[Card]:
        """The workers of its queue."""
        return [card for card in self.cards if listens(card, self.queue)]

    @cached_property
    def taking(self) -> list[Card]:
        """Those of them that go on to take jobs."""
        return staying(self.listening)

    @cached_property
    def able(self) -> list[Card]:
        """Those of them that know its task."""
        return [card for card in self.taking if knows(card, self.request.task)]

    @cached_property
    def gates(self) -> list[tuple[str, Gate]]:
        """The gates it must pass that have a rule now, each with what people call it."""
        keys = {f"queue/{self.queue}": f"its queue {self.queue}"}
        if self.request.gate is not None:
            keys[f"gate/{self.request.gate}"] = f"its gate {self.request.gate}"
        facts = self.engine.read(list(keys))
        return [(name, read_gate(fact.value)) for name, fact in zip(keys.values(), facts, strict=True) if fact]

    def counted(self, state: State) -> int:
        """How many jobs of its queue are in that state, by the kept counters."""
        return sum(count.n for count in self.tally.counts if count.queue == self.queue and count.state is state)

    def found(self, query: Query) -> Iterator[Job]:
        """The jobs of the first pages that a query finds."""
        for _ in range(LOOKS):
            page = self.engine.search(query)
            yield from page.jobs
            if page.cursor is None:
                return
            query = msgspec.structs.replace(query, cursor=page.cursor)

    @cached_property
    def ahead(self) -> int:
        """How many ready jobs of its queue, among those looked at, these workers would take before it."""
        if self.counted(State.READY) <= 1:
            return 0
        others = self.found(Query(state=State.READY, queue=self.queue, limit=PAGE))
        return sum(
            record_of(other).rank < self.record.rank and any(knows(card, other.request.task) for card in self.able)
            for other in others
        )

    @cached_property
    def all_busy(self) -> bool:
        """Whether every worker that could run it has as much as it has slots."""
        if len(self.able) > MOST_CARDS:
            return False
        counts = (self.engine.search(Query(worker=card.worker, count=True)).count for card in self.able)
        return all(count >= max(1, card.slots) for count, card in zip(counts, self.able, strict=True))

    def running_at(self, gate: str | None) -> int:
        """How many jobs behind that shared gate run; None: how many of its queue."""
        if gate is None:
            return self.counted(State.RUNNING)
        return sum(other.request.gate == gate for other in self.found(Query(state=State.RUNNING, limit=PAGE)))
