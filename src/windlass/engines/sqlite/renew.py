"""renew: a worker's sign of life, once for all its jobs, and the store's answer to it."""

from __future__ import annotations

import msgspec

from windlass.core.ids import WorkerId
from windlass.engines.protocol import BATCH, HISTORY_KEPT, SPANS_US, Beat, Orders
from windlass.engines.sqlite.statements import sql
from windlass.engines.sqlite.tx import Tx

_encode = msgspec.json.Encoder().encode


def renew(tx: Tx, beat: Beat) -> Orders:
    """Renews the card, adds the deltas once, and hands over what the worker has to know."""
    worker, now_us = beat.card.worker, tx.now_us
    found = tx.run(sql("card_read"), (worker,)).fetchone()
    unbroken_us, last = now_us, -1
    if found is None:
        if beat.beat > 0:
            return Orders(gone=True, now_us=now_us)
    else:
        _, last, seen_us, since_us, lease_us, lost, _ = found
        if lost:
            return Orders(gone=True, now_us=now_us)
        unbroken_us = since_us if now_us - seen_us <= lease_us else now_us
    if beat.beat > last:
        _add(tx, beat)
        card = (worker, _encode(beat.card), beat.beat, now_us, unbroken_us, beat.card.lease_us)
        tx.run(sql("card_save"), card)
    else:
        tx.run(sql("card_seen"), (worker, now_us, unbroken_us))
    claims = tx.run(sql("running_count"), (worker,)).get
    asked = tx.run(sql("running_asked"), (worker, BATCH)).fetchall() if claims else []
    command = tx.run(sql("fact_read"), (f"worker/{worker.hex()}", now_us)).fetchone()
    if beat.bye and claims:
        # A worker that leaves with claims in hand is treated like one that died: sweep takes them.
        tx.run(sql("card_lose"), (worker,))
    elif beat.bye:
        leave(tx, worker)
    return Orders(
        now_us=now_us,
        claims=claims,
        cancel=tuple(job_id for (job_id,) in asked),
        command=None if command is None else command[0],
    )


def leave(tx: Tx, worker: WorkerId) -> None:
    """Takes a card away, and the order that only its worker could have followed."""
    tx.run(sql("card_drop"), (worker,))
    tx.run(sql("fact_drop"), (f"worker/{worker.hex()}",))


def _add(tx: Tx, beat: Beat) -> None:
    for delta in beat.deltas:
        for span, size_us in SPANS_US.items():
            start_us = tx.now_us - tx.now_us % size_us
            tx.run(sql("history_add"), (span, start_us, delta.queue, delta.task, delta.name, delta.n))


def forget(tx: Tx) -> None:
    """Drops the history past its bound."""
    for span, size_us in SPANS_US.items():
        tx.run(sql("history_drop"), (span, tx.now_us - HISTORY_KEPT[span] * size_us))
