"""sweep: what nobody asked for but everybody needs, in bounded steps that any worker may do."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from windlass.core.ids import JobId, WorkerId
from windlass.core.job import Outcome, State
from windlass.core.lifecycle import POISON, Standing, decide
from windlass.core.limits import Limits
from windlass.core.rank import next_fence
from windlass.engines.checks import is_gate
from windlass.engines.protocol import BATCH, Card, Death, Poisoned, Settlement, Sweep, Swept
from windlass.engines.sqlite import rows
from windlass.engines.sqlite.admission import Admission
from windlass.engines.sqlite.renew import forget, leave
from windlass.engines.sqlite.rows import Row
from windlass.engines.sqlite.settle import finish, remember
from windlass.engines.sqlite.statements import sql
from windlass.engines.sqlite.tx import Tx

MOST_RECORDS = 10_000
"""The most one sweep touches, whatever is asked for: writers wait meanwhile."""
MOST_FACTS = 1_000
FOREVER_US = (1 << 63) - 1

_card = msgspec.json.Decoder(Card).decode

Judge = Callable[[Tx], list[WorkerId]]
"""Names the workers that are dead by the engine's way of knowing."""
Kept = Callable[[WorkerId, int], set[JobId]]
"""Names the jobs of a dead worker that go on without it now."""


def sweep(tx: Tx, order: Sweep, limits: Limits, judge: Judge, kept: Kept) -> Swept:
    """Takes back lost workers' jobs, goes on with chores, and ends what has run out of time."""
    admission, left = Admission(tx, limits), min(order.limit, MOST_RECORDS)
    before = tx.connection.total_changes()
    taken = _lost(admission, judge, kept, left)
    left -= taken.lost
    chores = admission.do_chores(left) if left > 0 else 0
    left -= chores
    due = admission.come_due(left) if left > 0 else 0
    left -= due
    expired = _expire(admission, left)
    left -= expired
    keys = _free_keys(tx, left)
    left -= keys
    purged = _purge(admission, left)
    left -= purged
    _expire_facts(tx)
    forget(tx)
    tx.flush()
    tx.run(sql("stream_drop"))
    tx.counters.stream_ids.clear()  # one that was dropped may be among those that were looked up
    tx.run(sql("book_drop"))
    # A sweep that found nothing to do leaves no trace, so that an idle store costs the disk nothing.
    tx.idle = tx.connection.total_changes() == before
    if tx.idle:
        tx.commits -= 1
    return msgspec.structs.replace(
        taken,
        chores=chores,
        due=due,
        expired=expired,
        keys=keys,
        purged=purged,
        more=left <= 0 or tx.run(sql("chore_next")).fetchone() is not None,
    )


def by_lease(tx: Tx, sweeper: WorkerId | None) -> list[WorkerId]:
    """Those whose lease has run out, if the sweeper has one unbroken lease of its own behind it.

    After an outage everybody must have had time to renew before anybody is called dead. The judge's own lease must hold
    too: one who slept through the outage has not renewed since.
    """
    found = tx.run(sql("card_read"), (sweeper,)).fetchone() if sweeper is not None else None
    if found is None:
        return []
    _, _, seen_us, unbroken_us, lease_us, lost, _ = found
    if lost or seen_us + lease_us < tx.now_us or tx.now_us - unbroken_us < lease_us:
        return []
    cards = tx.run(sql("card_all")).fetchall()
    return [worker for worker, _, seen_us, own_us, gone in cards if not gone and seen_us + own_us < tx.now_us]


def _lost(admission: Admission, judge: Judge, kept: Kept, limit: int) -> Swept:
    """Marks workers dead first, so that none of them can renew, and then takes their jobs back, but for those that
    go on.
    """
    tx, workers, taken = admission.tx, 0, 0
    deaths: list[Death] = []
    poisoned: list[Poisoned] = []
    for worker in judge(tx):
        tx.run(sql("card_lose"), (worker,))
        deaths.append(_death(tx, worker, len(kept(worker, tx.now_us))))
    for worker, _, _, _, lost in tx.run(sql("card_all")).fetchall():
        if not lost:
            continue
        going_on = kept(worker, tx.now_us)
        # So many more are looked at, or those that go on could stand before all others for ever.
        most = max(0, limit - taken) + len(going_on)
        taken += _take_back(admission, sql("running_next"), (worker, most), poisoned, going_on)
        if not tx.run(sql("running_count"), (worker,)).get:
            leave(tx, worker)
            workers += 1
    if taken < limit:
        taken += _take_back(admission, sql("running_strays"), (limit - taken,), poisoned)
    return Swept(workers=workers, lost=taken, deaths=tuple(deaths[:BATCH]), poisoned=tuple(poisoned[:BATCH]))


