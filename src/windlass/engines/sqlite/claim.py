"""claim: take ready jobs for a worker, in the order of rank, through the gates that are open.

The streams with jobs are few. Claim looks at their counters, asks each gate once how many may pass, and merges the
heads of the open, fitting streams by rank (core/pick.py); a stream's index is read only as far as jobs are taken.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from windlass.core import rates
from windlass.core.errors import BadValue, LeaseExpired, TicketOutOfOrder, WorkerGone
from windlass.core.gates import Gate, Needs, Opening, fits, least_of, opening, read_gate, read_needs
from windlass.core.ids import show_id
from windlass.core.job import State
from windlass.core.limits import Limits
from windlass.core.pick import Budget, Candidate, pick
from windlass.core.rank import aging_bound_us
from windlass.engines.protocol import BATCH, Card, Claim, Claims, Order
from windlass.engines.sqlite import rows
from windlass.engines.sqlite.admission import READY, RUNNING, Admission
from windlass.engines.sqlite.rows import decode_extra, encode_failure, needs_of
from windlass.engines.sqlite.statements import sql
from windlass.engines.sqlite.tx import Tx

log = logging.getLogger(__name__)

HEADS, TAKE, HELD = sql("claim_heads"), sql("claim_take"), sql("claim_held")
STREAMS, GATES, TICKET = sql("stream_all"), sql("gate_all"), sql("card_ticket")
CARD, DUE_FIRST = sql("card_read"), sql("due_first")


@lru_cache(maxsize=1024)
def _rule(key: str, value: bytes) -> Gate:
    """A gate's rule; one that cannot be read shuts its own streams and nobody else's."""
    try:
        return read_gate(value)
    except BadValue as error:
        log.warning("The rule of %s cannot be read and shuts it: %s", key, error)
        return Gate(paused=True)


_encode = msgspec.json.Encoder().encode
_card_of = msgspec.json.Decoder(Card).decode


@lru_cache(maxsize=256)
def tasks_of(card: bytes) -> frozenset[str] | None:
    """The tasks a stored card lists; None: all."""
    tasks = _card_of(card).tasks
    return None if tasks is None else frozenset(tasks)


class Head:
    """A ready job at the front of a stream, with its columns as claim_heads gives them."""

    __slots__ = ("columns", "key_clears", "needs", "seq", "stream")

    def __init__(self, stream: int, columns: tuple[Any, ...], needs: Needs) -> None:
        self.stream = stream
        self.columns = columns
        self.needs = needs
        self.seq: int = columns[16]
        self.key_clears: str | None = columns[18]

    @property
    def due_us(self) -> int:
        """Since when it waits."""
        return self.columns[11]


def claim(tx: Tx, order: Order, limits: Limits, *, leased: bool) -> Claims:
    """Claims up to `limit` jobs, or repeats the answer to a ticket it has answered before."""
    tasks, ticket = _card(tx, order, leased=leased)
    if order.ticket == ticket:
        held = tx.run(HELD, (order.worker, ticket)).fetchall()
        return Claims(claims=tuple(_shown(columns) for columns in held))
    if order.ticket < ticket:
        raise TicketOutOfOrder(
            f"Ticket {order.ticket} is older than the worker's last, {ticket}.",
            "Count tickets up by one for every new claim.",
        )
    admission = Admission(tx, limits)
    due = tx.run(DUE_FIRST).fetchone()
    moved = due is not None and due[0] <= tx.now_us
    if moved:
        admission.come_due(BATCH)
        tx.flush()
        due = tx.run(DUE_FIRST).fetchone()
    claims, again_us = _take(admission, order, tasks)
    if claims:
        tx.run(TICKET, (order.worker, order.ticket))
    # An empty-handed claim leaves no trace, so that an idle worker costs the disk nothing.
    tx.idle = not claims and not tx.counts and not moved
    if tx.idle:
        tx.commits -= 1
    times = [at for at in (again_us, None if due is None else due[0]) if at is not None]
    return Claims(claims=tuple(claims), wait_us=max(0, min(times) - tx.now_us) if times else None)


def _card(tx: Tx, order: Order, *, leased: bool) -> tuple[frozenset[str] | None, int]:
    found = tx.run(CARD, (order.worker,)).fetchone()
    if found is None or found[5]:
        raise WorkerGone(
            f"The store holds no card of worker {show_id(order.worker)}.",
            "Announce the worker with a first beat; after a sweep it needs a new id.",
        )
    card, _, seen_us, _, lease_us, _, ticket = found
    if leased and seen_us + lease_us < tx.now_us:
        raise LeaseExpired(f"The lease of worker {show_id(order.worker)} has run out.", "Renew it, then claim again.")
    return order.among(tasks_of(card)), ticket


def _take(admission: Admission, order: Order, tasks: frozenset[str] | None) -> tuple[list[Claim], int | None]:
    tx = admission.tx
    gates = Gates(tx)
    streams: dict[int, Stream] = {}
    late: list[tuple[bool, int]] = []
    for columns in tx.run(STREAMS).fetchall():
        stream = Stream(*columns)
        gates.count(stream, stream.running)
        if not stream.ready or bool(stream.suspect) is not order.suspects:
            continue
        if order.queues is not None and stream.queue not in order.queues:
            continue
        if stream.task and tasks is not None and stream.task not in tasks:
            continue
        streams[stream.id] = stream
    limit = 1 if order.suspects else min(order.limit, BATCH)
    budget = Budget(limit, gates.places(streams.values()), order.free, order.total)
    candidates = [
        Candidate(stream.gates, stream.least, _heads(tx, stream, tasks, budget.total, late))
        for stream in streams.values()
    ]
    bound_us = aging_bound_us(admission.limits.aging_step_us)
    taken = pick(candidates, budget, tx.now_us - bound_us, lambda head: head.due_us, lambda head: head.needs)
    claims = _mark(admission, taken, order)
    for head in taken:
        streams[head.stream].ready -= 1
    gates.spend(budget.spent)
    if _set_aside(admission, late) or len(claims) < len(taken):
        return claims, tx.now_us
    return claims, gates.again_us(stream for stream in streams.values() if stream.ready)


class Stream:
    """A stream with jobs, as claim sees it."""

    __slots__ = ("gate", "gates", "id", "needs", "queue", "ready", "running", "suspect", "task")

    def __init__(
        self, id_: int, queue: str, gate: str, needs: str, task: str, suspect: int, ready: int, running: int
    ) -> None:
        self.id = id_
        self.queue = queue
        self.gate = gate
        self.needs = needs
        self.task = task
        self.suspect = suspect
        self.ready = ready
        self.running = running
        self.gates = (f"queue/{queue}", f"gate/{gate}") if gate else (f"queue/{queue}",)

    @property
    def least(self) -> Needs:
        """The least that a job of it needs."""
        if not self.needs:
            return ()
        return read_needs(self.needs) if self.task else least_of(read_needs(self.needs))


class Gates:
    """The gates that have a rule, with their buckets and how many of their jobs run. Most stores have none."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        found = tx.run(GATES, (tx.now_us,)).fetchall()
        self._rules = {key: _rule(key, value) for key, value, _ in found}
        self._tats = {key: tat_us for key, _, tat_us in found}
        self._running = dict.fromkeys(self._rules, 0)

    def count(self, stream: Stream, running: int) -> None:
        for name in stream.gates if self._rules else ():
            if name in self._rules:
                self._running[name] += running

    def _ways(self, streams: Iterable[Stream]) -> dict[str, Opening]:
        names = {name for stream in streams for name in stream.gates if name in self._rules}
        now_us = self._tx.now_us
        return {name: opening(self._rules[name], self._tats[name], self._running[name], now_us) for name in names}

    def places(self, streams: Iterable[Stream]) -> dict[str, int | None]:
        """How many may pass each gate."""
        return {name: way.count for name, way in self._ways(streams).items()} if self._rules else {}

    def spend(self, spent: dict[str, int]) -> None:
        """Takes what was claimed out of the buckets, in the transaction that claims it."""
        for name, n in spent.items() if self._rules else ():
            if name not in self._rules:
                continue
            self._running[name] += n
            rate = self._rules[name].rate
            if rate is not None:
                self._tats[name] = rates.spend(rate, self._tats[name], self._tx.now_us, n)
                self._tx.run(sql("bucket_save"), (name, self._tats[name]))

    def again_us(self, streams: Iterable[Stream]) -> int | None:
        """When the clock opens a gate that jobs wait behind. What only a settle or a person opens gives no time:
        a worker told to look again at once would spin until then.
        """
        if not self._rules:
            return None
        times = [way.again_us for way in self._ways(streams).values() if way.count == 0]
        return min((at_us for at_us in times if at_us is not None and at_us > self._tx.now_us), default=None)


