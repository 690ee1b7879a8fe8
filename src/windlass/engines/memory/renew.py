"""renew: a worker's sign of life, once for all its jobs, and the store's answer to it."""

from __future__ import annotations

from itertools import islice

from windlass.core.ids import WorkerId
from windlass.engines.memory import facts
from windlass.engines.memory.store import Desk, Store
from windlass.engines.protocol import BATCH, HISTORY_KEPT, SPANS_US, Beat, Orders


def renew(store: Store, beat: Beat, now_us: int) -> Orders:
    """Renews the card, adds the deltas once, and hands over what the worker has to know."""
    worker = beat.card.worker
    desk = store.desks.get(worker)
    if desk is not None and desk.lost:
        return Orders(gone=True, now_us=now_us)
    if desk is None:
        if beat.beat > 0:
            return Orders(gone=True, now_us=now_us)
        desk = store.desks[worker] = Desk(beat=beat, seen_us=now_us, unbroken_since_us=now_us)
        _add(store, beat, now_us)
    elif beat.beat > desk.beat.beat:
        _add(store, beat, now_us)
        desk.beat = beat
    if now_us - desk.seen_us > desk.card.lease_us:
        desk.unbroken_since_us = now_us
    desk.seen_us = now_us
    if beat.bye:
        # A worker that leaves with claims in hand is treated like one that died: sweep takes them.
        if desk.running:
            desk.lost = True
        else:
            leave(store, worker)
    asked = (row.request.id for row in desk.running.values() if row.cancel_asked)
    command = facts.read(store, f"worker/{worker.hex()}", now_us)
    return Orders(
        now_us=now_us,
        claims=len(desk.running),
        cancel=tuple(islice(asked, BATCH)),
        command=None if command is None else command.value,
    )


def leave(store: Store, worker: WorkerId) -> None:
    """Takes a card away, and the order that only its worker could have followed."""
    del store.desks[worker]
    store.facts.pop(f"worker/{worker.hex()}", None)


def _add(store: Store, beat: Beat, now_us: int) -> None:
    for delta in beat.deltas:
        for span, size_us in SPANS_US.items():
            start_us = now_us - now_us % size_us
            store.history[(span, start_us, delta.queue, delta.task, delta.name)] += delta.n


def forget(store: Store, now_us: int) -> None:
    """Drops the history past its bound."""
    oldest = {span: now_us - HISTORY_KEPT[span] * size_us for span, size_us in SPANS_US.items()}
    for key in [key for key in store.history if key[1] < oldest[key[0]]]:
        del store.history[key]
