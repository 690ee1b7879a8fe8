"""Tally: kept counts, never counted anew."""

from __future__ import annotations

import msgspec

from windlass.core.job import State
from windlass.engines.protocol import Bucket, Card, Count, Tally, TallyQuery
from windlass.engines.sqlite.connection import Database
from windlass.engines.sqlite.statements import sql

_card = msgspec.json.Decoder(Card).decode


def tally(db: Database, query: TallyQuery) -> Tally:
    """What the store keeps count of, its history as far as that was asked for, and the cards of the living."""
    counts = tuple(
        Count(queue=queue, task=task, state=State(state), n=n)
        for queue, task, state, n in db.execute(sql("tally_read"))
    )
    buckets: tuple[Bucket, ...] = ()
    if query.span is not None:
        buckets = tuple(
            Bucket(start_us=start_us, queue=queue, task=task, name=name, n=n)
            for start_us, queue, task, name, n in db.execute(sql("history_read"), (query.span, query.since_us))
        )
    cards = tuple(_card(card) for _, card, _, _, lost in db.execute(sql("card_all")) if not lost)
    return Tally(counts=counts, buckets=buckets, cards=cards)
