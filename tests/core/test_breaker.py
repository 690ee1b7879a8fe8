"""The breaker opens on failures, lets a few probes through, and can never get stuck."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.breaker import Breaker, BreakerRule, admit, permits, record
from windlass.core.errors import BadValue

S = 1_000_000
RULE = BreakerRule(failures=3, window_us=10 * S, cool_us=5 * S, cool_cap_us=15 * S, probes=2)


def opened(at_us: int = 0) -> Breaker:
    state = Breaker(RULE)
    for _ in range(3):
        state = record(state, False, at_us)
    return state


def test_a_closed_breaker_sets_no_bound_and_successes_change_nothing() -> None:
    state = Breaker(RULE)
    assert permits(state, 0) is None
    assert record(state, True, 0) is state
    assert admit(state, 1000, 0) is state


def test_enough_failures_in_the_window_open_it() -> None:
    state = record(record(Breaker(RULE), False, 0), False, 9 * S)
    assert permits(state, 9 * S) is None
    state = record(state, False, 9 * S)
    assert permits(state, 9 * S) == 0
    assert permits(state, 14 * S - 1) == 0
    assert permits(state, 14 * S) == 2


def test_failures_that_fell_out_of_the_window_do_not_count() -> None:
    state = Breaker(RULE)
    for at_us in range(0, 100 * S, 5 * S):
        state = record(state, False, at_us)
        assert permits(state, at_us) is None


def test_only_the_probes_pass_while_half_open() -> None:
    state = admit(opened(), 1, 5 * S)
    assert permits(state, 5 * S) == 1
    state = admit(state, 1, 5 * S)
    assert permits(state, 5 * S) == 0
    with pytest.raises(BadValue, match="lets 0 jobs through"):
        admit(state, 1, 5 * S)


def test_a_probes_success_closes_it_and_forgets_the_past() -> None:
    state = record(admit(opened(), 1, 5 * S), True, 6 * S)
    assert state == Breaker(RULE)


def test_each_failed_probe_doubles_the_cool_up_to_its_cap() -> None:
    state, now_us, cools = opened(), 0, list[int]()
    for _ in range(4):
        cools.append((state.until_us - now_us) // S)
        now_us = state.until_us
        state = record(admit(state, 1, now_us), False, now_us)
    assert cools == [5, 10, 15, 15]


def test_a_success_brings_the_first_cool_back() -> None:
    state = record(admit(opened(), 1, 5 * S), False, 5 * S)
    state = record(admit(state, 1, 15 * S), True, 15 * S)
    for _ in range(3):
        state = record(state, False, 20 * S)
    assert state.until_us == 25 * S


def test_stragglers_that_end_while_it_is_open_change_nothing() -> None:
    state = opened()
    assert record(state, False, S) is state
    assert record(state, True, S) is state


def test_probes_that_never_report_are_replaced_after_the_cool() -> None:
    state = admit(opened(), 2, 5 * S)
    assert permits(state, 10 * S - 1) == 0
    assert permits(state, 10 * S) == 2
    assert permits(admit(state, 1, 10 * S), 10 * S) == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"failures": 0},
        {"failures": 10**6},
        {"probes": 0},
        {"window_us": 0},
        {"cool_us": 0},
        {"cool_cap_us": 1},
    ],
)
def test_a_rule_that_cannot_work_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(BadValue):
        BreakerRule(**bad)


_steps = st.lists(st.tuples(st.sampled_from(["ok", "fail", "admit"]), st.integers(0, 4 * S)), max_size=60)


@given(_steps)
def test_whatever_happens_the_state_is_small_storable_and_lets_something_through_in_time(
    steps: list[tuple[str, int]],
) -> None:
    state, now_us = Breaker(RULE), 0
    for step, wait_us in steps:
        now_us += wait_us
        if step == "admit":
            state = admit(state, permits(state, now_us) or 0, now_us)
        else:
            state = record(state, step == "ok", now_us)
        assert len(state.failed_us) < RULE.failures
        assert msgspec.json.decode(msgspec.json.encode(state), type=Breaker) == state
        assert permits(state, now_us + RULE.cool_cap_us) in (None, RULE.probes)
