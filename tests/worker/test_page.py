"""The page that a runner shares with its supervisor: what stands there is what runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.app.app import App
from windlass.app.context import JobContext
from windlass.core.system import map_page, shared_page
from windlass.engines.protocol import Claim
from windlass.worker.desk import Run
from windlass.worker.page import Mark, Page, page_size

app = App("memory://")
PLACES = 3


@app.task(name="one")
def one() -> int:
    return 1


def run_of(number: int, timeout_us: int | None = None, grace_us: int = 0) -> Run:
    """A run that is told apart by its number, from 1."""
    claim = Claim(
        id=number.to_bytes(16, "big"),
        fence=number,
        task="one",
        queue="default",
        payload=b"",
        options=b"",
        attempt=1,
        crashes=0,
        losses=0,
        suspect=False,
        priority=5,
        due_us=0,
    )
    context = JobContext(claim.id, claim.task)
    context.deadline_us = None if timeout_us is None else 100 + timeout_us
    return Run(claim, one, context, 100, lambda _run, _why: None, grace_us)


@pytest.fixture
def descriptor() -> Iterator[int]:
    descriptor = shared_page(page_size(PLACES))
    yield descriptor
    os.close(descriptor)


def page_of(descriptor: int) -> Page:
    return Page(memoryview(map_page(descriptor, page_size(PLACES))))


def test_what_has_entered_is_seen_from_the_other_side(descriptor: int) -> None:
    ours, theirs = page_of(descriptor), page_of(descriptor)
    first, second = run_of(1), run_of(2, timeout_us=50, grace_us=7)
    theirs.enter(first)
    theirs.enter(second)
    assert ours.marks() == [
        Mark(first.claim.id, 1, started_us=100, soft_us=0, hard_us=0),
        Mark(second.claim.id, 2, started_us=100, soft_us=150, hard_us=157),
    ]
    theirs.leave(first.claim)
    assert [mark.fence for mark in ours.marks()] == [2]
    theirs.leave(second.claim)
    assert ours.marks() == []


def test_a_claim_that_was_not_started_has_no_place_to_leave(descriptor: int) -> None:
    page = page_of(descriptor)
    page.enter(run_of(1))
    page.leave(run_of(2).claim)
    page.leave(msgspec.structs.replace(run_of(1).claim, fence=9))
    assert [mark.fence for mark in page.marks()] == [1]


def test_the_lease_and_the_sign_of_life_cross_over(descriptor: int) -> None:
    ours, theirs = page_of(descriptor), page_of(descriptor)
    assert not theirs.is_cut(1 << 62), "without a lease nothing is ever cut"
    ours.cut_at(500)
    assert [theirs.is_cut(now_us) for now_us in (499, 500)] == [False, True]
    assert ours.looked_us == 0
    theirs.look(77)
    assert ours.looked_us == 77


def test_what_came_before_it_was_revoked_must_not_start(descriptor: int) -> None:
    ours, theirs = page_of(descriptor), page_of(descriptor)
    started, older, newer = run_of(1), run_of(2), run_of(3)
    theirs.expect([started.claim, older.claim], 0)
    assert theirs.enter(started)
    ours.revoke(1)
    theirs.expect([newer.claim], 1)
    assert not theirs.enter(older)
    assert theirs.enter(newer)
    theirs.leave(older.claim)
    assert [mark.fence for mark in ours.marks()] == [1, 3]


def test_a_job_that_comes_again_is_of_the_epoch_it_came_with_last(descriptor: int) -> None:
    ours, theirs = page_of(descriptor), page_of(descriptor)
    first = run_of(1)
    again = msgspec.structs.replace(first.claim, fence=2)
    theirs.expect([first.claim], 0)
    ours.revoke(1)
    theirs.expect([again], 1)
    assert theirs.enter(Run(again, one, first.context, 100, lambda _run, _why: None, 0))
    assert not theirs.enter(first)


CHILD = """
import sys
from tests.worker.test_page import page_of, run_of
page, runs = page_of(int(sys.argv[1])), [run_of(number) for number in (1, 2, 3)]
for run in runs:
    page.enter(run)
page.leave(runs[1].claim)
page.enter(run_of(4))
print("entered", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_process_ran_still_stands_there(descriptor: int) -> None:
    page = page_of(descriptor)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(descriptor)],
        pass_fds=[descriptor],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"entered\n"
        child.kill()
    assert {mark.fence for mark in page.marks()} == {1, 3, 4}


@given(st.lists(st.integers(1, 6)))
def test_marks_are_what_has_entered_and_not_left(steps: list[int]) -> None:
    """Each step lets a run enter, or leave if it has; never more at once than there are places."""
    descriptor = shared_page(page_size(PLACES))
    ours, theirs = page_of(descriptor), page_of(descriptor)
    os.close(descriptor)
    inside: set[int] = set()
    for number in steps:
        if number in inside:
            theirs.leave(run_of(number).claim)
            inside.remove(number)
        elif len(inside) < PLACES:
            theirs.enter(run_of(number))
            inside.add(number)
        assert {mark.fence for mark in ours.marks()} == inside