def _heads(
    tx: Tx, stream: Stream, tasks: frozenset[str] | None, total: Mapping[str, int], late: list[tuple[bool, int]]
) -> Iterator[tuple[int, Head]]:
    """The jobs this worker can run. What has expired, or is of a task that it does not want, or larger than the worker,
    is left for `_set_aside`.
    """
    left = BATCH
    for columns in tx.run(HEADS, (stream.id, tx.now_us)):
        task, rank, seq, expires_us = columns[2], columns[15], columns[16], columns[17]
        expired = expires_us is not None and expires_us <= tx.now_us
        needs = needs_of(columns[14]) if stream.needs else ()
        if expired or (tasks is not None and task not in tasks) or (needs and not fits(needs, total)):
            late.append((expired, seq))
            left -= 1
            if not left:
                return
        else:
            yield rank, Head(stream.id, columns, needs)


def _set_aside(admission: Admission, late: list[tuple[bool, int]]) -> bool:
    """Ends what has expired; parks the others, once, each in a stream of its own task and needs.

    There only those look who want the task and have as much: it stands in nobody's way again, and needs no freeing.
    True if there is more to look at, at once: a bound was reached, or an end may have let the next one of a lane in.
    """
    for expired, seq in late:
        row = rows.by_seq(admission.tx.connection, seq)
        # The end of one may have ended others that were waiting behind it in its lane.
        if row is None or row.state != READY:
            continue
        if expired:
            admission.end(row, State.EXPIRED.value)
        else:
            admission.park(row)
    return len(late) >= BATCH or any(expired for expired, _ in late)


