"""Which node has our keys: Clusters and Sentinels, whose masters are lost and come back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.servers.cluster import MASTERS, Cluster
from tests.servers.namespace import Namespace
from tests.servers.sentinel import Watched
from tests.soak.waiting import wait_for
from windlass.core.errors import StoreUnavailable, UnfitServer
from windlass.engines.redis.examine import admit, examine, look
from windlass.engines.redis.link import Link
from windlass.engines.redis.script import Script

COUNT = Script("count", b"return redis.call('INCR', KEYS[1])")
SAY = Script("say", b"return redis.call('PUBLISH', ARGV[1], ARGV[2])")

Connect = Callable[[str], Link]


def goes(link: Link) -> bool:
    try:
        return link.run(COUNT, [], repeat=True) > 0
    except StoreUnavailable:
        return False


def test_every_namespace_finds_its_node_in_a_cluster(cluster_servers: Cluster, connect: Connect) -> None:
    ports: set[int] = set()
    for name in ("a", "b", "c", "d", "e", "f"):
        link = connect(cluster_servers.url(name))
        before = link.run(COUNT, [], repeat=False)
        assert link.run(COUNT, [], repeat=False) == before + 1
        link.ask(b"DEL", link.address.meta_key)
        ports.add(cluster_servers.master_of(f"{{{name}}}").port)
    assert len(ports) > 1


def test_an_ear_in_a_cluster_hears_the_node_that_runs_our_scripts(cluster: Namespace, connect: Connect) -> None:
    link = connect(cluster.url)
    ear = link.subscription()
    ear.listen_on(frozenset([b"one"]))
    assert link.run(SAY, [b"one", b"hello"], repeat=True) == 1
    assert ear.wait(30) == [(b"one", b"hello")]


def test_a_plain_url_to_a_node_of_a_cluster_is_refused(cluster_servers: Cluster, connect: Connect) -> None:
    stranger = next(node for node in cluster_servers.nodes if node is not cluster_servers.master_of("{windlass}"))
    link = connect(stranger.url())
    with pytest.raises(UnfitServer, match="is a node of a Cluster"):
        link.run(COUNT, [], repeat=True)
    owner = connect(cluster_servers.master_of("{windlass}").url())
    with pytest.raises(UnfitServer, match="is a node of a Cluster"):
        admit(examine(look(owner, []), owner.address))


def test_a_cluster_is_admitted_and_its_failover_spoken_of(cluster: Namespace, connect: Connect) -> None:
    link = connect(cluster.url)
    found = {finding.name for finding in examine(look(link, []), link.address)}
    assert "failover" in found


def test_a_lost_node_of_a_cluster_is_replaced_by_its_replica(own_cluster: Cluster, connect: Connect) -> None:
    link = connect(own_cluster.url())
    told: list[bytes] = []
    link.on_new_server(lambda: told.append(link.run_id))
    assert goes(link)
    ear = link.subscription()
    ear.listen_on(frozenset([b"one"]))
    lost = own_cluster.kill_master_of("{windlass}")
    with pytest.raises(StoreUnavailable):
        ear.wait(3_600)
    wait_for("the replica to serve", lambda: goes(link))
    assert told == [link.run_id]
    assert own_cluster.master_of("{windlass}") is not lost
    ear = link.subscription()
    ear.listen_on(frozenset([b"one"]))
    assert link.run(SAY, [b"one", b"hello"], repeat=True) == 1
    lost.start()
    own_cluster.wait_until_ok()
    assert goes(link)


def test_a_slot_that_was_given_to_another_master_is_followed(own_cluster: Cluster, connect: Connect) -> None:
    link = connect(own_cluster.url())
    assert goes(link)
    master = own_cluster.master_of("{windlass}")
    replica = own_cluster.nodes[own_cluster.nodes.index(master) + MASTERS]
    with replica.client() as client:
        client.execute_command("CLUSTER", "FAILOVER")
    wait_for("the failover", lambda: own_cluster.master_of("{windlass}") is replica)
    own_cluster.wait_until_ok()
    assert link.run(COUNT, [], repeat=False) == 2  # MOVED means that nothing was done


def test_a_promoted_replica_is_found_through_its_sentinels(own_watched: Watched, connect: Connect) -> None:
    link = connect(own_watched.url())
    told: list[bytes] = []
    link.on_new_server(lambda: told.append(link.run_id))
    assert goes(link)
    lost = own_watched.kill_master()
    wait_for("the replica to serve", lambda: goes(link))
    assert told == [link.run_id]
    promoted = own_watched.wait_for_promotion(lost)
    with promoted.client() as client:
        assert int(client.get(link.address.meta_key)) >= 2
    lost.start()
    own_watched.wait_for_replica(lost)
    assert goes(link)


def test_sentinels_that_know_no_such_service_say_so(own_watched: Watched, connect: Connect) -> None:
    url = own_watched.url().replace("/service/", "/other/")
    with pytest.raises(StoreUnavailable, match="the sentinels know no such service"):
        connect(url).run(COUNT, [], repeat=True)
