"""Async tasks on one event loop: up to `slots` at a time, each an asyncio task of its own, cancelled to be stopped."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from windlass.app.context import current
from windlass.app.endings import Interrupted
from windlass.core.clock import Clock
from windlass.engines.protocol import Claim
from windlass.worker.desk import Desk, Run
from windlass.worker.executor import Executor, Refused, cancelled, given_back
from windlass.worker.pools.pool import Settle


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="windlass-loop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def run(self, waits: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine on the loop and waits for it, from another thread."""
        return asyncio.run_coroutine_threadsafe(waits, self.loop).result()

    def stop(self, timeout_s: float = 5.0) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(timeout_s)


class AioPool:
    """Coroutines side by side."""

    def __init__(
        self,
        slots: int,
        desk: Desk,
        executor: Executor,
        settle: Settle,
        clock: Clock,
        hungry: Callable[[], None],
        loop: Loop,
    ) -> None:
        self.slots = slots
        self._desk = desk
        self._executor = executor
        self._settle = settle
        self._clock = clock
        self._hungry = hungry
        self._loop = loop
        self._waiting: deque[Claim] = deque()
        self._tasks: dict[bytes, asyncio.Task[None]] = {}

    def start(self) -> None:
        """The loop is started by the worker, which opens resources on it first."""

    def put(self, claims: tuple[Claim, ...]) -> None:
        self._waiting.extend(claims)
        self._loop.loop.call_soon_threadsafe(self._fill)

    def waiting(self) -> int:
        return len(self._waiting)

    def take_back(self) -> list[Claim]:
        taken: list[Claim] = []
        while self._waiting:
            try:
                taken.append(self._waiting.popleft())
            except IndexError:
                break
        return taken

    def stop(self) -> None:
        """Nothing is started any more; what runs goes on until the loop stops."""
        self._waiting.clear()

    # ── on the loop ─────────────────────────────────────────────────────────────────────────────────────

    def _fill(self) -> None:
        tasks, waiting = self._tasks, self._waiting
        while len(tasks) < self.slots:
            try:
                claim = waiting.popleft()
            except IndexError:
                self._hungry()
                return
            tasks[claim.id] = self._loop.loop.create_task(self._run(claim))

    def _interrupt(self, run: Run, _why: type[Interrupted]) -> None:
        task = self._tasks.get(run.claim.id)
        if task is not None:
            self._loop.loop.call_soon_threadsafe(task.cancel)

    async def _run(self, claim: Claim) -> None:
        try:
            await self._attempt(claim)
        finally:
            self._tasks.pop(claim.id, None)
            self._fill()

    async def _attempt(self, claim: Claim) -> None:
        desk, executor, clock = self._desk, self._executor, self._clock
        if claim.id in desk.cancelled:
            self._settle(cancelled(claim), claim)
            return
        started_us = clock.monotonic_us()
        try:
            run = executor.load(claim, started_us, self._interrupt)
        except Refused as refusal:
            self._settle(executor.refused(claim, refusal), claim)
            return
        desk.running[claim.id] = run
        current.set(run.context)  # the asyncio task has a context of its own
        error: BaseException | None = None
        value: Any = None
        try:
            args, kwargs = executor.bind(run)
            value = await run.task.function(*args, **kwargs)
        except asyncio.CancelledError as raised:
            if run.asked is not None:
                error = run.asked()
            elif not _is_cancelled():
                error = raised  # something inside cancelled itself
            else:
                desk.running.pop(claim.id, None)
                self._settle(given_back(claim), claim)
                raise
        except BaseException as raised:
            error = raised
        ran_us = clock.monotonic_us() - started_us
        desk.running.pop(claim.id, None)
        if executor.has_hooks_after:
            executor.tell_after(run, error)
        desk.timed(ran_us)
        end = executor.succeeded(run, value, ran_us) if error is None else executor.failed(run, error, ran_us)
        self._settle(end, claim)


def _is_cancelled() -> bool:
    """Whether the loop ends, and with it this asyncio task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
