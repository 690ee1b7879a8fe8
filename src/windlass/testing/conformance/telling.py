"""What a store tells: counts, small shared facts, and hints to those who wait."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from windlass.core.errors import BadName, StoreClosed, TooLarge
from windlass.core.ids import new_id
from windlass.core.job import Edge, Outcome, State, Unique
from windlass.engines.protocol import Change, Hint, Interest, Order, Put, Query, Sweep, TallyQuery, Written
from windlass.testing.conformance.harness import DAY_US, SECOND_US, Harness, Listener


def _counted(harness: Harness) -> Counter[tuple[str, str, State]]:
    counts = harness.engine.tally(TallyQuery()).counts
    assert all(count.n > 0 for count in counts)
    assert len({(count.queue, count.task, count.state) for count in counts}) == len(counts)
    return Counter({(count.queue, count.task, count.state): count.n for count in counts})


def _recounted(harness: Harness) -> Counter[tuple[str, str, State]]:
    records = [(job.request.task, job.record) for job in harness.find(Query(limit=1_000))]
    return Counter((record.queue, task, record.state) for task, record in records if record is not None)


class Telling:
    """tally, read and write, listen and signal, close."""

    # ── tally ───────────────────────────────────────────────────────────────────────────────────────────

    def test_an_empty_store_counts_nothing(self, harness: Harness) -> None:
        assert _counted(harness) == Counter()

    def test_every_job_is_counted_where_it_is(self, harness: Harness) -> None:
        ids = {state: harness.job_in(state) for state in State}
        counts = _counted(harness)
        for state, job_id in ids.items():
            queue = harness.record(job_id).queue
            assert {key: n for key, n in counts.items() if key[0] == queue} == {(queue, "task", state): 1}

    def test_the_counts_equal_a_recount_after_a_mixed_history(self, harness: Harness) -> None:
        worker = harness.worker(tasks=("a", "b", "c"))
        doomed = harness.worker()
        for task in ("a", "b"):
            harness.send_many(8, task, lane=f"lane-{task}", lane_limit=2)
            harness.send_many(4, task, queue="other", delay_us=5 * SECOND_US)
            harness.send_many(3, task, expires_us=harness.now_us + 20 * SECOND_US, priority=2)
        harness.send_many(5, "unknown", queue="other")
        parent = harness.send("a", unique=Unique("k"), priority=9)
        harness.insert(harness.request("a", unique=Unique("k")))
        harness.send_many(120, "c", parents=(Edge(parent),))
        assert _counted(harness) == _recounted(harness)

        harness.claim(doomed, 3)
        outcomes = [*Outcome, None]
        for index, claim in enumerate(harness.claim_all(worker)):
            outcome = outcomes[index % len(outcomes)]
            move = {"queue": "graveyard"} if outcome is Outcome.FAILED and index % 2 else {}
            harness.finish(claim, outcome, delay_s=3 if outcome in (Outcome.SNOOZE, Outcome.RETRY) else None, **move)
        assert _counted(harness) == _recounted(harness)

        harness.vanish(doomed)
        harness.sweep(limit=5)
        harness.amend_all(Change.RETRY, Query(state=State.DEAD))
        harness.amend_all(Change.CANCEL, Query(state=State.SCHEDULED))
        harness.amend_all(Change.DELETE, Query(state=State.EXPIRED, task="b"))
        assert _counted(harness) == _recounted(harness)

        harness.drain(worker)
        harness.sweep_all()
        assert _counted(harness) == _recounted(harness)
        assert sum(_counted(harness).values()) > 100
        harness.jump(40 * DAY_US / SECOND_US)
        harness.sweep_all()
        assert _counted(harness) == _recounted(harness)

    # ── facts ───────────────────────────────────────────────────────────────────────────────────────────

    def test_a_fact_is_read_as_it_was_written(self, harness: Harness) -> None:
        written = harness.put("a/b", b"\x00\xff")
        there, missing = harness.another().read(["a/b", "a/c"])
        assert there is not None
        assert (there.key, there.value, there.version) == ("a/b", b"\x00\xff", written.version)
        assert there.expires_us is None
        assert missing is None

    def test_a_version_grows_with_every_write(self, harness: Harness) -> None:
        versions = [harness.put("k", b"%d" % n).version for n in range(3)]
        harness.clock.set_back(DAY_US)
        versions.append(harness.put("k", b"4").version)
        assert versions == sorted(set(versions))
        assert versions[0] > 0

    def test_a_version_never_comes_back_after_a_delete(self, harness: Harness) -> None:
        old = harness.put("k", b"1")
        harness.put("k", None)
        new = harness.put("k", b"2")
        assert new.version > old.version
        assert not harness.put("k", b"3", expect=old.version).done

    def test_a_write_is_done_only_if_what_is_there_is_expected(self, harness: Harness) -> None:
        first = harness.put("k", b"1", expect=0)
        assert first.done
        assert harness.put("k", b"2", expect=0) == Written(done=False, version=first.version)
        second = harness.put("k", b"2", expect=first.version)
        assert second.done
        assert not harness.put("k", b"3", expect=first.version).done
        (fact,) = harness.engine.read(["k"])
        assert fact is not None
        assert (fact.value, fact.version) == (b"2", second.version)

    def test_a_delete_can_be_conditional_too(self, harness: Harness) -> None:
        version = harness.put("k", b"1").version
        assert not harness.put("k", None, expect=version + 1).done
        assert harness.put("k", None, expect=version) == Written(done=True, version=0)
        assert harness.engine.read(["k"]) == [None]
        assert harness.put("k", None).done

    def test_of_many_who_expect_nothing_one_writes(self, harness: Harness) -> None:
        engines = [harness.another() for _ in range(4)]

        def writes(n: int) -> bool:
            (written,) = engines[n % 4].write([Put(key="k", value=b"%d" % n, expect=0)])
            return written.done

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(writes, range(40))).count(True) == 1

    def test_the_writes_of_one_call_see_each_other(self, harness: Harness) -> None:
        puts = [Put(key="k", value=value, expect=0) for value in (b"1", b"2")]
        answers = harness.engine.write(puts)
        assert [answer.done for answer in answers] == [True, False]

    def test_a_fact_is_gone_when_its_time_is_over_swept_or_not(self, harness: Harness) -> None:
        harness.put("k", b"1", ttl_us=10 * SECOND_US)
        (fact,) = harness.engine.read(["k"])
        assert fact is not None
        assert fact.expires_us == harness.now_us + 10 * SECOND_US
        harness.jump(10)
        assert harness.engine.read(["k"]) == [None]
        assert harness.put("k", b"2", expect=0).done
        harness.sweep_all()
        (fact,) = harness.engine.read(["k"])
        assert fact is not None
        assert fact.value == b"2"

    @pytest.mark.parametrize("key", ["", "no spaces", "a//b", "/a", "a/" + "x" * 129])
    def test_a_bad_key_is_refused_and_nothing_is_written(self, harness: Harness, key: str) -> None:
        with pytest.raises(BadName):
            harness.engine.write([Put(key="good", value=b"1"), Put(key=key, value=b"1")])
        assert harness.engine.read(["good"]) == [None]

    def test_a_fact_that_is_too_large_is_refused(self, harness: Harness) -> None:
        with pytest.raises(TooLarge, match="fact_bytes"):
            harness.put("k", bytes(harness.limits.fact_bytes + 1))

    # ── hints ───────────────────────────────────────────────────────────────────────────────────────────

    def test_a_listener_hears_of_what_came_between_its_claims_for_some_tasks_and_for_others(
        self, harness: Harness
    ) -> None:
        worker = harness.worker()
        assert not harness.claim(worker, tasks=frozenset({"some"}))
        harness.send("some")
        assert not harness.claim(worker, tasks=frozenset({"others"}))
        for _ in range(2):  # and again, as long as it has not claimed
            hints = harness.engine.listen(Interest(queues=None, worker=worker), Listener.LONGEST_S)
            assert [hint.kind for hint in hints] == ["work"]
        assert len(harness.claim(worker, tasks=frozenset({"some"}))) == 1
        assert not harness.claim(worker)
        harness.engine.listen(Interest(queues=None, worker=worker), 0)  # it may be told once more of what it has
        assert not harness.claim(worker)
        assert harness.engine.listen(Interest(queues=None, worker=worker), 0) == []

    def test_a_listener_with_nothing_to_hear_returns_empty_handed(self, harness: Harness) -> None:
        worker = harness.worker()
        assert harness.claim(worker) == []
        assert harness.engine.listen(Interest(queues=None, worker=worker), 0.01) == []

    def test_work_wakes_an_idle_worker(self, harness: Harness) -> None:
        worker = harness.worker()
        assert harness.claim(worker) == []
        listener = Listener(harness.engine, Interest(queues=("q",), worker=worker))
        harness.send(queue="q")
        assert listener.heard() == {"work"}

    def test_work_sent_through_another_engine_wakes_an_idle_worker(self, harness: Harness) -> None:
        other = harness.another()
        worker = harness.worker()
        assert harness.claim(worker) == []
        listener = Listener(harness.engine, Interest(queues=None, worker=worker))
        other.insert([harness.new()])
        assert listener.heard() == {"work"}

    def test_work_for_each_wakes_every_idle_worker(self, harness: Harness) -> None:
        workers = [harness.worker() for _ in range(3)]
        assert [harness.claim(worker) for worker in workers] == [[], [], []]
        listeners = [Listener(harness.engine, Interest(queues=None, worker=worker)) for worker in workers]
        for _ in listeners:
            harness.send()
        assert [listener.heard() for listener in listeners] == [{"work"}] * 3

    def test_work_that_the_worker_that_was_woken_does_not_take_is_not_slept_through_by_another(
        self, harness: Harness
    ) -> None:
        """A hint for work wakes one; where that one takes nothing, the others look for themselves after a second."""
        workers = [harness.worker() for _ in range(2)]
        assert [harness.claim(worker) for worker in workers] == [[], []]
        listeners = [Listener(harness.engine, Interest(queues=("q",), worker=worker)) for worker in workers]
        harness.send(queue="q")
        assert [listener.heard() for listener in listeners] == [{"work"}] * 2

    def test_what_came_between_claim_and_listen_is_not_slept_through(self, harness: Harness) -> None:
        worker = harness.worker()
        assert harness.claim(worker) == []
        harness.send()
        hints = harness.engine.listen(Interest(queues=None, worker=worker), Listener.LONGEST_S)
        assert {hint.kind for hint in hints} == {"work"}

    def test_a_job_that_comes_due_soon_is_not_slept_through(self, harness: Harness) -> None:
        """One idle worker must know when to look again: a retry in 10 ms is not to wait for a sweep."""
        worker = harness.worker()
        assert harness.claim(worker) == []
        listener = Listener(harness.engine, Interest(queues=("q",), worker=worker))
        harness.send(queue="q", delay_us=100_000)
        assert listener.heard() == {"work"}
        assert harness.claim(worker) == []
        harness.send(queue="q", delay_us=50_000)
        hints = harness.engine.listen(Interest(queues=("q",), worker=worker), Listener.LONGEST_S)
        assert {hint.kind for hint in hints} == {"work"}

    def test_what_came_before_a_look_for_suspects_is_not_slept_through(self, harness: Harness) -> None:
        worker = harness.worker()
        assert harness.claim(worker) == []
        harness.send()
        assert harness.claim(worker, suspects=True) == []
        hints = harness.engine.listen(Interest(queues=None, worker=worker), Listener.LONGEST_S)
        assert {hint.kind for hint in hints} == {"work"}

    def test_a_job_set_free_by_a_settle_wakes_an_idle_worker(self, harness: Harness) -> None:
        running = harness.running()
        harness.send(parents=(Edge(running.id),), queue="q")
        worker = harness.worker()
        assert harness.claim(worker) == []
        listener = Listener(harness.engine, Interest(queues=("q",), worker=worker))
        harness.finish(running)
        assert "work" in listener.heard()

    def test_the_end_of_a_job_wakes_who_waits_for_it(self, harness: Harness) -> None:
        claim, other = harness.running(), harness.running()
        listeners = [
            Listener(harness.engine, Interest(ends=frozenset({claim.id, other.id}))),
            Listener(harness.another(), Interest(ends=frozenset({claim.id}))),
        ]
        harness.finish(claim)
        assert [listener.heard() for listener in listeners] == [{"end"}] * 2

    @pytest.mark.parametrize("state", [State.SUCCEEDED, State.DEAD, State.CANCELLED, None])
    def test_an_end_that_was_before_is_told_at_once(self, harness: Harness, state: State | None) -> None:
        job_id = new_id() if state is None else harness.job_in(state)
        (hint,) = harness.engine.listen(Interest(ends=frozenset({job_id})), Listener.LONGEST_S)
        assert (hint.kind, hint.id) == ("end", job_id)

    def test_an_order_reaches_the_worker_it_is_for(self, harness: Harness) -> None:
        worker = harness.worker()
        listener = Listener(harness.engine, Interest(worker=worker))
        assert listener.told(harness.engine, Hint(kind="order", id=worker)) == {"order"}

    def test_a_cancel_is_told_to_the_worker_that_runs_the_job(self, harness: Harness) -> None:
        claim = harness.running()
        listener = Listener(harness.engine, Interest(worker=harness.hand()))
        while not listener.done():
            harness.amend(Change.CANCEL, claim.id)
        assert listener.heard() == {"order"}

    def test_a_signal_by_hand_wakes_who_listens_for_work(self, harness: Harness) -> None:
        listener = Listener(harness.engine, Interest(queues=("q",)))
        assert listener.told(harness.another(), Hint(kind="work", queue="q")) == {"work"}

    def test_closing_an_engine_wakes_those_who_listen_through_it(self, harness: Harness) -> None:
        engine = harness.another()
        listeners = [Listener(engine, Interest(queues=None)) for _ in range(4)]
        engine.close()
        assert [listener.heard() for listener in listeners] == [{"closed"}] * 4

    def test_closing_an_engine_says_nothing_to_those_of_another(self, harness: Harness) -> None:
        engine = harness.another()
        worker = harness.worker()
        listener = Listener(harness.engine, Interest(worker=worker))
        engine.close()
        assert listener.told(harness.engine, Hint(kind="order", id=worker)) == {"order"}

    # ── open and close ──────────────────────────────────────────────────────────────────────────────────

    def test_a_closed_engine_refuses_every_verb(self, harness: Harness) -> None:
        engine = harness.another()
        engine.close()
        engine.close()
        calls = [
            lambda: engine.insert([harness.new()]),
            lambda: engine.claim(Order(worker=new_id(), ticket=1)),
            lambda: engine.settle([]),
            lambda: engine.note([]),
            lambda: engine.sweep(Sweep()),
            lambda: engine.fetch([new_id()]),
            lambda: engine.search(Query()),
            lambda: engine.tally(TallyQuery()),
            lambda: engine.read(["k"]),
            lambda: engine.write([Put(key="k", value=b"1")]),
            lambda: engine.listen(Interest(), 0),
            lambda: engine.signal([]),
        ]
        for call in calls:
            with pytest.raises(StoreClosed):
                call()

    def test_an_engine_may_be_opened_again(self, harness: Harness) -> None:
        engine = harness.another()
        job_id = harness.send()
        engine.close()
        engine.open()
        (job,) = engine.fetch([job_id])
        assert job is not None

    def test_an_engine_says_what_it_can_do(self, harness: Harness) -> None:
        capabilities = harness.engine.capabilities
        assert capabilities.name
        assert capabilities.settle in ("atomic", "chores")
        assert capabilities.death in ("lock", "lease")
        assert capabilities.durable in ("process", "host", "server")
