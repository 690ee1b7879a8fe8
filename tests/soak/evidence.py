"""What a story came to, as a file that others can read: docs/evidence/<story>.json."""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import apsw
import msgspec

from tests.soak.worker import ROOT

FOLDER = ROOT / "docs" / "evidence"


class Evidence(msgspec.Struct, kw_only=True):
    """Everything needed to believe a result, and to have it again."""

    story: str
    result: str
    commit: str
    seed: int
    rounds: int
    counts: dict[str, int]
    faults: dict[str, int]
    violations: list[str]
    notes: list[str] = []
    times_ms: dict[str, dict[str, float]] = {}
    """By what was timed: p50, p99 and the longest."""
    duration_s: float
    started: str
    python: str = platform.python_version()
    sqlite: str = apsw.sqlite_lib_version()
    platform: str = platform.platform()


def commit() -> str:
    """The commit that is tested, with `dirty` behind it if the tree differs from it."""
    head = _git("rev-parse", "HEAD") or "none"
    # The evidence of the story before this one is no difference that matters.
    changed = _git("status", "--porcelain", "--", ".", ":(exclude)docs/evidence")
    return f"{head} dirty" if changed else head


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def write(evidence: Evidence, folder: Path = FOLDER) -> Path:
    """The file, made or replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{evidence.story}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(evidence), indent=2) + b"\n")
    return path


def now() -> str:
    """The time of day, in UTC, as the file shows it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def positive(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts sorted by name, without those that are nothing."""
    return {name: n for name, n in sorted(counts.items()) if n}
