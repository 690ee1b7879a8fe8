"""RabbitMQ, for the contestants that send through it: a broker of their own for every measurement.

Broker and Erlang are Debian's. A broker starts in some seconds and is killed with its data, so whoever comes next finds
an empty one, and nobody else shares the cores with one that idles. Its own script starts it, with the settings it has
by default. It is no node of anything: no epmd is started, and it listens for clients alone.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from bench.race import debian, far
from bench.race.tree import Tree
from tests.servers.ports import free_port
from tests.soak.waiting import wait_for

PACKAGE = "rabbitmq-server"
HOST = "127.0.0.1"
ERL = """\
#!/bin/sh
ROOTDIR="{erlang}" BINDIR="{programs}" EMU=beam PROGNAME=erl exec "{programs}/erlexec" "$@"
"""
"""In place of Debian's, which looks for Erlang in /usr/lib."""
PROBE = "{ok, _} = application:ensure_all_started(crypto), halt()."
"""Shows that Erlang runs and finds the libraries that it takes from the system."""
# The broker asks for the port of its node, though nobody ever connects to it: any number will do.
ALONE = "-start_epmd false -erl_epmd_port 1 -dist_listen false"
NAMES = '{lookup, [file]}.\n{host, {127, 0, 0, 1}, ["localhost"]}.\n'
"""How Erlang finds hosts. It would start processes that ask the system, in sessions of their own, and wait for them."""
HEADER = b"AMQP\x00\x00\x09\x01"
"""What a client says first; a broker that is up answers."""


class Absent(Exception):
    """RabbitMQ cannot be had here. `fails` in redis.toml forgives it, by this text."""

    def __init__(self, why: object) -> None:
        super().__init__(f"RabbitMQ cannot be had here: {why}")


class RabbitMQ(msgspec.Struct, frozen=True, kw_only=True):
    """An unpacked one: the script that starts it, and the folder with the `erl` that this script must find first."""

    script: Path
    programs: Path
    versions: str


def installed(inside: Path) -> RabbitMQ:
    """One that runs, fetched if it is not there; raises `Absent`."""
    unpacked, programs = inside / "debian", inside / "bin"
    try:
        debian.unpacked(PACKAGE, unpacked, needs="erlang-")
    except debian.CannotFetch as problem:
        raise Absent(problem) from problem
    home = _only(unpacked, "usr/lib/rabbitmq/lib/rabbitmq_server-*")
    erlexec = _only(unpacked, "usr/lib/erlang/erts-*/bin/erlexec")
    release = _only(unpacked, "usr/lib/erlang/releases/*/OTP_VERSION")
    programs.mkdir(exist_ok=True)
    erl = programs / "erl"
    erl.write_text(ERL.format(erlang=erlexec.parents[2], programs=erlexec.parent), encoding="utf-8")
    erl.chmod(0o755)
    # In that folder, because an Erlang that does not start writes a dump where it is.
    tried = subprocess.run([erl, "-noinput", "-eval", PROBE], cwd=inside, capture_output=True, text=True, check=False)
    if tried.returncode:
        raise Absent(f"Erlang does not run: {(tried.stderr or tried.stdout).strip()}")
    version = home.name.removeprefix("rabbitmq_server-")
    return RabbitMQ(
        script=home / "sbin" / "rabbitmq-server",
        programs=programs,
        versions=f"RabbitMQ {version} (Erlang {release.read_text(encoding='utf-8').strip()})",
    )


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise Absent(f"its packages hold {len(found)} of {pattern}")
    return found[0]


class Broker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that is up."""

    tree: Tree
    port: int
    far_port: int

    def url(self, *, far: bool) -> str:
        """Where it is, or where the long way to it begins."""
        return f"amqp://guest:guest@{HOST}:{self.far_port if far else self.port}/%2F"


@contextmanager
def broker(rabbitmq: RabbitMQ, folder: Path) -> Generator[Broker]:
    """An empty one, with its data in that folder, and the long way to it; at the end neither runs any more."""
    folder.mkdir()
    (folder / "inetrc").write_text(NAMES, encoding="utf-8")
    port, far_port = free_port(), free_port()
    command, log = [str(rabbitmq.script)], folder / "broker.log"
    with (
        Tree(command, cwd=folder, env=_env(rabbitmq, folder, port), log=log, name="broker") as tree,
        far.way(far_port, port, folder / "far.log"),
    ):
        for listening in (port, far_port):
            wait_for("the broker", partial(_answers, tree, listening), step_s=0.05)
        yield Broker(tree=tree, port=port, far_port=far_port)


def _env(rabbitmq: RabbitMQ, folder: Path, port: int) -> dict[str, str]:
    """Everything it would otherwise look for, or write, in the folders of the system."""
    theirs = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
    return theirs | {
        "PATH": os.pathsep.join([str(rabbitmq.programs), os.environ["PATH"]]),
        "HOME": str(folder),  # Erlang's cookie
        "ERL_INETRC": str(folder / "inetrc"),
        "RABBITMQ_NODENAME": "race@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": HOST,
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_MNESIA_BASE": str(folder),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-sname race@localhost {ALONE}",
    }


def _answers(tree: Tree, port: int) -> bool:
    tree.check()
    try:
        with socket.create_connection((HOST, port), timeout=1) as client:
            client.sendall(HEADER)
            return bool(client.recv(1))
    except OSError:  # not there yet
        return False
