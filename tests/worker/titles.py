"""Which processes of a worker are its runners: by their titles, for a spare one is no runner yet."""

from __future__ import annotations

from pathlib import Path

from windlass.core.system import children


def runners_of(supervisor: int) -> list[int]:
    """The processes of the runners that have been told what to do."""
    return [pid for pid in children(supervisor) if _title(pid).startswith("windlass: runner ")]


def script_runners_of(supervisor: int) -> list[int]:
    """The processes that own its scripts."""
    return [pid for pid in children(supervisor) if _title(pid).startswith("windlass: scripts of ")]


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""
