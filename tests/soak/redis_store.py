"""What a namespace on a server holds when everybody has gone: all jobs, the counters, and keys that were left."""

from __future__ import annotations

from collections import Counter

from tests.servers.histories import HISTORY, STAYS
from tests.servers.namespace import Namespace
from tests.soak.checker import Store
from tests.soak.store import all_jobs
from windlass.core.job import Job, State
from windlass.engines.connect import connect
from windlass.engines.protocol import Engine, Hint, Sweep, TallyQuery

SHELVES = {"counts", "purge", "purgeok"}
KEPT = (*HISTORY, "j:", "r:", "x:", "a:", "lh:", "lt:", "st:", "e:", "fp:", "la:", "flow:", "fn:")
"""What a job that has ended keeps until its time is over."""


def look(namespace: Namespace) -> Store:
    """Reads it all, and looks for what should have gone with the last job and the last worker."""
    engine = connect(namespace.url)
    engine.open()
    try:
        jobs = all_jobs(engine)
        _sweep_up(engine, jobs)
        counts: Counter[tuple[str, str, State]] = Counter()
        for count in engine.tally(TallyQuery()).counts:
            counts[count.queue, count.task, count.state] += count.n
    finally:
        engine.close()
    return Store(jobs=jobs, counts=counts, integrity=_mortal(namespace) or ["ok"], leftovers=_left(namespace))


def _sweep_up(engine: Engine, jobs: dict[str, Job]) -> None:
    """What a later sweep and a later send would do: those who were killed while they listened are forgotten."""
    while engine.sweep(Sweep()).more:
        pass
    engine.signal([Hint(kind="work", queue=queue) for queue in {job.request.queue for job in jobs.values()}])


def _left(namespace: Namespace) -> list[str]:
    ours = STAYS | SHELVES
    return [f"the key {name!a}" for name in namespace.names() if name not in ours and not name.startswith(KEPT)]


def _mortal(namespace: Namespace) -> list[str]:
    """Keys that the server would remove by itself: it must never."""
    keys = namespace.keys()
    with namespace.client() as client:
        return [f"{key!a} has a TTL" for key in keys if client.ttl(key) != -1]
