"""The short ways through insert, claim and settle leave the store as the long ones do, byte for byte.

Two stores live through the same history, by the same clock; the scripts of one have no short ways.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import msgspec
import pytest

from tests.servers.namespace import Namespace
from tests.servers.redis_server import RedisServer
from windlass.core.gates import Gate
from windlass.core.ids import WorkerId, new_id
from windlass.core.job import Edge, Failure, Job, Outcome, Record, Request, State
from windlass.core.lifecycle import Standing, decide
from windlass.engines.protocol import Beat, Card, Claim, Engine, Note, Order, Put, Settlement, Sweep, Verdict
from windlass.engines.redis import RedisEngine, read_address, scripts
from windlass.engines.redis import engine as engine_module
from windlass.engines.redis.script import Script
from windlass.testing.clock import FakeClock, travel
from windlass.testing.conformance import Harness

VERBS = ("insert", "claim", "settle")
LONG = "local plain = false"
TAKEN = "if plain then return plain end"
STEPS = 120
ALL = """
local all, cursor = {}, '0'
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1], 'COUNT', 10000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    local kind = redis.call('TYPE', key).ok
    local read = { string = { 'GET', key }, hash = { 'HGETALL', key }, set = { 'SMEMBERS', key } }
    read.zset, read.list = { 'ZRANGE', key, 0, -1, 'WITHSCORES' }, { 'LRANGE', key, 0, -1 }
    for _, each in ipairs({ key, kind, redis.call(unpack(read[kind])) }) do all[#all + 1] = each end
  end
until cursor == '0'
return all
"""
T = TypeVar("T")


@pytest.fixture
def stores(valkey_server: RedisServer) -> Iterator[tuple[list[Namespace], list[Engine], FakeClock]]:
    """The engine as it is, and one that goes the long way."""
    clock = FakeClock()
    spaces = [Namespace(valkey_server.url(), new_id().hex()) for _ in range(2)]
    engines = [RedisEngine(read_address(space.url)) for space in spaces]
    for engine in engines:
        travel(engine, clock)
        engine.open()
    yield spaces, [_With(engines[0], _counted), _With(engines[1], _long)], clock  # pyright: ignore[reportReturnType]
    for engine, space in zip(engines, spaces, strict=True):
        engine.close()
        space.clear()


class _With:
    """An engine whose verbs are called with other scripts."""

    def __init__(self, engine: RedisEngine, script: Callable[[str], Script]) -> None:
        self._engine, self._script = engine, script

    def __getattr__(self, name: str) -> Callable[..., object]:
        verb = getattr(self._engine, name)

        def call(*args: object) -> object:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(engine_module, "script", self._script)
                return verb(*args)

        return call


def _long(verb: str) -> Script:
    """The script without its short way."""
    return _changed(verb, f"local plain = {verb}_plain()", LONG)


def _counted(verb: str) -> Script:
    """The script that counts how often its short way was all that was needed, for one job and for several."""
    several = {"insert": "#plain > 1", "claim": "#plain > 5", "settle": "#plain > 1"}.get(verb)
    return _changed(
        verb,
        TAKEN,
        f"if plain then call('HINCRBY', 'taken:' .. P, '{verb}' .. tostring({several}), 1) return plain end",
    )


def _changed(verb: str, before: str, after: str) -> Script:
    script = scripts.script(verb)
    if verb not in VERBS:
        return script
    source = script.source.decode()
    assert source.count(before) == 1
    return Script(verb, source.replace(before, after).encode())


class Story:
    """One history, drawn by a seed."""

    def __init__(self, engines: list[Engine], clock: FakeClock, seed: int) -> None:
        self.engines, self.clock, self.draw = engines, clock, random.Random(seed)
        self.workers: list[WorkerId] = []
        self.beats: dict[WorkerId, int] = {}
        self.tickets: dict[WorkerId, int] = {}
        self.claims: list[Claim] = []
        self.settled: list[Claim] = []
        self.is_plain = True
        """Whether nothing comes that keeps a script from its short way."""

    def both(self, call: Callable[[Engine], T]) -> T:
        one, other = [call(engine) for engine in self.engines]
        assert one == other
        return one

    def step(self) -> None:
        steps = [
            self.send,
            self.send_many,
            self.claim,
            self.settle,
            self.end_otherwise,
            self.repeat,
            self.limit,
            self.wait,
        ]
        self.draw.choices(steps, [12, 4, 12, 12, 2, 2, 0 if self.is_plain else 0.2, 6])[0]()

    def beat(self) -> None:
        if len(self.workers) < 2:
            self.workers.append(new_id())
        for worker in self.workers:
            self.beats[worker] = number = self.beats.get(worker, -1) + 1
            tasks = ("a", "b") if worker is self.workers[0] else None
            self.both(
                lambda engine, worker=worker, number=number, tasks=tasks: engine.renew(
                    Beat(card=Card(worker=worker, tasks=tasks), beat=number)
                )
            )

    def request(self) -> Request:
        draw = self.draw
        request = Request(
            id=new_id(),
            task=draw.choice("ab"),
            queue=draw.choice(["q"] * 9 + ["p"]),
            priority=draw.choice([0, 0, 5, 9]),
            payload=b"p" * draw.choice([0, 300]),
        )
        if self.is_plain or draw.random() < 0.9:
            return request
        some: list[dict[str, object]] = [
            {"lane": "x"},
            {"delay_us": 1_000_000},
            {"gate": "g"},
            {"tags": ("t",)},
            {"options": b'{"a":1}'},
        ]
        if self.claims:
            some.append({"parents": (Edge(draw.choice(self.claims).id),)})
        return msgspec.structs.replace(request, **draw.choice(some))

    def send(self) -> None:
        job = Job(request=self.request())
        for _ in range(self.draw.choice([1, 1, 1, 2])):
            self.both(lambda engine: engine.insert([job]))

    def send_many(self) -> None:
        first, many = self.request(), self.draw.randrange(2, 8)
        jobs = [Job(request=msgspec.structs.replace(first, id=new_id())) for _ in range(many)]
        if self.draw.random() < 0.3:
            jobs = [Job(request=self.request()) for _ in jobs]
        if self.claims and self.is_plain and self.draw.random() < 0.2:  # one that is there already
            jobs[1] = msgspec.structs.replace(jobs[1], request=_with_id(jobs[1].request, self.claims[0]))
        self.both(lambda engine: engine.insert(jobs))

    def claim(self) -> None:
        draw, worker = self.draw, self.draw.choice(self.workers)
        self.tickets[worker] = ticket = self.tickets.get(worker, 0) + 1
        queues, tasks = draw.choice([None, None, ("q",)]), draw.choice([None, None, frozenset("ab"), frozenset("a")])
        order = Order(worker=worker, ticket=ticket, limit=draw.choice([1, 3, 100]), queues=queues, tasks=tasks)
        self.claims += self.both(lambda engine: engine.claim(order)).claims
        if draw.random() < 0.2:  # its answer was lost
            self.both(lambda engine: engine.claim(order))

    def _take(self, most: int) -> list[Claim]:
        self.draw.shuffle(self.claims)
        some, self.claims = self.claims[:most], self.claims[most:]
        self.settled += some
        return some

    def settle(self) -> None:
        if some := [_success(claim) for claim in self._take(self.draw.randrange(1, 6))]:
            if self.draw.random() < 0.1:
                some[-1] = msgspec.structs.replace(some[-1], fence=some[-1].fence - 1)
            self.both(lambda engine: engine.settle(some))

    def end_otherwise(self) -> None:
        some = [self._other_end(claim) for claim in self._take(2)] + [_success(claim) for claim in self._take(2)]
        if some:
            self.both(lambda engine: engine.settle(some))

    def _other_end(self, claim: Claim) -> Settlement:
        outcome = self.draw.choice([Outcome.FAILED, Outcome.RETRY, None])
        standing = Standing(attempt=claim.attempt, crashes=claim.crashes, losses=claim.losses, suspect=claim.suspect)
        failure = None if outcome is None else Failure(type="E", fingerprint="f")
        transition = decide(outcome, standing, delay_us=0 if outcome is Outcome.RETRY else None)
        return Settlement(id=claim.id, fence=claim.fence, outcome=outcome, transition=transition, failure=failure)

    def repeat(self) -> None:
        if self.settled:
            some = [_success(self.draw.choice(self.settled)) for _ in range(2)]
            self.both(lambda engine: engine.settle(some))

    def limit(self) -> None:
        value = self.draw.choice([None, msgspec.json.encode(Gate(limit=1))])
        self.both(lambda engine: [written.done for written in engine.write([Put(key="queue/q", value=value)])])
        if self.claims:
            note = Note(id=self.claims[0].id, fence=self.claims[0].fence, kind="log", data=b"line")
            self.both(lambda engine: engine.note([note]))

    def wait(self) -> None:
        self.clock.advance(self.draw.choice([1, 1_000, 2_000_000]))
        self.beat()
        self.both(lambda engine: engine.sweep(Sweep(worker=self.workers[0])))


def _with_id(request: Request, claim: Claim) -> Request:
    return msgspec.structs.replace(request, id=claim.id)


def _success(claim: Claim) -> Settlement:
    return Settlement(id=claim.id, fence=claim.fence, result=b"null", ran_us=5)


@pytest.mark.parametrize("seed", range(3))
def test_both_ways_leave_the_same_store(stores: tuple[list[Namespace], list[Engine], FakeClock], seed: int) -> None:
    spaces, engines, clock = stores
    story = Story(engines, clock, seed)
    story.beat()
    for number in range(STEPS):
        story.is_plain = number < STEPS // 2
        story.step()
        short, long = map(_stored, spaces)
        assert short == long
    assert story.settled, "nothing was run"
    with spaces[0].client() as client:
        taken = cast("dict[bytes, bytes]", client.hgetall(b"taken:{%b}:" % spaces[0].name.encode()))
        client.delete(b"taken:{%b}:" % spaces[0].name.encode())
    assert taken.keys() >= {f"{verb}true".encode() for verb in VERBS}, "the long way only"


def _stored(namespace: Namespace) -> dict[bytes, object]:
    """Every key with all that is in it."""
    prefix = b"{%b}:" % namespace.name.encode()
    with namespace.client() as client:
        flat = cast("list[Any]", client.eval(ALL, 0, b"%b*" % prefix))
    found: dict[bytes, object] = {}
    for key, kind, value in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        name = key.removeprefix(prefix)
        found[name] = sorted(value) if kind == b"set" else dict(_pairs(value)) if kind == b"hash" else value
    cast("dict[bytes, bytes]", found[b"meta"]).pop(b"id", None)
    return found


def _pairs(flat: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


@pytest.fixture
def harness(valkey: Namespace) -> Iterator[Harness]:
    yield from Harness.run(lambda limits: RedisEngine(read_address(valkey.url), limits))


def test_a_stale_end_among_others_that_are_alike_is_seen(harness: Harness) -> None:
    harness.send_many(3)
    claims = harness.claim(harness.worker())
    ends = [_success(claim) for claim in claims]
    ends[1] = msgspec.structs.replace(ends[1], fence=ends[1].fence - 1)
    assert harness.settle(*ends) == [Verdict.ACCEPTED, Verdict.STALE, Verdict.ACCEPTED]
    assert harness.state(claims[1].id) is State.RUNNING


def test_a_job_that_is_there_is_told_of_and_the_others_of_its_batch_are_stored(harness: Harness) -> None:
    jobs = [harness.new() for _ in range(5)]
    harness.engine.insert(jobs[2:3])
    receipts = harness.engine.insert(jobs)
    assert [receipt.duplicate_of for receipt in receipts] == [None, None, jobs[2].request.id, None, None]
    assert len(harness.claim(harness.worker())) == len(jobs)


def test_a_job_with_a_past_behind_a_new_one_keeps_it(harness: Harness) -> None:
    new, old = harness.new(), harness.new()
    record = Record(state=State.READY, queue=old.request.queue, fence=77, attempt=3)
    harness.engine.insert([new, msgspec.structs.replace(old, record=record)])
    assert harness.record(old.request.id).attempt == 3


def test_a_job_of_another_kind_behind_a_plain_one_is_stored_as_it_is(harness: Harness) -> None:
    first, other = harness.request(), harness.request("other", queue="elsewhere", priority=5)
    harness.insert(first, other)
    assert harness.record(other.id).queue == "elsewhere"
    assert {claim.task for claim in harness.claim(harness.worker())} == {first.task, "other"}
