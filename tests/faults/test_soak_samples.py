"""The stories of tests/soak, small and with a fixed seed; `make soak` runs them whole."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from tests.soak import frozen, kills, lost_locks, poison, power_cuts, recovery, redis_faults, redis_outage, runners
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


def test_a_pill_is_dead_after_three_crashes_and_no_good_job_pays_for_it(tmp_path: Path) -> None:
    report = poison.run_round(tmp_path, seed=3, shape=poison.Shape(good=40, pills=4))
    assert_clean(report)
    assert report.faults["crashed runner"] == 3 * 4
    assert report.counts["poison"] == 4
    assert report.counts["succeeded"] == 40


def test_a_job_runs_again_whoever_was_killed_and_no_loop_in_c_outlives_its_grace(tmp_path: Path) -> None:
    report = recovery.run_round(tmp_path, recovery.Shape(runners=2, supervisors=2, hard=2))
    assert_clean(report)
    assert {name: len(times) for name, times in report.times_ms.items()} == {"runner": 2, "hard": 2, "supervisor": 2}


def test_runners_and_supervisors_killed_and_stopped_at_random_lose_nothing(tmp_path: Path) -> None:
    report = runners.run_round(tmp_path, seed=11, shape=runners.Shape(jobs=120, faults=6))
    assert_clean(report)
    assert report.faults.total() == 6
    assert report.counts["succeeded"] + report.counts["poison"] == 120


@pytest.mark.parametrize("death", ["lock", "lease"])
def test_a_supervisor_that_stands_still_for_three_leases_has_one_effect(
    tmp_path: Path, death: Literal["lock", "lease"]
) -> None:
    assert_clean(frozen.run_round(tmp_path, death))


def test_supervisors_senders_and_servers_killed_and_lines_cut_at_random_lose_nothing(tmp_path: Path) -> None:
    report = redis_faults.run_round(tmp_path, seed=5, shape=redis_faults.Shape(jobs=300, faults=6, supervisors=2))
    assert_clean(report)
    assert report.faults.total() == 6
    assert report.counts["succeeded"] + report.counts["poison"] == 300


def test_an_outage_is_waited_out_and_its_end_is_timed(tmp_path: Path) -> None:
    report = redis_outage.run_round(tmp_path, redis_outage.Shape(outages=1, away_s=1, supervisors=1, backlog=40))
    assert_clean(report)
    assert len(report.times_ms["back"]) == 1
