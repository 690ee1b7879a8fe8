"""What only this engine has to get right: inserts of several steps, what dead processes leave, a full server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.servers import binaries
from tests.servers.namespace import Namespace
from tests.servers.redis_server import RedisServer
from tests.soak.waiting import wait_for
from windlass.core.errors import SchemaTooNew, StoreCorrupt, StoreFull, UnknownParent
from windlass.core.ids import new_id
from windlass.core.job import Edge, Job, Outcome, Request, State, Unique
from windlass.engines.findings import Level
from windlass.engines.protocol import BATCH, Change, Hint, Interest, Part, Put, Query, Sweep, Verdict
from windlass.engines.redis import RedisEngine, glance, read_address, search
from windlass.engines.redis.ear import Ear
from windlass.engines.redis.identity import identity
from windlass.engines.redis.link import Link
from windlass.engines.redis.listen import Listeners, Post
from windlass.engines.redis.script import Script
from windlass.engines.redis.wire import Argument
from windlass.testing.conformance import Harness
from windlass.testing.conformance.harness import SECOND_US, Listener


@pytest.fixture
def harness(valkey: Namespace) -> Iterator[Harness]:
    yield from Harness.run(lambda limits: RedisEngine(read_address(valkey.url), limits))


def test_a_parent_that_nobody_knows_refuses_more_jobs_than_one_step_takes(harness: Harness) -> None:
    jobs = [harness.new() for _ in range(2 * BATCH)] + [harness.new(parents=(Edge(new_id()),))]
    with pytest.raises(UnknownParent):
        harness.engine.insert(jobs)
    assert harness.count(Query()) == 0


def test_a_job_may_come_a_step_before_its_parent(harness: Harness) -> None:
    parent = harness.new("parent")
    child = harness.new("child", parents=(Edge(parent.id),))
    harness.engine.insert([child, *(harness.new() for _ in range(BATCH)), parent])
    assert harness.state(child.id) is State.HELD
    ran = harness.drain(harness.worker())
    assert ran.index(parent.id) < ran.index(child.id)


def test_a_node_that_waits_for_its_flow_takes_no_rank_from_others(harness: Harness) -> None:
    """After a clock was set back, who comes next would have to stand behind a rank that nobody has."""
    harness.send(flow=new_id())
    harness.clock.set_back(24_000_000)
    record = harness.record(harness.send(priority=0))
    assert record.rank == harness.clock.now_us()


def test_a_job_whose_record_is_gone_stands_in_nobodys_way(harness: Harness, valkey: Namespace) -> None:
    lost, kept = harness.send(), harness.send()
    with valkey.client() as client:
        client.delete(b"{%b}:j:%b" % (valkey.name.encode(), lost))
    assert [claim.id for claim in harness.claim(harness.worker(), 1)] == [kept]


@pytest.mark.parametrize("field", ["delay_us", "expires_us"])
def test_a_lost_job_that_waited_for_its_time_is_forgotten(harness: Harness, valkey: Namespace, field: str) -> None:
    lost = harness.send(**{field: SECOND_US if field == "delay_us" else harness.now_us + SECOND_US})  # pyright: ignore[reportArgumentType]
    with valkey.client() as client:
        client.delete(b"{%b}:j:%b" % (valkey.name.encode(), lost), b"{%b}:r:%b" % (valkey.name.encode(), lost))
    worker = harness.worker()
    harness.pass_time(2)
    assert harness.order(worker).wait_us is None
    harness.sweep_all()
    assert not {b"due", b"exp"} & {key.rpartition(b":")[2] for key in valkey.keys()}  # noqa: SIM118


def test_a_job_that_comes_due_wakes_who_has_missed_the_news_of_it(harness: Harness) -> None:
    worker = harness.worker()
    harness.claim(worker)
    harness.send(queue="later", delay_us=SECOND_US)
    harness.sweep_all()  # takes away the news of queues without ready jobs
    harness.pass_time(2)
    hints = harness.engine.listen(Interest(worker=worker, queues=("later",)), 5)
    assert [hint.kind for hint in hints] == ["work"]
    assert harness.engine.listen(Interest(worker=worker, queues=()), 0) == []
    assert len(harness.claim(worker)) == 1


def test_of_all_workers_one_sweeps_at_a_time_and_only_one_that_may_judge(harness: Harness) -> None:
    old = harness.worker()
    harness.pass_time(60)
    new = harness.worker()
    rest_us = 10 * SECOND_US
    harness.send(expires_us=harness.now_us)
    assert harness.sweep(worker=new, rest_us=rest_us).expired == 1
    # It is new, and may call nobody dead: after it there may be something to do.
    harness.send_many(2, expires_us=harness.now_us)
    assert harness.sweep(limit=1, worker=old, rest_us=rest_us).expired == 1  # and leaves one over
    assert harness.sweep(worker=old, rest_us=rest_us).expired == 1
    harness.send(expires_us=harness.now_us)
    assert harness.sweep(worker=new, rest_us=rest_us).expired == 0
    harness.pass_time(rest_us / SECOND_US)
    assert harness.sweep(worker=new, rest_us=rest_us).expired == 1


def test_a_ring_that_comes_as_its_listener_rises_is_not_taken_for_a_later_one(
    harness: Harness, valkey: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    rise = Listeners._rise  # pyright: ignore[reportPrivateUsage]

    def late(self: Listeners, post: Post, rooms: tuple[str, ...]) -> None:
        harness.send()
        rise(self, post, rooms)

    worker = harness.worker()
    interest = Interest(queues=None, worker=worker)
    harness.claim(worker)
    with monkeypatch.context() as patched:
        patched.setattr(Listeners, "_rise", late)
        # Nobody else was rung for that job: it is its to take, or to tell of.
        assert [hint.kind for hint in harness.engine.listen(interest, 0)] == ["work"]
    assert len(harness.claim(worker)) == 1
    assert harness.engine.listen(interest, 0) == []
    with valkey.client() as client:
        assert client.smembers(b"{%b}:idle:*" % valkey.name.encode()) == set()


def test_who_was_rung_between_two_looks_hears_of_it_once(
    harness: Harness, valkey: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Ear.wait
    sent: list[bytes] = []

    def deaf(self: Ear, timeout_s: float) -> list[tuple[bytes, bytes]]:
        if not sent:
            sent.append(harness.send())
            return []
        return waits(self, timeout_s)

    monkeypatch.setattr(glance, "FRESH_S", 0)
    monkeypatch.setattr(Ear, "wait", deaf)
    worker = harness.worker()
    interest = Interest(queues=None, worker=worker)
    harness.claim(worker)
    assert {hint.kind for hint in harness.engine.listen(interest, 30)} == {"work"}
    assert len(harness.claim(worker)) == 1
    assert harness.engine.listen(interest, 0) == []
    with valkey.client() as client:
        assert client.smembers(b"{%b}:idle:*" % valkey.name.encode()) == set()


def test_who_sees_that_another_one_sweeps_does_not_ask_for_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    monkeypatch.setattr(glance, "time", SimpleNamespace(monotonic=lambda: now_s))
    worker, other = harness.worker(), harness.another(harness.limits)
    harness.pass_time(60)
    other.sweep(Sweep(worker=worker, rest_us=SECOND_US))
    harness.pass_time(1)
    now_s += 1
    harness.sweep(worker=worker, rest_us=1)
    harness.send(expires_us=harness.now_us)
    harness.pass_time(1)
    assert other.sweep(Sweep(worker=worker, rest_us=SECOND_US)).expired == 0
    now_s += 1.3
    assert other.sweep(Sweep(worker=worker, rest_us=SECOND_US)).expired == 1  # nobody has swept since


def test_who_waits_for_orders_is_told_of_each_sweep_and_need_not_ask(
    harness: Harness, valkey: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = harness.another(harness.limits)
    worker = harness.worker(on=other)
    harness.pass_time(60)
    seen: list[glance.Head] = []
    tell = glance.Glance.tell

    def told(self: glance.Glance, data: bytes) -> None:
        tell(self, data)
        seen.append(self.look())

    monkeypatch.setattr(glance.Glance, "tell", told)
    channel = b"{%b}:head" % valkey.name.encode()
    with ThreadPoolExecutor() as threads, valkey.client() as client:
        orders = threads.submit(other.listen, Interest(worker=worker), 30)
        wait_for("the listener", lambda: channel in client.pubsub_channels())
        for junk in (b"7 7 x", b"7 7", b"7 7 " + b"7" * 5_000):
            assert client.publish(channel, junk) == 1
        wait_for("the junk", lambda: len(seen) == 3)
        harness.send()
        assert not harness.sweep(worker=worker).more
        wait_for("the word", lambda: len(seen) == 4)
        other.signal([Hint(kind="order", id=worker)])
        assert [hint.kind for hint in orders.result(10)] == ["order"]
    with closing(Link(read_address(valkey.url))) as link:
        assert seen[3] == glance.Glance(link).look()
    assert seen[0].version < seen[3].version < 7


def test_heads_are_told_to_workers_alone_as_long_as_they_are_there(harness: Harness, valkey: Namespace) -> None:
    def told() -> int:
        with valkey.client() as client:
            return client.pubsub_numsub(b"{%b}:head" % valkey.name.encode())[0][1]

    engine, worker = harness.engine, harness.worker()
    waits = Interest(ends=frozenset({harness.send()}), worker=new_id())
    assert engine.listen(waits, 0) == engine.listen(msgspec.structs.replace(waits, ends=frozenset()), 0) == []
    assert told() == 0
    with ThreadPoolExecutor() as threads:
        orders = threads.submit(engine.listen, Interest(worker=worker), 30)
        wait_for("the worker", told)
        # Another one that listens meanwhile, and again, leaves no second ear behind that hears them.
        for _ in range(2):
            assert engine.listen(Interest(queues=("other",), worker=worker), 0) == []
        engine.signal([Hint(kind="order", id=worker)])
        assert [hint.kind for hint in orders.result(10)] == ["order"]
    assert engine.listen(Interest(queues=("other",), worker=worker), 0) == []
    assert engine.listen(Interest(worker=worker), 0) == []
    assert told() == 1
    harness.renew(worker, bye=True)
    wait_for("nobody to be told", lambda: not told())


def test_one_question_about_the_head_serves_all_for_a_while(harness: Harness, valkey: Namespace) -> None:
    with closing(Link(read_address(valkey.url))) as link:
        seen = glance.Glance(link)
        before = seen.look()
        harness.send()
        assert seen.look() == before
        assert glance.Glance(link).look().version > before.version


def test_a_worker_that_keeps_fewer_successes_does_not_rest(harness: Harness) -> None:
    worker = harness.worker()
    harness.pass_time(60)
    harness.send_many(3)
    for claim in harness.claim(worker):
        harness.finish(claim)
    assert harness.sweep(worker=worker, rest_us=SECOND_US).purged == 0
    thrifty = harness.another(msgspec.structs.replace(harness.limits, keep_succeeded_count=1))
    assert thrifty.sweep(Sweep(worker=worker, rest_us=SECOND_US)).purged == 2


def test_one_sweep_for_all_leaves_no_fact_over(harness: Harness, valkey: Namespace) -> None:
    worker = harness.worker()
    harness.pass_time(60)
    for number in range(BATCH + 1):
        harness.put(f"note/{number}", b"1", ttl_us=SECOND_US)
    harness.pass_time(2)
    harness.sweep(worker=worker, rest_us=SECOND_US)
    assert b"{%b}:factx" % valkey.name.encode() not in valkey.keys()  # noqa: SIM118


def test_listeners_of_dead_processes_and_news_of_empty_queues_are_forgotten(
    harness: Harness, valkey: Namespace
) -> None:
    worker = harness.worker()
    harness.claim(worker)
    harness.engine.listen(Interest(queues=("q",), worker=worker), 0)
    harness.send(queue="soon", delay_us=1_000_000)
    prefix = b"{%b}:" % valkey.name.encode()
    with valkey.client() as client:
        client.sadd(prefix + b"idle:q", "dead")
        client.sadd(prefix + b"rooms", "q")
        harness.sweep_all()
        assert not valkey.keys() & {prefix + b"idle:q", prefix + b"rooms", prefix + b"news"}


def test_an_idle_worker_is_rung_and_need_not_look(
    harness: Harness, valkey: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.engines.redis.listen.NET_S", Listener.LONGEST_S)
    worker = harness.worker()
    assert harness.claim(worker) == []
    listener = Listener(harness.engine, Interest(queues=("q",), worker=worker))
    idle = b"{%b}:idle:q" % valkey.name.encode()
    wait_for("the worker to be idle", lambda: valkey.keys() & {idle})
    harness.send(queue="q")
    assert listener.heard() == {"work"}


def test_whoever_was_rung_is_idle_in_none_of_its_rooms(
    harness: Harness, valkey: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says nothing itself: another job's ring must not reach it while it works on the first."""
    worker = harness.worker()
    assert harness.claim(worker) == []
    listener = Listener(harness.engine, Interest(queues=("q", "other"), worker=worker))
    rooms = {b"{%b}:idle:%b" % (valkey.name.encode(), room) for room in (b"q", b"other")}
    wait_for("the worker to be idle", lambda: rooms <= valkey.keys())
    called: list[str] = []
    run = Link.run

    def noted(link: Link, script: Script, args: Sequence[Argument], *, repeat: bool) -> Any:
        called.append(script.name)
        return run(link, script, args, repeat=repeat)

    monkeypatch.setattr(Link, "run", noted)
    harness.send(queue="q")
    assert not rooms & valkey.keys()
    assert listener.heard() == {"work"}
    assert called == ["insert"]


