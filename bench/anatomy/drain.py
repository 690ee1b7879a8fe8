"""A drain: a server full of jobs and one worker, measured in windows, each until so many of the jobs have started."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import Self

import msgspec

from bench.anatomy import steps, verbs
from bench.anatomy.result import Drain
from bench.anatomy.spy import Spy
from bench.anatomy.steps import Process
from bench.race.contestant import Contestant, Marks
from bench.race.ground import Ground, Place
from bench.race.tree import Clock, Tree
from bench.rounds import say
from tests.servers.client import plain_client

JOBS = 90_000  # fewer than the successes that a store keeps: to remove the oldest is no part of a job
"""Some ten seconds for ours."""
WARM, CLOCKED, SPIED, LOGGED = 0.05, 0.45, 0.85, 0.95
"""The windows: the parts of the jobs at which one ends and the next one begins."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """All clocks at one moment, and how many ends are stored."""

    at_s: float
    stored: int
    clocks: dict[int, Clock]
    server_s: float

    @classmethod
    def now(cls, place: Place, worker: Tree, jobs: int) -> Self:
        return cls(
            at_s=time.perf_counter(),
            stored=place.stored(jobs),
            clocks=worker.clocks(),
            server_s=place.cpu_s(),
        )


def drain(contestant: Contestant, ground: Ground, jobs: int) -> Drain:
    """Fills a server with so many jobs and has the contestant's worker drain it; what both cost."""
    product, name = contestant.product, contestant.entry.name
    told = verbs.verbs_of(product)
    with ExitStack() as stack:
        place = stack.enter_context(ground.fresh(product, name))
        client = stack.enter_context(plain_client(place.store))
        server: int = client.info("server")["process_id"]
        before_s = place.cpu_s()
        sender_s = contestant.fill(place, jobs)
        insert_s = place.cpu_s() - before_s
        say(f"  {name}: {jobs:,} jobs sent")

        worker = stack.enter_context(contestant.worker(place))
        marks = Marks(place.folder)

        def until(part: float) -> None:
            """The window ends there; one that it has passed already would be empty."""
            if marks.count() >= part * jobs:
                raise RuntimeError(f"{name} was through before anybody could look: it needs more jobs.")
            contestant.until(lambda: marks.count() >= part * jobs, worker)

        until(WARM)
        first = Look.now(place, worker, jobs)
        until(CLOCKED)
        last = Look.now(place, worker, jobs)
        say(f"  {name}: {(last.stored - first.stored) / (last.at_s - first.at_s):,.0f} jobs/s, clocks read")

        spent = _spent(first, last)
        spies = _spies(place, spent) if product.kind == "ours" else {}
        with ExitStack() as looking:
            for spy in spies.values():
                looking.enter_context(spy)
            until(SPIED)
        if spies:
            seen = (f"{spy.samples.total():,} samples of the {who}" for who, spy in spies.items())
            say(f"  {name}: {', '.join(seen)}")

        with verbs.goes_first(server), verbs.slow_log(client, told) as took_us:
            before_s = place.cpu_s()
            until(LOGGED)
            logged_s = place.cpu_s() - before_s
        say(f"  {name}: scripts logged")
    done = last.stored - first.stored
    root, *others = spent.values()
    processes = {"supervisor": [root], "runner": others} if spies else {"worker": [root, *others]}
    return Drain(
        per_s=done / (last.at_s - first.at_s),
        sender_us=sender_s * 1e6 / jobs,
        insert_us=insert_s * 1e6 / jobs,
        cpu_us={who: sum(clock.cpu_s for clock in clocks) * 1e6 / done for who, clocks in processes.items()},
        in_kernel={who: _in_kernel(clocks) for who, clocks in processes.items()},
        server_us=(last.server_s - first.server_s) * 1e6 / done,
        verbs={verb: us / 1e6 / logged_s for verb, us in took_us.items()},
        samples={who: dict(steps.divided(spy.samples, who)) for who, spy in spies.items()},
        unknown={who: dict(steps.unknown(spy.samples, who)) for who, spy in spies.items()},
    )


def _spies(place: Place, spent: Mapping[int, Clock]) -> dict[Process, Spy]:
    """On the supervisor, and on the runner that works: another one may stand ready beside it."""
    supervisor, *others = spent
    runner = max(others, key=lambda pid: spent[pid].cpu_s)
    return {"supervisor": Spy(supervisor, place.folder), "runner": Spy(runner, place.folder)}


def _spent(first: Look, last: Look) -> dict[int, Clock]:
    """CPU time of each process of the worker in between."""
    return {pid: clock.since(first.clocks.get(pid, Clock(0.0, 0, 0))) for pid, clock in last.clocks.items()}


def _in_kernel(clocks: Collection[Clock]) -> float:
    system = sum(clock.system for clock in clocks)
    return system / max(1, system + sum(clock.user for clock in clocks))
