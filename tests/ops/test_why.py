"""Why a job waits: each sentence is true of what claim does, and names what to look at."""

from __future__ import annotations

import re

import pytest

from windlass.core.errors import JobNotFound
from windlass.core.ids import JobId, new_id, show_id
from windlass.core.info import Info, encode_info
from windlass.core.job import Edge, Failure, Outcome
from windlass.core.rates import Rate
from windlass.engines.protocol import Change, TallyQuery
from windlass.engines.sqlite import search
from windlass.ops.cards import info
from windlass.ops.why import Cause, explain, why
from windlass.testing.conformance import Harness

SECRETS = Failure(type="shop.Down", message="redis://ann:hunter2@db/0 is \x1b[31mdown\nnow.", fingerprint="f")


def ask(harness: Harness, job_id: JobId) -> str:
    """The sentence; it is one line that ends as a sentence does."""
    said = why(harness.engine, job_id, now_us=harness.now_us)
    assert re.fullmatch(r"[A-Z][^\n\x1b]*[^.]\.", said), said
    return said


def waits(harness: Harness, job_id: JobId, *sentence: str) -> None:
    """All workers ask for work, none gets the job, and this is why."""
    for card in harness.engine.tally(TallyQuery()).cards:
        assert job_id not in [claim.id for claim in harness.claim(card.worker, queues=card.queues)]
    said = ask(harness, job_id)
    for part in sentence:
        assert part in said, said


# ── where it is in its life ─────────────────────────────────────────────────────────────────────────────


def test_a_job_that_never_was_is_an_error(harness: Harness) -> None:
    with pytest.raises(JobNotFound, match="it never was"):
        why(harness.engine, new_id())


def test_an_ended_job_says_how_it_ended(harness: Harness) -> None:
    done, dead, cancelled = harness.running(), harness.running(), harness.send()
    harness.finish(done)
    harness.finish(dead, Outcome.FAILED, failure=SECRETS)
    harness.amend(Change.CANCEL, cancelled, reason="sold\x07 out")
    expired = harness.send(queue="late", expires_us=harness.now_us + 1)
    harness.pass_time(90)
    harness.claim(harness.hand(), queues=("late",))
    when = "ago, at 2027-01-15 08:00:00 UTC"
    assert ask(harness, done.id) == f"It has succeeded 1m 30s {when}."
    assert ask(harness, dead.id) == (
        f"It is dead (failed) since 1m 30s {when}: shop.Down: redis://ann:***@db/0 is \\x1b[31mdown\\nnow."
    )
    assert ask(harness, cancelled) == f"It was cancelled (sold\\x07 out) 1m 30s {when}."
    assert ask(harness, expired) == "It expired 0s ago, at 2027-01-15 08:01:30 UTC: it had not started by then."


def test_a_running_job_says_where_and_since_when(harness: Harness) -> None:
    claim = harness.running()
    harness.pass_time(5)
    assert ask(harness, claim.id) == "It is running: worker hand has had it for 5s (since 2027-01-15 08:00:00 UTC)."
    harness.amend(Change.CANCEL, claim.id)
    assert ask(harness, claim.id).endswith(", and it has been asked to cancel.")


def test_a_scheduled_job_says_when(harness: Harness) -> None:
    job_id = harness.send(delay_us=90_000_000)
    harness.worker()
    waits(harness, job_id)
    assert ask(harness, job_id) == "It is scheduled for 2027-01-15 08:01:30 UTC, in 1m 30s."
    harness.pass_time(91)
    assert ask(harness, job_id).startswith("It is the next on its queue"), "due, though nobody has moved it yet"


def test_a_retry_says_after_which_error(harness: Harness) -> None:
    claim = harness.running()
    harness.finish(claim, Outcome.FAILED, delay_s=60, failure=SECRETS)
    waits(harness, claim.id, "in 1m: attempt 2, after attempt 1 failed with shop.Down: redis://ann:***@db/0 is \\x1b")


def test_a_snoozed_job_says_so(harness: Harness) -> None:
    claim = harness.running()
    harness.finish(claim, Outcome.SNOOZE, delay_s=60)
    waits(harness, claim.id, "in 1m: its last run asked to be run again then.")


# ── what holds it ───────────────────────────────────────────────────────────────────────────────────────


def test_a_flow_that_is_not_started_holds_its_jobs(harness: Harness) -> None:
    flow = new_id()
    job_id = harness.send(flow=flow)
    harness.worker()
    waits(harness, job_id, f"held until its flow {show_id(flow)} is started")