def hint_of_an_end(harness: Harness, valkey: Namespace, job_id: bytes, end: Callable[[], object]) -> Hint:
    """What somebody is told who waits for a job when it ends."""
    channel = b"{%b}:end:%b" % (valkey.name.encode(), job_id)
    with valkey.client() as client, ThreadPoolExecutor() as threads:
        heard = threads.submit(harness.engine.listen, Interest(ends=frozenset({job_id})), Listener.LONGEST_S)
        wait_for("who waits for it", lambda: client.pubsub_numsub(channel)[0][1])
        end()
        (hint,) = heard.result()
    assert (hint.kind, hint.id) == ("end", job_id)
    return hint


def test_whoever_waits_for_a_job_is_told_its_result_with_its_end(harness: Harness, valkey: Namespace) -> None:
    claim = harness.running(payload=b"[1]" * 100)
    hint = hint_of_an_end(harness, valkey, claim.id, lambda: harness.finish(claim, result=b"\xff\x0042"))
    assert hint.job is not None
    assert [hint.job] == harness.engine.fetch([claim.id], frozenset({Part.RESULT}))
    assert hint.job.result == b"\xff\x0042"


@pytest.mark.parametrize("what", ["a long result", "a failure", "a hint by hand", "noise", "other noise"])
def test_whatever_else_is_told_of_an_end_has_to_be_fetched(harness: Harness, valkey: Namespace, what: str) -> None:
    claim = harness.running()

    def end() -> None:
        match what:
            case "a long result":
                harness.finish(claim, result=b"x" * 20_000)
            case "a failure":
                harness.finish(claim, Outcome.FAILED)
            case "a hint by hand":
                harness.engine.signal([Hint(kind="end", id=claim.id)])
            case _:
                noise = b"\xff" * 9 if what == "noise" else b"\0\0\0\1\0\0\0\1xyz"
                with valkey.client() as client:
                    client.publish(b"{%b}:end:%b" % (valkey.name.encode(), claim.id), noise)

    assert hint_of_an_end(harness, valkey, claim.id, end).job is None


