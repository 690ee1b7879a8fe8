"""A URL picks the engine: `sqlite:///jobs.db`, `redis://host/0`, `memory://`. Each is imported when it is asked for."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from windlass.core.errors import BadUrl, MissingExtra, UnknownScheme
from windlass.core.names import near_miss
from windlass.core.redact import redact_url
from windlass.core.settings import Settings, load
from windlass.engines.protocol import Engine
from windlass.engines.schemes import REDIS

GROUP = "windlass.engines"
"""The entry-point group in which other packages offer engines: URL scheme → function(url, settings)."""

LATER = ("file", "postgresql", "postgres", "mongodb")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*").fullmatch

Maker = Callable[[str, Settings], Engine]


def connect(url: str | None = None, settings: Settings | None = None) -> Engine:
    """The engine of that URL, not yet opened. Without settings, those of environment and files are used."""
    _check_types(url, settings)
    settings = load().settings if settings is None else settings
    url = settings.url if url is None else url
    scheme, separator, _ = url.partition("://")
    if not separator or not _SCHEME(scheme):
        # Half a URL may still hold a password: it is redacted as if it were a whole one.
        shown = ascii(redact_url(f"x://{url}").removeprefix("x://"))
        raise BadUrl(f"{shown} is not an engine URL.", "Write one like sqlite:///jobs.db or redis://host/0.")
    maker = OWN.get(scheme.lower()) or _offered(scheme.lower())
    if maker is None:
        raise _unknown(scheme)
    return maker(url, settings)


def _check_types(url: object, settings: object) -> None:
    if url is not None and not isinstance(url, str):
        raise BadUrl(f"An engine's URL cannot be a {type(url).__name__}.", "Give text such as sqlite:///jobs.db.")
    if settings is not None and not isinstance(settings, Settings):
        raise BadUrl(f"An engine's settings cannot be a {type(settings).__name__}.", "Give load(…).settings.")


def _offered(scheme: str) -> Maker | None:
    """The maker that another package offers for a scheme."""
    # Looking through all installed packages takes longer than everything else here.
    from importlib import metadata

    for entry in metadata.entry_points(group=GROUP):
        if entry.name == scheme:
            return entry.load()
    return None


def _unknown(scheme: str) -> UnknownScheme:
    known = "sqlite:///jobs.db, redis://host/0 or memory://"
    if scheme.lower() in LATER:
        return UnknownScheme(f"{scheme}:// is not in this version.", f"Use {known} for now.")
    # What kombu calls the same.
    near = "unix" if scheme.lower() in {"redis+socket", "redis+unix"} else near_miss(scheme.lower(), [*OWN, *LATER])
    hint = f"Did you mean {near}://? " if near is not None else ""
    return UnknownScheme(f"There is no engine {scheme!a}.", f"{hint}Use {known}.")


def _memory(url: str, settings: Settings) -> Engine:
    from windlass.engines.memory import MemoryEngine

    parts = urlsplit(url)
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise BadUrl(f"{redact_url(url)!a} says more than memory:// can use.", "Write memory:// or memory://name.")
    return MemoryEngine(parts.netloc, settings.limits)


def _sqlite(url: str, settings: Settings) -> Engine:
    path = sqlite_path(url)
    try:
        module = importlib.import_module("windlass.engines.sqlite")
    except ImportError as error:
        if error.name != "apsw":
            raise
        raise MissingExtra("The sqlite engine needs the package apsw.", "Run: pip install apsw") from None
    engine: Engine = module.SqliteEngine(
        path, settings.limits, disk_floor=settings.disk_floor_bytes, disk_reserve=settings.disk_reserve_bytes
    )
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
    if path == ":memory:":
        raise BadUrl("A file called :memory: would be made.", "Did you mean memory://?")
    if not path or path.endswith("/") or "\0" in path:
        raise BadUrl(f"{redact_url(url)!a} names no file.", todo)
    return Path(path)


def _redis(url: str, settings: Settings) -> Engine:
    try:
        module = importlib.import_module("windlass.engines.redis")
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in {"redis", "hiredis"}:
            raise
        raise MissingExtra("The redis engine needs the package redis.", 'Run: pip install "redis[hiredis]"') from None
    engine: Engine = module.RedisEngine(module.read_address(url), settings.limits)
    return engine


OWN: dict[str, Maker] = {"memory": _memory, "sqlite": _sqlite, **dict.fromkeys(REDIS, _redis)}
