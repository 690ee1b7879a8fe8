"""What a URL of the redis engine says: where the server is, how to be let in, and under which namespace jobs live.

    redis://[user:password@]host[:port][/db]         rediss:// with TLS; valkey:// and valkeys:// mean the same
    unix://[user:password@]/path/redis.sock[?db=0]
    redis+sentinel://[user:password@]host[:port],host[:port]/service[/db]
    redis+cluster://[user:password@]host[:port],host[:port]

Options stand in the query: `namespace`, `db`, `timeout`, `connect_timeout`; with TLS `ca`, `cert`, `key`, `verify`;
with Sentinel `sentinel_user`, `sentinel_password`.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from windlass.core.errors import BadName, BadUrl
from windlass.core.names import check_name, near_miss
from windlass.core.redact import redact_url
from windlass.engines.schemes import REDIS, Kind

NAMESPACE: Final = "windlass"
PORT: Final = 6379
SENTINEL_PORT: Final = 26379
TIMEOUT_S: Final = 5.0
CONNECT_TIMEOUT_S: Final = 3.0
LONGEST_TIMEOUT_S: Final = 60.0

_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]\s]+))(?::([0-9]{1,5}))?").fullmatch
_COMMON: Final = ("namespace", "timeout", "connect_timeout")
_TLS: Final = ("ca", "cert", "key", "verify")
_SENTINEL: Final = ("sentinel_user", "sentinel_password")
_TODO: Final = "Write one like redis://localhost:6379/0 or redis+sentinel://host1,host2/service."

_ESCAPE: Final = "In a password write %2F for /, %3F for ?, %23 for #, %40 for @, %3A for :."


class Node(msgspec.Struct, frozen=True):
    """Where one server listens: a host and a port, or the path of a socket."""

    host: str
    port: int = 0

    def __str__(self) -> str:
        if not self.port:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Login(msgspec.Struct, frozen=True):
    """A user and a password; it never shows the password."""

    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Login({self.user!r}, ***)" if self.password else f"Login({self.user!r})"


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """How the server proves who it is, and we to it: files in PEM form; without a `ca`, that of the system counts."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A URL that was read, and is sure to make sense."""

    kind: Kind
    nodes: tuple[Node, ...]
    """The server; for Sentinel the sentinels; for a Cluster some of its nodes."""
    login: Login = Login()
    sentinel_login: Login = Login()
    service: str = ""
    db: int = 0
    tls: Tls | None = None
    namespace: str = NAMESPACE
    timeout_s: float = TIMEOUT_S
    connect_timeout_s: float = CONNECT_TIMEOUT_S

    @property
    def prefix(self) -> bytes:
        """What every key begins with: a hash tag, so that a Cluster keeps them all in one slot."""
        return f"{{{self.namespace}}}:".encode()

    @property
    def meta_key(self) -> bytes:
        """The one key that scripts are told: a Cluster finds the node by it."""
        return self.prefix + b"meta"

    def __str__(self) -> str:
        """For people: the servers and the database, without any login."""
        hosts = ", ".join(map(str, self.nodes))
        match self.kind:
            case "sentinel":
                return f"Service {self.service} (sentinels {hosts})"
            case "cluster":
                return f"Cluster {hosts}"
            case _:
                return hosts


def read_address(url: str) -> Address:
    """The address that a URL names; `BadUrl` says what of it cannot be read."""
    scheme = url.partition("://")[0].lower()
    if scheme not in REDIS:
        raise BadUrl(f"{redact_url(url)!a} is no URL of the redis engine.", _TODO)
    kind, secure = REDIS[scheme]
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _unreadable(url) from None
    if "@" in parts.query or (kind != "socket" and "@" in parts.path):
        # It is most often one of a password: no part of the URL may be shown.
        raise BadUrl("An @ stands after the hosts of the URL.", _ESCAPE)
    if parts.fragment or "\0" in url:
        raise _unreadable(url)
    options = _options(url, parts.query, kind, secure)
    login, hosts = _login(url, parts.netloc)
    service, db = _path(url, parts, kind, options.pop("db", None))
    return Address(
        kind=kind,
        nodes=_socket(url, hosts, parts.path) if kind == "socket" else _nodes(url, hosts, kind),
        login=login,
        sentinel_login=Login(options.pop("sentinel_user", ""), options.pop("sentinel_password", "")),
        service=service,
        db=db,
        tls=_tls(options) if secure else None,
        namespace=_namespace(options.get("namespace", NAMESPACE)),
        timeout_s=_seconds("timeout", options, TIMEOUT_S),
        connect_timeout_s=_seconds("connect_timeout", options, CONNECT_TIMEOUT_S),
    )


def _unreadable(url: str) -> BadUrl:
    return BadUrl(f"{redact_url(url)!a} cannot be read.", f"Look at the host and the port. {_ESCAPE}")


