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
from windlass.core.job import Edge, Failure, Job, Outcome, Request
from windlass.core.lifecycle import Standing, decide
from windlass.engines.protocol import Beat, Card, Claim, Engine, Note, Order, Put, Settlement, Sweep
from windlass.engines.redis import RedisEngine, read_address, scripts
from windlass.engines.redis import engine as engine_module
from windlass.engines.redis.script import Script
from windlass.testing.clock import FakeClock, travel

SHORT = {verb: f"local plain = {verb}_plain()" for verb in ("insert", "claim", "settle")}
LONG = "local plain = false"
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
    yield spaces, [engines[0], _Long(engines[1])], clock  # pyright: ignore[reportReturnType]
    for engine, space in zip(engines, spaces, strict=True):
        engine.close()
        space.clear()


class _Long:
    """An engine whose verbs are called with scripts that have no short way."""

    def __init__(self, engine: RedisEngine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Callable[..., object]:
        verb = getattr(self._engine, name)

        def call(*args: object) -> object:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(engine_module, "script", _long)
                return verb(*args)

        return call


def _long(verb: str) -> Script:
    script = scripts.script(verb)
    if verb not in SHORT:
        return script
    source = script.source.decode()
    assert source.count(SHORT[verb]) == 1
    return Script(verb, source.replace(SHORT[verb], LONG).encode())


class Story:
    """One history, drawn by a seed."""

    def __init__(self, engines: list[Engine], clock: FakeClock, seed: int) -> None:
        self.engines, self.clock, self.draw = engines, clock, random.Random(seed)
        self.workers: list[WorkerId] = []
        self.beats: dict[WorkerId, int] = {}
        self.tickets: dict[WorkerId, int] = {}
        self.claims: list[Claim] = []
        self.settled: list[Claim] = []

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
        self.draw.choices(steps, [12, 4, 12, 12, 2, 2, 0.2, 6])[0]()

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
        if draw.random() < 0.9:
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
        jobs = [Job(request=self.request()) for _ in range(self.draw.randrange(2, 8))]
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


def _success(claim: Claim) -> Settlement:
    return Settlement(id=claim.id, fence=claim.fence, result=b"null", ran_us=5)


@pytest.mark.parametrize("seed", range(3))
def test_both_ways_leave_the_same_store(stores: tuple[list[Namespace], list[Engine], FakeClock], seed: int) -> None:
    spaces, engines, clock = stores
    story = Story(engines, clock, seed)
    story.beat()
    for _ in range(STEPS):
        story.step()
        short, long = map(_stored, spaces)
        assert short == long
    assert story.settled, "nothing was run"


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
