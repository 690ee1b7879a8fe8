"""Why a job is not running, in one sentence that agrees with what claim would do.

`REASONS` are asked in order, each a small function of the case: a sentence, or None where it is not the reason. First
where the job is in its life, then what holds it, then its gates, then who could run it, and last its place in line.
Whatever learns to hold a job adds its function here.

What the protocol does not tell is not guessed at: how many tokens a rate has left is known to the store alone, and the
place of a job is counted in a bounded look at its queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from windlass.core.clock import SystemClock
from windlass.core.durations import show, show_instant, show_span
from windlass.core.gates import MEMORY, fits, show_need
from windlass.core.ids import JobId, show_id
from windlass.core.job import ENDED, Failure, Hold, Job, Outcome, State
from windlass.core.limits import show_apart, show_memory
from windlass.core.names import near_miss
from windlass.core.plural import agreeing, number_of
from windlass.core.redact import plain, redact_text
from windlass.core.scripts import SCRIPT
from windlass.engines.protocol import Card, Engine, Part, Query
from windlass.ops.cards import info, knows, label, labels, leave, listing
from windlass.ops.case import LOOKS, PAGE, Case
from windlass.ops.lookup import find, record_of

ATTEMPTS: Final = frozenset({Part.ATTEMPTS})
MESSAGE: Final = 200

_clock = SystemClock()


class Cause(StrEnum):
    """What somebody could do something about."""

    QUEUE_PAUSED = "queue_paused"
    NO_WORKER = "no_worker"
    QUEUE_NOT_TAKEN = "queue_not_taken"
    TASK_NOT_KNOWN = "task_not_known"
    SCRIPTS_NOT_RUN = "scripts_not_run"
    TOO_BIG = "too_big"
    NOT_DUE = "not_due"


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job is not running. Whoever shows it knows the words in which its readers can do something about it."""

    said: str
    cause: Cause | None
    queue: str
    task: str


def why(engine: Engine, job_id: JobId, *, now_us: int | None = None) -> str:
    """One sentence why the job is not running, or how it ended. `now_us` is for those who travel in time."""
    return explain(engine, job_id, now_us=now_us).said


def explain(engine: Engine, job_id: JobId, *, now_us: int | None = None) -> Why:
    """The same with its cause, where there is one that somebody could remove."""
    now_us = _clock.now_us() if now_us is None else now_us
    case = Case(engine, find(engine, job_id, ATTEMPTS), now_us)
    if case.record.state is State.RUNNING and case.owner is None:
        # Looking for its worker has swept: the job was taken back from a dead one.
        case = Case(engine, find(engine, job_id, ATTEMPTS), now_us)
    said, reason = next((said, reason) for reason in REASONS if (said := reason(case)) is not None)
    cause = CAUSES.get(reason)
    if case.request.task == SCRIPT and cause in (Cause.NO_WORKER, Cause.TASK_NOT_KNOWN):
        cause = Cause.SCRIPTS_NOT_RUN  # no code of the user's would help
    return Why(said=said, cause=cause, queue=case.queue, task=case.request.task)


# ── where it is in its life ─────────────────────────────────────────────────────────────────────────────


def _ended(case: Case) -> str | None:
    record = case.record
    if record.state not in ENDED:
        return None
    ended_us = record.ended_us or 0
    when = f"{show_span(case.now_us - ended_us)} ago, at {show_instant(ended_us)}"
    match record.state:
        case State.DEAD:
            return f"It is dead ({_said(record.reason)}) since {when}{_error(case.job.failure, ': ')}."
        case State.CANCELLED:
            return f"It was cancelled ({_said(record.reason)}) {when}."
        case State.EXPIRED:
            return f"It expired {when}: it had not started by then."
        case _:
            return f"It has succeeded {when}."


