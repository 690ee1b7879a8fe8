"""insert: jobs in, receipts out. Plain jobs go straight into their streams, a hundred per transaction."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.errors import UnknownParent
from windlass.core.ids import JobId, show_id
from windlass.core.job import ENDED, Job, Request
from windlass.core.limits import Limits
from windlass.core.rank import rank
from windlass.engines.protocol import BATCH, Receipt
from windlass.engines.sqlite import rows
from windlass.engines.sqlite.admission import READY, Admission, stream_id
from windlass.engines.sqlite.connection import Database
from windlass.engines.sqlite.statements import repeated, sql
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
    """Takes plain jobs in, in their order: straight into their streams, a hundred by one statement."""
    receipts: list[Receipt] = []
    for start in range(0, len(jobs), BATCH):
        receipts += _insert_plain(tx, jobs[start : start + BATCH], limits.aging_step_us)
    return receipts


def _insert_plain(tx: Tx, jobs: Sequence[Job], step_us: int) -> list[Receipt]:
    streams, now_us, first = tx.counters.stream_ids, tx.now_us, tx.seq + 1
    values: list[object] = []
    for job in jobs:
        request = job.request
        stream = streams.get(request.queue)
        if stream is None:
            stream = streams[request.queue] = stream_id(tx, request.queue, "", "", "", 0)
        tx.seq += 1
        values += _columns(request, tx.seq, stream, rank(tx.next_order(), request.priority, step_us), now_us)
    tx.run(repeated(PLAIN, len(jobs)), values)
    known: set[int] = set()
    if tx.connection.changes() != len(jobs):
        # Some were here: those are the ones whose id leads to another number than the one just given out.
        numbered = enumerate(jobs, first)
        known = {seq for seq, job in numbered if tx.run(KNOWN, (job.id,)).get != seq}
    receipts: list[Receipt] = []
    for seq, job in enumerate(jobs, first):
        request = job.request
        if seq in known:
            receipts.append(Receipt(id=request.id, duplicate_of=request.id))
            continue
        tx.streams[streams[request.queue]][0] += 1
        tx.counts[request.queue, request.task, READY] += 1
        tx.woken.add(request.queue)
        receipts.append(Receipt(id=request.id))
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
        now_us,
        request.options or None,
        request.payload,
    )
