"""Counts as people see them: queues, workers, tasks, and what was done over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from windlass.core.clock import SystemClock
from windlass.core.gates import OPEN, read_gate
from windlass.core.ids import show_id
from windlass.core.info import Info
from windlass.core.job import State
from windlass.core.rates import Rate
from windlass.engines.protocol import SPANS_US, Card, Engine, Query, Span, Tally, TallyQuery
from windlass.ops.cards import called, info, knows, label, listens, started_us, staying, take_stock
from windlass.ops.processes import ProcessView, processes
from windlass.ops.view import JobLine, lines

_clock = SystemClock()


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: how many jobs are where, and what its gate lets through."""

    name: str
    counts: dict[State, int]
    paused: bool
    limit: int | None
    rate: Rate | None
    shut_until_us: int | None
    """Until when its breaker is open."""
    workers: int
    """How many workers take its jobs."""


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that lives: its card, and what it has."""

    id: str
    name: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    """None: all."""
    tasks: tuple[str, ...] | None
    slots: int
    pool: str
    resources: dict[str, int]
    started_us: int
    age_us: int
    claims: int
    running: tuple[JobLine, ...]
    """The first hundred of what it has claimed; one that no slot has begun has no start."""
    stuck: tuple[str, ...]
    """Jobs that do not heed being stopped."""
    state: str
    """`draining` or `stopping` where it takes no more jobs."""
    beat_us: int
    """When it last reported, by the clock of its host; 0: it does not say."""
    processes: tuple[ProcessView, ...]
    """None where it does not say."""

    @property
    def label(self) -> str:
        """As people call it."""
        return called(self.name, self.host, self.id)

    @property
    def rss(self) -> int:
        """Bytes in memory, of all its processes."""
        return sum(one.rss for one in self.processes)

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU of the processes that it has now, each since its start."""
        return sum(one.cpu_s for one in self.processes)

    @property
    def restarts(self) -> int:
        """How many processes were replaced."""
        return sum(one.restarts for one in self.processes)


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A task that a worker knows, or that jobs name."""

    name: str
    counts: dict[State, int]
    workers: tuple[str, ...]
    """Those that know it; none: its jobs wait for one."""
    queues: tuple[str, ...]
    """Where its jobs are."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What workers counted in one minute, hour or day: outcomes by name."""

    start_us: int
    span_us: int
    counts: dict[str, int]


def queues(engine: Engine, names: Iterable[str] = (), *, tally: Tally | None = None) -> tuple[QueueView, ...]:
    """Every queue that has jobs or is named by a worker, and those named here, by name; as a tally has them, if given.

    The store does not list its rules: a paused queue without jobs and without a worker is shown only if it is named.
    """
    tally = take_stock(engine) if tally is None else tally
    counts: dict[str, Counter[State]] = {name: Counter() for name in names}
    for card in tally.cards:
        counts.update({queue: Counter() for queue in card.queues or () if queue not in counts})
    for count in tally.counts:
        counts.setdefault(count.queue, Counter())[count.state] += count.n
    return tuple(_queue(engine, sorted(counts.items()), staying(tally.cards)))


def _queue(engine: Engine, counts: list[tuple[str, Counter[State]]], cards: list[Card]) -> Iterable[QueueView]:
    facts = engine.read([f"queue/{name}" for name, _ in counts])
    for (name, states), fact in zip(counts, facts, strict=True):
        gate = OPEN if fact is None else read_gate(fact.value)
        yield QueueView(
            name=name,
            counts=dict(states),
            paused=gate.paused,
            limit=gate.limit,
            rate=gate.rate,
            shut_until_us=gate.shut_until_us or None,
            workers=sum(listens(card, name) for card in cards),
        )


def workers(engine: Engine, *, now_us: int | None = None) -> tuple[WorkerView, ...]:
    """Every worker that lives, the oldest first."""
    now_us = _clock.now_us() if now_us is None else now_us
    return tuple(_worker(engine, card, now_us) for card in sorted(take_stock(engine).cards, key=lambda it: it.worker))


def _worker(engine: Engine, card: Card, now_us: int) -> WorkerView:
    said = info(card)
    return WorkerView(
        id=show_id(card.worker),
        name=card.name,
        host=card.host,
        pid=card.pid,
        queues=card.queues,
        tasks=card.tasks,
        slots=card.slots,
        pool=said.pool,
        resources=said.resources,
        started_us=started_us(card.worker),
        age_us=max(0, now_us - started_us(card.worker)),
        claims=engine.search(Query(worker=card.worker, count=True)).count,
        running=_running(engine, card, said),
        stuck=said.stuck,
        state=said.state,
        beat_us=said.beat_us,
        processes=processes(said, now_us),
    )


def _running(engine: Engine, card: Card, said: Info) -> tuple[JobLine, ...]:
    """What it has claimed, with the starts that it tells of: the store learns of a start only with the end."""
    found = lines(engine, engine.search(Query(worker=card.worker)).jobs)
    if not said.processes:
        return found
    begun = {job.id: job.started_us for process in said.processes for job in process.active}
    return tuple(msgspec.structs.replace(one, started_us=begun.get(one.id)) for one in found)


def tasks(engine: Engine) -> tuple[TaskView, ...]:
    """Every task that a worker registered or that a kept job names, by name."""
    tally = take_stock(engine)
    counts: dict[str, Counter[State]] = {name: Counter() for card in tally.cards for name in card.tasks or ()}
    homes: dict[str, set[str]] = {}
    for count in tally.counts:
        counts.setdefault(count.task, Counter())[count.state] += count.n
        homes.setdefault(count.task, set()).add(count.queue)
    return tuple(
        TaskView(
            name=name,
            counts=dict(states),
            workers=tuple(sorted(label(card) for card in tally.cards if knows(card, name))),
            queues=tuple(sorted(homes.get(name, ()))),
        )
        for name, states in sorted(counts.items())
    )


def history(
    engine: Engine, span: Span, *, since_us: int = 0, queue: str | None = None, task: str | None = None
) -> tuple[Moment, ...]:
    """What was done in each minute, hour or day that something was done in; a moment is whole after a worker's beat."""
    moments: dict[int, Counter[str]] = {}
    for bucket in engine.tally(TallyQuery(span=span, since_us=since_us)).buckets:
        if queue in {None, bucket.queue} and task in {None, bucket.task}:
            moments.setdefault(bucket.start_us, Counter())[bucket.name] += bucket.n
    width_us = SPANS_US[span]
    return tuple(
        Moment(start_us=start_us, span_us=width_us, counts=dict(counts)) for start_us, counts in sorted(moments.items())
    )


FAILURES = ("failed", "timed_out", "crashed", "lost")


def failures(counts: Mapping[str, int]) -> int:
    """How many attempts failed, of outcomes that were counted by name; one that came too late to count is none."""
    return sum(counts.get(name, 0) for name in FAILURES)


def outcomes(engine: Engine, span: Span, *, since_us: int = 0) -> dict[str, dict[str, int]]:
    """What became of the attempts of each task since then: outcomes by name, summed."""
    found: dict[str, Counter[str]] = {}
    for bucket in engine.tally(TallyQuery(span=span, since_us=since_us)).buckets:
        found.setdefault(bucket.task, Counter())[bucket.name] += bucket.n
    return {task: dict(counts) for task, counts in sorted(found.items())}
