"""settle and note: every write in the name of a claim, refused when its fence is stale."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.ids import JobId
from windlass.core.job import ENDED, Attempt, Outcome, Progress, State
from windlass.core.lifecycle import heed_cancel
from windlass.core.rank import rank
from windlass.engines.checks import too_many_steps
from windlass.engines.memory.admission import Admission
from windlass.engines.memory.store import Chore, Row, Store
from windlass.engines.protocol import ATTEMPTS_KEPT, BATCH, STEPS_KEPT, Note, Settlement, Verdict


def settle(admission: Admission, settlements: Sequence[Settlement], now_us: int) -> list[Verdict]:
    """Writes the ends of attempts, each with its follow-ups, and goes a step on with the chores."""
    verdicts: list[Verdict] = []
    for settlement in settlements:
        row = admission.store.rows.get(settlement.id)
        verdict = fenced(row, settlement.fence)
        if row is not None and verdict is Verdict.ACCEPTED:
            _apply(admission, row, settlement, now_us)
        verdicts.append(verdict)
    admission.do_chores(now_us, BATCH)
    return verdicts


def fenced(row: Row | None, fence: int) -> Verdict:
    """Whether a write that carries this fence may touch the record."""
    if row is None:
        return Verdict.STALE
    if fence > 0 and row.settled_fence == fence:
        return Verdict.ALREADY
    return Verdict.ACCEPTED if row.state is State.RUNNING and row.fence == fence else Verdict.STALE


def _apply(admission: Admission, row: Row, settlement: Settlement, now_us: int) -> None:
    root = row.root
    jobs = settlement.follow_ups
    if len(jobs) > BATCH:
        admission.store.chores.append(Chore("insert", row.request.id, note=jobs))
        jobs = tuple(job for job in jobs if job.id == settlement.become)
    for job in jobs:
        admission.insert(job, now_us, heir_of=root if job.id == settlement.become else None)
    row.settled_fence = row.fence
    # An heir that was refused as a duplicate cannot take over: the dependents follow this job's own end.
    # So it is with one that an earlier attempt had sent already: it never learnt whose dependents wait for it.
    heir = admission.store.rows.get(settlement.become or b"")
    row.heir = settlement.become if heir is not None and heir.heir_of == root else None
    row.result = settlement.result
    row.failure = settlement.failure
    if settlement.ran_us is not None:
        row.started_us = now_us - settlement.ran_us
    remember(row, settlement.outcome, now_us)
    finish(admission, row, settlement, now_us)


def remember(row: Row, outcome: Outcome | None, now_us: int) -> None:
    """Keeps the attempt, unless it is a first-try success or never began."""
    if outcome is None or (outcome is Outcome.SUCCEEDED and row.attempt == 1):
        return
    row.attempts.append(
        Attempt(
            attempt=row.attempt,
            fence=row.fence,
            outcome=outcome,
            worker=row.worker,
            started_us=row.started_us,
            ended_us=now_us,
            failure=row.failure,
        )
    )
    del row.attempts[:-ATTEMPTS_KEPT]


def finish(admission: Admission, row: Row, settlement: Settlement, now_us: int) -> None:
    """Moves a running job on: to its end, or to its next run at the old or a new rank."""
    store = admission.store
    transition = heed_cancel(settlement.transition, row.reason if row.cancel_asked else None)
    if transition.to is not State.SUCCEEDED:
        # A success leaves the counts as they are: they say what it took to get there.
        row.attempt, row.crashes, row.losses = transition.attempt, transition.crashes, transition.losses
    row.suspect = transition.suspect
    row.reason = transition.reason
    _let_go(store, row)
    if transition.to in ENDED:
        if settlement.result is not None:
            kept = settlement.keep_result_us
            row.result_until_us = now_us + (admission.limits.keep_result_us if kept is None else kept)
        if settlement.queue is not None and transition.to is State.DEAD:
            move_queue(store, row, settlement.queue)
        admission.end(row, transition.to, now_us, reason=transition.reason, keep_us=settlement.keep_us)
    elif transition.to is State.SCHEDULED:
        row.due_us = now_us + transition.delay_us
        if not row.slot:
            row.rank = rank(row.due_us, row.request.priority, admission.limits.aging_step_us)
        admission.place(row, now_us, keep_rank=True)
    else:
        row.due_us = min(row.due_us, now_us)
        admission.place(row, now_us, keep_rank=True)
    admission.watch_expiry(row)


def _let_go(store: Store, row: Row) -> None:
    desk = store.desks.get(row.worker or b"")
    if desk is not None:
        desk.running.pop(row.request.id, None)
    store.leave(row, running=True)


def move_queue(store: Store, row: Row, queue: str) -> None:
    """Moves a job between queues and keeps the counters true."""
    state = row.state
    assert state is not None
    store.uncount(row)
    row.queue = queue
    store.recount(row)


def note(admission: Admission, notes: Sequence[Note], now_us: int) -> list[Verdict]:
    """Appends to running jobs: log lines within their bound, the last progress, steps by key."""
    _check_steps(admission.store, notes)
    verdicts: list[Verdict] = []
    for entry in notes:
        row = admission.store.rows.get(entry.id)
        verdict = fenced(row, entry.fence)
        if row is not None and verdict is Verdict.ACCEPTED:
            _append(row, entry, now_us, admission.limits.log_bytes)
        verdicts.append(verdict)
    return verdicts


def _check_steps(store: Store, notes: Sequence[Note]) -> None:
    """Refuses more steps than a job may keep before the first note is written."""
    keys: dict[JobId, set[str]] = {}
    for entry in notes:
        row = store.rows.get(entry.id)
        if entry.kind == "step" and row is not None and fenced(row, entry.fence) is Verdict.ACCEPTED:
            known = keys.setdefault(entry.id, set(row.steps))
            known.add(entry.key)
            if len(known) > STEPS_KEPT:
                raise too_many_steps()


def _append(row: Row, entry: Note, now_us: int, log_bytes: int) -> None:
    match entry.kind:
        case "start":
            row.started_us = now_us
        case "log":
            row.log.append(row.attempt, entry.at_us or now_us, entry, log_bytes)
        case "progress":
            row.progress = Progress(at_us=now_us, data=entry.data)
        case "step":
            row.steps[entry.key] = entry.data
