"""A URL picks the engine: `memory://`, `sqlite:///jobs.db`. Engines are imported only when they are asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from windlass.core.errors import BadUrl, MissingExtra, UnknownScheme
from windlass.core.limits import Limits
from windlass.core.names import near_miss
from windlass.core.redact import redact_url
from windlass.engines.protocol import Engine

GROUP = "windlass.engines"
"""The entry-point group in which other packages offer engines: URL scheme → function(url, limits)."""

LATER = ("file", "redis", "rediss", "valkey", "unix", "postgresql", "postgres", "mongodb")

Maker = Callable[[str, Limits], Engine]


def connect(url: str, limits: Limits | None = None) -> Engine:
    """The engine of that URL, not yet opened."""
    shown = ascii(redact_url(url))
    scheme, separator, _ = url.partition("://")
    if not separator or not scheme:
        raise BadUrl(f"{shown} is not an engine URL.", "Write one like sqlite:///jobs.db or memory://.")
    maker = _makers().get(scheme.lower())
    if maker is None:
        raise _unknown(scheme)
    return maker(url, limits or Limits())


def _makers() -> dict[str, Maker]:
    offered = {entry.name: _offered(entry) for entry in metadata.entry_points(group=GROUP)}
    return {**offered, "memory": _memory, "sqlite": _sqlite}


def _offered(entry: metadata.EntryPoint) -> Maker:
    def make(url: str, limits: Limits) -> Engine:
        maker: Maker = entry.load()
        return maker(url, limits)

    return make


def _unknown(scheme: str) -> UnknownScheme:
    if scheme.lower() in LATER:
        return UnknownScheme(f"{scheme}:// is not in this version.", "Use sqlite:///jobs.db or memory:// for now.")
    near = near_miss(scheme.lower(), ["memory", "sqlite", *LATER])
    hint = f"Did you mean {near}://? " if near is not None else ""
    return UnknownScheme(f"There is no engine {scheme!a}.", f"{hint}Use sqlite:///jobs.db or memory://.")


def _memory(url: str, limits: Limits) -> Engine:
    from windlass.engines.memory import MemoryEngine

    parts = urlsplit(url)
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise BadUrl(f"{redact_url(url)!a} says more than memory:// can use.", "Write memory:// or memory://name.")
    return MemoryEngine(parts.netloc, limits)


def _sqlite(url: str, limits: Limits) -> Engine:
    path = sqlite_path(url)
    try:
        module = importlib.import_module("windlass.engines.sqlite")
    except ImportError as error:
        if error.name != "apsw":
            raise
        raise MissingExtra("The sqlite engine needs the package apsw.", "Run: pip install apsw") from None
    engine: Engine = module.SqliteEngine(path, limits)
    return engine


def sqlite_path(url: str) -> Path:
    """`sqlite:///jobs.db` is relative to the working folder, `sqlite:////var/jobs.db` absolute."""
    parts = urlsplit(url)
    todo = "Write sqlite:///jobs.db (in this folder) or sqlite:////var/lib/jobs.db (absolute)."
    if parts.netloc:
        raise BadUrl(f"{redact_url(url)!a} names a host; a file has none.", todo)
    if parts.query or parts.fragment:
        raise BadUrl(f"{redact_url(url)!a} has a query or fragment; the sqlite engine takes none.", todo)
    path = unquote(parts.path[1:])
    if not path or path.endswith("/") or "\0" in path:
        raise BadUrl(f"{redact_url(url)!a} names no file.", todo)
    return Path(path)