def test_a_store_of_a_newer_windlass_is_refused_and_left_as_it_was(harness: Harness, valkey: Namespace) -> None:
    harness.send()
    meta = b"{%b}:meta" % valkey.name.encode()
    with valkey.client() as client:
        client.hset(meta, "schema", 2)
        before = _picture(client, valkey)
        with pytest.raises(SchemaTooNew, match="schema 2 of a newer Windlass"):
            harness.send()
        with pytest.raises(SchemaTooNew):
            RedisEngine(read_address(valkey.url)).open()
        assert _picture(client, valkey) == before


@pytest.mark.parametrize("key", ["meta", "counts", "due"])
def test_a_key_of_another_type_is_refused_at_the_start_and_nothing_is_changed(valkey: Namespace, key: str) -> None:
    name = f"{{{valkey.name}}}:{key}"
    with valkey.client() as client:
        client.set(name, "mine")
        with pytest.raises(StoreCorrupt, match=r"has a type that|is a string"):
            RedisEngine(read_address(valkey.url)).open()
        assert valkey.keys() == {name.encode()}
        assert client.getdel(name) == b"mine"


@pytest.mark.parametrize("binary", [binaries.valkey, binaries.redis62])
def test_a_server_that_is_full_takes_no_job_and_lets_those_it_has_end(
    new_server: Callable[..., RedisServer], binary: Callable[[], Path]
) -> None:
    server = new_server(binary())
    harness = _harness(server)
    try:
        worker = harness.worker()
        sent = harness.send_many(10)
        claims = harness.claim(worker, 5)
        with server.client() as client:
            client.config_set("maxmemory", 1)
            with pytest.raises(StoreFull, match="nothing was written"):
                harness.send()
            assert [harness.finish(claim, result=b"1") for claim in claims] == [Verdict.ACCEPTED] * 5
            assert len(harness.claim(worker)) == 5
            harness.renew(worker)
            harness.sweep_all()
            harness.engine.listen(Interest(queues=("q",), worker=worker), 0)
            harness.amend(Change.CANCEL, sent[-1])
            another = RedisEngine(read_address(server.url()))
            another.open()
            (memory,) = [finding for finding in another.examine() if finding.name == "memory"]
            another.close()
            assert memory.level is Level.WARNING
            assert "New jobs are refused" in memory.said
            client.config_set("maxmemory", 0)
        assert harness.states(sent).count(State.SUCCEEDED) == 5
        harness.send()
    finally:
        harness.close()