def test_open_parents_are_counted_and_named(harness: Harness) -> None:
    parents = [harness.running().id for _ in range(2)]
    done = harness.running()
    harness.finish(done)
    job_id = harness.send(parents=tuple(Edge(parent) for parent in (*parents, done.id)))
    waits(harness, job_id, "2 of 3 are open, ", f"{show_id(parents[0])} (running)")


def test_an_heir_is_waited_for_in_its_parents_place(harness: Harness) -> None:
    claim = harness.running()
    job_id = harness.send(parents=(Edge(claim.id),))
    heir = harness.new(queue="elsewhere")
    harness.finish(claim, follow_ups=(heir,), become=heir.id)
    said = ask(harness, job_id)
    assert f"1 of 1 is open, {show_id(heir.id)} (ready)." in said


@pytest.mark.parametrize(("outcome", "state"), [(None, "running"), (Outcome.FAILED, "scheduled")])
def test_a_busy_lane_names_who_is_in_it(harness: Harness, outcome: Outcome | None, state: str) -> None:
    claim = harness.running(lane="acme", queue="a")
    harness.send(lane="acme", queue="a", delay_us=1_000_000)  # joins when it is due: it is in nobody's way
    job_id = harness.send(lane="acme", queue="b")
    if outcome is not None:
        harness.finish(claim, outcome, delay_s=60)
    waits(harness, job_id, f"Its lane acme is busy with job {show_id(claim.id)}, which is {state}.")


# ── its gates ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_paused_queue_is_the_reason_before_any_worker(harness: Harness) -> None:
    job_id = harness.send(queue="mail")
    harness.set_gate("queue/mail", paused=True, limit=5)
    waits(harness, job_id, "Its queue mail is paused; it goes on when that is resumed.")
    found = explain(harness.engine, job_id, now_us=harness.now_us)
    assert (found.cause, found.queue) == (Cause.QUEUE_PAUSED, "mail")
    harness.worker()
    waits(harness, job_id, "Its queue mail is paused")


def test_a_shared_gate_that_is_paused_is_named(harness: Harness) -> None:
    job_id = harness.send(gate="stripe")
    harness.set_gate("gate/stripe", paused=True)
    harness.worker()
    waits(harness, job_id, "Its gate stripe is paused")
    assert explain(harness.engine, job_id, now_us=harness.now_us).cause is None, "no queue is to be resumed"


def test_a_rule_that_has_expired_holds_nothing(harness: Harness) -> None:
    job_id = harness.send(queue="mail")
    harness.set_gate("queue/mail", paused=True, ttl_us=1_000_000)
    harness.worker()
    harness.pass_time(2)
    assert ask(harness, job_id).startswith("It is the next on its queue mail")


def test_an_open_breaker_says_for_how_long(harness: Harness) -> None:
    job_id = harness.send(gate="stripe")
    harness.set_gate("gate/stripe", shut_until_us=harness.now_us + 30_000_000, probes=1)
    harness.worker()
    waits(harness, job_id, "The breaker of its gate stripe is open for another 30s, until 2027-01-15 08:00:30 UTC")
    waits(harness, job_id, ", and then lets 1 at a time try.")


@pytest.mark.parametrize(
    ("key", "name", "fields"),
    [("queue/mail", "its queue mail", {"queue": "mail"}), ("gate/g", "its gate g", {"queue": "mail", "gate": "g"})],
)
def test_a_limit_that_is_reached_says_how_many_run(
    harness: Harness, key: str, name: str, fields: dict[str, object]
) -> None:
    harness.set_gate(key, limit=2)
    harness.running(queue="other")
    for _ in range(2):
        harness.running(**fields)
    job_id = harness.send(**fields)  # pyright: ignore[reportArgumentType]
    waits(harness, job_id, f"The limit of {name} is reached: 2 of 2 are running.")
    harness.set_gate(key, probes=2)
    waits(harness, job_id, f"The trial after an open breaker of {name} is reached: 2 of 2 are running.")
    harness.set_gate(key, limit=3)
    assert ask(harness, job_id).startswith("It is the next on its queue mail")


def test_a_rate_is_named_where_a_slot_is_free(harness: Harness) -> None:
    harness.set_gate("queue/mail", rate=Rate(10, 60_000_000))
    worker = harness.worker(slots=2, name="ann")
    first, second, third = harness.send_many(3, queue="mail")
    assert [claim.id for claim in harness.claim(worker)] == [first]
    waits(harness, second, "It waits for the rate of its queue mail, 10/1m burst 1: one job every 6s.")
    waits(harness, third, "one job every 6s, and it is behind about 1 job.")


