"""sweep: what nobody asked for but everybody needs, in bounded steps that any worker may do."""

from __future__ import annotations

import heapq

import msgspec

from windlass.core.ids import WorkerId
from windlass.core.job import ENDED, WAITING, Outcome, State
from windlass.core.lifecycle import POISON, Standing, decide
from windlass.core.rank import next_fence
from windlass.engines.memory.admission import Admission
from windlass.engines.memory.renew import forget, leave
from windlass.engines.memory.settle import finish, remember
from windlass.engines.memory.store import Desk, Row, Store
from windlass.engines.protocol import BATCH, Death, Poisoned, Settlement, Sweep, Swept

MOST_RECORDS = 10_000
"""The most one sweep touches, whatever is asked for: everybody else waits meanwhile."""


def sweep(admission: Admission, order: Sweep, now_us: int) -> Swept:
    """Takes back lost workers' jobs, goes on with chores, and ends what has run out of time."""
    store, left = admission.store, min(order.limit, MOST_RECORDS)
    taken = _lost(admission, order.worker, now_us, left)
    left -= taken.lost
    chores = admission.do_chores(now_us, left) if left > 0 else 0
    left -= chores
    due = admission.come_due(now_us, max(0, left))
    left -= due
    expired = _expire(admission, now_us, left)
    left -= expired
    keys = _free_keys(store, now_us, left)
    left -= keys
    purged = _purge(admission, now_us, left)
    left -= purged
    for key in [key for key, fact in store.facts.items() if _past(fact.expires_us, now_us)]:
        del store.facts[key]
        store.gates.pop(key, None)
        store.buckets.pop(key, None)
    forget(store, now_us)
    return msgspec.structs.replace(
        taken,
        chores=chores,
        due=due,
        expired=expired,
        keys=keys,
        purged=purged,
        more=left <= 0 or bool(store.chores),
    )


def _past(at_us: int | None, now_us: int) -> bool:
    return at_us is not None and at_us <= now_us


def _lost(admission: Admission, sweeper: WorkerId | None, now_us: int, limit: int) -> Swept:
    """Marks workers dead first, so that none of them can renew, and then takes their jobs back."""
    store, workers, taken = admission.store, 0, 0
    deaths: list[Death] = []
    poisoned: list[Poisoned] = []
    if _may_judge(store, sweeper, now_us):
        for desk in store.desks.values():
            if not desk.lost and desk.seen_us + desk.card.lease_us < now_us:
                desk.lost = True
                deaths.append(_death(desk))
    for worker, desk in list(store.desks.items()):
        if not desk.lost:
            continue
        for row in list(desk.running.values())[: limit - taken]:
            take_back(admission, row, now_us)
            taken += 1
            if row.state is State.DEAD and row.reason == POISON:
                poisoned.append(Poisoned(id=row.request.id, task=row.request.task, crashes=row.crashes))
        if not desk.running:
            leave(store, worker)
            workers += 1
    return Swept(workers=workers, lost=taken, deaths=tuple(deaths[:BATCH]), poisoned=tuple(poisoned[:BATCH]))


def _death(desk: Desk) -> Death:
    card = desk.card
    return Death(worker=card.worker, name=card.name, host=card.host, pid=card.pid, jobs=len(desk.running))


def _may_judge(store: Store, sweeper: WorkerId | None, now_us: int) -> bool:
    """After an outage everybody must have had time to renew before anybody is called dead.

    The judge's own lease must hold too: one who slept through the outage has not renewed since.
    """
    desk: Desk | None = store.desks.get(sweeper) if sweeper is not None else None
    if desk is None or desk.lost or desk.seen_us + desk.card.lease_us < now_us:
        return False
    return now_us - desk.unbroken_since_us >= desk.card.lease_us


def take_back(admission: Admission, row: Row, now_us: int) -> None:
    """A running job whose worker died: counted, fenced off from its old run, and ready again or dead."""
    standing = Standing(
        attempt=row.attempt,
        crashes=row.crashes,
        losses=row.losses,
        suspect=row.suspect,
        alone=row.suspect and row.started_us is not None,
    )
    outcome = Outcome.CRASHED if standing.alone else Outcome.LOST
    row.failure = None
    remember(row, outcome, now_us)
    row.fence = next_fence(row.fence, now_us)
    settlement = Settlement(id=row.request.id, fence=row.fence, outcome=outcome, transition=decide(outcome, standing))
    finish(admission, row, settlement, now_us)


def _expire(admission: Admission, now_us: int, limit: int) -> int:
    heap, done = admission.store.expiring, 0
    while done < limit and heap and heap[0][0] <= now_us:
        at, _, row = heapq.heappop(heap)
        # One that runs is watched again when it comes back to waiting.
        if row.expires_us == at and row.state in WAITING:
            admission.end(row, State.EXPIRED, now_us)
            done += 1
    return done


def _free_keys(store: Store, now_us: int, limit: int) -> int:
    heap, done = store.key_ends, 0
    while done < limit and heap and heap[0][0] <= now_us:
        at, _, row = heapq.heappop(heap)
        if row.key is not None and row.key_until_us == at:
            store.clear_key(row)
            done += 1
    return done


def _purge(admission: Admission, now_us: int, limit: int) -> int:
    """Drops records past their time, and the oldest successes past their number."""
    store, done = admission.store, 0
    kept = admission.limits.keep_succeeded_count
    succeeded = sum(n for (_, _, state), n in store.counts.items() if state is State.SUCCEEDED)
    spared: list[tuple[int, int, Row]] = []
    while done < limit and store.purging:
        at, _, row = store.purging[0]
        due = at <= now_us
        if not due and succeeded <= kept:
            break
        entry = heapq.heappop(store.purging)
        if row.purge_us != at or row.state not in ENDED or store.rows.get(row.request.id) is not row:
            continue
        if not due and (row.state is not State.SUCCEEDED or row.key is not None):
            spared.append(entry)
            continue
        if row.state is State.SUCCEEDED:
            succeeded -= 1
        store.drop(row)
        done += 1
    for entry in spared:
        heapq.heappush(store.purging, entry)
    return done
