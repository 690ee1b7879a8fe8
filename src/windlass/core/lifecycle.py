"""A job's life as one table: from which state, on which event, to which states.

```
 insert ──► held ──► ready ──claim──► running ──settle──► succeeded
   │         ▲         ▲ ▲               │ ├─ retry / snooze ─► scheduled ─(due)─► ready or held
   │  lane busy or     │ └─ give-back, ──┘ ├─ out of tries, poison ─► dead ─(manual retry)─► ready
   │  parents open     │    lost, crashed  └─ cancelled
   └─(delay, at)─► scheduled           held, ready, scheduled ─► cancelled | expired
```

`TABLE` is the drawing as data: every move an engine makes is one of its rows, docs/reference/lifecycle.md is made
from it, and the conformance suite walks all of it. `decide` turns the outcome of an attempt into the
`Transition` that settle writes; engines add only admission (ready or held, and in which stream).

Who pays for what:

- An attempt is paid by the job's own failure: failed, timed_out, retry. Snooze costs none.
- A crash is a death that this job very likely caused: its runner died under it, or it was running alone as
  a suspect when its whole worker died. Three crashes and it is dead with reason `poison`, whatever the
  retry policy says. Crashes cost no attempt: the policy is for errors the task can see.
- A loss is a worker's death with many jobs on board. The first only counts; the second makes a suspect.
  A suspect runs alone, so that the next death has one possible cause.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from windlass.core.job import WAITING, Outcome, State

POISON_CRASHES = 3
POISON = "poison"
"""The reason of a job that is dead because so many workers or runners died under it."""
SUSPECT_LOSSES = 2
CANCELLED = "cancelled"
"""The reason of a cancel for which nobody gave one."""


class Event(StrEnum):
    """What can happen to a job besides the outcome of an attempt."""

    INSERT = "insert"
    FREE = "free"
    DUE = "due"
    CLAIM = "claim"
    GIVE_BACK = "give_back"
    CANCEL = "cancel"
    EXPIRE = "expire"
    RETRY = "manual_retry"
    RUN_NOW = "run_now"


class Change(StrEnum):
    """What people can do to a job."""

    CANCEL = "cancel"  # end a job that waits; ask one that runs to stop
    RETRY = "retry"  # let a dead, cancelled or expired job run again, from its first attempt
    RUN_NOW = "run_now"  # a scheduled job is due now
    DELETE = "delete"  # take a job away that does not run


_AGAIN = frozenset({State.READY, State.SCHEDULED, State.CANCELLED})
# Cancelled, because where a cancel was asked for while it ran there is no "again". Never held: a job that
# runs again has kept its place in its lane.

TABLE: dict[tuple[State | None, Event | Outcome], frozenset[State]] = {
    (None, Event.INSERT): WAITING | {State.CANCELLED},
    (State.HELD, Event.FREE): WAITING | {State.CANCELLED},
    (State.SCHEDULED, Event.DUE): frozenset({State.READY, State.HELD}),
    (State.SCHEDULED, Event.RUN_NOW): frozenset({State.READY, State.HELD}),
    (State.READY, Event.CLAIM): frozenset({State.RUNNING}),
    (State.HELD, Event.CANCEL): frozenset({State.CANCELLED}),
    (State.READY, Event.CANCEL): frozenset({State.CANCELLED}),
    (State.SCHEDULED, Event.CANCEL): frozenset({State.CANCELLED}),
    (State.RUNNING, Event.CANCEL): frozenset({State.RUNNING}),
    (State.HELD, Event.EXPIRE): frozenset({State.EXPIRED}),
    (State.READY, Event.EXPIRE): frozenset({State.EXPIRED}),
    (State.SCHEDULED, Event.EXPIRE): frozenset({State.EXPIRED}),
    (State.DEAD, Event.RETRY): WAITING,
    (State.CANCELLED, Event.RETRY): WAITING,
    (State.EXPIRED, Event.RETRY): WAITING,
    (State.RUNNING, Event.GIVE_BACK): _AGAIN,
    (State.RUNNING, Outcome.SUCCEEDED): frozenset({State.SUCCEEDED}),
    (State.RUNNING, Outcome.FAILED): _AGAIN | {State.DEAD},
    (State.RUNNING, Outcome.TIMED_OUT): _AGAIN | {State.DEAD},
    (State.RUNNING, Outcome.RETRY): _AGAIN | {State.DEAD},
    (State.RUNNING, Outcome.SNOOZE): _AGAIN,
    (State.RUNNING, Outcome.CANCELLED): frozenset({State.CANCELLED}),
    (State.RUNNING, Outcome.CRASHED): _AGAIN | {State.DEAD},
    (State.RUNNING, Outcome.LOST): _AGAIN | {State.DEAD},
}


def allowed(state: State | None, event: Event | Outcome) -> frozenset[State]:
    """Where the event may lead from this state; empty: it may not happen here."""
    return TABLE.get((state, event), frozenset())


def why_not(state: State | None, change: Change, only: State | None = None) -> str | None:
    """Why the change leaves a job in this state as it is, in a sentence; None: by its state it may be made.

    `only` is the one state in which the change is wanted.
    """
    if state is None:
        return "There is no such job."
    if only not in {None, state}:
        return f"It is {state}, not {only}."
    match change:
        case Change.CANCEL:
            return None if allowed(state, Event.CANCEL) else f"It has ended already: {state}."
        case Change.RETRY:
            why = f"It is {state}; only dead, cancelled and expired jobs are retried by hand."
            return None if allowed(state, Event.RETRY) else why
        case Change.RUN_NOW:
            return None if allowed(state, Event.RUN_NOW) else f"It is {state}, not scheduled."
        case Change.DELETE:
            return "It is running; cancel it first." if state is State.RUNNING else None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has behind it when an attempt ends."""

    attempt: int = 1
    crashes: int = 0
    losses: int = 0
    suspect: bool = False
    alone: bool = False
    """A suspect whose start was written: it ran with nothing beside it."""


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """What settle writes: the next state and the counts that go with it.

    `to=SCHEDULED` asks for another run after `delay_us`; `to=READY` for one at once, at the old rank.
    """

    to: State
    attempt: int = 1
    crashes: int = 0
    losses: int = 0
    suspect: bool = False
    delay_us: int = 0
    reason: str | None = None