def _mark(admission: Admission, taken: list[Head], order: Order) -> list[Claim]:
    """Takes the jobs; a damaged record is set aside as dead, reported, and the queue goes on."""
    tx = admission.tx
    claims: list[Claim] = []
    damaged: list[int] = []
    if taken:
        tx.run(TAKE, (_encode([head.seq for head in taken]), order.worker, order.ticket, tx.now_us))
    for head in taken:
        task, queue = head.columns[2], head.columns[3]
        stream = tx.streams[head.stream]
        stream[0] -= 1
        stream[1] += 1
        tx.counts[queue, task, READY] -= 1
        tx.counts[queue, task, RUNNING] += 1
        if head.key_clears == "start":
            tx.run(sql("key_clear"), (head.seq,))
        try:
            claims.append(_shown(head.columns))
        except msgspec.DecodeError as error:
            log.warning("Job %s is damaged (%s) and was set aside as dead.", show_id(head.columns[0]), error)
            damaged.append(head.seq)
    for seq in damaged:
        row = rows.by_seq(tx.connection, seq)
        assert row is not None
        row.failure = encode_failure(rows.DAMAGED)
        admission.end(row, State.DEAD.value, reason="corrupt")
    return claims


def _shown(columns: tuple[Any, ...]) -> Claim:
    return Claim(
        id=columns[0],
        fence=columns[1],
        task=columns[2],
        queue=columns[3],
        payload=columns[4],
        options=columns[5] or b"",
        attempt=columns[6],
        crashes=columns[7],
        losses=columns[8],
        suspect=bool(columns[9]),
        priority=columns[10],
        due_us=columns[11],
        lane=columns[12],
        flow=columns[13],
        needs=() if columns[14] is None else decode_extra(columns[14]).needs,
    )
