"""Which ready jobs a claim takes: the heads of the open, fitting streams, merged by rank.

Buckets, limits and free resources are spent while picking, so nothing is claimed and put back. A stream
whose gate runs dry drops out; the others go on.

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

    def is_open(self, candidate: Candidate[T]) -> bool:
        """Whether its gates let one more pass."""
        return all(self.places.get(gate) != 0 for gate in candidate.gates)

    def admits(self, candidate: Candidate[T]) -> bool:
        return self.is_open(candidate) and fits(candidate.needs, self.free)

    def spend(self, candidate: Candidate[T]) -> None:
        for gate in candidate.gates:
            self.spent[gate] = self.spent.get(gate, 0) + 1
            places = self.places.get(gate)
            if places is not None:
                self.places[gate] = places - 1
        for name, amount in candidate.needs:
            self.free[name] -= amount


def pick(
    candidates: Sequence[Candidate[T]],
    budget: Budget,
    starving_before: int,
    waited_since: Callable[[T], int] | None = None,
) -> list[T]:
    """The jobs to claim, smallest rank first. What waits since before `starving_before` has waited past the bound.

    `waited_since` tells since when a job waits; it is asked of few. Without it the rank stands in for it, which makes
    an urgent job look older than it is.
    """
    if len(candidates) == 1 and _is_plain(candidates[0], budget):
        return _take_heads(candidates[0], budget)
    heap: list[tuple[int, int, T, Candidate[T]]] = []
    starving = False
    for index, candidate in enumerate(candidates):
        big = bool(candidate.needs) and not fits(candidate.needs, budget.free)
        if big and not (fits(candidate.needs, budget.total) and budget.is_open(candidate)):
            continue
        head = next(candidate.heads, None)
        if head is None:
            continue
        if big:
            since = head[0] if waited_since is None else waited_since(head[1])
            starving = starving or since < starving_before
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


def _is_plain(candidate: Candidate[T], budget: Budget) -> bool:
    """Nothing but the limit bounds it: most stores have one queue, no rules and no needs."""
    return not candidate.needs and all(budget.places.get(gate) is None for gate in candidate.gates)


def _take_heads(candidate: Candidate[T], budget: Budget) -> list[T]:
    taken = [job for _, job in islice(candidate.heads, max(0, budget.limit))]
    if taken:
        budget.spent = dict.fromkeys(candidate.gates, len(taken))
    return taken
