"""The order of ready jobs: urgent before plain, old before urgent, and values that only grow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.rank import TOP_PRIORITY, aging_bound_us, next_fence, next_order, rank

TIMES = st.integers(0, 1 << 52)
PRIORITIES = st.integers(0, TOP_PRIORITY)
STEPS = st.integers(0, 10**9)


@given(TIMES, PRIORITIES, TIMES, PRIORITIES, STEPS)
def test_no_job_waits_behind_one_sent_more_than_nine_steps_after_it(
    early: int, its_priority: int, gap: int, other: int, step: int
) -> None:
    late = early + aging_bound_us(step) + 1 + gap
    assert rank(early, its_priority, step) < rank(late, other, step)


def test_the_bound_is_nine_steps_and_not_one_microsecond_less() -> None:
    step = 30_000_000
    assert aging_bound_us(step) == 9 * step
    assert rank(0, 0, step) > rank(aging_bound_us(step) - 1, TOP_PRIORITY, step)
    assert rank(0, 0, step) == rank(aging_bound_us(step), TOP_PRIORITY, step)


@given(TIMES, PRIORITIES, PRIORITIES, st.integers(1, 10**9))
def test_of_two_jobs_due_together_the_higher_priority_comes_first(due: int, one: int, other: int, step: int) -> None:
    assert (rank(due, one, step) < rank(due, other, step)) is (one > other)


@given(TIMES, TIMES, PRIORITIES, STEPS)
def test_of_two_jobs_of_one_priority_the_one_due_earlier_comes_first(
    one: int, other: int, priority: int, step: int
) -> None:
    assert (rank(one, priority, step) < rank(other, priority, step)) is (one < other)


@given(st.lists(TIMES, min_size=2))
def test_order_values_grow_whatever_the_clock_does_and_follow_it_when_it_runs_ahead(clock: list[int]) -> None:
    last = 0
    for now in clock:
        order = next_order(last, now)
        assert order > last
        assert order >= now
        assert order in (now, last + 1)
        last = order


@given(TIMES, TIMES)
def test_a_fence_is_above_its_predecessor_and_not_below_the_clock(previous: int, now: int) -> None:
    fence = next_fence(previous, now)
    assert fence > previous
    assert fence >= now
    assert fence in (now, previous + 1)


def test_a_fence_grows_past_those_handed_out_after_the_backup_it_was_restored_from() -> None:
    in_the_backup, lost_with_the_disk = 100, 150
    assert next_fence(in_the_backup, 1_000) > lost_with_the_disk