@pytest.mark.parametrize("binary", [binaries.valkey, binaries.redis62])
def test_a_server_that_is_full_in_the_middle_of_many_says_how_many_it_has(
    new_server: Callable[..., RedisServer], binary: Callable[[], Path]
) -> None:
    server = new_server(binary())
    harness = _harness(server)
    try:
        with server.client() as client:
            harness.send()
            client.config_set("maxmemory", client.info("memory")["used_memory"] + 300_000)
            jobs = [Job(request=Request(id=new_id(), task="t", queue="q", payload=b"x" * 500)) for _ in range(5_000)]
            with pytest.raises(StoreFull, match=r"the first [1-9][0-9,]*00 of 5,000 jobs were stored") as full:
                harness.engine.insert(jobs)
            client.config_set("maxmemory", 0)
        stored = int(re.findall(r"first ([0-9,]+)", full.value.message)[0].replace(",", ""))
        there = [job is not None for job in harness.engine.fetch([job.request.id for job in jobs])]
        assert there == [True] * stored + [False] * (len(jobs) - stored)
    finally:
        harness.close()


@pytest.mark.parametrize("binary", [binaries.valkey, binaries.redis62])
def test_a_step_that_a_full_server_refuses_has_changed_nothing(
    new_server: Callable[..., RedisServer], binary: Callable[[], Path]
) -> None:
    server = new_server(binary())
    harness = _harness(server)
    try:
        unique = Unique("k", until="time", period_us=SECOND_US)
        harness.send(unique=unique)
        harness.clock.advance(2 * SECOND_US)
        with server.client() as client:
            before = _picture(client)
            client.config_set("maxmemory", 1)
            with pytest.raises(StoreFull):
                # Its first write would free the key, which needs no memory.
                harness.engine.insert([Job(request=harness.request(unique=unique))])
            with pytest.raises(StoreFull):
                harness.engine.write([Put(key="fact", value=b"1")])
            client.config_set("maxmemory", 0)
            assert _picture(client) == before
    finally:
        harness.close()


