"""The floor: the bare loop of bench/bare.py on our own table, WAL, synced, batches of 100. It is no queue.

It decodes nothing, calls no task but the mark, wakes nobody and recovers nothing.
"""

import itertools
import os
import time
from collections.abc import Sequence
from pathlib import Path

import marks

from bench import bare
from bench.stores import Stock, make
from windlass.core.ids import new_id

POLL_S = 0.005
path = Path(os.environ["RACE_STORE"])
if not path.exists():
    make(path, Stock())
database = bare.open_store(path)
stream = bare.stream_of(database)
seqs = itertools.count(1)


def send(number: int) -> None:
    """One row, with a commit of its own."""
    database.execute(bare.INSERT, bare.row(next(seqs), new_id(), stream, time.time_ns() // 1_000))


def send_many(numbers: Sequence[int]) -> None:
    """A transaction for every hundred rows."""
    for start in range(0, len(numbers), bare.BATCH):
        part, now_us = numbers[start : start + bare.BATCH], time.time_ns() // 1_000
        bare.insert(database, [bare.row(next(seqs), new_id(), stream, now_us) for _ in part])


def main() -> None:
    """Claim, mark, settle."""
    worker, ticket, number = new_id(), 0, 0
    while True:
        ticket += 1
        claims = bare.claim(database, worker, ticket, stream, bare.BATCH)
        for _ in claims:
            marks.work(number, "", 0.0)
            number += 1
        bare.settle(database, claims)
        if not claims:
            time.sleep(POLL_S)


if __name__ == "__main__":
    main()