def _running(case: Case) -> str | None:
    record = case.record
    if record.state is not State.RUNNING:
        return None
    claimed_us = record.claimed_us or case.now_us
    if case.owner is None and case.request.task == SCRIPT:
        return "Its worker is dead, and its script goes on: it runs again when that has ended, or its time is over."
    who = label(case.owner) if case.owner is not None else show_id(record.worker or b"")
    asked = ", and it has been asked to cancel" if record.cancel_asked else ""
    since = f"{show_span(case.now_us - claimed_us)} (since {show_instant(claimed_us)})"
    if case.owner is not None and _waits_there(case.owner, case.job.id, claimed_us):
        return f"It waits in worker {who} for a slot, or for a runner to itself; it has been there for {since}{asked}."
    return f"It is running: worker {who} has had it for {since}{asked}."


def _waits_there(owner: Card, job_id: JobId, claimed_us: int) -> bool:
    """Whether its worker has said since then what it runs, and that job is not among it."""
    said = info(owner)
    running = {job.id for process in said.processes for job in process.active}
    return said.beat_us > claimed_us and bool(said.processes) and show_id(job_id) not in running


def _scheduled(case: Case) -> str | None:
    record = case.record
    if record.state is not State.SCHEDULED or record.due_us <= case.now_us:
        return None
    when = f"It is scheduled for {show_instant(record.due_us)}, in {show_span(record.due_us - case.now_us)}"
    last = case.job.attempts[-1] if case.job.attempts else None
    if last is not None and last.outcome is Outcome.SNOOZE:
        return f"{when}: its last run asked to be run again then."
    if record.attempt > 1:
        failure = case.job.failure or (last.failure if last is not None else None)
        return (
            f"{when}: attempt {record.attempt}{_error(failure, f', after attempt {record.attempt - 1} failed with ')}."
        )
    return f"{when}."


# ── what holds it ───────────────────────────────────────────────────────────────────────────────────────


def _unstarted_flow(case: Case) -> str | None:
    if case.record.hold is not Hold.FLOW:
        return None
    return f"It is held until its flow {show_id(case.request.flow or b'')} is started."


def _open_parents(case: Case) -> str | None:
    if case.record.hold is not Hold.PARENTS:
        return None
    parents = list(_heirs(case.engine, [edge.parent for edge in case.request.parents]))
    still = [f"{show_id(job.id)} ({record_of(job).state})" for job in parents if record_of(job).state not in ENDED]
    if not still:
        return "Its parents have ended: the next settle or sweep of any worker lets it go on."
    count = f"{len(still)} of {len(case.request.parents)} {agreeing(len(still))} open"
    return f"It is held until its parents end: {count}, {listing(still)}."


def _heirs(engine: Engine, ids: list[JobId]) -> Iterator[Job]:
    """The jobs that are waited for: those named, or the last of their heirs; what is gone has ended."""
    while ids:
        jobs = [job for job in engine.fetch(ids, frozenset()) if job is not None]
        ids = [heir for job in jobs if (heir := record_of(job).heir) is not None]
        yield from (job for job in jobs if record_of(job).heir is None)


def _busy_lane(case: Case) -> str | None:
    if case.record.hold is not Hold.LANE:
        return None
    lane = case.request.lane
    for state in (State.RUNNING, State.READY, State.SCHEDULED):
        for other in case.engine.search(Query(lane=lane, state=state)).jobs:
            # A delayed job joins its lane only when it is due; one that waits for its next try has kept its place.
            if state is not State.SCHEDULED or record_of(other).fence:
                return f"Its lane {lane} is busy with job {show_id(other.id)}, which is {state}."
    return f"It waits for its turn in its lane {lane}."


# ── its gates ───────────────────────────────────────────────────────────────────────────────────────────


def _paused(case: Case) -> str | None:
    return _pause_of(case, f"its queue {case.queue}")


def _paused_gate(case: Case) -> str | None:
    return _pause_of(case, f"its gate {case.request.gate}")


def _pause_of(case: Case, wanted: str) -> str | None:
    paused = any(gate.paused for name, gate in case.gates if name == wanted)
    return f"{wanted[0].upper()}{wanted[1:]} is paused; it goes on when that is resumed." if paused else None


