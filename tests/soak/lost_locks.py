"""Story C: two processes work while a thread in each takes their SQLite locks away, all the time.

POSIX locks on a file vanish from a process when anything in it closes any descriptor of that file. A thread opens and
closes the store with the standard library's own SQLite (without a statement, and after a SELECT), and the files as
plain files. The engine's gate and pins do not care; the checks are those of the story of kills.

`without_pins` is the same on a system without open-file-description locks, as macOS. It is not asserted: it shows what
the check of the -wal's inode and the epoch can do alone.
"""

from __future__ import annotations

from pathlib import Path

from tests.soak.kills import Report, Shape, run_round

JOBS = 20_000
BATCH = 2_500
"""Jobs of one store: several stores are hurt at every stage of their life, also while they are made."""


def shape(jobs: int, *, pins: bool = True) -> Shape:
    """Two processes of one worker each, none of them killed."""
    return Shape(jobs=jobs, processes=2, threads=1, kills=0, rattle=True, pins=pins)


def run_store(folder: Path, seed: int, jobs: int) -> Report:
    """One store, all of whose locks are taken away again and again."""
    return run_round(folder, seed, shape(jobs))


def without_pins(folder: Path, seed: int, jobs: int) -> Report:
    """The same where pins do not exist; what it finds is for reading, not for judging."""
    return run_round(folder, seed, shape(jobs, pins=False))
