"""A namespace on a server with workers as users start them, and everything that is known of it in the end."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.servers.namespace import Namespace
from tests.soak.checker import ALL, Evidence, check, digest, hear_repeats, story_of
from tests.soak.fleet import LOOK_S, Fleet, Supervised, payload
from tests.soak.recorder import read_folder, read_ledger
from tests.soak.redis_store import look
from tests.soak.runs import begun
from tests.soak.waiting import wait_for
from tests.soak.workload import Deed
from windlass.core.errors import StoreUnavailable
from windlass.core.ids import new_id
from windlass.core.job import Job, Record, Request, State
from windlass.engines.protocol import Card, TallyQuery

IN_LANES = 0.5
LONGEST_MS = 10


class Works(Fleet):
    """Workers on a namespace; a test that hurts them sends jobs, and asks in the end whether all is well."""

    def __init__(self, folder: Path, namespace: Namespace, **settings: str) -> None:
        super().__init__(folder, namespace.url, **{"lease": "6s", "beat": "0.5s", "sweep": "0.2s"} | settings)
        self.namespace = namespace
        self.sent: list[Request] = []
        self._dice = random.Random(namespace.name)

    def __enter__(self) -> Works:
        super().__enter__()
        return self

    def worker(self, *, url: str | None = None, slots: int = 2) -> Supervised:
        """One whose calls are written down, and that has beaten once."""
        worker = self.start_recorded(1, slots, url=url)
        self.wait_up(worker)
        return worker

    def send(self, count: int, task: str = "good") -> list[str]:
        """Jobs, half of them in lanes, sent by one who tries until they are acknowledged."""
        requests = [self._request(task) for _ in range(count)]
        self.sent += requests
        wait_for("an insert to be acknowledged", lambda: self._insert(requests), step_s=LOOK_S)
        return [request.id.hex() for request in requests]

    def _request(self, task: str) -> Request:
        work = payload(self._dice.randint(0, LONGEST_MS)) if task == "good" else payload()
        lane = f"lane-{self._dice.randint(1, 3)}" if task == "good" and self._dice.random() < IN_LANES else None
        return Request(id=new_id(), task=task, payload=work, lane=lane)

    def _insert(self, requests: Sequence[Request]) -> bool:
        try:
            self.insert(requests)
        except StoreUnavailable:
            return False
        return True

    def found(self, job: str) -> Job:
        (found,) = self.engine.fetch([bytes.fromhex(job)])
        assert found is not None
        return found

    def record(self, job: str) -> Record:
        record = self.found(job).record
        assert record is not None
        return record

    def runs(self, job: str) -> int:
        return len(self.marks.begun(job))

    def wait_runs(self, count: int) -> None:
        """Until so many runs have begun since the works were opened."""
        wait_for(f"{count} runs", lambda: len(begun(self.marks.read())) >= count, step_s=LOOK_S)

    def wait_ended(self, hang_s: float = 60.0) -> None:
        """Until no job is left to run, and the dead are buried."""
        super().wait_ended(hang_s)
        pids = {worker.pid for worker in self.workers if worker.process.poll() is None}
        wait_for("the dead to be buried", lambda: {card.pid for card in self._cards()} == pids, step_s=LOOK_S)

    def _cards(self) -> Sequence[Card]:
        return self.engine.tally(TallyQuery()).cards

    def check(self, *, once: bool = True) -> None:
        """All jobs end, workers stop in order, every invariant holds; `once`: and no job was run twice."""
        self.wait_ended()
        assert self.stop() == []
        marks, lines = self.marks.read(), read_folder(self.folder)
        plan = {request.id.hex(): request for request in self.sent}
        evidence = Evidence(
            plan,
            hear_repeats(digest(lines)),
            look(self.namespace),
            read_ledger(self.folder / "ledger"),
            marks=marks,
            read_deed=lambda _: Deed(),
        )
        broken = check(evidence, ALL)
        assert not broken, "\n".join([*map(str, broken[:5]), *story_of(broken[0].job, lines)])
        if once:
            runs = Counter(mark.job for mark in begun(marks)) - Counter(list(plan))
            assert not runs, f"ran more than once: {runs}"
            assert {self._record(job) for job in evidence.store.jobs.values()} == {(1, 0, 0)}

    def check_ended(self) -> None:
        """All jobs that were sent have succeeded, and workers stop in order: where a server may have lost the rest."""
        self.wait_ended()
        states = {self.record(request.id.hex()).state for request in self.sent}
        assert states == {State.SUCCEEDED}
        assert self.stop() == []

    def _record(self, job: Job) -> tuple[int, int, int]:
        assert job.record is not None
        return job.record.attempt, job.record.crashes, job.record.losses