def _shut(case: Case) -> str | None:
    for name, gate in case.gates:
        if case.now_us < gate.shut_until_us:
            left = show_span(gate.shut_until_us - case.now_us)
            probes = "" if gate.probes is None else f", and then lets {gate.probes} at a time try"
            return (
                f"The breaker of {name} is open for another {left}, until {show_instant(gate.shut_until_us)}{probes}."
            )
    return None


def _full(case: Case) -> str | None:
    for name, gate in case.gates:
        bounds = [bound for bound in (gate.limit, gate.probes) if bound is not None]
        if not bounds:
            continue
        most, running = min(bounds), case.running_at(case.request.gate if name.startswith("its gate") else None)
        if running >= most:
            what = "limit" if most == gate.limit else "trial after an open breaker"
            return f"The {what} of {name} is reached: {running} of {most} {agreeing(running)} running."
    return None


# ── who could run it ────────────────────────────────────────────────────────────────────────────────────


def _nobody(case: Case) -> str | None:
    return None if case.cards else f"No worker is running: start one that takes the queue {case.queue}."


def _nobody_listens(case: Case) -> str | None:
    if case.listening:
        return None
    queues = sorted({queue for card in case.cards for queue in card.queues or ()})
    taken = f"{labels(case.cards)} {_verb(case.cards, 'takes', 'take')} {listing(queues, 10)}"
    return f"No worker takes its queue {_meant(case.queue, queues)}: {taken}."


def _all_leave(case: Case) -> str | None:
    return None if case.taking else f"No worker takes its queue {case.queue} any more: {leave(case.listening)}."


def _nobody_knows(case: Case) -> str | None:
    if case.able:
        return None
    task, here = case.request.task, case.taking
    if task == SCRIPT:
        runs = f"{labels(here)} {_verb(here, 'was', 'were')} started without folders of scripts"
        return f"It is waiting for a worker that runs scripts: {runs}."
    known = {name for card in here for name in card.tasks or ()}
    strange = f"{_verb(here, 'takes', 'take')} its queue {case.queue} and {_verb(here, 'does', 'do')} not know it"
    elsewhere = [card for card in case.cards if card not in case.listening and knows(card, task)]
    queues = sorted({queue for card in elsewhere for queue in card.queues or ()})
    others = f", while {labels(elsewhere)} {_verb(elsewhere, 'takes', 'take')} only {listing(queues, 10)}"
    said = f"It is waiting for a worker that knows its task {_meant(task, known)}: {labels(here)} {strange}"
    return f"{said}{others if elsewhere else ''}."


def _suspect(case: Case) -> str | None:
    record = case.record
    if not record.suspect:
        return None
    deaths = record.losses + record.crashes
    died = f"{number_of(deaths, 'worker')} died while {agreeing(deaths, 'it', 'they')} had it"
    return f"It waits until a worker can run it with nothing beside it, because {died}."


def _too_big(case: Case) -> str | None:
    needs, sizes = case.request.needs, [info(card).resources for card in case.able]
    if any(fits(needs, has) for has in sizes):
        return None
    for name, amount in needs:
        most = max(has.get(name, 0) for has in sizes)
        if most < amount:
            return f"It needs {_more_than(name, amount, most, case)}."
    wanted = listing([show_need(name, amount) for name, amount in needs], 10)
    return f"It needs {wanted}, and no worker that knows its task has all of it."


def _more_than(name: str, amount: int, most: int, case: Case) -> str:
    knowing = "no worker that knows its task has"
    if name != MEMORY:
        missing = f"any: start one with --resource {name}={amount}"
        return f"{amount} {name}, and {knowing} {f'more than {most}' if most else missing}"
    wanted, largest = show_apart(amount, most)
    if not most:
        return f"{wanted} of memory, and {knowing} any: start one with --memory"
    elsewhere = any(info(card).resources.get(name, 0) > most for card in case.cards)
    return f"{wanted} of memory, and the largest worker{' that knows its task' if elsewhere else ''} has {largest}"