# ── who could run it ────────────────────────────────────────────────────────────────────────────────────


def test_no_worker_at_all(harness: Harness) -> None:
    job_id = harness.send(queue="mail")
    assert ask(harness, job_id) == "No worker is running: start one that takes the queue mail."


def test_workers_that_drain_take_nothing_more(harness: Harness) -> None:
    job_id = harness.send("mail.send", queue="mail")
    leaving = encode_info(Info(state="draining"))
    harness.worker(name="ann", host="here", queues=("mail",), tasks=("mail.send",), info=leaving)
    assert ask(harness, job_id) == "No worker takes its queue mail any more: ann@here drains or stops."
    assert explain(harness.engine, job_id, now_us=harness.now_us).cause is Cause.QUEUE_NOT_TAKEN
    harness.worker(name="bob", host="here", queues=("mail",), tasks=("reports",))
    assert ask(harness, job_id) == (
        "It is waiting for a worker that knows its task mail.send: bob@here takes its queue mail and does not know it."
    )
    harness.worker(name="eve", host="here", tasks=("mail.send",))
    assert "eve@here with 1 slot can take it" in ask(harness, job_id)


def test_no_worker_that_takes_the_queue_names_those_there_are(harness: Harness) -> None:
    job_id = harness.send(queue="mails")
    for name in ("ann", "bob"):
        harness.worker(name=name, host="here", queues=("mail", "default"))
    waits(harness, job_id)
    assert ask(harness, job_id) == (
        "No worker takes its queue mails (is mail meant?): ann@here and bob@here take default and mail."
    )


def test_an_unknown_task_is_waiting_for_a_worker_that_knows_it(harness: Harness) -> None:
    job_id = harness.send("mail.sned", queue="mail")
    harness.worker(name="ann", tasks=("mail.send", "mail.read"))
    waits(harness, job_id)
    assert ask(harness, job_id) == (
        "It is waiting for a worker that knows its task mail.sned (is mail.send meant?): "
        "ann takes its queue mail and does not know it."
    )
    harness.worker(name="bob", queues=("other",), tasks=("mail.sned",))
    waits(harness, job_id, "does not know it, while bob takes only other.")
    harness.worker(name="eve")
    assert ask(harness, job_id) == "It is the next on its queue mail, and eve with 1 slot can take it at any moment."


def test_a_suspect_says_that_it_runs_alone(harness: Harness) -> None:
    job_id = harness.send()
    for _ in range(2):
        worker = harness.worker()
        assert [claim.id for claim in harness.claim(worker)] == [job_id]
        harness.vanish(worker)
        harness.sweep_all()
    harness.worker()
    waits(harness, job_id, "until a worker can run it with nothing beside it, because 2 workers died while they had it")


def has(free: dict[str, int] | None = None, **resources: int) -> bytes:
    """What a card says of what its worker has."""
    return encode_info(Info(resources=resources, free=resources if free is None else free))


def too_big(harness: Harness, job_id: JobId) -> str:
    """The sentence, after every worker has asked for work with all that it has, and got nothing."""
    for card in harness.engine.tally(TallyQuery()).cards:
        there = info(card).resources
        assert harness.claim(card.worker, free=there, total=there) == []
    return ask(harness, job_id)


def test_a_job_that_needs_more_memory_than_any_worker_has_says_how_much_there_is(harness: Harness) -> None:
    job_id = harness.send(needs=(("memory", 8_000_000_000),))
    harness.worker(name="ann")
    assert too_big(harness, job_id) == (
        "It needs 8GB of memory, and no worker that knows its task has any: start one with --memory."
    )
    harness.worker(name="bob", info=has(memory=4_000_000_000))
    assert too_big(harness, job_id) == "It needs 8GB of memory, and the largest worker has 4GB."
    harness.worker(name="cid", info=has(memory=7_999_999_999))
    assert too_big(harness, job_id) == (
        "It needs 8,000,000,000 bytes of memory, and the largest worker has 7,999,999,999 bytes."
    )
    harness.worker(name="eve", info=has(memory=16_000_000_000), tasks=("other",))
    assert ask(harness, job_id).endswith("and the largest worker that knows its task has 7,999,999,999 bytes.")
    worker = harness.worker(name="dan", info=has(memory=8_000_000_000))
    assert ask(harness, job_id).endswith("can take it at any moment.")
    there = {"memory": 8_000_000_000}
    assert [claim.id for claim in harness.claim(worker, free=there, total=there)] == [job_id]