def _death(tx: Tx, worker: WorkerId, going_on: int) -> Death:
    card = _card(tx.run(sql("card_read"), (worker,)).fetchone()[0])
    jobs = max(0, tx.run(sql("running_count"), (worker,)).get - going_on)
    return Death(worker=worker, name=card.name, host=card.host, pid=card.pid, jobs=jobs)


def _take_back(
    admission: Admission,
    statement: str,
    values: tuple[Any, ...],
    poisoned: list[Poisoned],
    but: Collection[JobId] = (),
) -> int:
    found = [row for columns in admission.tx.run(statement, values).fetchall() if (row := Row(*columns)).id not in but]
    for row in found:
        take_back(admission, row)
        if row.state == State.DEAD and row.reason == POISON:
            poisoned.append(Poisoned(id=row.id, task=row.task, crashes=row.crashes))
    return len(found)


def take_back(admission: Admission, row: Row) -> None:
    """A running job whose worker died: counted, fenced off from its old run, and ready again or dead."""
    standing = Standing(
        attempt=row.attempt,
        crashes=row.crashes,
        losses=row.losses,
        suspect=bool(row.suspect),
        alone=bool(row.suspect) and row.started_us is not None,
    )
    outcome = Outcome.CRASHED if standing.alone else Outcome.LOST
    row.failure = row.fingerprint = None
    remember(admission, row, outcome)
    row.fence = next_fence(row.fence, admission.tx.now_us)
    settlement = Settlement(id=row.id, fence=row.fence, outcome=outcome, transition=decide(outcome, standing))
    finish(admission, row, settlement)


def _expire(admission: Admission, limit: int) -> int:
    if limit <= 0:
        return 0
    found = admission.tx.run(sql("expire_next"), (admission.tx.now_us, limit)).fetchall()
    expired = 0
    for seq, *_ in found:
        row = rows.by_seq(admission.tx.connection, seq)
        # Ending one may have let another, expired too, into its lane and ended it there.
        if row is not None and row.ended_us is None:
            admission.end(row, State.EXPIRED.value)
            expired += 1
    return expired


def _free_keys(tx: Tx, limit: int) -> int:
    found = tx.run(sql("key_ends"), (tx.now_us, max(0, limit))).fetchall()
    for (seq,) in found:
        tx.run(sql("key_clear"), (seq,))
    return len(found)


def _purge(admission: Admission, limit: int) -> int:
    """Drops records past their time, and the oldest successes past their number."""
    tx = admission.tx
    if limit <= 0:
        return 0
    purged = _drop_some(admission, sql("purge_next"), (tx.now_us, limit))
    purged += _drop_some(admission, sql("purge_oldest"), (tx.now_us, limit - purged))
    tx.flush()
    excess = tx.run(sql("tally_total"), (State.SUCCEEDED.value,)).get
    excess -= admission.limits.keep_succeeded_count
    if excess > 0 and purged < limit:
        purged += _drop_some(admission, sql("purge_oldest"), (FOREVER_US, min(excess, limit - purged)))
    return purged


def _drop_some(admission: Admission, statement: str, values: tuple[int, int]) -> int:
    found = admission.tx.run(statement, values).fetchall()
    for columns in found:
        drop(admission, Row(*columns))
    return len(found)


def _expire_facts(tx: Tx) -> None:
    """A gate's bucket goes with its rule: a rule written later begins with a full one."""
    for (key,) in tx.run(sql("fact_expire"), (tx.now_us, MOST_FACTS)).fetchall():
        if is_gate(key):
            tx.run(sql("bucket_drop"), (key,))


def drop(admission: Admission, row: Row) -> None:
    """Takes an ended job off every table."""
    tx = admission.tx
    tx.run(sql("job_drop"), (row.seq,))
    tx.counts[row.queue, row.task, row.state] -= 1
    if row.noted:
        for table in ("attempt", "log", "logbook", "progress", "step"):
            tx.run(sql(f"{table}_drop"), (row.seq,))
    if row.flow is not None:
        found = tx.run(sql("flow_add"), (row.flow, 0, -1)).fetchone()
        if found is not None and not found[2]:
            tx.run(sql("flow_drop"), (row.flow,))
            tx.run(sql("fact_drop"), (f"flow/{row.flow.hex()}",))
