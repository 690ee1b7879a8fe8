"""What a gate lets through, and how needs are gathered into classes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import BadValue
from windlass.core.gates import (
    OPEN,
    Gate,
    Opening,
    fits,
    least_of,
    opening,
    pack_needs,
    read_gate,
    read_needs,
    resource_class,
)
from windlass.core.rates import Rate, allowance, spend

SECOND = 1_000_000
NOW = 1_000 * SECOND
AMOUNTS = st.integers(1, 1 << 60)


def test_an_open_gate_lets_any_number_through() -> None:
    assert opening(OPEN, 0, 1_000_000, NOW) == Opening(None)


def test_a_paused_gate_is_shut_and_no_clock_opens_it() -> None:
    gate = Gate(paused=True, limit=5, rate=Rate(1, SECOND))
    assert opening(gate, 0, 0, NOW) == Opening(0, None)


def test_a_gate_shut_until_an_instant_says_when_and_opens_at_that_very_instant() -> None:
    gate = Gate(shut_until_us=NOW)
    assert opening(gate, 0, 0, NOW - 1) == Opening(0, NOW)
    assert opening(gate, 0, 0, NOW) == Opening(None)


def test_a_breaker_lets_its_probes_through_after_its_cool_time_and_no_more() -> None:
    gate = Gate(shut_until_us=NOW, probes=2)
    assert [opening(gate, 0, running, NOW).count for running in range(4)] == [2, 1, 0, 0]


@given(st.integers(0, 100), st.integers(0, 200))
def test_a_limit_leaves_what_does_not_run_yet_and_never_less_than_nothing(limit: int, running: int) -> None:
    assert opening(Gate(limit=limit), 0, running, NOW) == Opening(max(0, limit - running))


@given(st.integers(1, 50), st.integers(1, 20), st.integers(0, 20))
def test_a_rate_lets_through_what_its_bucket_holds_and_says_when_it_holds_more(
    count: int, burst: int, taken: int
) -> None:
    rate = Rate(count, SECOND, burst)
    tat_us = spend(rate, 0, NOW, min(taken, burst))
    way = opening(Gate(rate=rate), tat_us, 0, NOW)
    assert way.count == burst - min(taken, burst)
    assert way.count is not None
    assert way.again_us is not None
    assert allowance(rate, tat_us, way.again_us) > 0
    assert (way.again_us == NOW) is (way.count > 0)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9), st.integers(0, 9))
def test_of_several_bounds_the_tightest_counts(limit: int, probes: int, burst: int, running: int) -> None:
    gate = Gate(limit=limit, probes=probes, rate=Rate(1, SECOND, burst))
    assert opening(gate, 0, running, NOW).count == max(0, min(limit - running, probes - running, burst))


def test_a_gate_reads_back_as_it_was_written() -> None:
    gate = Gate(paused=True, shut_until_us=5, probes=1, limit=0, rate=Rate(2, SECOND, 3))
    assert read_gate(msgspec.json.encode(gate)) == gate
    assert read_gate(b"{}") == OPEN


@pytest.mark.parametrize(
    "value", [b"", b"[]", b'{"limit": -1}', b'{"limit": "many"}', b'{"open": true}', b'{"rate": {"count": 0}}']
)
def test_what_is_not_a_rule_is_refused_in_one_sentence(value: bytes) -> None:
    with pytest.raises(BadValue) as caught:
        read_gate(value)
    assert caught.value.todo


@given(AMOUNTS)
def test_a_need_is_rounded_up_by_a_quarter_at_most(amount: int) -> None:
    ((_, rounded),) = resource_class((("memory", amount),))
    assert amount <= rounded <= amount + amount // 4


@given(AMOUNTS)
def test_the_least_of_a_class_is_the_smallest_amount_that_is_rounded_to_it(amount: int) -> None:
    rounded = resource_class((("memory", amount),))
    ((_, least),) = least_of(rounded)
    assert least <= amount
    assert resource_class((("memory", least),)) == rounded
    assert least == 1 or resource_class((("memory", least - 1),)) != rounded


@given(AMOUNTS, AMOUNTS)
def test_rounding_keeps_the_order_of_needs_and_is_done_once(one: int, other: int) -> None:
    (first,), (second,) = resource_class((("m", one),)), resource_class((("m", other),))
    assert first[1] <= second[1] or one > other
    assert resource_class((first,)) == (first,)


def test_a_thousand_sizes_share_few_classes_and_small_ones_stay_exact() -> None:
    classes = {resource_class((("m", amount),)) for amount in range(1, 1_001)}
    assert len(classes) < 45
    assert [resource_class((("m", n),)) for n in range(1, 9)] == [(("m", n),) for n in range(1, 9)]


def test_the_order_in_which_needs_are_named_makes_no_other_class_and_nothing_is_needed_of_zero() -> None:
    assert resource_class((("b", 2), ("a", 1))) == resource_class((("a", 1), ("b", 2)))
    assert resource_class((("a", 0),)) == ()


@given(st.lists(st.tuples(st.text("abc.-_:", min_size=1), AMOUNTS)))
def test_needs_read_back_as_they_were_packed_in_their_order(needs: list[tuple[str, int]]) -> None:
    assert read_needs(pack_needs(tuple(needs))) == tuple(needs)
    assert pack_needs((("memory", 1), ("browser", 2))) == "memory=1,browser=2"


def test_needs_fit_only_if_all_of_them_are_free() -> None:
    needs = (("cpu", 2), ("gpu", 1))
    assert fits(needs, {"cpu": 2, "gpu": 1})
    assert not fits(needs, {"cpu": 2})
    assert not fits(needs, {"cpu": 1, "gpu": 9})
    assert fits((), {})
