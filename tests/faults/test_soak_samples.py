"""The stories of tests/soak, small and with a fixed seed; `make soak` runs them whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import kills, lost_locks, power_cuts
from tests.soak.kills import Report


def assert_clean(report: Report) -> None:
    told = "\n".join([*map(str, report.violations[:10]), *report.stories[:60]])
    assert not report.violations, told


@pytest.mark.parametrize("seed", [11, 12])
def test_processes_killed_at_random_lose_nothing(tmp_path: Path, seed: int) -> None:
    shape = kills.Shape(jobs=400, kills=6, processes=3)
    report = kills.run_round(tmp_path, seed, shape)
    assert_clean(report)
    assert report.faults["kill -9"] == shape.kills
    assert report.counts["settle_accepted"] >= report.counts["succeeded"] - report.counts["settle_unanswered"]


def test_everything_acknowledged_before_a_power_cut_is_there_after_it(tmp_path: Path) -> None:
    reason = power_cuts.unable()
    if reason:
        pytest.skip(reason)
    (tmp_path / "notes").mkdir()
    with power_cuts.Disk.made(tmp_path) as disk:
        report = power_cuts.run_store(disk, tmp_path / "notes", seed=5, cuts=5)
    assert_clean(report)
    assert report.faults["power cut"] == 5
    assert report.counts["unclean_ends_noticed"] >= 4, "open did not see that the power had gone"


def test_processes_whose_posix_locks_vanish_all_the_time_lose_nothing(tmp_path: Path) -> None:
    report = lost_locks.run_store(tmp_path, seed=7, jobs=1_000)
    assert_clean(report)
    assert report.faults["rattles"] > 0