def _harness(server: RedisServer) -> Harness:
    return Harness(lambda limits: RedisEngine(read_address(server.url()), limits))


def _picture(client: Any, of: Namespace | None = None) -> dict[bytes, bytes]:
    keys = set(client.scan_iter(count=1000)) if of is None else of.keys()
    return {key: client.dump(key) for key in keys}


def test_a_place_at_a_shared_gate_wakes_who_waits_behind_it_in_another_queue(
    harness: Harness, valkey: Namespace
) -> None:
    harness.set_gate("gate/g", limit=1)
    first, second = harness.worker(), harness.worker()
    harness.send(queue="one", gate="g")
    (claim,) = harness.claim(first)
    harness.send(queue="two", gate="g")
    assert harness.claim(second) == []
    harness.finish(claim)
    hints = harness.engine.listen(Interest(worker=second, queues=("two",)), 5)
    assert [hint.kind for hint in hints] == ["work"]
    assert len(harness.claim(second)) == 1
    assert not {f"{{{valkey.name}}}:behind:g".encode()} & valkey.keys()


def test_a_store_that_has_lost_its_last_steps_has_news(harness: Harness, valkey: Namespace) -> None:
    worker = harness.worker()
    for _ in range(5):
        harness.send()
    harness.claim(worker)
    with valkey.client() as client:
        client.hset(f"{{{valkey.name}}}:meta", "version", 1)
    harness.send(queue="q")
    hints = harness.engine.listen(Interest(worker=worker, queues=("q",)), 5)
    assert [hint.kind for hint in hints] == ["work"]
    harness.claim(worker)
    assert harness.engine.listen(Interest(worker=worker, queues=("q",)), 0) == []


