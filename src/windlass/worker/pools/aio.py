"""Async tasks on one event loop: up to `slots` at a time, each an asyncio task of its own, cancelled to be stopped."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine
from typing import Any

from windlass.app.context import current
from windlass.app.endings import Interrupted
from windlass.core.clock import Clock
from windlass.core.errors import BadValue
from windlass.engines.protocol import Claim, Settlement
from windlass.worker.desk import Run
from windlass.worker.executor import Executor, given_back
from windlass.worker.pools.pool import OneKind, Settle
from windlass.worker.service import log
from windlass.worker.staff import Office


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self._stopping = False
        self.ends = False
        """Whether what still runs is being cancelled because the loop ends."""
        self._thread = threading.Thread(target=self._run, name="windlass-loop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not self._stopping:
                self._go()
        finally:
            self.ends = True
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def _go(self) -> None:
        """A coroutine that a task has started may raise SystemExit: asyncio lets it through, and the loop ends."""
        try:
            self.loop.run_forever()
        except BaseException:
            log.exception("Something on the worker's loop wanted the process to end; the loop goes on.")

    def run(self, waits: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine on the loop and waits for it, from another thread."""
        if threading.current_thread() is self._thread:
            waits.close()
            raise BadValue("An async resource was declared after the worker had started.", "Declare it before.")
        return asyncio.run_coroutine_threadsafe(waits, self.loop).result()

    def stop(self, timeout_s: float = 5.0) -> None:
        self._stopping = True
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(timeout_s)


class AioPool(OneKind):
    """Coroutines side by side."""

    kind = True

    def __init__(
        self,
        slots: int,
        office: Office,
        executor: Executor,
        settle: Settle,
        clock: Clock,
        loop: Loop,
    ) -> None:
        super().__init__(slots, office, executor, settle, clock)
        self._loop = loop
        self._waiting: deque[Claim] = deque()
        # By fence too: a worker that was taken for dead may claim a job again while its old run goes on.
        self._tasks: dict[tuple[bytes, int], asyncio.Task[None]] = {}

    def start(self) -> None:
        """The loop is started by the worker, which opens resources on it first."""

    def put(self, claims: tuple[Claim, ...]) -> None:
        self.room.enter(claims)
        self._waiting.extend(claims)
        self._loop.loop.call_soon_threadsafe(self._fill)

    def waiting(self) -> int:
        return len(self._waiting)

    def take_back(self) -> list[Claim]:
        taken: list[Claim] = []
        while self._waiting:
            try:
                claim = self._waiting.popleft()
            except IndexError:
                break
            self.room.leave(claim)
            taken.append(claim)
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
                self._office.hungry()
                return
            tasks[claim.id, claim.fence] = self._loop.loop.create_task(self._run(claim))

    def _interrupt(self, run: Run, _why: type[Interrupted]) -> None:
        task = self._tasks.get((run.claim.id, run.claim.fence))
        if task is not None:
            self._loop.loop.call_soon_threadsafe(task.cancel)

    async def _run(self, claim: Claim) -> None:
        """One claim from its start to its settlement; whatever fails, the claim has an end."""
        try:
            end = await self._attempt(claim)
        except BaseException as error:
            end = self._executor.broken(claim, error)
        self._tasks.pop((claim.id, claim.fence), None)
        self._hand_over(end, claim)
        self._fill()

    async def _attempt(self, claim: Claim) -> Settlement:
        run = self._begin(claim, self._interrupt)
        if not isinstance(run, Run):
            return run
        current.set(run.context)  # the asyncio task has a context of its own
        error: BaseException | None = None
        value: Any = None
        try:
            args, kwargs = self._executor.bind(run)
            value = await run.task.function(*args, **kwargs)
        except asyncio.CancelledError as raised:
            if run.asked is None and self._loop.ends:
                self._desk.finish(run)
                return given_back(claim)
            error = raised if run.asked is None else run.asked()
        except BaseException as raised:
            error = raised
        return self._end(run, value, error)
