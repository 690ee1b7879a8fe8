"""Jobs as people see them: everything is there, ids are text, and no secret is."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec
import pytest

from windlass import App, Retry, Worker, current_job, read_id
from windlass.core.codec import encode_arguments, encode_result
from windlass.core.errors import JobDead, JobNotFound
from windlass.core.ids import JobId, new_id, show_id
from windlass.core.job import Edge, Failure, Outcome, State, Unique
from windlass.engines.protocol import Change, Page, Query, Settlement
from windlass.ops import attempts, view
from windlass.ops.watch import DeadWatch
from windlass.testing.clock import FakeClock
from windlass.testing.conformance import Harness

URL = "redis://ann:hunter2@db.example/0"


def charge(amount: int, *, api_key: str, where: str) -> dict[str, Any]:
    job = current_job()
    job.log(f"connecting to {where}")
    job.progress(1, 2, "half")
    if job.attempt == 1:
        raise ConnectionError(f"{where} is down")
    return {"charged": amount, "auth": {"token": api_key}}


def test_a_job_is_shown_with_everything_and_without_its_secrets(app: App) -> None:
    task = app.task(name="charge", retry=Retry.fixed(1, base=0), tags=["money"])(charge)
    with Worker(app, slots=1, name="ann") as worker:
        handle = task.using(priority=3, timeout=60).delay(7, api_key="hunter2", where=URL)
        assert handle.get(timeout=10) == {"charged": 7, "auth": {"token": "hunter2"}}
        seen = view.job(app.engine, handle.job_id)
        name = worker.id
    assert "hunter2" not in repr(seen)
    assert "hunter2" not in msgspec.json.encode(seen).decode(), "and it can be sent as JSON as it is"
    shown = "redis://ann:***@db.example/0"
    assert (seen.id, seen.task, seen.state, seen.priority, seen.tags) == (
        handle.id,
        "charge",
        "succeeded",
        3,
        ("money",),
    )
    assert (seen.args, seen.kwargs) == ([7], {"api_key": "***", "where": shown})
    assert (seen.result, seen.has_result, seen.unreadable) == ({"charged": 7, "auth": {"token": "***"}}, True, None)
    assert seen.options == {"timeout_us": 60_000_000}
    assert seen.progress == {"done": 1, "total": 2, "note": "half"}
    assert [(line.attempt, line.text) for line in seen.log] == [
        (1, f"connecting to {shown}"),
        (2, f"connecting to {shown}"),
    ]
    first = seen.attempts[0]
    assert (first.attempt, first.outcome, first.worker) == (1, Outcome.FAILED, name)
    assert first.failure is not None
    assert first.failure.message == f"{shown} is down"
    assert f"ConnectionError: {shown} is down" in first.failure.traceback
    assert seen.created_us <= (seen.started_us or 0) <= (seen.ended_us or 0)
    assert seen.why.startswith("It has succeeded")


def test_only_new_lines_of_a_log_are_shown_where_asked(harness: Harness) -> None:
    claim = harness.running()
    for text in (b"one", b"two \xff", b"three"):
        harness.note(claim, "log", text)
    seen = view.job(harness.engine, claim.id, log_after=1, now_us=harness.now_us)
    assert [(line.number, line.text) for line in seen.log] == [(2, "two \ufffd"), (3, "three")]
    page = view.log(harness.engine, claim.id, after=2)
    assert ([line.text for line in page.lines], page.state, page.ended) == (["three"], State.RUNNING, False)
    harness.settle(Settlement(id=claim.id, fence=claim.fence))
    page = view.log(harness.engine, claim.id, after=3)
    assert (page.lines, page.ended) == ((), True)


def test_whatever_ties_a_job_to_others_is_shown(harness: Harness) -> None:
    parent, flow = harness.send(), new_id()
    job_id = harness.send(
        parents=(Edge(parent),), flow=flow, lane="l", gate="g", needs=(("gpu", 2),), unique=Unique("k"), retry_of=parent
    )
    seen = view.job(harness.engine, job_id, now_us=harness.now_us)
    assert (seen.parents, seen.flow, seen.retry_of) == ((show_id(parent),), show_id(flow), show_id(parent))
    assert (seen.lane, seen.gate, seen.needs, seen.key) == ("l", "g", {"gpu": 2}, "k")


def test_which_names_are_secret_can_be_said(harness: Harness) -> None:
    job_id = harness.send(payload=encode_arguments([], {"pin": 1234, "token": "t"}))
    seen = view.job(harness.engine, job_id, secret_names=("pin",))
    assert seen.kwargs == {"pin": "***", "token": "t"}


def test_what_cannot_be_read_is_told_and_the_rest_is_shown(harness: Harness) -> None:
    claim = harness.running(payload=b"damaged", options=b"\xff")
    harness.note(claim, "progress", b"not json")
    harness.finish(claim, result=encode_result(7))
    seen = view.job(harness.engine, claim.id)
    assert (seen.args, seen.kwargs, seen.has_result) == ([], {}, True)
    assert seen.unreadable == "The stored record has no envelope: it was damaged, or not written by Windlass."
    assert (seen.options, seen.progress, seen.state) == ("\ufffd", "not json", State.SUCCEEDED)


def test_a_job_that_never_was_is_an_error(harness: Harness) -> None:
    with pytest.raises(JobNotFound):
        view.job(harness.engine, new_id())


# ── many ────────────────────────────────────────────────────────────────────────────────────────────────


def test_pages_lead_through_all_that_a_query_finds(harness: Harness) -> None:
    mail = [show_id(job_id) for job_id in harness.send_many(5, queue="mail")]
    harness.send_many(3, queue="other")
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = view.jobs(harness.engine, Query(state=State.READY, queue="mail", limit=2, cursor=cursor))
        assert len(page.jobs) <= 2
        found += [line.id for line in page.jobs]
        if (cursor := page.cursor) is None:
            break
    assert sorted(found) == sorted(mail)


def die(harness: Harness, failure: Failure | None, task: str = "task", **fields: object) -> str:
    claim = harness.running(task=task, **fields)
    harness.finish(claim, Outcome.FAILED, failure=failure)
    return show_id(claim.id)


def test_dead_jobs_are_grouped_by_what_they_died_of(harness: Harness) -> None:
    start_us = harness.now_us
    ids: list[str] = []
    for number in range(3):
        down = Failure(type="Down", message=f"{URL} {number}", fingerprint="a")
        ids.append(die(harness, down, task=f"t{number % 2}"))
        harness.pass_time(60)
    other = die(harness, Failure(type="KeyError", fingerprint="b"), queue="mail")
    bare = die(harness, None)
    harness.finish(harness.running())
    seen = view.error_groups(harness.engine)
    assert (seen.looked_at, seen.more) == (5, False)
    first, *rest = seen.groups
    assert (first.fingerprint, first.count, first.example, first.tasks) == ("a", 3, ids[-1], ("t0", "t1"))
    assert first.error == "Down: redis://ann:***@db.example/0 2"
    assert (first.first_us, first.last_us) == (start_us, start_us + 120_000_000)
    assert {(group.fingerprint, group.error, group.count, group.example) for group in rest} == {
        ("b", "KeyError", 1, other),
        ("", "failed", 1, bare),
    }
    (only,) = view.error_groups(harness.engine, Query(queue="mail")).groups
    assert only.example == other


def again(harness: Harness, job_id: JobId, outcome: Outcome, **fields: Any) -> None:
    """The job's next run, which ends so a minute later."""
    (claim,) = harness.claim(harness.hand(), queues=(harness.record(job_id).queue,))
    harness.pass_time(60)
    harness.finish(claim, outcome, **fields)


