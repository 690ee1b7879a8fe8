"""RabbitMQ in the race: it is fetched once, runs on its own and ends with its measurement; who has none is not raced.

Nothing is fetched here, and no RabbitMQ runs: small scripts stand for Debian's tools, for Erlang and for the broker.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bench.race import debian, entries, rabbitmq
from bench.race.__main__ import main
from bench.race.groups import REDIS
from bench.race.rabbitmq import Absent, RabbitMQ
from bench.race.result import load
from tests.test_race import written

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the race reads /proc"),
    pytest.mark.timeout(120),
]

TOOLS = {
    "apt-cache": 'printf "%s\\n" "$4" "  Depends: cog-base" "cog-base" "  Depends: libc6" "libc6"',
    "apt-get": 'shift; for package in "$@"; do echo "$package" > "${package}_1_all.deb"; done',
    "dpkg-deb": 'cp "$2" "$3/$(cat "$2")"',
}
BROKER = """
import os, socket
server = socket.create_server(("127.0.0.1", int(os.environ["RABBITMQ_NODE_PORT"])))
while True:
    client, _ = server.accept()
    client.sendall(client.recv(100))
"""

Programs = Callable[[dict[str, str]], Path]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Puts scripts of the shell before all other programs, under their names."""

    def put(scripts: dict[str, str]) -> Path:
        folder = tmp_path / "programs"
        folder.mkdir()
        for name, script in scripts.items():
            executable(folder / name, script)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return folder

    return put


def executable(file: Path, script: str, program: str = "/bin/sh") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!{program}\n{script}\n")
    file.chmod(0o755)
    return file


# --- Debian ----------------------------------------------------------------------------------------


def test_a_package_is_unpacked_with_those_it_needs_and_once(tmp_path: Path, programs: Programs) -> None:
    tools = programs(TOOLS)
    into = tmp_path / "cache" / "whole"
    debian.unpacked("wheel", into, needs="cog-")
    assert sorted(file.name for file in into.iterdir()) == ["cog-base", "wheel"]
    (tools / "apt-cache").write_text("#!/bin/sh\nexit 1\n")
    debian.unpacked("wheel", into, needs="cog-")
    assert list(into.parent.iterdir()) == [into]


@pytest.mark.parametrize("broken", TOOLS)
def test_of_what_cannot_be_fetched_nothing_is_left(tmp_path: Path, programs: Programs, broken: str) -> None:
    programs(TOOLS | {broken: "echo no such thing >&2; exit 1"})
    into = tmp_path / "cache" / "whole"
    with pytest.raises(debian.CannotFetch, match=rf"`{broken} .*` failed: no such thing"):
        debian.unpacked("wheel", into, needs="cog-")
    assert list((tmp_path / "cache").glob("*")) == []


def test_where_there_is_no_apt_nothing_can_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(debian.CannotFetch, match="there is no apt-get"):
        debian.unpacked("wheel", tmp_path / "whole")
    with pytest.raises(Absent, match="RabbitMQ cannot be had here: there is no apt-cache"):
        rabbitmq.installed(tmp_path)


# --- an unpacked one -------------------------------------------------------------------------------


def unpacked(inside: Path, erlexec: str) -> Path:
    """What the packages hold, as far as anybody looks."""
    library = inside / "debian" / "usr" / "lib"
    executable(library / "erlang" / "erts-1" / "bin" / "erlexec", erlexec)
    (library / "erlang" / "releases" / "99").mkdir(parents=True)
    (library / "erlang" / "releases" / "99" / "OTP_VERSION").write_text("99.1\n")
    executable(library / "rabbitmq" / "lib" / "rabbitmq_server-9.9" / "sbin" / "rabbitmq-server", "")
    return library


def test_an_unpacked_rabbitmq_runs_on_the_erlang_beside_it(tmp_path: Path) -> None:
    library = unpacked(tmp_path, 'test "$ROOTDIR" = "${0%/erts-1/bin/erlexec}" -a "$BINDIR" = "${0%/erlexec}"')
    found = rabbitmq.installed(tmp_path)
    assert found.versions == "RabbitMQ 9.9 (Erlang 99.1)"
    assert found.script == library / "rabbitmq" / "lib" / "rabbitmq_server-9.9" / "sbin" / "rabbitmq-server"
    assert (found.programs / "erl").exists()


