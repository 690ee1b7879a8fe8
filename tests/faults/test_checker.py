"""The checker speaks up: each invariant is broken once in a small history, and found by its own function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.soak.checker import Evidence, Store, check, digest, runs_are_paid_for, written_ends_stay
from tests.soak.recorder import Entry, Line
from tests.soak.runs import Mark
from tests.soak.workload import Deed, Mixture
from windlass.core.job import Edge, Job, Record, Request, State, Unique

A, B = "0a" * 16, "0b" * 16


def request(job: str, deed: Deed | None = None, **fields: Any) -> Request:
    payload = msgspec.json.encode(deed or Deed())
    return Request(id=bytes.fromhex(job), task="task", payload=payload, **fields)


def line(at: int, what: str, op: str, call: int, jobs: Sequence[Entry], worker: str = "w", note: str = "") -> Line:
    return Line(at, what, op, call, worker, tuple(jobs), note, process=worker)


def life(job: str, at: int, fence: int, worker: str = "w") -> list[Line]:
    """Inserted, claimed, succeeded."""
    call = at
    return [
        line(at, "invoke", "insert", call, [(job, 0, "")], worker),
        line(at + 1, "ok", "insert", call, [(job, 0, "new")], worker),
        line(at + 2, "invoke", "claim", call + 1, [], worker, note=str(call)),
        line(at + 3, "ok", "claim", call + 1, [(job, fence, "")], worker, note=str(call)),
        line(at + 4, "invoke", "settle", call + 2, [(job, fence, "succeeded")], worker),
        line(at + 5, "ok", "settle", call + 2, [(job, fence, "accepted")], worker),
    ]


def done(asked: Request, fence: int, **fields: Any) -> Job:
    record = Record(
        state=State.SUCCEEDED, queue="default", fence=fence, settled_fence=fence, created_us=1, ended_us=fence + 10
    )
    return Job(request=asked, record=msgspec.structs.replace(record, **fields))


def evidence(
    lines: list[Line],
    jobs: list[Job],
    *,
    effects: list[tuple[str, int]] | None = None,
    integrity: Sequence[str] = ("ok",),
    leftovers: Sequence[str] = (),
    miscount: int = 0,
    plan: list[Request] | None = None,
    runs: Sequence[str] = (),
) -> Evidence:
    counts: dict[tuple[str, str, State], int] = {}
    for job in jobs:
        assert job.record is not None
        key = (job.record.queue, job.request.task, job.record.state)
        counts[key] = counts.get(key, miscount) + 1
    if effects is None:
        effects = [(job.id.hex(), job.record.settled_fence) for job in jobs if job.record is not None]
    requests = plan if plan is not None else [job.request for job in jobs]
    return Evidence(
        {asked.id.hex(): asked for asked in requests},
        digest(sorted(lines, key=lambda line: line.at)),
        Store({job.id.hex(): job for job in jobs}, counts, integrity, leftovers),
        effects,
        marks=[Mark("begin", at, 1, 1, job, 10) for at, job in enumerate(runs)],
    )


def names(given: Evidence) -> set[str]:
    return {violation.invariant.split()[0] for violation in check(given)}


def test_a_sound_history_passes() -> None:
    jobs = [done(request(A, **LANE), 10), done(request(B, **LANE), 30)]
    assert check(evidence([*life(A, 0, 10), *life(B, 20, 30)], jobs)) == []


LANE: dict[str, Any] = {"lane": "l", "lane_limit": 1}
KEY: dict[str, Any] = {"unique": Unique("k", "end")}
BROKEN = {
    "1 lost": ("1", evidence(life(A, 0, 10), [], plan=[request(A)])),
    "1 undone": ("1", evidence(life(A, 0, 10), [done(request(A), 10, state=State.READY)])),
    "2 from nowhere": ("2", evidence([], [done(request(A), 10)])),
    "2 changed": ("2", evidence(life(A, 0, 10), [done(request(A), 10)], plan=[request(A, priority=3)])),
    "3 two owners": (
        "3",
        evidence(
            [*life(A, 0, 10), line(3, "ok", "claim", 9, [(A, 10, "")], "other", note="1")], [done(request(A), 10)]
        ),
    ),
    "4 back": (
        "4",
        evidence(
            [
                *life(A, 0, 10),
                line(8, "invoke", "claim", 9, [], "other", note="1"),
                line(9, "ok", "claim", 9, [(A, 7, "")], "other", note="1"),
            ],
            [done(request(A), 10)],
        ),
    ),
    "5 twice": (
        "5",
        evidence(
            [
                *life(A, 0, 10),
                line(8, "invoke", "resettle", 9, [(A, 10, "succeeded")]),
                line(9, "ok", "resettle", 9, [(A, 10, "accepted")]),
            ],
            [done(request(A), 10)],
        ),
    ),
    "6 no effect": ("6", evidence(life(A, 0, 10), [done(request(A), 10)], effects=[])),
    "6 older last": ("6", evidence(life(A, 0, 10), [done(request(A), 10)], effects=[(A, 10), (A, 12)])),
    "7 once more": ("7", evidence(life(A, 0, 10), [done(request(A), 10, crashes=1)], runs=[A, A, A])),
    "8 overlap": (
        "8",
        evidence(
            [*life(A, 0, 10), *life(B, 0, 10, "other")], [done(request(A, **LANE), 10), done(request(B, **LANE), 10)]
        ),
    ),
    "9 order": (
        "9",
        evidence([*life(A, 0, 40), *life(B, 20, 30)], [done(request(A, **LANE), 40), done(request(B, **LANE), 30)]),
    ),
    "10 running": ("10", evidence(life(A, 0, 10), [done(request(A), 10, state=State.RUNNING)])),
    "11 leak": ("11", evidence(life(A, 0, 10), [done(request(A), 10)], leftovers=["1 chores"])),
    "12 damage": ("12", evidence(life(A, 0, 10), [done(request(A), 10)], integrity=["page 3 is never used"])),
    "12 counters": ("12", evidence(life(A, 0, 10), [done(request(A), 10)], miscount=1)),
    "follow-up": ("§4", evidence(life(A, 0, 10), [done(request(A, Deed(follow_ups=1)), 10)])),
    "key": (
        "§7",
        evidence([*life(A, 0, 10), *life(B, 20, 30)], [done(request(A, **KEY), 10), done(request(B, **KEY), 30)]),
    ),
    "parent": (
        "§7",
        evidence(
            [*life(A, 0, 50), *life(B, 20, 30)],
            [done(request(A), 50), done(request(B, parents=(Edge(bytes.fromhex(A)),)), 30)],
        ),
    ),
    "dead": ("§3", evidence(life(A, 0, 10), [done(request(A), 10, state=State.DEAD)])),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_invariant_is_found_by_its_own_check(case: str) -> None:
    number, given = BROKEN[case]
    assert number in names(given)


def test_a_run_for_each_fault_is_paid_for_and_one_more_after_a_written_end_is_found() -> None:
    crashed = done(request(A), 10, crashes=1)
    again = evidence(life(A, 0, 10), [crashed], runs=[A, A])
    assert check(again) == []
    assert check(again, [written_ends_stay]), "its own slot went on, so its end had been written"
    died = evidence(life(A, 0, 10), [crashed, done(request(B), 30)], runs=[B, A])
    assert check(died, [runs_are_paid_for, written_ends_stay]) == []


def test_the_same_seed_deals_the_same_jobs_and_another_deals_others() -> None:
    assert Mixture(3, 200).parcels() == Mixture(3, 200).parcels()
    assert Mixture(3, 200).parcels() != Mixture(4, 200).parcels()
