"""What a waiting job takes of a Redis server's memory, beside what the issue allows it: 1.5 × its request + 400 bytes.

A real Valkey of its own is filled through the engine; `used_memory` before and after says what the jobs take, with all
that finds them. The request is what is stored of it (requests.py): head, options and payload.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.rounds import Course, Round, say
from bench.stores import PAYLOAD, PLAIN, TASK
from tests.servers import binaries
from tests.servers.redis_server import RedisServer
from windlass.core.ids import new_id
from windlass.core.job import Job, Request, Unique
from windlass.engines.redis import RedisEngine, read_address
from windlass.engines.redis.requests import pack_request

JOBS = 100_000
AT_ONCE = 1_000
IN_A_LANE = 10
TIMES, BESIDES = 1.5, 400
"""A job may take so many times its request, and so many bytes besides."""


def _lane(number: int) -> dict[str, Any]:
    return {"lane": f"customer-{number // IN_A_LANE}"}


def _unique(number: int) -> dict[str, Any]:
    return {"unique": Unique(f"invoice-{number}", "end")}


def _needs(_: int) -> dict[str, Any]:
    return {"needs": (("memory", 512_000_000),)}


KINDS: dict[str, Callable[[int], dict[str, Any]]] = {
    "plain": lambda _: {},
    "lane": _lane,
    "unique": _unique,
    "needs": _needs,
    "all": lambda number: _lane(number) | _unique(number) | _needs(number),
}
"""What the jobs of a filling have besides their payload; `all` is the three together."""


def redis_job_bytes(course: Course) -> list[Round]:
    """The bytes of a waiting job beside those that it may take; of the kinds of jobs, the one that takes the most."""
    rounds: list[Round] = []
    for number in range(1, (course.rounds or 1) + 1):
        figures: dict[str, float] = {}
        worst = 0.0
        for kind, fields in KINDS.items():
            with course.workshop.folder() as folder:
                taken, allowed = _bytes_per_job(folder, course.size(JOBS), fields)
            figures |= {f"{kind}_bytes": round(taken, 1), f"{kind}_allowed": round(allowed, 1)}
            worst = max(worst, taken / allowed)
            say(f"  round {number}: {kind} {taken:.0f} of {allowed:.0f} bytes")
        rounds.append(Round(worst, figures))
    return rounds


def _bytes_per_job(folder: Path, jobs: int, fields: Callable[[int], dict[str, Any]]) -> tuple[float, float]:
    """What a job takes, and what it may take, on average over so many."""
    server = RedisServer(binaries.valkey(), folder)
    try:
        server.start()
        engine = RedisEngine(read_address(server.url()))
        engine.open()
        # What a namespace has but once, and every script, is there before the first look.
        engine.insert([Job(request=_request(jobs, fields))])
        before, requests = _used(server), 0
        for start in range(0, jobs, AT_ONCE):
            some = [_request(number, fields) for number in range(start, min(start + AT_ONCE, jobs))]
            requests += sum(len(pack_request(request)) for request in some)
            engine.insert([Job(request=request) for request in some])
        taken = _used(server) - before
        engine.close()
    finally:
        server.end()
    return taken / jobs, TIMES * requests / jobs + BESIDES


def _request(number: int, fields: Callable[[int], dict[str, Any]]) -> Request:
    return Request(id=new_id(), task=TASK, queue=PLAIN, payload=PAYLOAD, **fields(number))


def _used(server: RedisServer) -> int:
    with server.client() as client:
        return client.info("memory")["used_memory"]
