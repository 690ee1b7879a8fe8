"""The pool `auto`: async functions on the loop, others in threads, with as many slots for each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.app.task import Task
from windlass.engines.protocol import Claim
from windlass.worker.desk import Run
from windlass.worker.pools.aio import AioPool
from windlass.worker.pools.threads import ThreadPool


class BothPool:
    """Gives each claim to the pool that can run it."""

    def __init__(self, tasks: Mapping[str, Task[..., Any]], threads: ThreadPool, aio: AioPool) -> None:
        self.slots = threads.slots + aio.slots
        self._tasks = tasks
        self._threads = threads
        self._aio = aio

    def start(self) -> None:
        self._threads.start()
        self._aio.start()

    def put(self, claims: tuple[Claim, ...]) -> None:
        on_loop = tuple(claim for claim in claims if self._is_async(claim))
        if on_loop:
            self._aio.put(on_loop)
        others = tuple(claim for claim in claims if not self._is_async(claim))
        if others:
            self._threads.put(others)

    def _is_async(self, claim: Claim) -> bool:
        task = self._tasks.get(claim.task)
        return task is not None and task.is_async

    def waiting(self) -> int:
        return self._threads.waiting() + self._aio.waiting()

    def take_back(self) -> list[Claim]:
        return self._threads.take_back() + self._aio.take_back()

    def hoarded(self, runs: Sequence[Run], before_us: int) -> list[Claim]:
        return self._threads.hoarded(runs, before_us) + self._aio.hoarded(runs, before_us)

    def stop(self) -> None:
        self._threads.stop()
        self._aio.stop()