def _options(url: str, query: str, kind: Kind, secure: bool) -> dict[str, str]:
    """What stands after the question mark, each known and said once."""
    known = [*_COMMON, *(() if kind == "cluster" else ("db",)), *(_TLS if secure else ())]
    known += _SENTINEL if kind == "sentinel" else ()
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise BadUrl(f"The options in {redact_url(url)!a} cannot be read.", "Write them as ?name=value&…") from None
    options: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            if name in _TLS:
                raise BadUrl(f"The option `{name}` is for TLS.", "Begin the URL with rediss://.")
            near = near_miss(name, known)
            hint = f"Did you mean `{near}`?" if near else f"There are: {', '.join(known)}."
            raise BadUrl(f"A URL of this kind has no option {name[:40]!a}.", hint)
        if name in options:
            raise BadUrl(f"The option `{name}` stands twice in the URL.", "Write it once.")
        options[name] = value
    return options


def _login(url: str, authority: str) -> tuple[Login, str]:
    before, at, hosts = authority.rpartition("@")
    if not at:
        return Login(), hosts
    user, colon, password = before.partition(":")
    if not colon:
        # The URL is not shown: what stands there is most often a password.
        todo = "Write user:password@, or :password@ for the default user."
        raise BadUrl("What stands before the @ of the URL is a user without a password.", todo)
    if "@" in before:
        raise _unreadable(url)
    return Login(unquote(user), unquote(password)), hosts


def _nodes(url: str, hosts: str, kind: Kind) -> tuple[Node, ...]:
    usual = SENTINEL_PORT if kind == "sentinel" else PORT
    nodes: list[Node] = []
    for host in hosts.split(","):
        found = _HOST(host)
        if found is None:
            if not host:
                raise BadUrl(f"{redact_url(url)!a} names no host.", _TODO)
            raise _unreadable(url)
        port = int(found[3] or usual)
        if not 0 < port < 65_536:
            raise BadUrl(f"{port} is no port.", "Write one between 1 and 65535.")
        nodes.append(Node(found[1] or unquote(found[2]), port))
    if kind == "single" and len(nodes) > 1:
        todo = "Begin with redis+sentinel:// or redis+cluster://, or name one host."
        raise BadUrl(f"{redact_url(url)!a} names several hosts.", todo)
    return tuple(nodes)


def _socket(url: str, hosts: str, path: str) -> tuple[Node, ...]:
    path = unquote(path)
    if hosts or len(path) < 2 or path.endswith("/"):
        todo = "Write unix:///run/redis/redis.sock, with three slashes, and ?db=1 for another database."
        raise BadUrl(f"{redact_url(url)!a} names no socket.", todo)
    return (Node(path),)


def _path(url: str, parts: SplitResult, kind: Kind, option: str | None) -> tuple[str, int]:
    """The service and the database, which stand in the path."""
    path = "" if kind == "socket" else parts.path
    names = [unquote(name) for name in path.strip("/").split("/")] if path.strip("/") else []
    service = ""
    if kind == "sentinel":
        if not names:
            todo = "Write redis+sentinel://host1,host2/service: `sentinel monitor` in its configuration names it."
            raise BadUrl(f"{redact_url(url)!a} names no service.", todo)
        service = names.pop(0)
    if kind == "cluster" and names:
        raise BadUrl(f"{redact_url(url)!a} names a database.", "Leave it out: a Cluster has one.")
    if len(names) + (option is not None) > 1:
        raise BadUrl(f"{redact_url(url)!a} says too much after its host.", "Write the number of one database there.")
    number = names[0] if names else option
    if number is None:
        return service, 0
    if not (number.isascii() and number.isdigit() and len(number) <= 6):
        raise BadUrl(f"{redact_url(number)[:40]!a} is no database.", "Write its number: redis://host/0.")
    return service, int(number)


def _tls(options: dict[str, str]) -> Tls:
    verify = options.get("verify", "yes").lower()
    if verify not in {"yes", "no"}:
        raise BadUrl(f"The option `verify` cannot be {verify[:40]!a}.", "Write verify=yes or verify=no.")
    if "key" in options and "cert" not in options:
        raise BadUrl("The URL names a key and no certificate.", "Give both: cert=client.crt&key=client.key.")
    return Tls(ca=options.get("ca"), cert=options.get("cert"), key=options.get("key"), verify=verify == "yes")


def _namespace(name: str) -> str:
    try:
        return check_name("namespace", name)
    except BadName as error:
        raise BadUrl(error.message, error.todo) from None


def _seconds(name: str, options: dict[str, str], usual: float) -> float:
    text = options.get(name)
    if text is None:
        return usual
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,6})?", text) or not 0.01 <= float(text) <= LONGEST_TIMEOUT_S:
        todo = f"Write seconds from 0.01 to {LONGEST_TIMEOUT_S:g}."
        raise BadUrl(f"The option `{name}` cannot be {text[:40]!a}.", todo)
    return float(text)
