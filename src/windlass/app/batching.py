"""Sending from asyncio: what one loop asks for in the same tick travels as one batch, from one thread.

    await a.adelay(1) ┐
    await b.adelay(2) ├─ same tick ─► one insert ─► three receipts
    await c.adelay(3) ┘

While a batch is on its way, the next one gathers. So a thousand coroutines that send cost about as many commits as
there are syncs of the disk, and the loop never waits for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from windlass.core.errors import StoreClosed, StoreError
from windlass.core.job import Job
from windlass.engines.protocol import Receipt

Insert = Callable[[Sequence[Job]], list[Receipt]]
Receipts = asyncio.Future[list[Receipt]]
Gathered = tuple[Sequence[Job], Receipts]


class Batcher:
    """The outgoing jobs of one event loop. Used on its loop only."""

    # It does not keep its loop: a program that makes many loops would keep them all, with a thread each.

    def __init__(self, insert: Insert) -> None:
        self._insert = insert
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="windlass-batch")
        self._gathered: list[Gathered] = []
        self._on_its_way = False
        self._closed = False

    async def send(self, jobs: Sequence[Job]) -> list[Receipt]:
        """Returns once the store has them."""
        loop = asyncio.get_running_loop()
        answer: Receipts = loop.create_future()
        self._gathered.append((jobs, answer))
        if len(self._gathered) == 1 and not self._on_its_way:
            loop.call_soon(self._go)
        return await answer

    def _go(self) -> None:
        batch, self._gathered = self._gathered, []
        if not batch:
            return
        try:
            lists = [jobs for jobs, _ in batch]
            going = asyncio.get_running_loop().run_in_executor(self._thread, self._send, lists)
        except RuntimeError as error:  # the thread takes nothing any more, or cannot be started
            closed = StoreClosed("The app was closed.", "Keep it open while you send.")
            self._answer(batch, [closed if self._closed else error] * len(batch))
            return
        self._on_its_way = True
        going.add_done_callback(lambda done: self._arrived(batch, done))

    def _arrived(
        self,
        batch: list[Gathered],
        done: asyncio.Future[list[list[Receipt] | Exception]],
    ) -> None:
        self._on_its_way = False
        error = done.exception()
        self._answer(batch, [error] * len(batch) if error is not None else done.result())
        self._go()

    def _answer(self, batch: list[Gathered], answers: Sequence[list[Receipt] | BaseException]) -> None:
        for (_, waiting), answer in zip(batch, answers, strict=True):
            if waiting.done():
                continue  # whoever asked was cancelled meanwhile; the job is sent all the same
            if isinstance(answer, BaseException):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)

    def _send(self, lists: list[Sequence[Job]]) -> list[list[Receipt] | Exception]:
        """In the thread: one insert for all. Should one list be refused, each goes for itself.

        A store that cannot be reached is not asked again for each: that would only take longer.
        """
        jobs = [job for one in lists for job in one]
        try:
            receipts = iter(self._insert(jobs))
            return [[next(receipts) for _ in one] for one in lists]
        except Exception as error:
            if len(lists) == 1 or isinstance(error, StoreError):
                return [error] * len(lists)
        return [self._send([one])[0] for one in lists]

    def close(self) -> None:
        """Waits for the batch that is on its way."""
        self._closed = True
        self._thread.shutdown()
