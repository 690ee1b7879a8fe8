"""The ACL line of docs/engines/redis.md: it is enough for everything the engine does, and says nothing too much."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import redis.exceptions

from tests.redis.story import live_through_everything
from tests.servers import binaries
from tests.servers.namespace import Namespace
from tests.servers.redis_server import RedisServer
from windlass.core.job import State
from windlass.core.limits import Limits
from windlass.engines.protocol import Change, Query, TallyQuery
from windlass.engines.redis import RedisEngine, read_address
from windlass.engines.redis.commands import commands
from windlass.testing.conformance import Harness

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "engines" / "redis.md").read_text(encoding="utf-8")
WELCOME = {"client|setinfo", "client|setname", "config|get", "info"}
"""What is asked outside of scripts, and may be refused."""


def line() -> list[str]:
    """The words of the line after the user's name."""
    (found,) = re.findall(r"^user windlass (.*)$", PAGE, re.MULTILINE)
    return found.split()


def granted() -> set[str]:
    return {word[1:] for word in line() if word.startswith("+")}


def test_the_line_grants_what_scripts_call_and_the_link_asks_and_nothing_else() -> None:
    assert granted() == commands() | WELCOME


@pytest.mark.parametrize("binary", ["valkey", "redis62"])
def test_a_user_of_that_line_can_do_everything(binary: str, new_server: Callable[..., RedisServer]) -> None:
    server = new_server(getattr(binaries, binary)())
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "windlass", *line())
        password = next(word[1:] for word in line() if word.startswith(">"))
        url = f"redis://windlass:{password}@127.0.0.1:{server.port}"
        for harness in Harness.run(lambda limits: RedisEngine(read_address(url), limits), limits=Limits(log_bytes=200)):
            live_through_everything(harness, Namespace(server.url(), "windlass"))
            job = harness.job_in(State.DEAD)
            assert [found.id for found in harness.find(Query(state=State.DEAD))] == [job]
            assert harness.find(Query(tag="none")) == []
            harness.engine.tally(TallyQuery(span="minute"))
            assert harness.amend(Change.RETRY, job).changed == (job,)
        assert client.acl_log() == [], "nothing was refused, not even quietly"
        with (
            server.client(username="windlass", password=password) as own,
            pytest.raises(redis.exceptions.NoPermissionError),
        ):
            own.get("somebody-else")
