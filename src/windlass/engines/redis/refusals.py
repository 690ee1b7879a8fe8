"""What a server's error means, as one of ours: what is wrong, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from windlass.core.errors import (
    AccessDenied,
    NotADatabase,
    NotWritable,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
    UnfitServer,
    WindlassError,
)
from windlass.core.redact import plain
from windlass.engines.redis.address import Address
from windlass.engines.redis.wire import Cut, Unconnected

_IN_SCRIPT: Final = re.compile(r"Error running script.*?[:@ -]([A-Z]{3,})\b")
_FROM_SCRIPT: Final = re.compile(r",? script: (?:[0-9a-f]{40}, )?on @?user_script:\d+\.?$")
_REFUSED: Final = re.compile(
    r"(?:ERR )?(?:Error running script \([^)]*\): @user_script:\d+: )?WINDLASS ([A-Z_]+) ?(.*)", re.DOTALL
)
"""What a script returns by `redis.error_reply`, or raises by `error(…, 0)`, which servers dress up."""


class Refused(Exception):
    """A script said no: `code` is the word by which it says why, `detail` the rest."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail


def code_of(text: str) -> str:
    """The word that names an error of a server, also where a script of an old server wrapped it."""
    word = text.partition(" ")[0]
    wrapped = _IN_SCRIPT.search(text) if word == "ERR" else None
    return wrapped[1] if wrapped else word


def refusal(text: str, address: Address) -> WindlassError | Refused:
    """The error that a server's answer means."""
    ours = _REFUSED.match(_FROM_SCRIPT.sub("", text))
    if ours is not None:
        return Refused(ours[1], ours[2])
    make = _MEANINGS.get(code_of(text), _other)
    return make(text, address)


def unreachable(error: Unconnected | Cut, address: Address) -> StoreError:
    """The error of a connection that did not come about, or was lost."""
    if isinstance(error, Unconnected):
        if error.foreign:
            todo = "Look at the host and the port; a server with TLS needs rediss://."
            return NotADatabase(f"{error.who} is no Redis server: {error.reason}.", todo)
        said = f"{error.who} cannot be reached: {error.reason}."
        return StoreUnavailable(said, "Look whether the server runs and the URL is right, then try again.")
    if error.silent:
        said = f"{error.who} has not answered for {address.timeout_s:g} s."
        return StoreUnavailable(said, "Look at the server and the network, then try again.")
    return StoreUnavailable(f"The connection to {error.who} was cut.", "Try again.")


def _wrong_login(_text: str, address: Address) -> StoreError:
    if address.kind == "sentinel":
        todo = "Look at them in the URL; the sentinels' own are its options sentinel_user and sentinel_password."
        return AccessDenied(f"A password is missing or wrong for {address}.", todo)
    if not address.login.password:
        return AccessDenied(
            f"{address} wants a password.", "Write it into the URL, after a colon and before an @ and the host."
        )
    who = f"of the user {address.login.user!a} " if address.login.user else ""
    return AccessDenied(f"{address} does not accept the password {who}in the URL.", "Write the right one into the URL.")


def _no_password(address: Address) -> StoreError:
    todo = "Leave it out of the URL, or set one on the server (requirepass, or a user by ACL SETUSER)."
    if address.kind == "sentinel":
        todo = "Leave it out: the servers' stands before the @, the sentinels' own is the option sentinel_password."
    return AccessDenied(f"The URL gives a password to a server that has none: {address}.", todo)


def _no_right(text: str, address: Address) -> StoreError:
    user = address.login.user or "default"
    prefix = address.prefix.decode()
    command = re.search(r"the '([^']+)' command", text)
    if command is not None:
        missing, grant = f"run {command[1].upper()}", f"+{command[1].lower()}"
    elif "channel" in text:
        missing, grant = f"use the channels {prefix}*", f"'&{prefix}*'"
    else:
        missing, grant = f"use the keys {prefix}*", f"'~{prefix}*'"
    return AccessDenied(f"The user {user!a} may not {missing}.", f"On the server: ACL SETUSER {user} {grant}")


