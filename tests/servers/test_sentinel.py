"""Real Sentinels see a master die and promote its replica."""

from __future__ import annotations

from tests.servers.sentinel import Watched


def test_a_lost_master_is_replaced_and_follows_when_it_is_back(own_watched: Watched) -> None:
    watched = own_watched
    first = watched.wait_for_master()
    assert first is watched.servers[0]
    with first.client() as client:
        client.set("k", "kept")
        assert client.wait(1, 10_000) == 1
    lost = watched.kill_master()
    assert lost is first
    promoted = watched.wait_for_promotion(lost)
    with promoted.client() as client:
        assert client.get("k") == b"kept"
        client.set("k", "changed")
    lost.start()
    watched.wait_for_replica(lost)
    with lost.client() as client:
        assert client.get("k") == b"changed"