def test_a_child_that_was_deleted_and_came_again_waits_for_all_its_parents(harness: Harness, valkey: Namespace) -> None:
    parents = harness.send_many(2)
    child = harness.new(parents=tuple(map(Edge, parents)))
    for _ in range(2):
        harness.engine.insert([child])
        harness.amend(Change.DELETE, child.id)
    assert not [key for key in valkey.keys() if b":edge:" in key]  # noqa: SIM118
    harness.engine.insert([child])
    first, second = harness.claim(harness.worker())
    harness.finish(first)
    assert harness.state(child.id) is State.HELD
    harness.finish(second)
    assert harness.state(child.id) is State.READY


def test_a_search_passes_over_more_lost_records_than_a_step_looks_at(harness: Harness, valkey: Namespace) -> None:
    job_id = harness.send()
    shelf = f"{{{valkey.name}}}:s:default||||0"
    with valkey.client() as client:
        client.zadd(shelf, {n.to_bytes(16, "big"): n for n in range(2 * search.STEP)})
        assert [job.id for job in harness.find(Query(state=State.READY))] == [job_id]
        client.zremrangebyscore(shelf, 0, 2 * search.STEP)


def test_a_page_may_end_on_a_shelf_with_a_long_name(harness: Harness) -> None:
    needs = tuple((f"{n}".rjust(128, "r"), 1) for n in range(9))
    sent = {harness.send(needs=needs) for _ in range(3)}
    assert {job.id for page in harness.pages(Query(limit=1)) for job in page.jobs} == sent


