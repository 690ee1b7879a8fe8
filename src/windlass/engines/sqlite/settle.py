"""settle and note: every write in the name of a claim, refused when its fence is stale.

First-try successes are one statement, all those of a batch together: SQLite pays for the rows it returns by statement,
not by row. Everything else loads the row, changes it and saves it whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from windlass.core.job import Attempt, Outcome, State
from windlass.core.lifecycle import heed_cancel
from windlass.core.limits import Limits
from windlass.core.rank import rank
from windlass.engines.checks import too_many_steps
from windlass.engines.protocol import BATCH, LINE_COST, STEPS_KEPT, Note, Settlement, Verdict
from windlass.engines.sqlite import rows
from windlass.engines.sqlite.admission import RUNNING, Admission
from windlass.engines.sqlite.insert import check_parents
from windlass.engines.sqlite.rows import Row, encode_failure
from windlass.engines.sqlite.statements import repeated, sql
from windlass.engines.sqlite.tx import Tx

SUCCESS, FENCE = sql("settle_success"), sql("fence_read")
WIDTH = SUCCESS.count("?")
SUCCEEDED = State.SUCCEEDED.value
ENDS = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED})

_encode = msgspec.json.Encoder().encode
_failure = msgspec.json.Decoder(rows.Failure).decode


def settle(tx: Tx, settlements: Sequence[Settlement], limits: Limits) -> list[Verdict]:
    """Writes the ends of attempts, each with its follow-ups, and goes a step on with the chores."""
    admission = Admission(tx, limits)
    check_parents(tx.connection, [job for settlement in settlements for job in settlement.follow_ups])
    verdicts: list[Verdict] = []
    for simple, group in groupby(settlements, _is_simple):
        run = list(group)
        verdicts += _succeed(admission, run) if simple else [_settle(admission, one) for one in run]
    admission.do_chores(BATCH)
    return verdicts


def _is_simple(settlement: Settlement) -> bool:
    """Whether one statement may do: a success that brings nothing with it."""
    return (
        settlement.outcome is Outcome.SUCCEEDED
        and settlement.transition.to is State.SUCCEEDED
        and not settlement.follow_ups
        and settlement.become is None
        and settlement.failure is None
    )


def _settle(admission: Admission, settlement: Settlement) -> Verdict:
    row = rows.by_id(admission.tx.connection, settlement.id)
    verdict = fenced(row, settlement.fence)
    if row is not None and verdict is Verdict.ACCEPTED:
        _apply(admission, row, settlement)
    return verdict


def fenced(row: Row | None, fence: int) -> Verdict:
    """Whether a write that carries this fence may touch the record."""
    if row is None:
        return Verdict.STALE
    return _verdict(row.state, row.fence, row.settled_fence, fence)


def _verdict(state: str, current: int, settled: int, fence: int) -> Verdict:
    if fence > 0 and settled == fence:
        return Verdict.ALREADY
    return Verdict.ACCEPTED if state == RUNNING and current == fence else Verdict.STALE


def _succeed(admission: Admission, settlements: list[Settlement]) -> list[Verdict]:
    """The short way of first-try successes; what the statement does not match goes the long way."""
    if len({settlement.id for settlement in settlements}) < len(settlements):
        # A job twice in one batch: the second end has to see the first.
        return [_settle(admission, settlement) for settlement in settlements]
    tx = admission.tx
    ended = {columns[0]: columns for columns in tx.run(*_ends(admission, settlements)).fetchall()}
    edges = tx.run(sql("edge_some")).fetchone() is not None
    verdicts: list[Verdict] = []
    for settlement in settlements:
        found = ended.get(settlement.id)
        if found is None:
            verdicts.append(_settle(admission, settlement))
            continue
        job_id, queue, task, stream, lane, flow, heir_of = found
        tx.streams[stream][1] -= 1
        tx.counts[queue, task, RUNNING] -= 1
        tx.counts[queue, task, SUCCEEDED] += 1
        if lane is not None:
            admission.free_place(lane)
        if flow is not None or edges:
            admission.ended(job_id, flow, heir_of or job_id, SUCCEEDED)
        else:
            tx.ends.append(job_id)
        verdicts.append(Verdict.ACCEPTED)
    return verdicts


def _ends(admission: Admission, settlements: list[Settlement]) -> tuple[str, list[object]]:
    """The statement that ends these jobs, and its values.

    It is made for a few numbers of jobs only, and filled up: what SQLite keeps of it takes 140 kB for a hundred jobs.
    """
    now_us, limits = admission.tx.now_us, admission.limits
    values: list[object] = []
    for settlement in settlements:
        kept_us, keep_us, ran_us = settlement.keep_result_us, settlement.keep_us, settlement.ran_us
        values += (
            settlement.id,
            settlement.fence,
            None if ran_us is None else now_us - ran_us,
            now_us,
            settlement.result,
            0 if settlement.result is None else now_us + (limits.keep_result_us if kept_us is None else kept_us),
            limits.keep_succeeded_us if keep_us is None else keep_us,
        )
    count = len(settlements)
    places = min(1 << (count - 1).bit_length(), BATCH)
    values += [None] * (WIDTH * (places - count))
    return repeated(SUCCESS, places), values


def _apply(admission: Admission, row: Row, settlement: Settlement) -> None:
    tx, jobs = admission.tx, settlement.follow_ups
    if len(jobs) > admission.room:
        admission.insert_later(row.id, jobs)
        jobs = tuple(job for job in jobs if job.id == settlement.become)
    admission.room -= len(jobs)
    for job in jobs:
        admission.insert(job, heir_of=row.root if job.id == settlement.become else None)
    row.settled_fence = row.fence
    # An heir that was refused as a duplicate, or was there before, cannot take over: the dependents follow this job.
    heir = rows.by_id(tx.connection, settlement.become) if settlement.become is not None else None
    row.heir = settlement.become if heir is not None and heir.heir_of == row.root else None
    row.failure = encode_failure(settlement.failure)
    row.fingerprint = None if settlement.failure is None else settlement.failure.fingerprint
    tx.run(sql("result_write"), (row.seq, settlement.result))
    if settlement.ran_us is not None:
        row.started_us = tx.now_us - settlement.ran_us
    remember(admission, row, settlement.outcome)
    finish(admission, row, settlement)


def remember(admission: Admission, row: Row, outcome: Outcome | None) -> None:
    """Keeps the attempt, unless it is a first-try success or never began. The caller saves the row."""
    if outcome is None or (outcome is Outcome.SUCCEEDED and row.attempt == 1):
        return
    attempt = Attempt(
        attempt=row.attempt,
        fence=row.fence,
        outcome=outcome,
        worker=row.worker,
        started_us=row.started_us,
        ended_us=admission.tx.now_us,
        failure=None if row.failure is None else _failure(row.failure),
    )
    admission.keep_attempts(row, [_encode(attempt)])


def finish(admission: Admission, row: Row, settlement: Settlement) -> None:
    """Moves a running job on: to its end, or to its next run at the old or a new rank."""
    now_us, limits = admission.tx.now_us, admission.limits
    transition = heed_cancel(settlement.transition, row.reason if row.cancel_asked else None)
    if transition.to is not State.SUCCEEDED:
        # A success leaves the counts as they are: they say what it took to get there.
        row.attempt, row.crashes, row.losses = transition.attempt, transition.crashes, transition.losses
    row.suspect = int(transition.suspect)
    row.reason = transition.reason
    admission.leave(row)
    if transition.to in ENDS:
        if settlement.result is not None:
            kept_us = settlement.keep_result_us
            row.result_until_us = now_us + (limits.keep_result_us if kept_us is None else kept_us)
        if settlement.queue is not None and transition.to is State.DEAD:
            move_queue(admission, row, settlement.queue)
        admission.end(row, transition.to.value, reason=transition.reason, keep_us=settlement.keep_us)
        return
    if transition.to is State.SCHEDULED:
        row.due_us = now_us + transition.delay_us
        if not row.slot:
            row.rank = rank(row.due_us, row.priority, limits.aging_step_us)
    else:
        row.due_us = min(row.due_us, now_us)
    admission.place(row, keep_rank=True)


def move_queue(admission: Admission, row: Row, queue: str) -> None:
    """Moves a job between queues and keeps the counters true. The caller saves the row."""
    counts, home = admission.tx.counts, row.home or row.queue
    counts[row.queue, row.task, row.state] -= 1
    counts[queue, row.task, row.state] += 1
    row.home = None if queue == home else home
    row.queue = queue


def note(tx: Tx, notes: Sequence[Note], limits: Limits) -> list[Verdict]:
    """Appends to running jobs: log lines within their bound, the last progress, steps by key."""
    verdicts: list[Verdict] = []
    for entry in notes:
        found = tx.run(FENCE, (entry.id,)).fetchone()
        if found is None:
            verdicts.append(Verdict.STALE)
            continue
        seq, state, fence, settled, attempt = found
        verdict = _verdict(state, fence, settled, entry.fence)
        if verdict is Verdict.ACCEPTED:
            _append(tx, entry, seq, attempt, limits.log_bytes)
        verdicts.append(verdict)
    return verdicts


def _append(tx: Tx, entry: Note, seq: int, attempt: int, log_bytes: int) -> None:
    if entry.kind == "start":
        tx.run(sql("start_mark"), (seq, tx.now_us))
        return
    tx.run(sql("note_mark"), (seq,))
    if entry.kind == "log":
        _append_line(tx, entry, seq, attempt, log_bytes // 2)
    elif entry.kind == "progress":
        tx.run(sql("progress_save"), (seq, tx.now_us, entry.data))
    else:
        if tx.run(sql("step_room"), (seq, entry.key, STEPS_KEPT)).fetchone() is None:
            raise too_many_steps()
        tx.run(sql("step_save"), (seq, entry.key, entry.data))


def _append_line(tx: Tx, line: Note, seq: int, attempt: int, half: int) -> None:
    """The head stays, the tail moves on; the gap in the numbers shows what was cut."""
    found = tx.run(sql("logbook_read"), (seq,)).fetchone()
    number, head, tail, tail_from = found or (0, 0, 0, 0)
    number += 1
    tx.run(sql("log_add"), (seq, number, attempt, line.at_us or tx.now_us, line.data, line.stream))
    cost = len(line.data) + LINE_COST
    if not tail_from and head + cost <= half:
        head += cost
    else:
        tail_from = tail_from or number
        tail += cost
        while tail > half and tail_from < number:
            cut = tx.run(sql("log_cut"), (seq, tail_from)).fetchone()
            assert cut is not None
            gone, size = cut
            tail_from, tail = gone + 1, tail - size - LINE_COST
    tx.run(sql("logbook_save"), (seq, number, head, tail, tail_from))
