"""jemalloc for the server of the race.

Redis and Valkey are built with it wherever people get them, as a package, an image or from source; the server in the
wheel is built with the C library's malloc instead, on which a third of its time went. The library is Debian's.
"""

from __future__ import annotations

from pathlib import Path

from bench.race import debian

PACKAGE = "libjemalloc2"


def with_jemalloc(server: Path, inside: Path) -> Path | None:
    """A program that starts the server with jemalloc; None where the library cannot be had."""
    unpacked = inside / "debian"
    try:
        debian.unpacked(PACKAGE, unpacked)
    except debian.CannotFetch:
        return None
    library = next(unpacked.glob("**/libjemalloc.so.2"))
    program = inside / "server"
    program.write_text(f'#!/bin/sh\nLD_PRELOAD="{library}" exec "{server}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program
