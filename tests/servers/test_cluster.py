"""A real Cluster loses a master and goes on."""

from __future__ import annotations

import pytest
import redis

from tests.servers.cluster import Cluster
from tests.servers.namespace import Namespace

KEY = "{jobs}:meta"


def test_a_lost_master_is_replaced_and_follows_when_it_is_back(own_cluster: Cluster) -> None:
    cluster = own_cluster
    first = cluster.master_of(KEY)
    elsewhere = next(node for node in cluster.nodes if node is not first)
    with elsewhere.client() as client, pytest.raises(redis.ResponseError, match=str(first.port)):
        client.get(KEY)
    with cluster.client(KEY) as client:
        client.set(KEY, "kept")
        assert client.wait(1, 10_000) == 1
    lost = cluster.kill_master_of(KEY)
    assert lost is first
    promoted = cluster.wait_for_promotion(KEY, lost)
    with cluster.client(KEY) as client:
        assert client.get(KEY) == b"kept"
        client.set(KEY, "changed")
    lost.start()
    cluster.wait_until_ok()
    assert cluster.master_of(KEY) is promoted
    with lost.client() as client:
        assert client.info("replication")["master_port"] == promoted.port


def test_a_frozen_master_is_replaced_and_finds_out_when_it_wakes(own_cluster: Cluster) -> None:
    frozen = own_cluster.master_of(KEY)
    frozen.freeze()
    promoted = own_cluster.wait_for_promotion(KEY, frozen)
    frozen.thaw()
    own_cluster.wait_until_ok()
    assert own_cluster.master_of(KEY) is promoted


def test_a_test_has_a_namespace_of_its_own_in_the_shared_one(cluster: Namespace) -> None:
    with cluster.client() as client:
        client.set(f"{{{cluster.name}}}:meta", "x")
        client.set(f"{{{cluster.name}}}:jobs", "x")
    assert len(cluster.keys()) == 2
    assert cluster.url.startswith("redis+cluster://127.0.0.1:")
    assert cluster.url.endswith(f"?namespace={cluster.name}")