def test_an_erlang_that_does_not_run_is_none(tmp_path: Path) -> None:
    unpacked(tmp_path, "echo libcrypto is missing >&2; exit 1")
    with pytest.raises(Absent, match="Erlang does not run: libcrypto is missing"):
        rabbitmq.installed(tmp_path)


def test_packages_that_hold_something_else_are_none(tmp_path: Path) -> None:
    (tmp_path / "debian").mkdir()
    with pytest.raises(Absent, match="hold 0 of"):
        rabbitmq.installed(tmp_path)


# --- a broker --------------------------------------------------------------------------------------


def standing_for(folder: Path, script: str) -> RabbitMQ:
    return RabbitMQ(
        script=executable(folder / "rabbitmq-server", script, sys.executable), programs=folder, versions="RabbitMQ 9.9"
    )


def refuses(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((rabbitmq.HOST, port)) != 0


def test_a_broker_can_be_reached_both_ways_and_ends_with_its_measurement(tmp_path: Path) -> None:
    with rabbitmq.broker(standing_for(tmp_path, BROKER), tmp_path / "broker") as broker:
        for port in (broker.port, broker.far_port):
            with socket.create_connection((rabbitmq.HOST, port), timeout=10) as client:
                client.sendall(b"hello")
                assert client.recv(100) == b"hello"
        assert f":{broker.port}/" in broker.url(far=False)
        assert f":{broker.far_port}/" in broker.url(far=True)
        assert broker.tree.cpu_s() > 0
    assert refuses(broker.port)
    assert refuses(broker.far_port)


def test_a_broker_that_ends_by_itself_says_why(tmp_path: Path) -> None:
    rabbit = standing_for(tmp_path, "raise SystemExit('no disk')")
    with (
        pytest.raises(RuntimeError, match="The broker ended with 1: no disk"),
        rabbitmq.broker(rabbit, tmp_path / "broker"),
    ):
        pass


# --- the race --------------------------------------------------------------------------------------


def test_where_there_is_no_rabbitmq_its_peers_are_not_run_and_the_run_is_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(_: Path) -> RabbitMQ:
        raise Absent("there is no apt-get")

    monkeypatch.setattr(rabbitmq, "installed", installed)
    bare = next(product for product in entries.load(REDIS.entries) if product.seat == "bare_lua")
    peer = next(product for product in entries.load(REDIS.entries) if product.broker)
    without = msgspec.structs.replace(bare, broker=peer.broker, fails=peer.fails)
    assert main(["--group", "redis", "--quick", "--entries", str(written(tmp_path, without))]) == 0
    assert "not run: install: RabbitMQ cannot be had here: there is no apt-get" in capsys.readouterr().out


def test_who_has_a_broker_is_told_where_it_is_and_pays_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rabbitmq, "installed", lambda _: standing_for(tmp_path, BROKER))  # pyright: ignore
    bare = next(product for product in entries.load(REDIS.entries) if product.seat == "bare_lua")
    checked = "python -c 'import os, bare_lua; assert os.environ[\"RACE_AMQP\"]; bare_lua.main()'"
    with_broker = msgspec.structs.replace(bare, broker="rabbitmq", worker=checked)
    file = tmp_path / "race.json"
    assert (
        main(["--group", "redis", "--quick", "--entries", str(written(tmp_path, with_broker)), "--json", str(file)])
        == 0
    )
    (finish,) = load(file).finishes
    assert finish.version.endswith(", RabbitMQ 9.9")
    assert capsys.readouterr().out
    assert finish.figures["server_cpu_s"][0] > 0


def test_every_peer_on_rabbitmq_is_forgiven_where_there_is_none() -> None:
    peers = [product for product in entries.load(REDIS.entries) if product.broker]
    assert [entry.name for product in peers for entry in product.entry] == ["celery-rabbit", "dramatiq-rabbit"]
    assert all(product.fails and product.fails in str(Absent("why")) for product in peers)
