"""What Debian packages hold, without installing them: anybody can fetch and unpack them in a folder of his own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path


class CannotFetch(Exception):
    """Packages cannot be had here; the text says why."""


def unpacked(package: str, into: Path, *, needs: str | None = None) -> None:
    """Puts what the package holds into that folder, and what those hold that it depends on and begin with `needs`.

    A folder that is there is whole, and stays as it is.
    """
    if into.exists():
        return
    packages = [package] if needs is None else [package, *_needed_by(package, needs)]
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent) as name:
        fetched, whole = Path(name), Path(name) / "whole"
        whole.mkdir()
        _run("apt-get", "download", *packages, cwd=fetched)
        for file in fetched.glob("*.deb"):
            _run("dpkg-deb", "-x", file.name, whole.name, cwd=fetched)
        if not into.exists():  # or somebody else was quicker
            whole.rename(into)


def _needed_by(package: str, prefix: str) -> list[str]:
    said = _run("apt-cache", "depends", "--recurse", "--important", package)
    return sorted({line for line in said.splitlines() if line.startswith(prefix)})


def _run(*command: str, cwd: Path | None = None) -> str:
    if not shutil.which(command[0]):
        raise CannotFetch(f"there is no {command[0]}")
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotFetch(f"`{' '.join(command[:2])}` failed: {done.stderr.strip()}")
    return done.stdout