def _no_room(case: Case) -> str | None:
    """Where cards do not say what is free, nothing is known about it."""
    needs = case.request.needs
    told = [(card, info(card)) for card in case.able if fits(needs, info(card).resources)]
    if not needs or any(not has.free or fits(needs, has.free) for _, has in told):
        return None
    card, has = max(told, key=lambda one: sum(one[1].free.get(name, 0) >= amount for name, amount in needs))
    name, amount = next(need for need in needs if not fits((need,), has.free))
    shown = show_memory if name == MEMORY else str
    left, total = shown(has.free.get(name, 0)), shown(has.resources[name])
    return f"It waits for {show_need(name, amount)}: the worker {label(card)} has {left} of {total} free."


# ── its place in line ───────────────────────────────────────────────────────────────────────────────────


def _rate(case: Case) -> str | None:
    """How many tokens are left is known to the store alone: where a slot is free, the rate is what is waited for."""
    found = next(((name, gate.rate) for name, gate in case.gates if gate.rate is not None), None)
    if found is None or case.all_busy:
        return None
    name, rate = found
    line = f", and it is behind {_before(case)}" if case.ahead else ""
    return f"It waits for the rate of {name}, {rate}: one job every {show(rate.per_us // rate.count)}{line}."


def _line(case: Case) -> str:
    """Always a sentence: nothing else holds it."""
    slots, ready = sum(card.slots for card in case.able), case.counted(State.READY)
    who = f"{labels(case.able)} with {number_of(slots, 'slot')}"
    taken = f"on its queue {case.queue}, which {who} {_verb(case.able, 'takes', 'take')}"
    if case.ahead:
        return f"It is behind {_before(case)} {taken}."
    if ready > LOOKS * PAGE:
        return f"It is one of about {ready:,} ready jobs {taken}."
    if case.all_busy:
        return f"It is the next on its queue {case.queue}, and {who} {_verb(case.able, 'is', 'are')} busy."
    return f"It is the next on its queue {case.queue}, and {who} can take it at any moment."


def _before(case: Case) -> str:
    about = "at least" if case.counted(State.READY) > LOOKS * PAGE else "about"
    return f"{about} {number_of(case.ahead)}"


REASONS: Final[tuple[Callable[[Case], str | None], ...]] = (
    _ended,
    _running,
    _scheduled,
    _unstarted_flow,
    _open_parents,
    _busy_lane,
    _paused,
    _paused_gate,
    _shut,
    _full,
    _nobody,
    _nobody_listens,
    _all_leave,
    _nobody_knows,
    _suspect,
    _too_big,
    _no_room,
    _rate,
    _line,
)

CAUSES: Final[Mapping[Callable[[Case], str | None], Cause]] = {
    _paused: Cause.QUEUE_PAUSED,
    _nobody: Cause.NO_WORKER,
    _nobody_listens: Cause.QUEUE_NOT_TAKEN,
    _all_leave: Cause.QUEUE_NOT_TAKEN,
    _nobody_knows: Cause.TASK_NOT_KNOWN,
    _too_big: Cause.TOO_BIG,
    _scheduled: Cause.NOT_DUE,
}
"""The reasons that somebody could remove."""


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────


def _verb(cards: tuple[Card, ...] | list[Card], one: str, many: str) -> str:
    return agreeing(len(cards), one, many)


def _meant(word: str, known: set[str] | list[str]) -> str:
    """The word, and the one that it was most likely meant to be."""
    near = near_miss(word, known)
    return word if near is None else f"{word} (is {near} meant?)"


def _error(failure: Failure | None, before: str) -> str:
    if failure is None:
        return ""
    message = failure.message if len(failure.message) <= MESSAGE else f"{failure.message[:MESSAGE]}…"
    return f"{before}{_said(f'{failure.type}: {message}' if message else failure.type).rstrip('.')}"


def _said(text: str | None) -> str:
    """Words of others, fit to be shown."""
    return plain(redact_text(text or "no reason given"))
