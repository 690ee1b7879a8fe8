"""One Redis or Valkey, in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode

import redis

from tests.servers.client import plain_client
from tests.servers.ports import free_port
from tests.servers.process import ServerProcess
from tests.soak.waiting import wait_for

HOST = "127.0.0.1"
TRIES = 20


class ServerFailed(Exception):
    """A server ended instead of coming up; the text is the end of its log."""


class RedisServer:
    """A server that keeps its port and its data from start to start, whatever ends it in between."""

    mode: Sequence[str] = ()
    """What follows the configuration on the command line."""

    def __init__(
        self,
        binary: Path,
        folder: Path,
        *,
        appendonly: Literal["no", "everysec", "always"] = "no",
        password: str | None = None,
        port: int | None = None,
        config: Iterable[str] = (),
    ) -> None:
        """`config` are lines as in a redis.conf; they come last and win."""
        self.binary = binary
        self.folder = folder
        self.password = password
        self._appendonly = appendonly
        self._port = port
        self._config = tuple(config)
        self._process: ServerProcess | None = None
        self._is_configured = False

    @property
    def port(self) -> int:
        assert self._port is not None, "the server was never started"
        return self._port

    @property
    def socket(self) -> Path:
        return self.folder / "s"  # a socket's path has hardly a hundred characters

    @property
    def process(self) -> ServerProcess:
        assert self._process is not None, "the server was never started"
        return self._process

    # ── its life ────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> RedisServer:
        """Up, with its data loaded. The first start finds a port, unless one was named."""
        if self._port is not None:
            self._start()
            return self
        for left in reversed(range(TRIES)):
            self._port = free_port()
            try:
                self._start()
            except ServerFailed:
                if not left or "in use" not in self.log():
                    raise
            else:
                break
        return self

    def stop(self) -> None:
        """Ends it in order; one that has ended is no error."""
        self.process.stop()

    def kill(self) -> None:
        """SIGKILL: nothing is written any more."""
        self.process.kill()

    def restart(self) -> None:
        """Starts it again at the same port, after a kill or in order."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections stay, nothing is answered."""
        self.process.freeze()

    def thaw(self) -> None:
        self.process.thaw()

    def end(self) -> None:
        """For good, however it was left: killed, for nobody needs its data any more."""
        if self._process is not None:
            self._process.kill()

    def is_awake(self) -> bool:
        """Neither ended nor frozen: it can be asked."""
        return self.process.is_awake()

    def wait_until_up(self) -> None:
        """Until it answers and has loaded its data. Asked by its own socket: its port may be somebody else's."""
        with plain_client(self.socket_url()) as client:
            wait_for("a server to come up", lambda: self._is_up(client))

    # ── ways to it ──────────────────────────────────────────────────────────────────────────────────────

    def url(
        self, namespace: str = "", *, scheme: str = "redis", password: str | None = None, port: int | None = None
    ) -> str:
        """By TCP, with its password or the one that is named; through what listens on `port` in front of it."""
        return f"{scheme}://{account(password or self.password)}{HOST}:{port or self.port}/0{query(namespace)}"

    def socket_url(self, namespace: str = "") -> str:
        """By the socket in its folder."""
        return f"unix://{account(self.password)}{self.socket}{query(namespace)}"

    def client(self, *, port: int | None = None, **options: Any) -> Any:
        """A `redis.Redis`, for what the test itself asks of the server."""
        return plain_client(self.url(port=port), **options)

    def log(self) -> str:
        """What it has written about itself since it was first started."""
        file = self.folder / "log"
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)  # a killed server leaves it behind
        file = self.folder / "conf"
        if not self._is_configured:  # after that it may be the server that writes it, as when it is promoted
            file.write_text("\n".join(self._settings()) + "\n", encoding="utf-8")
        self._process = ServerProcess([str(self.binary), str(file), *self.mode])
        self.wait_until_up()
        self._is_configured = True

    def _settings(self) -> list[str]:
        durable = self._appendonly != "no"
        return [
            f"bind {HOST}",
            f"port {self.port}",
            f'unixsocket "{self.socket}"',
            f'dir "{self.folder}"',
            f'logfile "{self.folder / "log"}"',
            'save ""',
            f"appendonly {'yes' if durable else 'no'}",
            f"appendfsync {self._appendonly}",
            "databases 4",
            *([f'requirepass "{self.password}"', f'masterauth "{self.password}"'] if self.password else []),
            *self._config,
        ]

    def _is_up(self, client: Any) -> bool:
        if self.process.has_ended():
            raise ServerFailed(f"{self.binary.name} ended: {self.log()[-2000:]}")
        try:
            return client.ping()
        except redis.ConnectionError:  # not there yet, or still loading its data
            return False


def account(password: str | None) -> str:
    """The part of a URL before the host."""
    return f":{quote(password, safe='')}@" if password else ""


def query(namespace: str) -> str:
    """The end of a URL."""
    return "?" + urlencode({"namespace": namespace}) if namespace else ""
