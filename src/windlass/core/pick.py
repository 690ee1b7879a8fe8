"""Which ready jobs a claim takes: the heads of the open, fitting streams, merged by rank.

Buckets, limits and free resources are spent while picking, so nothing is claimed and put back. A stream
whose gate runs dry drops out; the others go on.

Jobs of a stream need nearly the same, and each is taken by what it needs itself: four jobs of a quarter of the
worker's memory run side by side, and one of all of it runs. The first of a stream that does not fit what is free
keeps those behind it waiting.

A big job must not starve behind small ones that keep nibbling at the memory it waits for. When the head of
a stream fits the worker's total but not what is free, its gates would let it pass, and it has waited longer
than the aging bound, the worker takes no other job with needs until it fits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeVar

from windlass.core.gates import Needs, fits

T = TypeVar("T")


class Candidate(Generic[T]):
    """A stream as picking sees it. `heads` gives (rank, job) in order and is read only as far as needed.

    `needs` is the least that any of its jobs needs. `heads` gives no job that does not fit the worker's total.
    """

    __slots__ = ("gates", "heads", "needs")

    def __init__(self, gates: tuple[str, ...], needs: Needs, heads: Iterator[tuple[int, T]]) -> None:
        self.gates = gates
        self.needs = needs
        self.heads = heads


class Budget:
    """What one claim may spend: jobs, places at each gate, and the worker's free resources."""

    __slots__ = ("free", "limit", "places", "spent", "total")

    def __init__(
        self,
        limit: int,
        places: dict[str, int | None],
        free: Mapping[str, int],
        total: Mapping[str, int],
    ) -> None:
        self.limit = limit
        self.places = places
        self.free = dict(free)
        self.total = {**free, **{name: max(amount, free.get(name, 0)) for name, amount in total.items()}}
        self.spent: dict[str, int] = {}

    def is_open(self, candidate: Candidate[T]) -> bool:
        """Whether its gates let one more pass."""
        return all(self.places.get(gate) != 0 for gate in candidate.gates)

    def admits(self, candidate: Candidate[T], needs: Needs) -> bool:
        return self.is_open(candidate) and fits(needs, self.free)

    def spend(self, candidate: Candidate[T], needs: Needs) -> None:
        for gate in candidate.gates:
            self.spent[gate] = self.spent.get(gate, 0) + 1
            places = self.places.get(gate)
            if places is not None:
                self.places[gate] = places - 1
        for name, amount in needs:
            self.free[name] -= amount


def pick(
    candidates: Sequence[Candidate[T]],
    budget: Budget,
    starving_before: int,
    waited_since: Callable[[T], int] | None = None,
    needs_of: Callable[[T], Needs] | None = None,
) -> list[T]:
    """The jobs to claim, smallest rank first. What waits since before `starving_before` has waited past the bound.

    `waited_since` tells since when a job waits; it is asked of few. Without it the rank stands in for it, which makes
    an urgent job look older than it is. `needs_of` tells what a job needs, and is asked of those whose streams need
    anything; without it all of a stream need the same.
    """
    if len(candidates) == 1 and _is_plain(candidates[0], budget):
        return _take_heads(candidates[0], budget)
    heap: list[tuple[int, int, T, Needs]] = []
    starving = False
    for index, candidate in enumerate(candidates):
        if candidate.needs and not fits(candidate.needs, budget.total):
            continue
        head = next(candidate.heads, None)
        if head is None:
            continue
        needs = _needs(candidate, head[1], needs_of)
        if fits(needs, budget.free):
            heap.append((head[0], index, head[1], needs))
        elif budget.is_open(candidate):
            since = head[0] if waited_since is None else waited_since(head[1])
            starving = starving or since < starving_before
    if starving:
        heap = [entry for entry in heap if not entry[3]]
    heapq.heapify(heap)
    taken: list[T] = []
    while heap and len(taken) < budget.limit:
        _, index, job, needs = heap[0]
        candidate = candidates[index]
        if not budget.admits(candidate, needs):
            heapq.heappop(heap)
            continue
        budget.spend(candidate, needs)
        taken.append(job)
        head = next(candidate.heads, None)
        if head is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (head[0], index, head[1], _needs(candidate, head[1], needs_of)))
    return taken


def _needs(candidate: Candidate[T], job: T, needs_of: Callable[[T], Needs] | None) -> Needs:
    return needs_of(job) if candidate.needs and needs_of is not None else candidate.needs


def _is_plain(candidate: Candidate[T], budget: Budget) -> bool:
    """Nothing but the limit bounds it: most stores have one queue, no rules and no needs."""
    return not candidate.needs and all(budget.places.get(gate) is None for gate in candidate.gates)


def _take_heads(candidate: Candidate[T], budget: Budget) -> list[T]:
    taken = [job for _, job in islice(candidate.heads, max(0, budget.limit))]
    if taken:
        budget.spent = dict.fromkeys(candidate.gates, len(taken))
    return taken
