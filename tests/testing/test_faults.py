"""Every verb may be repeated after a lost answer; the faulty engine does what it was told and counts it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from windlass.core.errors import BadValue, StoreUnavailable
from windlass.core.ids import new_id
from windlass.core.job import Job, Request, State
from windlass.engines.memory import MemoryEngine
from windlass.engines.protocol import (
    Amendment,
    Beat,
    Card,
    Change,
    Delta,
    Interest,
    Note,
    Order,
    Put,
    Query,
    Settlement,
    Sweep,
    TallyQuery,
    Verdict,
)
from windlass.testing.clock import START_US, FakeClock, travel
from windlass.testing.faults import VERBS, Fault, FaultyEngine, Verb

CARD = Card(worker=new_id())


@pytest.fixture
def engine() -> Iterator[FaultyEngine]:
    engine = FaultyEngine(MemoryEngine())
    travel(engine, FakeClock())
    engine.open()
    engine.renew(Beat(card=CARD, beat=0))
    yield engine
    engine.close()


def job(task: str = "task") -> Job:
    return Job(request=Request(id=new_id(), task=task))


def state_of(engine: FaultyEngine, sent: Job) -> State:
    (found,) = engine.fetch([sent.id])
    assert found is not None
    assert found.record is not None
    return found.record.state


def jobs_in(engine: FaultyEngine) -> int:
    return sum(count.n for count in engine.tally(TallyQuery()).counts)


def test_an_insert_repeated_after_a_lost_answer_makes_one_job(engine: FaultyEngine) -> None:
    sent = job()
    engine.lose("insert")
    with pytest.raises(StoreUnavailable):
        engine.insert([sent])
    (receipt,) = engine.insert([sent])
    assert receipt.duplicate_of == sent.id
    assert jobs_in(engine) == 1


def test_a_refused_insert_stores_nothing_and_its_repeat_is_new(engine: FaultyEngine) -> None:
    sent = job()
    engine.refuse("insert")
    with pytest.raises(StoreUnavailable):
        engine.insert([sent])
    assert jobs_in(engine) == 0
    assert engine.insert([sent])[0].duplicate_of is None


def test_a_claim_repeated_with_its_ticket_returns_the_same_claims(engine: FaultyEngine) -> None:
    engine.insert([job(), job(), job()])
    order = Order(worker=CARD.worker, ticket=1, limit=2)
    engine.lose("claim")
    with pytest.raises(StoreUnavailable):
        engine.claim(order)
    running = {found.id for found in engine.search(Query(state=State.RUNNING)).jobs}
    claims = engine.claim(order).claims
    assert {claim.id for claim in claims} == running
    assert len(claims) == 2
    assert engine.claim(order).claims == claims


def test_a_settle_repeated_after_a_lost_answer_says_already(engine: FaultyEngine) -> None:
    sent = job()
    engine.insert([sent])
    (claim,) = engine.claim(Order(worker=CARD.worker, ticket=1)).claims
    settlement = Settlement(id=claim.id, fence=claim.fence, result=b"1")
    engine.lose("settle")
    with pytest.raises(StoreUnavailable):
        engine.settle([settlement])
    assert state_of(engine, sent) is State.SUCCEEDED
    assert engine.settle([settlement]) == [Verdict.ALREADY]


def test_a_renewal_repeated_after_a_lost_answer_counts_its_deltas_once(engine: FaultyEngine) -> None:
    beat = Beat(card=CARD, beat=1, deltas=(Delta(queue="default", task="task", name="succeeded", n=3),))
    engine.lose("renew", times=2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            engine.renew(beat)
    assert not engine.renew(beat).gone
    assert [bucket.n for bucket in engine.tally(TallyQuery(span="minute")).buckets] == [3]


def test_a_write_with_expect_repeated_after_a_lost_answer_tells_the_version_that_is_there(
    engine: FaultyEngine,
) -> None:
    put = Put(key="mine", value=b"1", expect=0)
    engine.lose("write")
    with pytest.raises(StoreUnavailable):
        engine.write([put])
    (again,) = engine.write([put])
    (fact,) = engine.read(["mine"])
    assert fact is not None
    assert (again.done, again.version) == (False, fact.version)
    assert fact.value == b"1"


def test_a_cancel_repeated_after_a_lost_answer_is_refused_and_changes_nothing(engine: FaultyEngine) -> None:
    sent = job()
    engine.insert([sent])
    cancel = Amendment(change=Change.CANCEL, ids=(sent.id,))
    engine.lose("amend")
    with pytest.raises(StoreUnavailable):
        engine.amend(cancel)
    before = engine.fetch([sent.id])
    assert [refusal.id for refusal in engine.amend(cancel).refused] == [sent.id]
    assert engine.fetch([sent.id]) == before


def call(engine: FaultyEngine, verb: Verb) -> object:
    """One harmless call of each verb."""
    match verb:
        case "open":
            return engine.open()
        case "insert":
            return engine.insert([])
        case "claim":
            return engine.claim(Order(worker=CARD.worker, ticket=engine.calls["claim"] + 1))
        case "settle":
            return engine.settle([])
        case "renew":
            return engine.renew(Beat(card=CARD, beat=1))
        case "note":
            return engine.note([Note(id=new_id(), fence=1, kind="log")])
        case "sweep":
            return engine.sweep(Sweep())
        case "fetch":
            return engine.fetch([])
        case "search":
            return engine.search(Query())
        case "amend":
            return engine.amend(Amendment(change=Change.CANCEL))
        case "tally":
            return engine.tally(TallyQuery())
        case "read":
            return engine.read(["mine"])
        case "write":
            return engine.write([])
        case "listen":
            return engine.listen(Interest(), 0.0)
        case "signal":
            return engine.signal([])


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("fault", list(Fault))
def test_each_verb_fails_as_often_as_it_was_told_and_is_counted(engine: FaultyEngine, verb: Verb, fault: Fault) -> None:
    before = engine.calls[verb]
    engine.plan(verb, [fault, None, fault])
    for fails in (True, False, True, False):
        if fails:
            with pytest.raises(StoreUnavailable):
                call(engine, verb)
        else:
            call(engine, verb)
    assert engine.done == {(verb, fault): 2}
    assert engine.calls[verb] == before + 4
    assert engine.faults == 2


def test_while_it_is_down_nothing_gets_through_and_afterwards_all_does(engine: FaultyEngine) -> None:
    engine.down()
    for verb in VERBS:
        with pytest.raises(StoreUnavailable):
            call(engine, verb)
    engine.up()
    for verb in VERBS:
        call(engine, verb)
    assert engine.faults == len(VERBS)


def faults_of(seed: int) -> list[bool]:
    engine = FaultyEngine(MemoryEngine())
    engine.open()
    engine.chance(seed=seed, lose=0.3, refuse=0.3, verbs=["fetch"])
    found: list[bool] = []
    for _ in range(60):
        engine.tally(TallyQuery())
        try:
            engine.fetch([])
        except StoreUnavailable:
            found.append(True)
        else:
            found.append(False)
    assert engine.done["fetch", Fault.LOSE]
    assert engine.done["fetch", Fault.REFUSE]
    engine.calm()
    engine.fetch([])
    engine.close()
    return found


def test_the_same_seed_gives_the_same_faults_and_another_seed_others() -> None:
    assert faults_of(1) == faults_of(1) != faults_of(2)


def test_what_cannot_be_planned_is_refused() -> None:
    engine = FaultyEngine(MemoryEngine())
    with pytest.raises(BadValue, match="not a verb"):
        engine.lose("close")  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadValue, match="chances"):
        engine.chance(seed=1, lose=0.7, refuse=0.7)


def test_threads_share_a_plan_and_no_fault_is_given_twice(engine: FaultyEngine) -> None:
    engine.lose("fetch", times=100)
    failed: list[int] = []

    def ask() -> None:
        for _ in range(50):
            try:
                engine.fetch([])
            except StoreUnavailable:
                failed.append(1)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failed) == 100 == engine.faults


def test_a_fake_clock_reaches_the_wrapped_engine() -> None:
    engine = FaultyEngine(MemoryEngine())
    travel(engine, FakeClock())
    engine.open()
    assert engine.renew(Beat(card=CARD, beat=0)).now_us == START_US
    engine.close()
