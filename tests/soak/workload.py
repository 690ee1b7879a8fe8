"""Which jobs a round has: a mixture that is the same for the same seed, in parcels that are sent whole.

The id of a job derives from the seed and its number, so a producer that was killed sends the same parcels again. What
a job does is written in its payload: the processes that run it need to know nothing else.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from windlass.core.ids import JobId, child_id
from windlass.core.job import Edge, Job, Request, Unique

MS_US = 1_000


class Deed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the job does when it runs."""

    fails: int = 0
    """So many attempts fail and are tried again; -1: it fails for good."""
    follow_ups: int = 0
    become: bool = False
    """Its first follow-up takes over its dependents."""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Parcel:
    """Jobs that are sent in one insert, and what is done to them once that is acknowledged."""

    number: int
    jobs: tuple[Job, ...]
    start: JobId | None = None
    cancel: tuple[JobId, ...] = ()


def make_id(seed: int, number: int) -> JobId:
    """The id of job `number`."""
    return hashlib.blake2b(f"{seed}/{number}".encode(), digest_size=16).digest()


def follow_ups(parent: JobId, deed: Deed) -> tuple[Job, ...]:
    """What a job sends on when it succeeds."""
    payload = msgspec.json.encode(Deed(generation=deed.generation + 1))
    return tuple(
        Job(request=Request(id=child_id(parent, index), task="follow", queue="follow", payload=payload))
        for index in range(deed.follow_ups)
    )


class Mixture:
    """The jobs of one round, dealt out one parcel after another."""

    def __init__(self, seed: int, jobs: int) -> None:
        self._seed = seed
        self._jobs = jobs
        self._random = random.Random(seed)
        self._next = 0

    def parcels(self) -> list[Parcel]:
        """Parcels until the number of jobs is reached."""
        kinds = (
            (self._plain, 30),
            (self._delayed, 10),
            (self._lane, 20),
            (self._unique, 10),
            (self._failing, 12),
            (self._parents, 8),
            (self._flow, 6),
            (self._cancelled, 8),
        )
        made: list[Parcel] = []
        makers = [maker for maker, _ in kinds]
        weights = [weight for _, weight in kinds]
        while self._next < self._jobs:
            (maker,) = self._random.choices(makers, weights)
            made.append(maker(len(made)))
        return made

    def _new(self, task: str, deed: Deed | None = None, **fields: object) -> Job:
        job_id = make_id(self._seed, self._next)
        self._next += 1
        payload = msgspec.json.encode(deed or Deed())
        return Job(request=Request(id=job_id, task=task, payload=payload, **fields))  # pyright: ignore[reportArgumentType]

    def _some(self, most: int) -> Iterator[int]:
        yield from range(self._random.randint(1, most))

    def _plain(self, number: int) -> Parcel:
        priority = self._random.randint(0, 9)
        return Parcel(number, tuple(self._new("plain", priority=priority) for _ in self._some(30)))

    def _delayed(self, number: int) -> Parcel:
        jobs = [self._new("delayed", delay_us=self._random.randint(1, 50) * MS_US) for _ in self._some(12)]
        return Parcel(number, tuple(jobs))

    def _lane(self, number: int) -> Parcel:
        """One parcel goes to one lane; the lane's number says how many of its jobs may run at once."""
        limit = self._random.randint(1, 3)
        lane = f"lane-{limit}-{self._random.randint(1, 3)}"
        jobs: list[Job] = []
        for _ in self._some(12):
            fails = 1 if self._random.random() < 0.1 else 0
            jobs.append(self._new("laned", Deed(fails=fails), queue="lanes", lane=lane, lane_limit=limit))
        return Parcel(number, tuple(jobs))

    def _unique(self, number: int) -> Parcel:
        jobs: list[Job] = []
        for _ in self._some(6):
            until = self._random.choice(("start", "end"))
            unique = Unique(key=f"key-{until}-{self._random.randint(1, 8)}", until=until)
            jobs.append(self._new("unique", unique=unique))
        return Parcel(number, tuple(jobs))

    def _failing(self, number: int) -> Parcel:
        jobs = [self._new("failing", Deed(fails=self._random.choice((1, 2, 3, -1)))) for _ in self._some(10)]
        return Parcel(number, tuple(jobs))

    def _parents(self, number: int) -> Parcel:
        """Jobs with follow-ups, and a job that waits for the first of them or for its heir."""
        first = self._new("parent", Deed(follow_ups=self._random.randint(1, 4), become=self._random.random() < 0.5))
        others = [self._new("parent", Deed(follow_ups=1)) for _ in self._some(4)]
        waits = self._new("waits", parents=(Edge(first.id),))
        return Parcel(number, (first, *others, waits))

    def _flow(self, number: int) -> Parcel:
        """Fan-out and fan-in; one in three has a node that dies, and what waits for its success is cancelled."""
        flow = make_id(self._seed, -1 - self._next)
        top = self._new("node", flow=flow)
        dies = self._random.random() < 0.34
        middle: list[Job] = []
        for index in self._some(8):
            deed = Deed(fails=-1) if dies and not index else Deed(fails=self._random.choice((0, 0, 0, 1)))
            middle.append(self._new("node", deed, flow=flow, parents=(Edge(top.id),)))
        end = self._new("node", flow=flow, parents=tuple(Edge(job.id) for job in middle))
        last = self._new("node", flow=flow, parents=(Edge(end.id, on="ended"),))
        return Parcel(number, (top, *middle, end, last), start=flow)

    def _cancelled(self, number: int) -> Parcel:
        jobs = [self._new("cancelled", delay_us=self._random.choice((0, 10 * MS_US))) for _ in self._some(6)]
        return Parcel(number, tuple(jobs), cancel=tuple(job.id for job in jobs[::2]))


@lru_cache(maxsize=1)
def deal(seed: int, jobs: int) -> tuple[Parcel, ...]:
    """The parcels of a round."""
    return tuple(Mixture(seed, jobs).parcels())
