"""insert: jobs in, receipts out. Plain jobs go straight into their streams, a hundred per transaction."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.errors import UnknownParent
from windlass.core.ids import JobId, show_id
from windlass.core.job import ENDED, Job, Request
from windlass.core.limits import Limits
from windlass.core.rank import rank
from windlass.engines.protocol import Receipt
from windlass.engines.sqlite import rows
from windlass.engines.sqlite.admission import READY, Admission, stream_id
from windlass.engines.sqlite.connection import Database
from windlass.engines.sqlite.statements import sql
from windlass.engines.sqlite.tx import Tx

PLAIN = sql("insert_plain")
KNOWN = sql("job_known")


def insert(
    tx: Tx,
    jobs: Sequence[Job],
    limits: Limits,
    stand_ins: dict[JobId, JobId],
    coming: frozenset[JobId],
    *,
    checked: bool,
) -> list[Receipt]:
    """Takes the jobs in, in their order; `checked` says that their parents have been looked at.

    For the parts of one long list, `stand_ins` remembers which jobs were refused as duplicates of which, and `coming`
    names all its jobs.
    """
    admission = Admission(tx, limits, stand_ins, coming)
    if not checked:
        check_parents(tx.connection, jobs)
    return [admission.insert(job) for job in jobs]


def check_parents(connection: Database, jobs: Sequence[Job]) -> None:
    """Refuses a list of jobs in which one waits for a parent that is neither here nor in the list.

    An imported job that has ended waits for nobody; a parent whose heir is gone cannot be waited for.
    """
    coming = {job.id for job in jobs}
    for job in jobs:
        if job.request.flow is not None or (job.record is not None and job.record.state in ENDED):
            continue
        for edge in job.request.parents:
            if edge.parent not in coming and rows.resolve(connection, edge.parent) is None:
                raise UnknownParent(
                    f"The parent {show_id(edge.parent)} of a {job.request.task} job is not in the store.",
                    "Insert parents first, or put both into one flow.",
                )


def is_plain(job: Job) -> bool:
    """Whether the job has nothing to wait for and nothing that others wait for."""
    request = job.request
    return (
        job.record is None
        and request.lane is None
        and request.unique is None
        and request.flow is None
        and request.gate is None
        and not request.delay_us
        and request.at_us is None
        and request.expires_us is None
        and not request.needs
        and not request.parents
        and not request.tags
        and request.retry_of is None
    )


def insert_plain(tx: Tx, jobs: Sequence[Job], limits: Limits) -> list[Receipt]:
    """Takes plain jobs in, in their order: straight into their streams."""
    step_us, now_us = limits.aging_step_us, tx.now_us
    streams = tx.counters.stream_ids
    queues: set[str] = set()
    values: list[tuple[object, ...]] = []
    for job in jobs:
        request = job.request
        queue = request.queue
        stream = streams.get(queue)
        if stream is None:
            stream = streams[queue] = stream_id(tx, queue, "", "", "", 0)
        queues.add(queue)
        tx.seq += 1
        values.append(_columns(request, tx.seq, stream, rank(tx.next_order(), request.priority, step_us), now_us))
    before = tx.connection.total_changes()
    tx.connection.executemany(PLAIN, values)
    known: set[object] = set()
    if tx.connection.total_changes() - before != len(values):
        # Some were here: those are the ones whose id leads to another number than the one just given out.
        known = {value[0] for value in values if tx.run(KNOWN, (value[1],)).get != value[0]}
    receipts: list[Receipt] = []
    for job, value in zip(jobs, values, strict=True):
        request = job.request
        if value[0] in known:
            receipts.append(Receipt(id=request.id, duplicate_of=request.id))
            continue
        tx.streams[streams[request.queue]][0] += 1
        tx.counts[request.queue, request.task, READY] += 1
        receipts.append(Receipt(id=request.id))
    tx.woken |= queues
    return receipts


def _columns(request: Request, seq: int, stream: int, rank_: int, now_us: int) -> tuple[object, ...]:
    return (
        seq,
        request.id,
        request.queue,
        request.task,
        stream,
        rank_,
        request.priority,
        now_us,
        request.options or None,
        request.payload,
    )
