"""claim: take ready jobs for a worker, in the order of rank, through the gates that are open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from windlass.core import rates
from windlass.core.errors import LeaseExpired, TicketOutOfOrder, WorkerGone
from windlass.core.gates import Opening, fits, opening
from windlass.core.ids import show_id
from windlass.core.job import State
from windlass.core.pick import Budget, Candidate, pick
from windlass.core.rank import aging_bound_us, next_fence
from windlass.engines.memory.admission import Admission
from windlass.engines.memory.store import Desk, Row, Store, Stream
from windlass.engines.protocol import BATCH, Claim, Claims, Order


def claim(admission: Admission, order: Order, now_us: int) -> Claims:
    """Claims up to `limit` jobs, or repeats the answer to a ticket it has answered before."""
    store = admission.store
    desk = _desk(store, order, now_us)
    if order.ticket == desk.ticket:
        held = [row for row in desk.running.values() if row.ticket == order.ticket]
        return Claims(claims=tuple(_shown(row) for row in held))
    if order.ticket < desk.ticket:
        raise TicketOutOfOrder(
            f"Ticket {order.ticket} is older than the worker's last, {desk.ticket}.",
            "Count tickets up by one for every new claim.",
        )
    admission.come_due(now_us, BATCH)
    claimed, again_us = _take(admission, desk, order, now_us)
    if claimed:
        # An empty-handed claim leaves no trace: it may be repeated as a new one.
        desk.ticket = order.ticket
    return Claims(claims=tuple(map(_shown, claimed)), wait_us=_wait_us(store, again_us, now_us))


def _desk(store: Store, order: Order, now_us: int) -> Desk:
    desk = store.desks.get(order.worker)
    if desk is None or desk.lost:
        raise WorkerGone(
            f"The store holds no card of worker {show_id(order.worker)}.",
            "Announce the worker with a first beat; after a sweep it needs a new id.",
        )
    if desk.seen_us + desk.card.lease_us < now_us:
        raise LeaseExpired(f"The lease of worker {show_id(order.worker)} has run out.", "Renew it, then claim again.")
    return desk


def _take(admission: Admission, desk: Desk, order: Order, now_us: int) -> tuple[list[Row], int | None]:
    store = admission.store
    tasks = order.among(None if desk.card.tasks is None else frozenset(desk.card.tasks))
    streams = [stream for stream in list(store.streams.values()) if _wanted(stream, order, tasks)]
    places = {name: way.count for name, way in _ways(store, streams, now_us)}
    limit = 1 if order.suspects else min(order.limit, BATCH)
    budget = Budget(limit, places, order.free, order.total)
    seen: list[Row] = []
    cut: list[Stream] = []
    candidates = [
        Candidate(stream.gates, stream.least, _heads(admission, stream, tasks, budget.total, now_us, seen, cut))
        for stream in streams
    ]
    bound_us = aging_bound_us(admission.limits.aging_step_us)
    taken = pick(candidates, budget, now_us - bound_us, lambda row: row.due_us, lambda row: row.request.needs)
    for row in seen:
        if row.state is State.READY and row.stream is not None and row not in taken:
            store.enter(row, row.stream)
    for row in taken:
        _mark(store, row, desk, order, now_us)
    for name, n in budget.spent.items():
        rate = store.gate(name, now_us).rate
        if rate is not None:
            store.buckets[name] = rates.spend(rate, store.buckets.get(name, 0), now_us, n)
    return taken, now_us if cut else _again_us(store, streams, now_us)


def _ways(store: Store, streams: list[Stream], now_us: int) -> Iterator[tuple[str, Opening]]:
    """What each gate of these streams lets through now."""
    for name in {gate for stream in streams for gate in stream.gates}:
        gate = store.gate(name, now_us)
        yield name, opening(gate, store.buckets.get(name, 0), store.running_at(name), now_us)


def _again_us(store: Store, streams: list[Stream], now_us: int) -> int | None:
    """When the clock opens a gate that jobs wait behind. What only a settle or a person opens gives no time:
    a worker told to look again at once would spin until then.
    """
    waiting = [stream for stream in streams if stream.ready]
    times = [way.again_us for _, way in _ways(store, waiting, now_us) if way.count == 0]
    return min((at_us for at_us in times if at_us is not None and at_us > now_us), default=None)


def _wanted(stream: Stream, order: Order, tasks: frozenset[str] | None) -> bool:
    queue, _, _, task, suspects = stream.key
    if not stream.ready or suspects is not order.suspects:
        return False
    if order.queues is not None and queue not in order.queues:
        return False
    return task is None or tasks is None or task in tasks


def _heads(
    admission: Admission,
    stream: Stream,
    tasks: frozenset[str] | None,
    total: Mapping[str, int],
    now_us: int,
    seen: list[Row],
    cut: list[Stream],
) -> Iterator[tuple[int, Row]]:
    """The jobs this worker can run. What has expired ends here; one that it does not want or has no room for is parked.

    A parked job moves, once, to a stream of its own task and needs, where only those look who want the task and have
    as much: it never stands in anybody's way again, and needs no freeing when such a worker comes. A stream whose bound
    was reached, or where an end may have let the next one of a lane in, is noted in `cut`: there is more to
    look at, at once.
    """
    set_aside = 0
    for rank, row in stream.heads():
        if row.expires_us is not None and row.expires_us <= now_us:
            admission.end(row, State.EXPIRED, now_us)
            set_aside += 1
            cut.append(stream)
        elif (tasks is not None and row.request.task not in tasks) or _is_larger(row, total):
            admission.park(row)
            set_aside += 1
        else:
            seen.append(row)
            yield rank, row
        if set_aside >= BATCH:
            cut.append(stream)
            return


def _is_larger(row: Row, total: Mapping[str, int]) -> bool:
    needs = row.request.needs
    return bool(needs) and not fits(needs, total)


def _mark(store: Store, row: Row, desk: Desk, order: Order, now_us: int) -> None:
    stream = row.stream
    assert stream is not None
    stream.ready -= 1
    stream.running += 1
    store.turn(row, State.RUNNING)
    row.fence = next_fence(row.fence, now_us)
    row.worker, row.ticket = order.worker, order.ticket
    row.claimed_us, row.started_us = now_us, None
    if row.request.unique is not None and row.request.unique.until == "start":
        store.clear_key(row)
    desk.running[row.request.id] = row


def _wait_us(store: Store, again_us: int | None, now_us: int) -> int | None:
    due_us = store.scheduled[0][0] if store.scheduled else None
    times = [at for at in (again_us, due_us) if at is not None]
    return max(0, min(times) - now_us) if times else None


def _shown(row: Row) -> Claim:
    request = row.request
    return Claim(
        id=request.id,
        fence=row.fence,
        task=request.task,
        queue=row.queue,
        payload=request.payload,
        options=request.options,
        attempt=row.attempt,
        crashes=row.crashes,
        losses=row.losses,
        suspect=row.suspect,
        priority=request.priority,
        due_us=row.due_us,
        lane=request.lane,
        flow=request.flow,
        needs=request.needs,
    )