def _read_only(_text: str, address: Address) -> StoreError:
    return NotWritable(f"{address} is a read-only replica.", "Give the URL of its master.")


def _out_of_memory(_text: str, address: Address) -> StoreError:
    said = f"{address} is out of memory: nothing was written."
    return StoreFull(said, "Raise its `maxmemory`, or let jobs end and be removed.")


def _loading(_text: str, address: Address) -> StoreError:
    return StoreUnavailable(f"{address} is still reading its data from the disk.", "Wait until it is ready.")


def _master_down(_text: str, address: Address) -> StoreError:
    return StoreUnavailable(f"{address} is a replica that has lost its master.", "Wait, or give the master's URL.")


def _cluster_down(_text: str, address: Address) -> StoreError:
    said = f"{address} is down: no node serves the namespace {address.namespace}."
    return StoreUnavailable(said, "Wait for a failover; `redis-cli cluster info` says what is missing.")


def _moving(_text: str, address: Address) -> StoreError:
    if address.kind != "cluster":
        said = f"{address} is a node of a Cluster, and another node has the namespace {address.namespace}."
        return UnfitServer(said, "Begin the URL with redis+cluster://.")
    said = f"{address} is moving the namespace {address.namespace} to another node."
    return StoreUnavailable(said, "Wait until it is there.")


def _busy(_text: str, address: Address) -> StoreError:
    said = f"{address} is busy with somebody's script: nothing was done."
    return StoreUnavailable(said, "Wait for it, or end it by SCRIPT KILL on the server.")


def _wrong_type(_text: str, address: Address) -> StoreError:
    said = f"A key that begins with {address.prefix.decode()} has a type that Windlass does not give it."
    return StoreCorrupt(said, "Take another namespace (?namespace=…), or find out who else writes such keys.")


def _disk(text: str, address: Address) -> StoreError:
    if "NOREPLICAS" in text:
        said = f"{address} has fewer replicas than it must have to write: nothing was written."
        return StoreUnavailable(said, "Bring them back; `min-replicas-to-write` says how many it needs.")
    said = f"{address} cannot write to its disk: nothing was written."
    return StoreUnavailable(said, "Free space there, or look into the server's log.")


def _other(text: str, address: Address) -> StoreError:
    if "DB index is out of range" in text or "invalid DB index" in text:
        said = f"{address} has no database {address.db}."
        return UnfitServer(said, "Take a smaller number (there are 16 by default), or raise `databases` there.")
    if "without any password configured" in text:
        return _no_password(address)
    if "invalid password" in text or "AUTH" in text:
        return _wrong_login(text, address)
    if "can't run this command" in text or "ACL failure in script" in text:
        return _no_right(text, address)
    if "cluster support disabled" in text:
        return UnfitServer(f"{address} is no Cluster.", "Begin the URL with redis://.")
    if address.kind == "sentinel" and "unknown command" in text:
        return UnfitServer(f"{address} cannot be asked for: no sentinel answers there.", "Look at hosts and ports.")
    if "max number of clients" in text:
        return StoreUnavailable(f"{address} takes no more connections.", "Raise its `maxclients`, or end some clients.")
    shown = plain(text)[:300].rstrip(".")
    return StoreError(f"{address} answered: {shown}.", "Look at the server; nothing else is known of this error.")


_MEANINGS: Final[dict[str, Callable[[str, Address], StoreError]]] = {
    "NOAUTH": _wrong_login,
    "WRONGPASS": _wrong_login,
    "NOPERM": _no_right,
    "READONLY": _read_only,
    "OOM": _out_of_memory,
    "LOADING": _loading,
    "MASTERDOWN": _master_down,
    "CLUSTERDOWN": _cluster_down,
    "MOVED": _moving,
    "ASK": _moving,
    "TRYAGAIN": _moving,
    "BUSY": _busy,
    "WRONGTYPE": _wrong_type,
    "MISCONF": _disk,
    "NOREPLICAS": _disk,
}
