"""The floor without Lua: ids in a list, jobs and results in hashes; redis-py pipelines of 100 plain commands.

A claim moves each id to a list of the worker. It wakes nobody and recovers nothing.
"""

import json
import os
import time
from collections.abc import Sequence
from uuid import uuid4

import marks
import redis

BATCH = 100
POLL_S = 0.005
client = redis.Redis.from_url(os.environ["RACE_STORE"])


def send(number: int) -> None:
    """One job, in one round trip."""
    send_many([number])


def send_many(numbers: Sequence[int]) -> None:
    """A hundred in one round trip."""
    for start in range(0, len(numbers), BATCH):
        pipeline = client.pipeline(transaction=False)
        for number in numbers[start : start + BATCH]:
            job = uuid4().hex
            pipeline.hset("jobs", job, json.dumps([number, marks.TEXT, 0.0]))
            pipeline.rpush("ready", job)
        pipeline.execute()


def main() -> None:
    """Claim, work, settle."""
    mine = f"claimed:{uuid4().hex}"
    while True:
        claim = client.pipeline(transaction=False)
        for _ in range(BATCH):
            claim.lmove("ready", mine, "LEFT", "RIGHT")
        jobs = [job for job in claim.execute() if job is not None]
        if not jobs:
            time.sleep(POLL_S)
            continue
        settle = client.pipeline(transaction=False)
        for job, arguments in zip(jobs, client.hmget("jobs", jobs), strict=True):
            result = marks.work(*json.loads(arguments))
            settle.hset("results", job, json.dumps(result))
            settle.hdel("jobs", job)
        settle.delete(mine)
        settle.execute()


if __name__ == "__main__":
    main()
