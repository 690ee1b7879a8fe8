"""A look at an open store: its file, its disk, its content. A small function per question; none changes anything."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import apsw

from windlass.core.limits import MIB
from windlass.engines.findings import Finding, ok, problem, warning
from windlass.engines.sqlite import connection
from windlass.engines.sqlite.files import Paths, network_file_system
from windlass.engines.sqlite.statements import SCHEMA

NEARLY = 8
"""A disk is nearly full with less than so many times the floor below which new jobs are refused."""
BEHIND_US = 60_000_000


def examine(paths: Paths, floor_bytes: int, behind_us: int) -> Iterator[Finding]:
    """Everything there is to ask of a store; `behind_us` is how far the clock is behind the store's own count."""
    yield ok("sqlite", f"SQLite {apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()}), schema {SCHEMA}.")
    yield _place(paths)
    yield _rights(paths)
    yield _disk(paths, floor_bytes)
    yield _clock(behind_us)
    yield _integrity(paths)


def _place(paths: Paths) -> Finding:
    kind = network_file_system(paths.database)
    if kind is not None:
        said = f"{paths.database} lies on a network file system ({kind}), where SQLite's locks cannot be trusted."
        return problem("place", said, "Move the store to a local disk of this host.")
    return ok("place", f"{paths.database}, {paths.database.stat().st_size / 1e6:.1f} MB.")


def _rights(paths: Paths) -> Finding:
    folder = paths.database.parent
    if not os.access(paths.database, os.W_OK) or not os.access(folder, os.W_OK):
        return problem("rights", f"{folder} or the store in it cannot be written.", "Change its rights.")
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        said = f"Every user of this host may rename and remove files in {folder}."
        return warning("rights", said, f"Run: chmod o-w {folder}")
    return ok("rights", "The store is readable and writable by its owner alone.")


def _disk(paths: Paths, floor_bytes: int) -> Finding:
    free = paths.free_bytes()
    said = f"{free / 1e6:,.0f} MB are free on its disk"
    if free < floor_bytes:
        said = f"{said}; new jobs are refused below {floor_bytes // MIB} MiB."
        return problem("disk", said, "Free some space.")
    if free < NEARLY * floor_bytes:
        return warning("disk", f"{said}, which is little.", "Free some space before new jobs are refused.")
    return ok("disk", f"{said}.")


def _clock(behind_us: int) -> Finding:
    if behind_us > BEHIND_US:
        said = f"The clock is {behind_us / 1e6:,.0f} s behind the store's own count: it was set back."
        return warning("clock", said, "Let the host keep its time, by NTP for one; due times wait for the clock.")
    return ok("clock", "It is not behind the store's own count.")


def _integrity(paths: Paths) -> Finding:
    found = connection.quick_check(paths)
    if found != ["ok"]:
        todo = "Stop all workers and restore a backup; keep the damaged file for study."
        return problem("integrity", f"The store fails its check: {'; '.join(found)}.", todo)
    return ok("integrity", "The store passes its check.")