def test_a_listener_that_is_refused_when_it_goes_on_leaves_no_connection(harness: Harness, valkey: Namespace) -> None:
    prefix = b"{%b}:" % valkey.name.encode()
    job_id = harness.send()
    with valkey.client() as client, ThreadPoolExecutor(1) as threads:
        before = len(client.client_list(_type="pubsub"))
        heard = threads.submit(harness.engine.listen, Interest(ends=frozenset({job_id}), queues=("q",)), 5)
        wait_for("the listener", lambda: client.exists(prefix + b"idle:q"))
        client.hset(prefix + b"meta", "schema", 2)
        wait_for("its end", lambda: client.publish(prefix + b"end:" + job_id, "") or heard.done())
        with pytest.raises(SchemaTooNew):
            heard.result()
        client.hset(prefix + b"meta", "schema", 1)
        wait_for("closed ears", lambda: len(client.client_list(_type="pubsub")) == before)


def test_a_batch_that_meets_a_foreign_key_takes_no_place_in_a_lane(harness: Harness, valkey: Namespace) -> None:
    with valkey.client() as client:
        client.set(f"{{{valkey.name}}}:lane:bad", "mine")
        with pytest.raises(StoreCorrupt):
            harness.engine.insert([harness.new(lane="good"), harness.new(lane="bad")])
        client.delete(f"{{{valkey.name}}}:lane:bad")
    sent = harness.send_many(2, lane="good")
    assert harness.states(sent) == [State.READY, State.HELD]
    assert harness.drain(harness.worker()) == sent


def test_what_somebody_else_publishes_is_a_hint_at_most(harness: Harness, valkey: Namespace) -> None:
    idle = b"{%b}:idle:q" % valkey.name.encode()
    listener = Listener(harness.engine, Interest(queues=("q",), worker=harness.worker()))
    with valkey.client() as client:
        wait_for("the worker to be idle", lambda: client.exists(idle))
        (ear,) = client.smembers(idle)
        client.publish(b"{%b}:ear:%b" % (valkey.name.encode(), ear), b"work \xff")
    assert listener.heard() == {"work"}


def test_a_step_that_meets_a_foreign_key_leaves_no_node_and_no_request(harness: Harness, valkey: Namespace) -> None:
    flow = new_id()
    with valkey.client() as client:
        client.set(f"{{{valkey.name}}}:lane:bad", "mine")
        before = valkey.keys()
        with pytest.raises(StoreCorrupt):
            harness.engine.insert([harness.new(flow=flow), harness.new(lane="bad")])
        assert valkey.keys() == before
        client.delete(f"{{{valkey.name}}}:lane:bad")


def test_each_process_says_once_that_its_store_was_emptied(
    harness: Harness, valkey: Namespace, caplog: pytest.LogCaptureFixture
) -> None:
    workers = [harness.worker(), harness.worker(on=harness.another())]
    sender = harness.another()
    valkey.clear()
    assert sender.insert([harness.new()])[0].duplicate_of is None
    for told, worker in enumerate(workers, start=1):
        for _ in range(2):
            assert harness.renew(worker).gone
            assert caplog.text.count(f"The namespace {valkey.name} of ") == told
    assert caplog.text.count("All jobs and results that were there are gone.") == 2


def test_a_worker_that_was_swept_is_not_told_that_its_store_was_emptied(
    harness: Harness, valkey: Namespace, caplog: pytest.LogCaptureFixture
) -> None:
    worker = harness.worker()
    with valkey.client() as client:
        client.hdel(f"{{{valkey.name}}}:desks", worker.hex())
    assert harness.renew(worker).gone
    assert "was emptied" not in caplog.text


@pytest.mark.parametrize("binary", [binaries.valkey, binaries.redis62])
def test_a_store_on_a_full_server_goes_without_an_id_until_there_is_room(
    binary: Callable[[], Path], new_server: Callable[..., RedisServer]
) -> None:
    server = new_server(binary())
    link = Link(read_address(server.url()))
    try:
        with server.client() as client:
            client.config_set("maxmemory", 1)
            assert identity(link) is None
            client.config_set("maxmemory", 0)
        known = identity(link)
        assert known is not None
        assert identity(link) == known
    finally:
        link.close()