SUCCESS = Transition(to=State.SUCCEEDED)


def decide(
    outcome: Outcome | None,
    standing: Standing,
    *,
    delay_us: int | None = None,
    reason: str | None = None,
) -> Transition:
    """The transition for an outcome (None: given back unstarted).

    `delay_us` is what the retry policy, `RetryAfter` or `Snooze` asks for; None says there is no next try.
    """
    keep = Transition(
        to=State.READY,
        attempt=standing.attempt,
        crashes=standing.crashes,
        losses=standing.losses,
        suspect=standing.suspect,
    )
    replace = msgspec.structs.replace
    match outcome:
        case None:
            return keep
        case Outcome.SUCCEEDED:
            return replace(keep, to=State.SUCCEEDED, suspect=False)
        case Outcome.CANCELLED:
            return replace(keep, to=State.CANCELLED, reason=reason)
        case Outcome.SNOOZE:
            return replace(keep, to=State.SCHEDULED, delay_us=delay_us or 0, reason=reason)
        case Outcome.FAILED | Outcome.TIMED_OUT | Outcome.RETRY:
            if delay_us is None:
                return replace(keep, to=State.DEAD, reason=reason or outcome.value)
            return replace(keep, to=State.SCHEDULED, attempt=standing.attempt + 1, delay_us=delay_us)
        case Outcome.CRASHED:
            return _crashed(keep)
        case Outcome.LOST:
            if standing.alone:
                return _crashed(keep)
            losses = standing.losses + 1
            return replace(keep, losses=losses, suspect=standing.suspect or losses >= SUSPECT_LOSSES)


def _crashed(keep: Transition) -> Transition:
    crashes = keep.crashes + 1
    if crashes >= POISON_CRASHES:
        return msgspec.structs.replace(keep, to=State.DEAD, crashes=crashes, suspect=True, reason=POISON)
    return msgspec.structs.replace(keep, crashes=crashes, suspect=True)


def asked_reason(kept: str | None, said: str | None) -> str:
    """What a running job keeps of an ask for its cancel: the last reason given, now or (`kept`) with an earlier ask."""
    return said or kept or CANCELLED


def heed_cancel(transition: Transition, asked: str | None) -> Transition:
    """A job whose cancel was asked for while it ran does not run again. None: nobody asked.

    It ends with the reason that was given with the ask, unless its task gave one itself.
    """
    if asked is None:
        return transition
    if transition.to in WAITING:
        return msgspec.structs.replace(transition, to=State.CANCELLED, delay_us=0, reason=asked)
    if transition.to is State.CANCELLED and transition.reason in (None, CANCELLED):
        return msgspec.structs.replace(transition, reason=asked)
    return transition
