"""Which ready jobs a claim takes: the heads of the open, fitting streams, merged by rank.

Buckets, limits and free resources are spent while picking, so nothing is claimed and put back. A stream
whose gate runs dry drops out; the others go on.

A big job must not starve behind small ones that keep nibbling at the memory it waits for. When the head of
a stream fits the worker's total but not what is free, and has waited longer than the aging bound, the
worker takes no other job with needs until it fits.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from windlass.core.gates import Needs, fits

T = TypeVar("T")


class Candidate(Generic[T]):
    """A stream as picking sees it. `heads` gives (rank, job) in order and is read only as far as needed."""

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
        self.total = dict(total)
        self.spent: dict[str, int] = {}

    def admits(self, candidate: Candidate[T]) -> bool:
        places = self.places
        return all(places.get(gate) != 0 for gate in candidate.gates) and fits(candidate.needs, self.free)

    def spend(self, candidate: Candidate[T]) -> None:
        for gate in candidate.gates:
            self.spent[gate] = self.spent.get(gate, 0) + 1
            places = self.places.get(gate)
            if places is not None:
                self.places[gate] = places - 1
        for name, amount in candidate.needs:
            self.free[name] -= amount


def pick(candidates: Iterable[Candidate[T]], budget: Budget, starving_before: int) -> list[T]:
    """The jobs to claim, smallest rank first. Ranks below `starving_before` have waited past the bound."""
    heap: list[tuple[int, int, T, Candidate[T]]] = []
    starving = False
    for index, candidate in enumerate(candidates):
        big = bool(candidate.needs) and not fits(candidate.needs, budget.free)
        if big and not fits(candidate.needs, budget.total):
            continue
        head = next(candidate.heads, None)
        if head is None:
            continue
        if big:
            starving = starving or head[0] < starving_before
        else:
            heap.append((head[0], index, head[1], candidate))
    if starving:
        heap = [entry for entry in heap if not entry[3].needs]
    heapq.heapify(heap)
    taken: list[T] = []
    while heap and len(taken) < budget.limit:
        _, index, job, candidate = heap[0]
        if not budget.admits(candidate):
            heapq.heappop(heap)
            continue
        budget.spend(candidate)
        taken.append(job)
        head = next(candidate.heads, None)
        if head is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (head[0], index, head[1], candidate))
    return taken
