"""jemalloc for the server of the race.

Redis and Valkey are built with it wherever people get them, as a package, an image or from source; the server in the
wheel is built with the C library's malloc instead, on which a third of its time went. The library is Debian's, fetched
and unpacked in a folder of ours, so nobody has to install it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

PACKAGE = "libjemalloc2"


def with_jemalloc(server: Path, inside: Path) -> Path | None:
    """A program that starts the server with jemalloc; None where the library cannot be had."""
    library = _library(inside)
    if library is None:
        return None
    program = inside / "server"
    program.write_text(f'#!/bin/sh\nLD_PRELOAD="{library}" exec "{server}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def _library(inside: Path) -> Path | None:
    if not any(inside.glob("**/libjemalloc.so.2")):
        if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
            return None
        inside.mkdir(parents=True, exist_ok=True)
        fetched = subprocess.run(["apt-get", "download", PACKAGE], cwd=inside, capture_output=True, check=False)
        for package in inside.glob("*.deb") if not fetched.returncode else ():
            subprocess.run(["dpkg-deb", "-x", package, inside], check=True)
    return next(inside.glob("**/libjemalloc.so.2"), None)
