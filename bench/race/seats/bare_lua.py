"""The floor in Lua: ids in a list, jobs, leases and results in hashes; claim and settle of 100, a script for each.

It is what a queue on Redis cannot do without: a claim that nobody else can have, a settle that only its holder can
make, a result. It has no states, times, retries or counters, wakes nobody and recovers nothing. Its `send` is the bare
loop of EVALSHA beside which ours is measured.
"""

import itertools
import json
import os
import time
from collections.abc import Sequence
from uuid import uuid4

import marks
import redis

BATCH = 100
POLL_S = 0.005

INSERT = """
for at = 1, #ARGV, 2 do
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
    redis.call('RPUSH', KEYS[2], ARGV[at])
end
"""
CLAIM = """
local ids = redis.call('LPOP', KEYS[2], ARGV[2])
if not ids then return {} end
for _, id in ipairs(ids) do
    redis.call('HSET', KEYS[3], id, ARGV[1])
end
return {ids, redis.call('HMGET', KEYS[1], unpack(ids))}
"""
SETTLE = """
local accepted = 0
for at = 2, #ARGV, 2 do
    if redis.call('HGET', KEYS[3], ARGV[at]) == ARGV[1] then
        redis.call('HDEL', KEYS[3], ARGV[at])
        redis.call('HDEL', KEYS[1], ARGV[at])
        redis.call('HSET', KEYS[4], ARGV[at], ARGV[at + 1])
        accepted = accepted + 1
    end
end
return accepted
"""

client = redis.Redis.from_url(os.environ["RACE_STORE"])
keys = ["jobs", "ready", "leases", "results"]
insert, claim, settle = (client.register_script(script) for script in (INSERT, CLAIM, SETTLE))


def _job(number: int) -> tuple[str, str]:
    return uuid4().hex, json.dumps([number, marks.TEXT, 0.0])


def send(number: int) -> None:
    """One job by one script."""
    insert(keys, _job(number))


def send_many(numbers: Sequence[int]) -> None:
    """A hundred by one script."""
    for start in range(0, len(numbers), BATCH):
        insert(keys, list(itertools.chain.from_iterable(map(_job, numbers[start : start + BATCH]))))


def main() -> None:
    """Claim, work, settle."""
    worker = uuid4().hex
    while True:
        claims = claim(keys, [worker, BATCH])
        if not claims:
            time.sleep(POLL_S)
            continue
        ends: list[object] = [worker]
        for job, arguments in zip(*claims, strict=True):
            ends += [job, json.dumps(marks.work(*json.loads(arguments)))]
        if settle(keys, ends) != len(claims[0]):
            raise RuntimeError("A claim was not ours any more.")


if __name__ == "__main__":
    main()
