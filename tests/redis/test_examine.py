"""Whether a server can be trusted with jobs: what real ones say of themselves, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.servers import binaries
from tests.servers.redis_server import RedisServer
from windlass import App
from windlass.core.errors import AccessDenied, StoreError, UnfitServer
from windlass.core.ids import new_id
from windlass.engines.findings import Finding, Level, untold
from windlass.engines.redis.address import read_address
from windlass.engines.redis.commands import OF_LINK, called_in, commands
from windlass.engines.redis.examine import Seen, admit, examine, look
from windlass.engines.redis.link import Link

COMMANDS = {*OF_LINK, "hset", "publish", "zadd"}
PLAIN = read_address("redis://localhost")
GOOD = Seen(
    info={
        "redis_version": "8.8.0",
        "role": "master",
        "cluster_enabled": "0",
        "maxmemory_policy": "noeviction",
        "aof_enabled": "1",
        "connected_slaves": "0",
    },
    config={"appendfsync": "always", "save": ""},
)

Connect = Callable[[str], Link]
NewServer = Callable[..., RedisServer]


def but(**info: str) -> Seen:
    return msgspec.structs.replace(GOOD, info=GOOD.info | info)


def findings(seen: Seen, url: str = "redis://localhost") -> dict[str, Finding]:
    return {finding.name: finding for finding in examine(seen, read_address(url))}


# ── real servers ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["valkey", "redis62"])
def binary(request: pytest.FixtureRequest) -> Path:
    return binaries.valkey() if request.param == "valkey" else binaries.redis62()


def test_a_server_that_syncs_and_never_evicts_is_admitted(
    binary: Path, new_server: NewServer, connect: Connect
) -> None:
    server = new_server(binary, appendonly="always")
    link = connect(server.url())
    seen = look(link, COMMANDS)
    found = findings(seen)
    assert found["version"].said == ("Valkey 9.1.2." if seen.product == "Valkey" else "Redis 6.2.5.")
    assert found["durability"].level is Level.OK
    assert "appendfsync always" in found["durability"].said
    assert {name for name, finding in found.items() if finding.level is not Level.OK} <= {"flaws"}
    assert ("flaws" in found) == (seen.product == "Redis")  # 6.2.5 has the one in Lua
    with server.client() as client:
        assert client.dbsize() == 0  # nothing was written


def test_a_server_that_evicts_is_refused_and_told_the_remedy(
    binary: Path, new_server: NewServer, connect: Connect
) -> None:
    server = new_server(binary, config=["maxmemory-policy allkeys-lru"])
    link = connect(server.url())
    with pytest.raises(UnfitServer, match="maxmemory-policy is allkeys-lru") as caught:
        admit(examine(look(link, COMMANDS), link.address))
    assert "CONFIG SET maxmemory-policy noeviction" in caught.value.todo


def test_a_replica_is_refused_and_its_master_named(binary: Path, new_server: NewServer, connect: Connect) -> None:
    master = new_server(binary)
    link = connect(new_server(binary, config=[f"replicaof 127.0.0.1 {master.port}"]).url())
    with pytest.raises(UnfitServer, match=f"is a replica of 127.0.0.1:{master.port}"):
        admit(examine(look(link, COMMANDS), link.address))


@pytest.mark.parametrize(
    ("source", "called"),
    [
        ("local call = redis.call\ncall('HSET', KEYS[1], 'XX', 1)", {"hset"}),
        ("if call(first and 'SADD' or 'SREM', P .. 'queues', queue) == 0 then return end", {"sadd", "srem"}),
        ("local range = newest and 'ZREVRANGE' or 'ZRANGE'\ncall(range, P .. key, 0, 0)", {"zrange", "zrevrange"}),
        ("local function send(command, key, args) call(command, P .. key) end send('ZREM', key, gone)", {"zrem"}),
        ("call('PUBSUB', 'NUMSUB', P .. 'ear:' .. ear)", {"pubsub|numsub"}),
        ("local time = call('TIME')\nlocal fine = pcall(cmsgpack.unpack, packed)", {"time"}),
    ],
)
def test_a_script_tells_by_its_text_which_commands_it_calls(source: str, called: set[str]) -> None:
    assert set(called_in(source)) == called


def test_a_right_that_any_script_needs_is_missed_at_the_start(new_server: NewServer, connect: Connect) -> None:
    server = new_server()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all")
    link = connect(f"redis://ann:pw@127.0.0.1:{server.port}")
    assert look(link, commands()).missing == ()
    for right in sorted(commands() - {"eval", "evalsha"}):
        with server.client() as client:
            client.execute_command("ACL", "SETUSER", "ann", f"-{right}")
        assert look(link, commands()).missing == (f"+{right}",)
        with server.client() as client:
            client.execute_command("ACL", "SETUSER", "ann", f"+{right}")


def test_a_command_that_the_server_does_not_have_is_missed_like_a_right(
    new_server: NewServer, connect: Connect
) -> None:
    link = connect(new_server(config=['rename-command HRANDFIELD ""']).url())
    with pytest.raises(AccessDenied, match="The user 'default' may not run HRANDFIELD"):
        admit(examine(look(link, commands()), link.address))


@pytest.mark.parametrize(
    ("rights", "said", "todo"),
    [
        ("+@all -hset -zadd", "The user 'ann' may not run HSET, ZADD.", "Run: ACL SETUSER ann +hset +zadd"),
        ("+@all -eval", "The user 'ann' may not run EVAL.", "On the server: ACL SETUSER ann +eval"),
        (
            "+@all resetchannels",
            "The user 'ann' may not run PUBLISH, SUBSCRIBE.",
            "Run: ACL SETUSER ann +publish +subscribe '&{windlass}:*'",
        ),
    ],
)
def test_rights_that_scripts_will_need_are_missed_at_once(
    rights: str, said: str, todo: str, new_server: NewServer, connect: Connect
) -> None:
    server = new_server()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", *rights.split())
    link = connect(f"redis://ann:pw@127.0.0.1:{server.port}")
    with pytest.raises(AccessDenied) as caught:
        admit(examine(look(link, COMMANDS), link.address))
    assert (caught.value.message, caught.value.todo) == (said, todo)


def test_a_user_with_no_more_than_it_needs_is_admitted(binary: Path, new_server: NewServer, connect: Connect) -> None:
    server = new_server(binary)
    rights = (
        "~{windlass}:* resetchannels &{windlass}:* +eval +evalsha +ping +publish +subscribe +unsubscribe +hset +zadd"
    )
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "ann", "on", ">pw", *rights.split())
    link = connect(f"redis://ann:pw@127.0.0.1:{server.port}")
    (notice,) = admit(examine(look(link, COMMANDS), link.address))
    assert "does not tell about itself" in notice
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "ann", "+info")
    seen = look(link, COMMANDS)
    assert seen.config == {}
    assert "its settings are hidden" in findings(seen)["durability"].said


def test_no_question_about_a_right_harms_the_server(new_server: NewServer, connect: Connect) -> None:
    server = new_server()
    rights = "~{windlass}:* resetchannels +eval +evalsha"
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "ann", "on", ">pw", *rights.split())
        names: list[bytes] = connect(server.url()).ask(b"COMMAND", b"LIST")
        every = [name.decode().lower() for name in names]
        seen = look(connect(f"redis://ann:pw@127.0.0.1:{server.port}"), every)
        assert client.ping()
    assert len(every) > 200
    assert {"+hset", "+zadd", "+ping", "+publish", "+subscribe", "+unsubscribe"} <= set(seen.missing)


def test_a_server_without_config_is_asked_no_further(new_server: NewServer, connect: Connect) -> None:
    server = new_server(config=['rename-command CONFIG ""'])
    assert look(connect(server.url()), COMMANDS).config == {}


def test_a_process_says_once_what_there_is_to_say_of_a_store(
    new_server: NewServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = new_server()
    url = server.url(f"n{new_id().hex()}")

    def said() -> list[str]:
        return [record.getMessage() for record in caplog.records if "loses all jobs" in record.getMessage()]

    for _ in range(2):
        with App(url) as app:
            app.send("some.task")
    assert len(said()) == 1
    assert caplog.records[0].levelname == "WARNING"
    with App(url) as app:
        app.send("some.task")
        server.restart()
        for _ in range(2):  # the first finds out, the next one looks
            app.send("some.task")
    assert "was emptied: somebody has removed its keys" in caplog.text, "it was examined again"
    assert len(said()) == 1
    with App(f"{url}-other") as app, untold():
        app.send("some.task")
    assert len(said()) == 1


# ── what is made of what they say ───────────────────────────────────────────────────────────────────────────


def test_nothing_is_said_of_a_server_with_which_all_is_well() -> None:
    assert admit(examine(GOOD, PLAIN)) == ()


@pytest.mark.parametrize(
    ("seen", "url", "said"),
    [
        (but(redis_version="6.0.16"), "redis://a", "Redis 6.0.16 is too old."),
        (but(redis_version="5.0"), "redis://a", "Redis 5.0 is too old."),
        (but(role="slave"), "redis://a", "The server is a replica of unknown:?."),
        (but(cluster_enabled="1"), "redis://a", "The server is a node of a Cluster."),
        (but(maxmemory_policy="volatile-ttl"), "redis+cluster://a", "maxmemory-policy is volatile-ttl"),
    ],
)
def test_what_would_lose_jobs_is_refused(seen: Seen, url: str, said: str) -> None:
    with pytest.raises(StoreError) as caught:
        admit(examine(seen, read_address(url)))
    assert said in caught.value.message
    assert caught.value.todo


@pytest.mark.parametrize(
    ("version", "valkey", "flaws"),
    [
        ("6.2.19", "", ["CVE-2025-49844"]),
        ("6.2.20", "", []),
        ("7.0.15", "", ["CVE-2025-49844"]),
        ("7.2.10", "", ["CVE-2025-49844", "CVE-2026-23479"]),
        ("7.2.11", "", ["CVE-2026-23479"]),
        ("8.2.1", "", ["CVE-2025-49844", "CVE-2026-23479"]),
        ("8.6.2", "", ["CVE-2026-23479"]),
        ("8.6.3", "", []),
        ("7.2.4", "7.2.10", ["CVE-2025-49844"]),
        ("7.2.4", "8.1.3", ["CVE-2025-49844"]),
        ("7.2.4", "8.1.4", []),
        ("7.2.4", "9.1.2", []),
    ],
)
def test_known_flaws_are_named_by_version(version: str, valkey: str, flaws: list[str]) -> None:
    seen = but(redis_version=version, **({"valkey_version": valkey} if valkey else {}))
    notices = admit(examine(seen, PLAIN))
    assert [next(flaw for flaw in flaws if flaw in notice) for notice in notices] == flaws


@pytest.mark.parametrize(
    ("aof", "config", "level", "said"),
    [
        ("1", {"appendfsync": "everysec"}, Level.OK, "the last second"),
        ("1", {"appendfsync": "no"}, Level.WARNING, "half a minute"),
        ("1", {}, Level.OK, "does not tell how often"),
        ("0", {"save": "3600 1"}, Level.WARNING, "minutes of what was acknowledged (save 3600 1)"),
        ("0", {"save": ""}, Level.WARNING, "a restart loses all jobs"),
        ("0", {}, Level.WARNING, "its settings are hidden"),
    ],
)
def test_one_sentence_says_what_acknowledged_means(aof: str, config: dict[str, str], level: Level, said: str) -> None:
    finding = findings(msgspec.structs.replace(but(aof_enabled=aof), config=config))["durability"]
    assert finding.level is level
    assert said in finding.said


@pytest.mark.parametrize(
    ("seen", "url"),
    [
        (GOOD, "redis+sentinel://a/shop"),
        (but(cluster_enabled="1"), "redis+cluster://a"),
        (but(connected_slaves="1"), "redis://a"),
    ],
)
def test_a_failover_is_spoken_of_where_there_can_be_one(seen: Seen, url: str) -> None:
    assert "failover" in findings(seen, url)
    assert "failover" not in findings(GOOD)


@pytest.mark.parametrize(
    ("used", "limit", "level", "said"),
    [
        (5_000_000, 0, Level.OK, "5MB are used, and no limit is set (maxmemory 0)"),
        (79_900_000, 100_000_000, Level.OK, "79.9MB of 100MB are used, 79 % (maxmemory). At 100 % new jobs are"),
        (80_000_000, 100_000_000, Level.WARNING, "80 % (maxmemory). At 100 % new jobs are refused; those that are"),
        (101_000_000, 100_000_000, Level.WARNING, "101 % (maxmemory). New jobs are refused; those that are there go"),
    ],
)
def test_how_full_a_server_is_and_what_that_means_is_said(used: int, limit: int, level: Level, said: str) -> None:
    finding = findings(but(used_memory=str(used), maxmemory=str(limit)))["memory"]
    assert finding.level is level
    assert said in finding.said
    buffers = findings(but(used_memory=str(used), maxmemory="100000000", mem_not_counted_for_evict=str(used)))["memory"]
    assert buffers.level is Level.OK, "what replicas are sent does not count"


def test_a_full_server_is_warned_of_and_not_refused_for_it(
    binary: Path, new_server: NewServer, connect: Connect
) -> None:
    server = new_server(binary)
    link = connect(server.url())
    assert "no limit is set" in findings(look(link, COMMANDS))["memory"].said
    with server.client() as client:
        client.config_set("maxmemory", "100mb")
        assert "of 100MiB are used" in findings(look(link, COMMANDS))["memory"].said
        client.config_set("maxmemory", 1)
        notices = admit(examine(look(link, COMMANDS), link.address))
    assert [notice for notice in notices if "New jobs are refused; those that are there go on." in notice]


def test_an_eviction_policy_that_is_hidden_is_warned_of() -> None:
    hidden = {name: value for name, value in GOOD.info.items() if name != "maxmemory_policy"}
    (notice,) = admit(examine(msgspec.structs.replace(GOOD, info=hidden), PLAIN))
    assert "does not tell its maxmemory-policy" in notice
