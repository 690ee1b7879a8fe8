"""Leases on a real server: who stands still or is cut off loses its jobs, and nobody does by an outage of all."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.redis.works import Works
from tests.servers.namespace import Namespace
from tests.servers.proxy import Proxy
from tests.servers.redis_server import RedisServer
from tests.soak import frozen
from tests.soak.waiting import wait_for
from windlass.core.job import State

LEASE_S = 1.5


def test_a_supervisor_that_stands_still_for_three_leases_has_one_effect(valkey: Namespace, tmp_path: Path) -> None:
    assert not frozen.run_round(tmp_path, "lease", valkey.url).violations


def test_a_supervisor_that_is_cut_off_for_three_leases_has_one_effect(
    valkey_server: RedisServer, valkey: Namespace, tmp_path: Path
) -> None:
    with Proxy(valkey_server.port) as proxy:
        assert not frozen.run_round(tmp_path, "lease", f"{valkey.url}&timeout=1", proxy).violations


def test_an_outage_longer_than_the_lease_takes_nobodys_job(
    new_server: Callable[..., RedisServer], tmp_path: Path
) -> None:
    """When it is over everybody renews first: whoever is there is not taken for dead by who was quicker."""
    server = new_server(appendonly="always")
    leases = {"lease": f"{LEASE_S}s", "beat": f"{LEASE_S / 5}s", "sweep": "0.1s"}
    with Works(tmp_path, Namespace(server.url(), "n"), **leases) as works:
        for _ in range(2):
            works.worker(slots=1)
        held = works.send(2, "hold")
        for job in held:
            works.wait_begun(job)
        server.kill()
        time.sleep(2 * LEASE_S)
        server.start()
        works.send(10)
        time.sleep(1.5 * LEASE_S)  # all may judge again by now, and nobody is dead
        assert [works.record(job).state for job in held] == [State.RUNNING] * 2
        for job in held:
            works.let_go(job)
        wait_for("held jobs to end", lambda: all(works.record(job).state is State.SUCCEEDED for job in held))
        works.check()
