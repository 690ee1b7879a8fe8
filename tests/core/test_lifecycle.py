"""The table of a job's life, and who pays for what."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.job import ENDED, LIVE, WAITING, Outcome, State
from windlass.core.lifecycle import (
    CANCELLED,
    POISON_CRASHES,
    SUSPECT_LOSSES,
    TABLE,
    Change,
    Event,
    Standing,
    Transition,
    allowed,
    asked_reason,
    decide,
    heed_cancel,
    why_not,
)

STANDINGS = st.builds(
    Standing,
    attempt=st.integers(1, 9),
    crashes=st.integers(0, POISON_CRASHES - 1),
    losses=st.integers(0, 5),
    suspect=st.booleans(),
    alone=st.booleans(),
)
DELAYS = st.one_of(st.none(), st.integers(0, 10**9))


def test_every_state_can_be_reached_from_an_insert_and_every_row_begins_in_such_a_state() -> None:
    reached: set[State | None] = {None}
    todo: deque[State | None] = deque([None])
    while todo:
        here = todo.popleft()
        for (start, _), ends in TABLE.items():
            if start is here:
                todo.extend(ends - reached)
                reached |= ends
    assert reached == {None, *State}
    assert all(start in reached and ends for (start, _), ends in TABLE.items())


def test_every_event_and_every_outcome_has_a_row() -> None:
    assert {event for _, event in TABLE} == {*Event, *Outcome}


def test_only_a_running_job_has_an_outcome_and_each_outcome_is_possible_there() -> None:
    assert {start for start, event in TABLE if isinstance(event, Outcome)} == {State.RUNNING}
    assert all(allowed(State.RUNNING, outcome) for outcome in Outcome)


def test_nothing_leaves_succeeded_and_only_a_manual_retry_leaves_the_other_ends() -> None:
    assert [event for start, event in TABLE if start is State.SUCCEEDED] == []
    for end in ENDED - {State.SUCCEEDED}:
        assert {event for start, event in TABLE if start is end} == {Event.RETRY}
        assert allowed(end, Event.RETRY) <= WAITING


def test_only_a_claim_makes_a_job_running() -> None:
    into = {(start, event) for (start, event), ends in TABLE.items() if State.RUNNING in ends and start}
    assert into == {(State.READY, Event.CLAIM), (State.RUNNING, Event.CANCEL)}


@pytest.mark.parametrize("state", sorted(LIVE))
def test_every_live_job_can_be_cancelled(state: State) -> None:
    assert allowed(state, Event.CANCEL) == {State.CANCELLED if state in WAITING else State.RUNNING}


def test_what_the_table_does_not_have_is_not_allowed() -> None:
    assert allowed(State.SUCCEEDED, Event.RETRY) == frozenset()
    assert allowed(State.HELD, Event.CLAIM) == frozenset()
    assert allowed(State.SCHEDULED, Event.CLAIM) == frozenset()


@pytest.mark.parametrize(
    ("change", "states", "why"),
    [
        (Change.CANCEL, ENDED, "It has ended already: {}."),
        (
            Change.RETRY,
            LIVE | {State.SUCCEEDED},
            "It is {}; only dead, cancelled and expired jobs are retried by hand.",
        ),
        (Change.RUN_NOW, frozenset(State) - {State.SCHEDULED}, "It is {}, not scheduled."),
        (Change.DELETE, frozenset({State.RUNNING}), "It is {}; cancel it first."),
    ],
)
def test_each_change_is_refused_in_some_states_and_the_sentence_names_the_state(
    change: Change, states: frozenset[State], why: str
) -> None:
    said = {state: why_not(state, change) for state in State}
    assert said == {state: why.format(state) if state in states else None for state in State}


def test_a_change_that_is_wanted_in_one_state_is_refused_in_the_others() -> None:
    assert why_not(State.DEAD, Change.DELETE, State.DEAD) is None
    assert why_not(State.READY, Change.DELETE, State.DEAD) == "It is ready, not dead."
    assert why_not(State.RUNNING, Change.DELETE, State.RUNNING) == "It is running; cancel it first."


@pytest.mark.parametrize("change", Change)
def test_no_change_is_made_to_a_job_that_is_not_there(change: Change) -> None:
    assert why_not(None, change) == why_not(None, change, State.DEAD) == "There is no such job."


@given(st.one_of(st.none(), st.sampled_from(Outcome)), STANDINGS, DELAYS, st.sampled_from([None, "asked"]))
def test_every_decision_is_a_row_of_the_table(
    outcome: Outcome | None, standing: Standing, delay_us: int | None, asked: str | None
) -> None:
    transition = heed_cancel(decide(outcome, standing, delay_us=delay_us), asked)
    assert transition.to in allowed(State.RUNNING, Event.GIVE_BACK if outcome is None else outcome)
    assert transition.attempt >= standing.attempt
    assert transition.crashes >= standing.crashes
    assert transition.losses >= standing.losses
    assert transition.to is State.SCHEDULED or transition.delay_us == 0


def test_each_end_in_a_row_of_outcomes_is_reached_by_some_decision() -> None:
    for outcome in Outcome:
        found = {
            heed_cancel(decide(outcome, Standing(crashes=crashes, alone=alone), delay_us=delay_us), asked).to
            for crashes in (0, 2)
            for alone in (False, True)
            for delay_us in (None, 5)
            for asked in (None, "asked")
        }
        missing = allowed(State.RUNNING, outcome) - found
        # Whether a delay of zero is scheduled or ready at once is the engine's to say.
        assert missing <= {State.READY, State.SCHEDULED}, outcome


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT, Outcome.RETRY])
def test_a_failure_pays_an_attempt_and_without_a_next_try_the_job_is_dead(outcome: Outcome) -> None:
    again = decide(outcome, Standing(attempt=4), delay_us=7)
    assert (again.to, again.attempt, again.delay_us) == (State.SCHEDULED, 5, 7)
    dead = decide(outcome, Standing(attempt=4))
    assert (dead.to, dead.attempt, dead.reason) == (State.DEAD, 4, outcome.value)
    assert decide(outcome, Standing(), reason="gave up").reason == "gave up"


def test_a_snooze_costs_no_attempt() -> None:
    snoozed = decide(Outcome.SNOOZE, Standing(attempt=4), delay_us=9)
    assert (snoozed.to, snoozed.attempt, snoozed.delay_us) == (State.SCHEDULED, 4, 9)


@given(STANDINGS)
def test_a_job_given_back_unstarted_keeps_everything_it_had(standing: Standing) -> None:
    assert decide(None, standing) == Transition(
        to=State.READY,
        attempt=standing.attempt,
        crashes=standing.crashes,
        losses=standing.losses,
        suspect=standing.suspect,
    )


def crash_until_dead(outcome: Outcome, *, alone: bool) -> int:
    standing = Standing(alone=alone)
    for crash in range(1, 10):
        transition = decide(outcome, standing, delay_us=0)
        if transition.to is State.DEAD:
            assert transition.reason == "poison"
            assert transition.crashes == crash
            return crash
        assert (transition.to, transition.suspect) == (State.READY, True)
        standing = Standing(crashes=transition.crashes, suspect=transition.suspect, alone=alone)
    raise AssertionError("it never died")


def test_the_third_crash_is_poison_whatever_the_policy_says_and_not_one_sooner() -> None:
    assert crash_until_dead(Outcome.CRASHED, alone=False) == POISON_CRASHES == 3


def test_a_suspect_that_ran_alone_when_its_worker_died_has_crashed() -> None:
    assert crash_until_dead(Outcome.LOST, alone=True) == POISON_CRASHES
    assert decide(Outcome.LOST, Standing(alone=True, losses=1)).losses == 1


def test_the_first_loss_only_counts_and_the_second_makes_a_suspect() -> None:
    first = decide(Outcome.LOST, Standing())
    assert (first.to, first.losses, first.suspect, first.crashes) == (State.READY, 1, False, 0)
    second = decide(Outcome.LOST, Standing(losses=1))
    assert (second.losses, second.suspect, second.crashes) == (SUSPECT_LOSSES, True, 0)


def test_losses_alone_never_kill_a_job() -> None:
    losses = 0
    for _ in range(50):
        transition = decide(Outcome.LOST, Standing(losses=losses, suspect=losses >= SUSPECT_LOSSES))
        assert transition.to is State.READY
        losses = transition.losses
    assert losses == 50


def test_a_success_clears_the_suspicion() -> None:
    assert not decide(Outcome.SUCCEEDED, Standing(suspect=True, crashes=2)).suspect


@given(st.sampled_from(sorted(WAITING)))
def test_a_job_whose_cancel_was_asked_for_does_not_run_again(state: State) -> None:
    transition = Transition(to=state, attempt=3, delay_us=5)
    cancelled = heed_cancel(transition, "not needed")
    assert (cancelled.to, cancelled.reason, cancelled.delay_us) == (State.CANCELLED, "not needed", 0)
    assert cancelled.attempt == 3
    assert heed_cancel(transition, None) is transition


@given(st.sampled_from(sorted(ENDED)))
def test_a_job_that_ended_by_itself_stays_as_it_ended_though_a_cancel_was_asked_for(state: State) -> None:
    transition = Transition(to=state, reason="its own")
    assert heed_cancel(transition, "not needed") is transition


@pytest.mark.parametrize(
    ("said", "ends_with"), [(None, "not needed"), (CANCELLED, "not needed"), ("its own", "its own")]
)
def test_a_cancelled_job_ends_with_the_reason_of_the_ask_unless_its_task_gave_one(said: str, ends_with: str) -> None:
    transition = decide(Outcome.CANCELLED, Standing(), reason=said)
    assert heed_cancel(transition, "not needed").reason == ends_with
    assert heed_cancel(transition, None).reason == said


def test_the_last_reason_that_was_given_counts() -> None:
    assert asked_reason(None, None) == CANCELLED
    assert asked_reason("first", None) == "first"
    assert asked_reason("first", "second") == "second"