def test_a_job_that_needs_a_resource_nobody_has_says_how_to_start_one(harness: Harness) -> None:
    job_id = harness.send(needs=(("browser", 2),))
    harness.worker(info=has(memory=100))
    assert too_big(harness, job_id) == (
        "It needs 2 browser, and no worker that knows its task has any: start one with --resource browser=2."
    )
    harness.worker(info=has(browser=1))
    assert too_big(harness, job_id) == "It needs 2 browser, and no worker that knows its task has more than 1."


def test_a_job_whose_needs_are_on_no_worker_together_says_so(harness: Harness) -> None:
    job_id = harness.send(needs=(("browser", 2), ("memory", 1_000_000_000)))
    harness.worker(info=has(browser=2, memory=500_000_000))
    harness.worker(info=has(memory=2_000_000_000))
    assert too_big(harness, job_id) == (
        "It needs 2 browser and 1GB of memory, and no worker that knows its task has all of it."
    )


def test_a_job_that_waits_for_room_says_where(harness: Harness) -> None:
    job_id = harness.send(needs=(("browser", 2), ("memory", 2_000_000_000)))
    full = has({"browser": 2, "memory": 1_000_000_000}, browser=4, memory=4_000_000_000)
    harness.worker(name="ann", host="web1", info=full)
    harness.worker(name="bob", info=has({"browser": 0, "memory": 0}, browser=2, memory=2_000_000_000))
    harness.worker(name="cid", info=has(memory=64_000_000_000))
    assert ask(harness, job_id) == "It waits for 2GB of memory: the worker ann@web1 has 1GB of 4GB free."
    harness.worker(name="dan", info=has(browser=2, memory=2_000_000_000))
    assert ask(harness, job_id).endswith("can take it at any moment.")


def test_a_job_that_waits_for_another_resource_says_how_much_of_it_is_free(harness: Harness) -> None:
    job_id = harness.send(needs=(("browser", 2),))
    harness.worker(name="ann", info=has({"browser": 1}, browser=4))
    assert ask(harness, job_id) == "It waits for 2 browser: the worker ann has 1 of 4 free."


def test_where_a_card_does_not_say_what_is_free_nothing_is_said_of_it(harness: Harness) -> None:
    job_id = harness.send(needs=(("browser", 2),))
    harness.worker(name="ann", info=has({}, browser=4))
    assert ask(harness, job_id).endswith("can take it at any moment.")


def test_a_card_that_says_something_else_is_no_harm(harness: Harness) -> None:
    job_id = harness.send(needs=(("gpu", 2),))
    harness.worker(info=b"\xff not json")
    assert ask(harness, job_id).startswith("It needs 2 gpu")


def test_a_dead_worker_does_not_count_though_nobody_has_swept(harness: Harness) -> None:
    if harness.engine.capabilities.death == "lease":
        pytest.skip("by lease, only another worker may call it dead")
    worker = harness.worker(name="ann")
    first, second = harness.send(), harness.send()
    assert [claim.id for claim in harness.claim(worker, 1)] == [first]
    harness.vanish(worker)
    for job_id in (first, second):
        assert ask(harness, job_id) == "No worker is running: start one that takes the queue default."


# ── its place in line ───────────────────────────────────────────────────────────────────────────────────


def test_those_before_it_are_counted_by_rank_and_not_those_nobody_knows(harness: Harness) -> None:
    harness.send_many(3, queue="mail")
    harness.send_many(7, "unknown", queue="mail")
    job_id = harness.send(queue="mail")
    harness.send_many(2, queue="mail")  # behind it
    harness.send_many(5, queue="other")
    harness.send(queue="mail", priority=9)
    harness.worker(name="ann", slots=4, tasks=("task",))
    assert ask(harness, job_id) == "It is behind about 4 jobs on its queue mail, which ann with 4 slots takes."


def test_a_long_queue_is_looked_at_no_further_than_a_bound(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SEARCH_MS", 60_000)  # a busy machine would not come as far as the bound
    ids = harness.send_many(2_500)
    harness.worker(name="ann")
    assert re.match(r"It is behind at least (1,999|2,000) jobs on its queue default", ask(harness, ids[-1]))
    assert ask(harness, ids[0]).startswith("It is one of about 2,500 ready jobs on its queue default")


def test_the_next_one_says_whether_the_slots_are_busy(harness: Harness) -> None:
    worker = harness.worker(name="ann", slots=2)
    first, second, third = harness.send_many(3)
    assert ask(harness, first).endswith("and ann with 2 slots can take it at any moment.")
    harness.claim(worker, 2)
    assert ask(harness, third) == "It is the next on its queue default, and ann with 2 slots is busy."
    assert ask(harness, second).startswith("It is running: worker ann")
