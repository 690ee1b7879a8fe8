"""Whether work can be done, and which worker says so."""

from __future__ import annotations

import msgspec

import windlass
from windlass import App, Worker
from windlass.core.info import encode_info
from windlass.ops.cards import Info, info, take_stock
from windlass.ops.health import live, ready
from windlass.testing.conformance import Harness


def beaten(now_us: int) -> bytes:
    return msgspec.json.encode(Info(beat_us=now_us))


def test_ready_is_who_has_a_worker_that_lives(harness: Harness) -> None:
    engine, now_us = harness.engine, harness.now_us
    assert ready(engine, now_us=now_us).said == "No worker is running."
    harness.worker(name="ann", host="here", queues=("mail",), info=beaten(now_us))
    found = ready(engine, now_us=now_us)
    assert (found.ok, found.said, found.workers) == (True, "1 worker takes jobs: ann@here.", ("ann@here",))
    assert ready(engine, "mail", now_us=now_us).ok
    other = ready(engine, "default", now_us=now_us)
    assert (other.ok, other.said) == (False, "No worker takes jobs of the queue default: there is only ann@here.")
    harness.worker(name="bob", host="there")
    assert ready(engine, "default", now_us=now_us).workers == ("bob@there",)
    assert ready(engine, now_us=now_us).said == "2 workers take jobs: ann@here and bob@there."


def test_a_worker_that_gave_no_sign_of_life_within_its_lease_counts_for_nothing(harness: Harness) -> None:
    engine, now_us = harness.engine, harness.now_us
    harness.worker(name="ann", host="here", info=beaten(now_us), lease_us=15_000_000)
    assert ready(engine, now_us=now_us + 15_000_000).ok
    late = ready(engine, now_us=now_us + 15_000_001)
    assert (late.ok, late.said) == (False, "No worker has given a sign of life within its lease: ann@here.")


def test_a_worker_that_drains_is_live_and_not_ready(harness: Harness) -> None:
    engine, now_us = harness.engine, harness.now_us
    harness.worker(name="ann", host="here", info=encode_info(Info(beat_us=now_us, state="draining")))
    assert live(engine, "here", now_us=now_us).ok
    found = ready(engine, now_us=now_us)
    assert (found.ok, found.said) == (False, "No worker takes jobs any more: ann@here drains or stops.")
    harness.worker(name="bob", host="here", queues=("mail",), info=beaten(now_us))
    assert ready(engine, now_us=now_us).workers == ("bob@here",)
    other = ready(engine, "default", now_us=now_us)
    assert other.said == "No worker takes jobs of the queue default: there is only bob@here."


def test_live_is_about_the_workers_of_one_host(harness: Harness) -> None:
    engine, now_us = harness.engine, harness.now_us
    harness.worker(name="ann", host="here", info=beaten(now_us), lease_us=15_000_000)
    harness.worker(name="bob", host="here", info=beaten(now_us), lease_us=60_000_000)
    assert live(engine, "there", now_us=now_us).said == "No worker is running on there."
    assert live(engine, "here", "eve", now_us=now_us).said == "No worker called eve is running on here."
    assert live(engine, "here", now_us=now_us).workers == ("ann@here", "bob@here")
    later = now_us + 15_000_001
    assert live(engine, "here", now_us=later).said == "ann@here gave no sign of life within the lease."
    assert live(engine, "here", "bob", now_us=later).ok


def test_a_card_that_does_not_say_when_it_beat_is_believed(harness: Harness) -> None:
    harness.worker(name="ann", host="here")
    assert live(harness.engine, "here").ok


def test_a_worker_says_its_version_and_when_it_beat(app: App) -> None:
    @app.task(name="nothing")
    def nothing() -> None: ...

    assert nothing.name == "nothing"
    with Worker(app, name="ann"):
        (card,) = take_stock(app.engine).cards
        assert ready(app.engine).ok
    assert info(card).version == windlass.__version__
    assert info(card).beat_us > 0
