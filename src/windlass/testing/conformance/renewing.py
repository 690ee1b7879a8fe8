"""renew: one beat for all of a worker's jobs, counted once, answered with what the worker has to know."""

from __future__ import annotations

import pytest

from windlass.core.errors import WorkerGone
from windlass.core.ids import new_id
from windlass.core.job import Outcome, State
from windlass.engines.protocol import (
    HISTORY_KEPT,
    SPANS_US,
    Beat,
    Card,
    Change,
    Delta,
    Order,
    Span,
    TallyQuery,
    Verdict,
)
from windlass.testing.conformance.harness import SECOND_US, Harness


def _delta(n: int, name: str = "ok") -> Delta:
    return Delta(queue="q", task="t", name=name, n=n)


def _total(harness: Harness, span: Span = "day", name: str = "ok") -> int:
    buckets = harness.engine.tally(TallyQuery(span=span)).buckets
    return sum(bucket.n for bucket in buckets if bucket.name == name)


class Renewing:
    """Beats, cards, counts and orders."""

    # ── cards ───────────────────────────────────────────────────────────────────────────────────────────

    def test_the_first_beat_announces_a_worker(self, harness: Harness) -> None:
        card = Card(worker=new_id(), name="w", host="h", pid=7, tasks=("a", "b"), slots=4, info=b"{}")
        orders = harness.engine.renew(Beat(card=card, beat=0))
        assert (orders.gone, orders.claims, orders.cancel, orders.command) == (False, 0, (), None)
        assert orders.now_us == harness.now_us
        assert harness.engine.tally(TallyQuery()).cards == (card,)

    def test_a_worker_and_its_host_may_be_called_in_any_language(self, harness: Harness) -> None:
        card = Card(worker=new_id(), name="Büro 2, 東京", host="Anns Rechner")
        harness.engine.renew(Beat(card=card, beat=0))
        assert harness.engine.tally(TallyQuery()).cards == (card,)

    def test_a_later_beat_of_a_worker_nobody_knows_is_answered_gone(self, harness: Harness) -> None:
        assert harness.engine.renew(Beat(card=Card(worker=new_id()), beat=1)).gone
        assert harness.engine.tally(TallyQuery()).cards == ()

    def test_a_beat_brings_the_card_up_to_date(self, harness: Harness) -> None:
        worker = harness.worker(tasks=("a",))
        harness.teach(worker, "a", "b")
        (card,) = harness.engine.tally(TallyQuery()).cards
        assert card.tasks == ("a", "b")

    def test_a_late_old_beat_does_not_bring_an_old_card_back(self, harness: Harness) -> None:
        worker = new_id()
        old, new = (Beat(card=Card(worker=worker, slots=n), beat=n) for n in (1, 2))
        for beat in (Beat(card=Card(worker=worker), beat=0), old, new, old):
            assert not harness.engine.renew(beat).gone
        (card,) = harness.engine.tally(TallyQuery()).cards
        assert card.slots == 2

    def test_an_expired_card_that_nobody_swept_renews(self, harness: Harness) -> None:
        claim = harness.running()
        worker = harness.hand()
        harness.clock.advance(3_600 * SECOND_US)
        orders = harness.renew(worker)
        assert not orders.gone
        assert orders.claims == 1
        assert harness.finish(claim) is Verdict.ACCEPTED

    def test_a_swept_worker_is_gone_and_its_old_fences_are_stale(self, harness: Harness) -> None:
        harness.send()
        harness.worker()
        dead = harness.worker()
        card = harness.card(dead)
        (claim,) = harness.claim(dead)
        harness.vanish(dead)
        harness.sweep_all()
        assert harness.engine.renew(Beat(card=card, beat=99)).gone
        assert harness.finish(claim) is Verdict.STALE

    # ── counts ──────────────────────────────────────────────────────────────────────────────────────────

    def test_deltas_are_added_up_in_every_span(self, harness: Harness) -> None:
        one, two = harness.worker(), harness.worker()
        harness.renew(one, _delta(2), _delta(1, "failed"))
        harness.renew(two, _delta(3))
        for span in SPANS_US:
            assert (_total(harness, span), _total(harness, span, "failed")) == (5, 1)

    def test_a_repeated_beat_adds_its_deltas_once(self, harness: Harness) -> None:
        card = Card(worker=new_id())
        for beat in (0, 1, 1, 0, 1):
            harness.engine.renew(Beat(card=card, beat=beat, deltas=(_delta(1),)))
        assert _total(harness) == 2

    def test_a_late_old_beat_does_not_make_a_newer_one_count_twice(self, harness: Harness) -> None:
        card = Card(worker=new_id())
        for beat in (0, 1, 2, 1, 2):
            harness.engine.renew(Beat(card=card, beat=beat, deltas=(_delta(1),)))
        assert _total(harness) == 3

    def test_buckets_begin_where_their_span_does(self, harness: Harness) -> None:
        worker = harness.worker()
        harness.renew(worker, _delta(1))
        harness.jump(61)
        harness.renew(worker, _delta(1))
        for span, size_us in SPANS_US.items():
            buckets = harness.engine.tally(TallyQuery(span=span)).buckets
            assert all(bucket.start_us % size_us == 0 for bucket in buckets)
            assert all(bucket.start_us <= harness.now_us for bucket in buckets)
        assert len(harness.engine.tally(TallyQuery(span="minute")).buckets) == 2

    def test_history_is_given_from_the_instant_asked_for(self, harness: Harness) -> None:
        worker = harness.worker()
        harness.renew(worker, _delta(1))
        harness.jump(3_600)
        since_us = harness.now_us
        harness.renew(worker, _delta(5))
        buckets = harness.engine.tally(TallyQuery(span="minute", since_us=since_us - 60 * SECOND_US)).buckets
        assert [bucket.n for bucket in buckets] == [5]
        assert harness.engine.tally(TallyQuery()).buckets == ()

    @pytest.mark.parametrize("span", SPANS_US)
    def test_history_is_bounded(self, harness: Harness, span: Span) -> None:
        worker = harness.worker()
        harness.renew(worker, _delta(1))
        harness.jump((HISTORY_KEPT[span] - 1) * SPANS_US[span] / SECOND_US)
        harness.sweep_all()
        assert _total(harness, span) == 1
        harness.jump(2 * SPANS_US[span] / SECOND_US)
        harness.sweep_all()
        assert _total(harness, span) == 0

    # ── orders ──────────────────────────────────────────────────────────────────────────────────────────

    def test_the_answer_counts_the_claims_the_store_holds(self, harness: Harness) -> None:
        harness.send_many(5)
        worker = harness.worker()
        claims = harness.claim(worker, 3)
        assert harness.renew(worker).claims == 3
        harness.finish(claims[0])
        harness.finish(claims[1], Outcome.FAILED, delay_s=60)
        assert harness.renew(worker).claims == 1

    def test_the_answer_names_the_jobs_to_cancel_until_they_are_settled(self, harness: Harness) -> None:
        worker, other = harness.worker(), harness.worker()
        harness.send_many(3)
        mine, theirs = harness.claim(worker, 2), harness.claim(other)
        harness.amend(Change.CANCEL, mine[1].id, theirs[0].id)
        for _ in range(2):
            assert harness.renew(worker).cancel == (mine[1].id,)
        harness.finish(mine[1], Outcome.CANCELLED)
        assert harness.renew(worker).cancel == ()
        assert harness.renew(other).cancel == (theirs[0].id,)

    def test_an_order_written_for_a_worker_is_handed_to_it_alone(self, harness: Harness) -> None:
        worker, other = harness.worker(), harness.worker()
        harness.put(f"worker/{worker.hex()}", b"drain")
        assert harness.renew(worker).command == b"drain"
        assert harness.renew(other).command is None
        harness.put(f"worker/{worker.hex()}", None)
        assert harness.renew(worker).command is None

    def test_an_order_is_handed_over_only_while_it_lives(self, harness: Harness) -> None:
        worker = harness.worker()
        harness.put(f"worker/{worker.hex()}", b"drain", ttl_us=2 * SECOND_US)
        harness.pass_time(1)
        assert harness.renew(worker).command == b"drain"
        harness.pass_time(1)
        assert harness.renew(worker).command is None

    # ── bye ─────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_worker_that_says_goodbye_leaves_nothing_behind(self, harness: Harness) -> None:
        worker = harness.worker()
        harness.put(f"worker/{worker.hex()}", b"drain")
        harness.renew(worker, _delta(4), bye=True)
        assert harness.engine.tally(TallyQuery()).cards == ()
        assert harness.engine.read([f"worker/{worker.hex()}"]) == [None]
        assert _total(harness) == 4
        with pytest.raises(WorkerGone):
            harness.engine.claim(Order(worker=worker, ticket=1))

    def test_what_a_worker_still_held_at_its_goodbye_is_taken_back_by_sweep(self, harness: Harness) -> None:
        job_id = harness.send()
        harness.worker()
        leaver = harness.worker()
        (claim,) = harness.claim(leaver)
        harness.renew(leaver, bye=True)
        harness.pass_time(30)
        harness.sweep_all()
        assert harness.state(job_id) is State.READY
        assert harness.finish(claim) is Verdict.STALE

    def test_a_worker_that_said_goodbye_with_claims_in_hand_is_gone(self, harness: Harness) -> None:
        harness.send()
        worker = harness.worker()
        card = harness.card(worker)
        harness.claim(worker)
        harness.renew(worker, bye=True)
        assert harness.engine.renew(Beat(card=card, beat=99)).gone
        with pytest.raises(WorkerGone):
            harness.engine.claim(Order(worker=worker, ticket=9))

    def test_a_worker_that_said_goodbye_may_still_settle_what_was_not_swept(self, harness: Harness) -> None:
        harness.send()
        worker = harness.worker()
        (claim,) = harness.claim(worker)
        harness.renew(worker, bye=True)
        assert harness.finish(claim) is Verdict.ACCEPTED
        harness.sweep_all()
        assert harness.state(claim.id) is State.SUCCEEDED
