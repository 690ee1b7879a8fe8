"""Which URLs the redis engine takes. `connect` must know it without importing the engine, which needs its driver."""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal["single", "socket", "sentinel", "cluster"]

_KINDS: Final[dict[str, Kind]] = {"": "single", "+sentinel": "sentinel", "+cluster": "cluster"}

REDIS: Final[dict[str, tuple[Kind, bool]]] = {
    "unix": ("socket", False),
    **{
        f"{name}{secure}{suffix}": (kind, bool(secure))
        for name in ("redis", "valkey")
        for secure in ("", "s")
        for suffix, kind in _KINDS.items()
    },
}
"""What each scheme means: which kind of server, and whether TLS is spoken."""
