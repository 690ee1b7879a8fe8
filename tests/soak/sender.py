"""A process that sends jobs over a network until each parcel is acknowledged; if it is killed, another goes on.

`python -m tests.soak.sender <assignment>`; the nemesis lets out one part of the jobs after another.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tests.soak.fleet import payload
from tests.soak.recorder import Recorder, read_lines
from tests.soak.workload import make_id
from windlass.core.errors import StoreError
from windlass.core.job import Job, Request
from windlass.engines.connect import connect
from windlass.engines.protocol import Engine

PARCEL = 10
LOOK_S = 0.02
LANES = 6
LONGEST_MS = 40


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """What to send, and where to."""

    url: str
    folder: str
    seed: int
    jobs: int
    stages: int
    share: int
    shares: int
    generation: int = 0

    @property
    def file(self) -> Path:
        return Path(self.folder) / f"sender-{self.share}.{self.generation}.jsonl"

    @property
    def release(self) -> Path:
        """So many parts may be sent as it has bytes."""
        return Path(self.folder) / "release"


def mixture(seed: int, jobs: int) -> Iterator[Request]:
    """Two jobs in five are in a lane."""
    dice = random.Random(seed)
    for number in range(jobs):
        lane = f"lane-{dice.randint(1, LANES)}" if dice.random() < 0.4 else None
        work = payload(dice.randint(0, LONGEST_MS))
        yield Request(id=make_id(seed, number), task="good", payload=work, lane=lane, queue="lanes" if lane else "free")


def send_all(given: Assignment, engine: Engine, recorder: Recorder) -> None:
    """Its share, parcel after parcel; what an earlier process had acknowledged is not sent again."""
    requests = list(mixture(given.seed, given.jobs))
    parcels = [requests[start : start + PARCEL] for start in range(0, len(requests), PARCEL)]
    sent = _sent(given)
    for number, parcel in enumerate(parcels):
        if number % given.shares != given.share or number in sent:
            continue
        while _released(given) * len(parcels) < number * given.stages:
            time.sleep(LOOK_S)
        while not _insert(engine, recorder, parcel):
            time.sleep(LOOK_S)
        recorder.say("parcel", str(number))


def _insert(engine: Engine, recorder: Recorder, parcel: Sequence[Request]) -> bool:
    call = recorder.invoke("insert", [(request.id.hex(), 0, "") for request in parcel])
    try:
        receipts = engine.insert([Job(request=request) for request in parcel])
    except StoreError as error:
        recorder.fail("insert", call, type(error).__name__)
        return False
    recorder.ok("insert", call, [(r.id.hex(), 0, r.duplicate_of.hex() if r.duplicate_of else "new") for r in receipts])
    return True


def _sent(given: Assignment) -> set[int]:
    files = Path(given.folder).glob(f"sender-{given.share}.*.jsonl")
    return {int(line.note) for file in files for line in read_lines(file) if line.op == "parcel"}


def _released(given: Assignment) -> int:
    return given.release.stat().st_size if given.release.exists() else 0


def main() -> None:
    """Until all is sent."""
    given = msgspec.json.decode(sys.argv[1], type=Assignment)
    recorder = Recorder(given.file)
    engine = connect(given.url)
    while True:
        try:
            engine.open()
            break
        except StoreError:
            time.sleep(LOOK_S)
    send_all(given, engine, recorder)
    engine.close()


if __name__ == "__main__":
    main()
