"""No script touches much more than a hundred jobs, whatever is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.servers.namespace import Namespace
from windlass.core.job import Edge, Outcome, State
from windlass.core.lifecycle import Standing, decide
from windlass.engines.protocol import BATCH, Query, Settlement, Verdict
from windlass.engines.redis import RedisEngine, read_address
from windlass.testing.conformance import Harness


@pytest.fixture
def harness(valkey: Namespace) -> Iterator[Harness]:
    yield from Harness.run(lambda limits: RedisEngine(read_address(valkey.url), limits))


def scripts(valkey: Namespace, what: Callable[[], object]) -> int:
    """How many scripts it takes."""
    with valkey.client() as client:
        client.config_resetstat()
        what()
        return client.info("commandstats")["cmdstat_evalsha"]["calls"]


def test_follow_ups_of_many_settlements_are_too_many_for_one_script(harness: Harness, valkey: Namespace) -> None:
    harness.send_many(4)
    worker = harness.worker()
    claims = harness.claim(worker)
    harness.finish(claims.pop())  # the script is there
    settlements = [
        Settlement(
            id=claim.id,
            fence=claim.fence,
            outcome=Outcome.SUCCEEDED,
            transition=decide(Outcome.SUCCEEDED, Standing()),
            follow_ups=tuple(harness.new() for _ in range(BATCH // 2)),
        )
        for claim in claims
    ]
    verdicts: list[Verdict] = []
    assert scripts(valkey, lambda: verdicts.extend(harness.settle(*settlements))) == 3
    assert verdicts == [Verdict.ACCEPTED] * 3
    assert harness.count(Query(state=State.READY)) == 3 * BATCH // 2


def test_jobs_with_many_parents_are_inserted_in_several_scripts(harness: Harness, valkey: Namespace) -> None:
    edges = tuple(map(Edge, harness.send_many(300)))
    children = [harness.new(parents=edges) for _ in range(9)]
    assert scripts(valkey, lambda: harness.engine.insert(children)) == 2 * 3
    assert harness.count(Query(state=State.HELD)) == 9


def test_a_claim_sets_a_hundred_jobs_aside_whatever_the_number_of_queues(harness: Harness, valkey: Namespace) -> None:
    for queue in ("one", "two"):
        harness.send_many(BATCH, "other", queue=queue)
    worker = harness.worker(tasks=("known",))
    assert harness.order(worker).wait_us == 0
    with valkey.client() as client:
        prefix = f"{{{valkey.name}}}:s:"
        assert sum(client.zcard(f"{prefix}{queue}|||other|0") for queue in ("one", "two")) == BATCH
    assert harness.claim_all(worker) == []


def test_a_lane_that_becomes_wide_lets_its_jobs_in_by_several_scripts(harness: Harness) -> None:
    harness.send_many(5 * BATCH, lane="l")
    harness.engine.insert([harness.new(lane="l", lane_limit=1_000) for _ in range(5)])
    assert harness.count(Query(state=State.READY)) <= 2 * BATCH + 1
    harness.sweep_all()
    assert harness.count(Query(state=State.READY)) == 5 * BATCH + 5


def test_a_search_over_many_shelves_reads_few_records_of_each(harness: Harness, valkey: Namespace) -> None:
    sent = [harness.send(f"task{n}") for _ in range(5) for n in range(BATCH)]
    harness.drain(harness.worker())
    with valkey.client() as client:
        client.config_resetstat()
        page = harness.engine.search(Query(state=State.SUCCEEDED, limit=20))
        assert client.info("stats")["keyspace_hits"] < 3 * BATCH
    assert len(page.jobs) == 20
    assert {job.id for job in harness.find(Query(state=State.SUCCEEDED))} == set(sent)


def test_a_worker_with_thousands_of_jobs_may_repeat_a_claim(harness: Harness, valkey: Namespace) -> None:
    worker, job_id = harness.worker(), harness.send()
    harness.claim(worker)
    with valkey.client() as client:
        key = f"{{{valkey.name}}}:w:{worker.hex()}"
        client.zadd(key, {n.to_bytes(16, "big"): n for n in range(10_000)})
        assert [claim.id for claim in harness.repeat(worker).claims] == [job_id]
        client.delete(key)