def test_attempts_are_told_apart_after_a_retry_by_hand(harness: Harness) -> None:
    job_id, engine = harness.send(queue="q"), harness.engine

    def seen() -> tuple[int, int]:
        found = view.job(engine, job_id)
        return found.attempt, found.by_hand

    again(harness, job_id, Outcome.SNOOZE, delay_s=0)
    again(harness, job_id, Outcome.LOST)
    again(harness, job_id, Outcome.FAILED, delay_s=0)
    assert seen() == (2, 0), "nobody has retried it yet"
    again(harness, job_id, Outcome.TIMED_OUT)
    assert seen() == (2, 0)
    harness.amend(Change.RETRY, job_id)
    assert seen() == (1, 1)
    again(harness, job_id, Outcome.FAILED)
    assert seen() == (1, 1)
    harness.amend(Change.RETRY, job_id)
    again(harness, job_id, Outcome.CANCELLED)
    assert seen() == (1, 2)
    harness.amend(Change.RETRY, job_id)
    assert seen() == (1, 3)
    again(harness, job_id, Outcome.SUCCEEDED)
    assert seen() == (1, 3), "a success at the first try is no attempt that is kept"
    assert [(one.attempt, one.by_hand) for one in view.job(engine, job_id).attempts] == [
        *((1, 0), (1, 0), (1, 0), (2, 0)),
        *((1, 1), (1, 2)),
    ]


