"""The pool `auto`: async functions on the loop, others in threads, with as many slots for each kind.

A pool is made when the app has a task for it; one may come late, in a notebook for instance. Where one of the two has
room and the other has not, only tasks of its kind are asked for: a backlog of the one never keeps the other waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.app.task import Task
from windlass.engines.protocol import Claim
from windlass.worker.desk import Run
from windlass.worker.room import wishes_for
from windlass.worker.staff import Wish

if TYPE_CHECKING:
    from windlass.worker.pools.aio import AioPool
    from windlass.worker.pools.threads import ThreadPool

    OnePool = ThreadPool | AioPool


class BothPool:
    """Gives each claim to the pool that can run it."""

    def __init__(self, tasks: Mapping[str, Task[..., Any]], make: Callable[[bool], OnePool]) -> None:
        self._tasks = tasks
        self._make = make
        self._pools: dict[bool, OnePool] = {}

    @property
    def slots(self) -> int:
        return sum(pool.slots for pool in self._made)

    @property
    def _made(self) -> list[OnePool]:
        return list(self._pools.values())

    def _pool(self, kind: bool) -> OnePool:
        pool = self._pools.get(kind)
        if pool is None:
            pool = self._pools[kind] = self._make(kind)
            pool.start()
        return pool

    def start(self) -> None:
        for kind in {task.is_async for task in self._tasks.values()} or {False}:
            self._pool(kind)

    def wishes(self) -> list[Wish]:
        names = {kind: self._names(kind) for kind in (False, True)}
        return wishes_for({kind: self._pool(kind).room.free() for kind in names if names[kind]}, names)

    def _names(self, kind: bool) -> frozenset[str]:
        return frozenset(name for name, task in list(self._tasks.items()) if task.is_async is kind)

    def put(self, claims: tuple[Claim, ...]) -> None:
        for kind in (True, False):
            own = tuple(claim for claim in claims if self._is_async(claim) is kind)
            if own:
                self._pool(kind).put(own)

    def _is_async(self, claim: Claim) -> bool:
        task = self._tasks.get(claim.task)
        return task is not None and task.is_async

    def waiting(self) -> int:
        return sum(pool.waiting() for pool in self._made)

    def take_back(self) -> list[Claim]:
        return [claim for pool in self._made for claim in pool.take_back()]

    def hoarded(self, runs: Sequence[Run], now_us: int) -> list[Claim]:
        return [claim for pool in self._made for claim in pool.hoarded(runs, now_us)]

    def stop(self) -> None:
        for pool in self._made:
            pool.stop()
