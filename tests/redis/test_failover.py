"""A master is lost under load: workers follow its replica, and whatever had reached it runs to its end.

What was acknowledged and had not reached the replica is lost, whatever is set. So only inserts are waited for here;
claims and ends of the last moment may be lost, and then a job runs again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.redis.works import Works
from tests.servers.cluster import MASTERS, Cluster
from tests.servers.namespace import Namespace
from tests.servers.redis_server import RedisServer
from tests.servers.sentinel import Watched
from tests.soak.waiting import wait_for
from windlass.core.ids import new_id
from windlass.core.job import Job, Request
from windlass.engines.protocol import Hint, Interest
from windlass.engines.redis import RedisEngine, read_address

NAME = "n"
KEY = f"{{{NAME}}}"


def lose_master_under_load(works: Works, master: RedisServer, promote: Callable[[], object]) -> None:
    """Its replica has all that was sent; one job runs from before to after, others are in the middle of it."""
    for _ in range(2):
        works.worker()
    (held,) = works.send(1, "hold")
    works.wait_begun(held)
    works.send(60)
    with master.client() as client:
        assert client.wait(1, 60_000) == 1
    works.wait_runs(10)
    master.kill()
    promote()
    works.send(20)
    works.let_go(held)
    works.check_ended()


def test_workers_follow_the_replica_that_a_sentinel_promotes(own_watched: Watched, tmp_path: Path) -> None:
    master = own_watched.wait_for_master()
    with Works(tmp_path, Namespace(own_watched.url(), NAME)) as works:
        lose_master_under_load(works, master, lambda: own_watched.wait_for_promotion(master))


def test_workers_follow_the_node_that_takes_their_slot_over(own_cluster: Cluster, tmp_path: Path) -> None:
    master = own_cluster.master_of(KEY)
    with Works(tmp_path, Namespace(own_cluster.url(), NAME)) as works:
        lose_master_under_load(works, master, lambda: own_cluster.wait_for_promotion(KEY, master))


def test_who_listens_follows_a_slot_to_a_master_that_took_it_over_in_peace(own_cluster: Cluster) -> None:
    """The old one lives on, and so does the line to it; but scripts publish to who listens at the new one."""
    engine = RedisEngine(read_address(own_cluster.url()))
    engine.open()
    master = own_cluster.master_of("{windlass}")
    replica = own_cluster.nodes[own_cluster.nodes.index(master) + MASTERS]
    job = Request(id=new_id(), task="t", queue="q")
    engine.insert([Job(request=job)])
    channel = b"{windlass}:end:" + job.id
    try:
        with ThreadPoolExecutor() as threads, master.client() as old, replica.client() as new:
            heard = threads.submit(engine.listen, Interest(ends=frozenset({job.id})), 60)
            wait_for("somebody to listen", lambda: old.pubsub_numsub(channel)[0][1] == 1)
            new.execute_command("CLUSTER", "FAILOVER")
            wait_for("the failover", lambda: own_cluster.master_of("{windlass}") is replica)
            wait_for("who listens to follow", lambda: new.pubsub_numsub(channel)[0][1] == 1)
            engine.signal([Hint(kind="end", id=job.id)])
            assert heard.result(60) == [Hint(kind="end", id=job.id)]
    finally:
        engine.close()