def test_an_error_was_first_seen_when_one_of_its_dead_first_had_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "STEP", 2)
    start_us = harness.now_us
    down, other = Failure(type="Down", fingerprint="a"), Failure(type="KeyError", fingerprint="b")
    ids = [harness.send(queue=f"q{number}") for number in range(5)]

    def minute_of_first() -> int:
        return (view.error_groups(harness.engine).groups[0].first_us - start_us) // 60_000_000

    for job_id in ids[:4]:
        again(harness, job_id, Outcome.FAILED, failure=other, delay_s=3_600)
    again(harness, ids[4], Outcome.FAILED, failure=down)
    assert minute_of_first() == 5
    harness.amend(Change.RETRY, ids[4])
    again(harness, ids[4], Outcome.FAILED, failure=down)
    assert minute_of_first() == 5, "a retry by hand does not make it new"
    harness.pass_time(3_600)
    for job_id in ids[:4]:
        again(harness, job_id, Outcome.FAILED, failure=down)
    late = harness.send(queue="q")
    again(harness, late, Outcome.FAILED, failure=down)
    assert minute_of_first() == 5, "and another error of these jobs is not this one"
    (group,) = view.error_groups(harness.engine).groups
    assert (group.count, (group.last_us - start_us) // 60_000_000) == (6, 71)


def test_groups_look_no_further_than_their_bound_and_say_so(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "PAGE", 2)
    for _ in range(5):
        die(harness, Failure(type="Down", fingerprint="a"), queue="q")
    seen = view.error_groups(harness.engine, most=3)
    assert (seen.looked_at, seen.more, seen.groups[0].count) == (4, True, 4)


def die_together(harness: Harness, n: int, failure: Failure) -> None:
    harness.send_many(n, queue="q")
    for claim in harness.claim_all(harness.hand(), queues=("q",)):
        harness.finish(claim, Outcome.FAILED, failure=failure)


def test_groups_do_not_hold_the_errors_of_all_their_jobs(harness: Harness) -> None:
    long, n = 60_000, 600
    die_together(harness, n, Failure(type="Down", message="x" * long, fingerprint="a"))
    tracemalloc.start()
    try:
        (group,) = view.error_groups(harness.engine).groups
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert group.count == n
    assert peak < n * long / 2
    assert group.error == f"Down: {'x' * 994}…"


def test_a_secret_is_masked_before_a_long_error_is_cut(harness: Harness) -> None:
    die(harness, Failure(type="Down", message=f"{'x' * 975} redis://ann:hunter2@db.example/0", fingerprint="a"))
    (group,) = view.error_groups(harness.engine).groups
    assert "hun" not in group.error


def test_who_goes_on_looking_goes_through_the_dead_only_when_others_are_dead(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, limits, search = FakeClock(), list[int](), harness.engine.search

    def searched(query: Query) -> Page:
        limits.append(query.limit)
        clock.advance(1_000)
        return search(query)

    die_together(harness, 250, Failure(type="Down", fingerprint="a"))
    monkeypatch.setattr(harness.engine, "search", searched)
    watch = DeadWatch(harness.engine, clock)
    first = watch.look()
    assert (limits, first.groups[0].count) == ([1, 100, 100, 100], 250)
    assert watch.look() is first
    assert limits == [1, 100, 100, 100], "it rests nine times as long as it took"
    clock.advance(27_000)
    assert watch.look() is first
    assert limits == [1, 100, 100, 100, 1], "nothing has changed"
    harness.pass_time(1)
    newest = die(harness, Failure(type="KeyError", fingerprint="b"))
    assert [(group.count, group.fingerprint) for group in watch.look().groups] == [(250, "a"), (1, "b")]
    harness.amend(Change.RETRY, read_id(newest))
    assert len(watch.look().groups) == 2, "it rests"
    clock.advance(27_000)
    assert len(watch.look().groups) == 1


def test_errors_of_one_place_make_one_group_whatever_they_say(app: App) -> None:
    def fails(number: int) -> None:
        raise ValueError(f"number {number}")

    task = app.task(name="fails")(fails)
    handles = task.delay_many([(number,) for number in range(4)])
    with Worker(app, slots=2):
        for handle in handles:
            with pytest.raises(JobDead):
                handle.get(timeout=10)
    (group,) = view.error_groups(app.engine).groups
    assert (group.count, group.tasks) == (4, ("fails",))
    assert group.error.startswith("ValueError: number ")
    assert read_id(group.example) in {handle.job_id for handle in handles}
