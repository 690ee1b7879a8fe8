"""What the store says now. Everything comes from `windlass.ops` and a URL: nobody asks the worker or the producer.

`Watcher.look` is called a few times a second. What it keeps between two looks is which news it has told, and how many
jobs had ended when: from that comes the rate.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from windlass import State, read_id
from windlass.core.durations import SECOND_US
from windlass.core.errors import JobNotFound
from windlass.core.job import ENDED
from windlass.engines.protocol import Engine, Query
from windlass.ops import stats, view

SMALL: Final = "visits"
"""The queue of very many tiny jobs: counted, not told one by one."""
NEWS_KEPT: Final = 60
MOVING_SHOWN: Final = 12
RATES_KEPT: Final = 240
RATE_STEP_S: Final = 0.5


@dataclass(frozen=True)
class News:
    """Something that became of a job: when, what, of which task, with which arguments, and a word about it."""

    at_us: int
    kind: str
    task: str
    about: str
    word: str


@dataclass(frozen=True)
class Look:
    """The store at one instant."""

    passed_s: float
    queues: tuple[stats.QueueView, ...]
    workers: tuple[stats.WorkerView, ...]
    counts: Counter[State]
    """Jobs by state, on all queues."""
    retried: int
    """How many times a job was tried again."""
    moving: tuple[view.JobView, ...]
    """Running jobs, those that run longest first."""
    news: tuple[News, ...]
    """The newest first."""
    fresh: tuple[News, ...]
    """What the last look did not know, the oldest first."""
    rates: tuple[float, ...]
    """Ended jobs a second, one figure for each half second."""
    minute: Counter[str]
    """Outcomes of attempts in this minute, as the workers counted them at their last beat."""
    waiting: tuple[str, str] | None
    """A job that is not running, and why."""

    @property
    def ended(self) -> int:
        """Jobs that have come to their end."""
        return sum(self.counts[state] for state in ENDED)

    @property
    def rate(self) -> float:
        """Ended jobs a second, over the last two seconds."""
        last = self.rates[-4:]
        return sum(last) / len(last) if last else 0.0


class Watcher:
    """Looks at a store again and again."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._began_s = self._rated_s = time.monotonic()
        self._rated = self._small_told = 0
        self._rates: deque[float] = deque(maxlen=RATES_KEPT)
        self._news: deque[News] = deque(maxlen=NEWS_KEPT)
        self._known: dict[str, tuple[State, int]] = {}
        """State and attempt in which a job was last told of."""

    def look(self) -> Look:
        """What there is now, and what is new."""
        queues, workers = stats.queues(self._engine), stats.workers(self._engine)
        counts: Counter[State] = Counter()
        for queue in queues:
            counts.update(queue.counts)
        fresh = sorted([*self._told(queues), *self._small(queues)], key=lambda one: one.at_us)
        self._news.extendleft(fresh)
        self._rate(sum(counts[state] for state in ENDED))
        return Look(
            passed_s=time.monotonic() - self._began_s,
            queues=queues,
            workers=workers,
            counts=counts,
            retried=sum(attempt - 1 for _, attempt in self._known.values()),
            moving=tuple(self._moving(workers)),
            news=tuple(self._news),
            fresh=tuple(fresh),
            rates=tuple(self._rates),
            minute=self._minute(),
            waiting=self._waiting(),
        )

    # ── news ────────────────────────────────────────────────────────────────────────────────────────────

    def _told(self, queues: tuple[stats.QueueView, ...]) -> Iterator[News]:
        searches = [Query(state=state) for state in (State.SCHEDULED, State.DEAD, State.CANCELLED)]
        searches += [Query(state=State.SUCCEEDED, queue=queue.name) for queue in queues if queue.name != SMALL]
        for search in searches:
            for line in view.jobs(self._engine, search).jobs:
                now = (line.state, line.attempt)
                if self._known.get(line.id) == now or (line.state is State.SCHEDULED and line.attempt == 1):
                    continue
                self._known[line.id] = now
                for found in self._opened([line]):
                    yield _news(found, line)

    def _small(self, queues: tuple[stats.QueueView, ...]) -> Iterator[News]:
        """Tiny jobs are told of when none is left."""
        for queue in queues:
            done = queue.counts.get(State.SUCCEEDED, 0) - self._small_told
            if queue.name == SMALL and done and sum(queue.counts.values()) == queue.counts.get(State.SUCCEEDED):
                self._small_told += done
                yield News(_now_us(), "succeeded", "count_visit", f"{done:,} jobs", "the queue is empty again")

    # ── what moves, what waits ──────────────────────────────────────────────────────────────────────────

    def _moving(self, workers: tuple[stats.WorkerView, ...]) -> Iterator[view.JobView]:
        lines = [line for worker in workers for line in worker.running if line.queue != SMALL]
        return self._opened(sorted(lines, key=lambda line: (line.claimed_us or 0, line.id))[:MOVING_SHOWN])

    def _waiting(self) -> tuple[str, str] | None:
        for search in (Query(state=State.SCHEDULED, limit=1), Query(state=State.READY, limit=1)):
            for found in self._opened(view.jobs(self._engine, search).jobs):
                return f"{task_name(found)} {about(found)}", found.why
        return None

    def _opened(self, lines: Iterable[view.JobLine]) -> Iterator[view.JobView]:
        for line in lines:
            try:
                yield view.job(self._engine, read_id(line.id))
            except JobNotFound:
                pass  # somebody who tries things out has deleted it

    # ── figures ─────────────────────────────────────────────────────────────────────────────────────────

    def _rate(self, ended: int) -> None:
        passed_s = time.monotonic() - self._rated_s
        if passed_s >= RATE_STEP_S:
            self._rates.append((ended - self._rated) / passed_s)
            self._rated, self._rated_s = ended, self._rated_s + passed_s

    def _minute(self) -> Counter[str]:
        moments = stats.history(self._engine, "minute", since_us=_now_us() - 60 * SECOND_US)
        return Counter(moments[-1].counts) if moments else Counter()


def _now_us() -> int:
    return time.time_ns() // 1_000


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────


def task_name(job: view.JobLine) -> str:
    """The task without its module."""
    return job.task.rpartition(".")[2]


def about(job: view.JobView) -> str:
    """The first argument: what the job is about."""
    given: list[Any] = [*job.args, *job.kwargs.values()]
    return str(given[0]) if given else ""


def _news(job: view.JobView, line: view.JobLine) -> News:
    """The job as the list had it: it may have gone on since."""
    kind = "retrying" if line.state is State.SCHEDULED else line.state.value
    last_us = job.attempts[-1].ended_us if job.attempts else _now_us()
    match line.state:
        case State.SCHEDULED:
            word = f"attempt {line.attempt} in {_span(line.due_us - last_us)}, after {_error(line)}"
        case State.DEAD:
            word = _error(line)
        case State.CANCELLED:
            word = f"after {_took(line)}"
        case _:
            word = f"in {_took(line)}" if line.attempt == 1 else f"in {_took(line)}, at attempt {line.attempt}"
    return News(line.ended_us or last_us, kind, task_name(job), about(job), word)


def _error(line: view.JobLine) -> str:
    """The error, its class without its module."""
    kind, colon, message = (line.error or "").partition(":")
    return f"{kind.rpartition('.')[2]}{colon}{message}"


def _took(line: view.JobLine) -> str:
    return _span((line.ended_us or 0) - (line.started_us or line.created_us))


def _span(us: int) -> str:
    return f"{max(0, us) / SECOND_US:.2f} s"
