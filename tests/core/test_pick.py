"""Picking: the heads of open, fitting streams, merged by rank, within what may be spent."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.gates import Needs
from windlass.core.pick import Budget, Candidate, pick

NEVER = -(1 << 62)
RANKS = st.lists(st.integers(-1_000, 1_000), max_size=12).map(sorted)


def stream(ranks: list[int], *gates: str, needs: Needs = ()) -> Candidate[int]:
    return Candidate(gates, needs, iter([(rank, rank) for rank in ranks]))


def budget(
    limit: int = 1_000,
    places: Mapping[str, int | None] | None = None,
    free: Mapping[str, int] | None = None,
    total: Mapping[str, int] | None = None,
) -> Budget:
    return Budget(limit, dict(places or {}), free or {}, total or {})


@given(st.lists(RANKS, max_size=6))
def test_with_nothing_to_spare_for_it_picking_is_sorting(streams: list[list[int]]) -> None:
    taken = pick([stream(ranks, "queue/q") for ranks in streams], budget(places={"queue/q": None}), NEVER)
    assert taken == sorted(rank for ranks in streams for rank in ranks)


@given(st.lists(RANKS, max_size=6), st.integers(0, 20))
def test_a_limit_takes_the_first_of_the_sorted(streams: list[list[int]], limit: int) -> None:
    taken = pick([stream(ranks) for ranks in streams], budget(limit), NEVER)
    assert taken == sorted(rank for ranks in streams for rank in ranks)[:limit]


@given(RANKS, RANKS, st.integers(0, 5))
def test_a_gate_that_runs_dry_stops_its_own_streams_and_no_others(
    gated: list[int], free: list[int], places: int
) -> None:
    spend = budget(places={"gate/g": places, "queue/q": None})
    taken = pick([stream(gated, "queue/q", "gate/g"), stream(free, "queue/q")], spend, NEVER)
    assert taken == sorted(gated[:places] + free)
    assert spend.spent.get("gate/g", 0) == min(places, len(gated))
    assert spend.spent.get("queue/q", 0) == len(taken)


def test_streams_that_share_a_gate_share_its_places() -> None:
    spend = budget(places={"gate/g": 3})
    assert pick([stream([1, 4, 5], "gate/g"), stream([2, 3], "gate/g")], spend, NEVER) == [1, 2, 3]
    assert spend.places["gate/g"] == 0


def test_a_stream_is_read_no_further_than_one_past_what_was_taken() -> None:
    candidate = stream(list(range(100)))
    assert pick([candidate], budget(limit=3), NEVER) == [0, 1, 2]
    assert len(list(candidate.heads)) >= 96


def test_what_is_needed_is_spent_while_picking() -> None:
    spend = budget(free={"cpu": 5}, total={"cpu": 5})
    assert pick([stream([1, 2, 3], needs=(("cpu", 2),)), stream([4])], spend, NEVER) == [1, 2, 4]
    assert spend.free == {"cpu": 1}


@given(RANKS, st.integers(0, 10), st.integers(1, 4))
def test_no_more_is_taken_than_is_free(ranks: list[int], free: int, need: int) -> None:
    spend = budget(free={"cpu": free}, total={"cpu": 100})
    taken = pick([stream(ranks, needs=(("cpu", need),))], spend, NEVER)
    assert taken == ranks[: free // need]


def test_the_callers_free_resources_are_left_as_they_were() -> None:
    free = {"cpu": 4}
    pick([stream([1], needs=(("cpu", 3),))], budget(free=free, total=free), NEVER)
    assert free == {"cpu": 4}


def test_a_big_job_that_waited_past_the_bound_makes_others_with_needs_wait() -> None:
    free, total = {"cpu": 2}, {"cpu": 8}

    def taken(starving_before: int) -> list[int]:
        streams = [stream([10], needs=(("cpu", 8),)), stream([20], needs=(("cpu", 1),)), stream([30])]
        return pick(streams, budget(free=free, total=total), starving_before)

    assert taken(10) == [20, 30], "it has not waited long enough"
    assert taken(11) == [30], "only what needs nothing may pass it"


def test_a_job_too_big_for_the_whole_worker_holds_nobody_back() -> None:
    streams = [stream([10], needs=(("cpu", 99),)), stream([20], needs=(("cpu", 1),))]
    assert pick(streams, budget(free={"cpu": 2}, total={"cpu": 8}), 1_000) == [20]


def test_an_empty_stream_of_big_jobs_holds_nobody_back() -> None:
    streams = [stream([], needs=(("cpu", 8),)), stream([20], needs=(("cpu", 1),))]
    assert pick(streams, budget(free={"cpu": 2}, total={"cpu": 8}), 1_000) == [20]


def test_a_big_job_behind_a_shut_gate_holds_nobody_back() -> None:
    def taken(places: int | None) -> list[int]:
        streams = [stream([10], "gate/g", needs=(("cpu", 8),)), stream([20], needs=(("cpu", 1),))]
        return pick(streams, budget(places={"gate/g": places}, free={"cpu": 2}, total={"cpu": 8}), 1_000)

    assert taken(0) == [20]
    assert taken(1) == []
    assert taken(None) == []


def test_how_long_a_job_has_waited_counts_and_not_its_rank() -> None:
    def taken(waited_since: int) -> list[int]:
        streams = [stream([10], needs=(("cpu", 8),)), stream([20], needs=(("cpu", 1),))]
        return pick(streams, budget(free={"cpu": 2}, total={"cpu": 8}), 1_000, lambda _: waited_since)

    assert taken(1_000) == [20], "a rank far below the bound is only its priority"
    assert taken(999) == []


def test_jobs_of_one_stream_are_taken_by_what_each_needs() -> None:
    needs: dict[int, Needs] = {1: (("cpu", 9),), 2: (("cpu", 10),), 3: (("cpu", 9),)}
    spend = budget(free={"cpu": 20}, total={"cpu": 20})
    assert pick([stream([1, 2, 3], needs=(("cpu", 9),))], spend, NEVER, needs_of=needs.__getitem__) == [1, 2]
    assert spend.free == {"cpu": 1}


def test_what_does_not_fit_what_is_free_keeps_those_behind_it_waiting() -> None:
    needs: dict[int, Needs] = {1: (("cpu", 10),), 2: (("cpu", 9),)}
    spend = budget(free={"cpu": 9}, total={"cpu": 20})
    assert pick([stream([1, 2], needs=(("cpu", 9),)), stream([3])], spend, NEVER, needs_of=needs.__getitem__) == [3]


def test_a_worker_has_at_least_what_it_has_free() -> None:
    assert budget(free={"cpu": 4, "gpu": 1}, total={"cpu": 2}).total == {"cpu": 4, "gpu": 1}


@given(RANKS, st.integers(-1, 20), st.sampled_from([None, 1_000]))
def test_a_lone_stream_gives_and_spends_the_same_by_the_short_way(
    ranks: list[int], limit: int, places: int | None
) -> None:
    spend = budget(limit, places={"queue/q": places})
    assert pick([stream(ranks, "queue/q", "gate/g")], spend, NEVER) == ranks[: max(0, limit)]
    taken = min(len(ranks), max(0, limit))
    assert spend.spent == ({"queue/q": taken, "gate/g": taken} if taken else {})


def test_a_lone_stream_without_rules_is_read_only_as_far_as_it_is_taken() -> None:
    candidate = stream(list(range(10)), "queue/q")
    assert pick([candidate], budget(limit=3), NEVER) == [0, 1, 2]
    assert next(candidate.heads) == (3, 3)
