"""claim + settle through the engine, a hundred at a time, as a worker without any task would do it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import bare
from bench.rounds import Contestant, Course, Figure, Round, Stopwatch, alternate, throughput
from bench.stores import LANES, LIMITS, PLAIN, RAN_US, RESULT, Stock
from windlass.core.ids import new_id
from windlass.engines.protocol import BATCH, Beat, Card, Order, Settlement, Verdict
from windlass.engines.sqlite import SqliteEngine

JOBS = 20_000


def claim_settle(course: Course) -> list[Round]:
    """Our claim and settle beside the bare loop's, by throughput."""
    jobs = course.size(JOBS)
    stock = Stock(plain=jobs)
    ours = Contestant("ours", stock, drain, jobs)
    other = Contestant("bare", stock, bare.drain, jobs)
    return alternate(course, ours, other, throughput, rounds=5)


def drain(path: Path, sizes: Sequence[int]) -> Iterator[Figure]:
    """Claims and settles so many jobs from whatever queue they lie in, the oldest first."""
    return _drain(path, sizes, None, PLAIN)


def drain_lanes(path: Path, sizes: Sequence[int]) -> Iterator[Figure]:
    """Claims and settles so many lane jobs; each end lets the next of its lane in."""
    return _drain(path, sizes, (LANES,), LANES)


def _drain(path: Path, sizes: Sequence[int], queues: tuple[str, ...] | None, expected: str) -> Iterator[Figure]:
    engine, worker, ticket, wrong = SqliteEngine(path, LIMITS), new_id(), 0, 0
    engine.open()
    engine.renew(Beat(card=Card(worker=worker), beat=0))
    for jobs in sizes:
        left = jobs
        watch = Stopwatch()
        while left:
            ticket += 1
            order = Order(worker=worker, ticket=ticket, limit=min(left, BATCH), queues=queues)
            claims = engine.claim(order).claims
            verdicts = engine.settle(
                [Settlement(id=claim.id, fence=claim.fence, result=RESULT, ran_us=RAN_US) for claim in claims]
            )
            left -= order.limit
            wrong += order.limit - verdicts.count(Verdict.ACCEPTED) + (claims[-1].queue != expected)
        yield watch.stop(jobs)
    engine.close()
    if wrong:
        raise RuntimeError(f"{wrong} jobs were not there, not settled, or from another queue.")
