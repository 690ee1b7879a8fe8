"""A handle of a job: its state, its result, its end. It is an id and an app; it can be made anew from the id."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from windlass.app.context import current, shielded
from windlass.core.codec import decode_result
from windlass.core.durations import SECOND_US, Duration, to_us
from windlass.core.errors import (
    JobCancelled,
    JobDead,
    JobExpired,
    NotFinished,
    ResultGone,
    WouldBlock,
)
from windlass.core.ids import JobId, show_id
from windlass.core.job import ENDED, Job, State
from windlass.core.limits import Limits
from windlass.core.plural import agreeing, number_of
from windlass.engines.protocol import ALL_PARTS, Amendment, Change, Engine, Part
from windlass.ops.lookup import find, record_of, unknown

if TYPE_CHECKING:
    from windlass.app.waiter import Ended, Waiter

    Watched = tuple["Handle[R]", Ended]

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

RESULT = frozenset({Part.RESULT})


class Post(Protocol):
    """What a handle needs of its app."""

    @property
    def engine(self) -> Engine: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def waiter(self) -> Waiter: ...
    def now_us(self) -> int: ...


class Handle(Generic[R_co]):
    """One job that was sent, from outside."""

    __slots__ = ("_post", "_returns", "duplicate", "job_id")

    def __init__(self, post: Post, job_id: JobId, returns: Any = Any, *, duplicate: bool = False) -> None:
        self._post = post
        self._returns = returns
        self.job_id = job_id
        self.duplicate = duplicate
        """Whether nothing new was sent, because this job was there already."""

    @property
    def id(self) -> str:
        """The job's id as people write it; `app.result(id)` gives its handle again."""
        return show_id(self.job_id)

    @property
    def state(self) -> State:
        """Where the job is in its life now."""
        return record_of(self._fetch(frozenset())).state

    def job(self) -> Job:
        """Everything the store knows of it: attempts, log, progress, error."""
        return self._fetch(ALL_PARTS)

    def why(self) -> str:
        """One sentence why the job is not running: when it is due, what holds it, which worker is missing."""
        from windlass.ops.why import why  # most senders never ask

        with shielded():
            return why(self._post.engine, self.job_id, now_us=self._post.now_us())

    def _fetch(self, parts: frozenset[Part]) -> Job:
        with shielded():
            return find(self._post.engine, self.job_id, parts)

    def cancel(self, reason: str | None = None) -> bool:
        """Asks for the job to end as cancelled; False if it has ended already.

        One that waits is cancelled at once. One that runs is told: async tasks are cancelled, others get an exception.
        """
        with shielded():
            amended = self._post.engine.amend(Amendment(change=Change.CANCEL, ids=(self.job_id,), reason=reason))
        if not amended.refused:
            return True
        return self.state not in ENDED

    # ── the result ──────────────────────────────────────────────────────────────────────────────────────

    def get(self, timeout: Duration | None = None) -> R_co:
        """Waits for the end and gives the task's result.

        Raises `JobDead`, `JobCancelled` or `JobExpired` where there is none, and `NotFinished` (a `TimeoutError`) when
        `timeout` seconds are over; the job goes on then.
        """
        job = self._fetch(RESULT)
        if not _has_ended(job):
            try:
                job = self._wait(timeout)
            except NotFinished:
                raise  # said by the store itself, which knows that nobody will run the job
            except TimeoutError:
                waited_s = _seconds(timeout) or 0
                raise NotFinished(
                    f"The job {self.id} has not ended after {waited_s:g} s. {self.why()}",
                    "Wait longer, or ask again later: it goes on.",
                ) from None
        return self._value(job)

    def wait(self, timeout: Duration | None = None) -> bool:
        """Whether the job has ended, at the latest after `timeout` seconds."""
        try:
            return _has_ended(self._fetch(frozenset())) or bool(self._wait(timeout))
        except TimeoutError:
            return False

    def _watch(self) -> tuple[Waiter, Ended]:
        """A future of the end, and who is to be told that nobody waits for it any more."""
        waiter = self._post.waiter
        (future,) = waiter.watch([self.job_id])
        return waiter, future

    def _wait(self, timeout: Duration | None) -> Job:
        """The job once it has ended; `TimeoutError` when the time is over."""
        self._refuse_to_block()
        waiter, future = self._watch()
        try:
            job = future.result(_seconds(timeout))
        finally:
            waiter.forget(self.job_id, future)
        if job is None:
            raise unknown(self.job_id)
        return job

    def _refuse_to_block_unless_ended(self) -> None:
        """Raises where waiting for this job, which has not ended, would keep it from ever ending."""
        if not _has_ended(self._fetch(frozenset())):
            self._refuse_to_block()

    def _refuse_to_block(self) -> None:
        here = current.get()
        if here is None or here.store is not self._post:
            return
        if here.is_async:
            raise WouldBlock(
                "Waiting here would stop the worker's loop, and every job on it.",
                "Write `await handle` or `async for` in an async task.",
            )
        if here.alone:
            raise self._stands_in_its_own_way()

    def _stands_in_its_own_way(self) -> WouldBlock:
        return WouldBlock(
            f"This task waits for the job {self.id} in its worker's only slot, so neither could ever end.",
            "Give the worker more slots, or let the other task send what follows.",
        )

    def __await__(self) -> Generator[Any, None, R_co]:
        return self._result().__await__()

    async def _result(self) -> R_co:
        import asyncio

        here = current.get()
        if here is not None and here.alone and here.store is self._post and not _has_ended(self._fetch(frozenset())):
            raise self._stands_in_its_own_way()
        waiter, future = self._watch()
        try:
            job = await asyncio.wrap_future(future)
        finally:
            waiter.forget(self.job_id, future)
        if job is None:
            raise unknown(self.job_id)
        return self._value(job)

    def _value(self, job: Job) -> R_co:
        record = job.record
        assert record is not None
        match record.state:
            case State.SUCCEEDED:
                if job.result is None:
                    raise ResultGone(
                        f"The job {self.id} succeeded, and its result is not kept (any more).",
                        "Keep it longer: @app.task(keep_result='7d').",
                    )
                return decode_result(job.result, self._returns, self._post.limits)
            case State.DEAD:
                failure = job.failure
                said = "its worker died while it ran." if failure is None else failure.sentence
                raise JobDead(
                    f"The job {self.id} is dead ({record.reason}): {said}",
                    "Its traceback is in error.failure." if failure else "Look at what it does to its process.",
                    failure=failure,
                )
            case State.EXPIRED:
                raise JobExpired(f"The job {self.id} expired before it started.", "Send it again.")
            case _:
                raise JobCancelled(
                    f"The job {self.id} was cancelled ({record.reason}).", "Send it again if it is still wanted."
                )

    def __repr__(self) -> str:
        return f"<Handle {self.id}>"


def _seconds(timeout: Duration | None) -> float | None:
    """A time to wait as the threads of Python take it."""
    return timeout if timeout is None or isinstance(timeout, (int, float)) else to_us(timeout) / SECOND_US


def _has_ended(job: Job) -> bool:
    return job.record is not None and job.record.state in ENDED


# ── many of them ────────────────────────────────────────────────────────────────────────────────────────


class Handles(Sequence[Handle[R_co]]):
    """The handles of one send of many, in its order."""

    __slots__ = ("_handles",)

    def __init__(self, handles: Sequence[Handle[R_co]]) -> None:
        self._handles = tuple(handles)

    @overload
    def __getitem__(self, index: int) -> Handle[R_co]: ...
    @overload
    def __getitem__(self, index: slice) -> Handles[R_co]: ...
    def __getitem__(self, index: int | slice) -> Handle[R_co] | Handles[R_co]:
        return Handles(self._handles[index]) if isinstance(index, slice) else self._handles[index]

    def __len__(self) -> int:
        return len(self._handles)

    def get(self, timeout: Duration | None = None) -> list[R_co]:
        """All results, in order; the first that is missing raises."""
        return gather(self._handles, timeout)

    def as_completed(self, timeout: Duration | None = None) -> Completed[R_co]:
        """The handles as their jobs end; `for` and `async for` alike."""
        return Completed(self._handles, timeout)

    def progress(self, description: str = "jobs", timeout: Duration | None = None) -> Handles[R_co]:
        """Shows a progress bar until all have ended, then gives the handles again."""
        from rich.progress import track

        for _ in track(self.as_completed(timeout), description, total=len(self)):
            pass
        return self

    def __await__(self) -> Generator[Any, None, list[R_co]]:
        return self._results().__await__()

    async def _results(self) -> list[R_co]:
        import asyncio

        return list(await asyncio.gather(*self._handles))

    def __repr__(self) -> str:
        return f"<{len(self)} handles>"


def gather(handles: Iterable[Handle[R]], timeout: Duration | None = None) -> list[R]:
    """The results of all, in order. The first that has none raises; the others go on."""
    timeout_s = _seconds(timeout)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    return [handle.get(None if deadline is None else max(0.0, deadline - time.monotonic())) for handle in handles]


def as_completed(handles: Iterable[Handle[R]], timeout: Duration | None = None) -> Completed[R]:
    """The handles as their jobs end, the first to end first."""
    return Completed(tuple(handles), timeout)


class Completed(Generic[R_co]):
    """Gives handles whose jobs have ended, by `for` or `async for`."""

    def __init__(self, handles: Sequence[Handle[R_co]], timeout: Duration | None) -> None:
        self._handles = handles
        self._timeout_s = _seconds(timeout)

    def __iter__(self) -> Iterator[Handle[R_co]]:
        from queue import Empty, SimpleQueue

        if current.get() is not None:
            for handle in self._handles:
                handle._refuse_to_block_unless_ended()  # pyright: ignore[reportPrivateUsage]
        ended: SimpleQueue[Watched[R_co]] = SimpleQueue()
        deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        with _watching(self._handles, ended.put):
            for left in range(len(self._handles), 0, -1):
                wait_s = None if deadline is None else max(0.0, deadline - time.monotonic())
                try:
                    handle, future = ended.get(timeout=wait_s)
                except Empty:
                    raise self._unfinished(left) from None
                future.result()
                yield handle

    async def __aiter__(self) -> AsyncIterator[Handle[R_co]]:
        import asyncio

        loop = asyncio.get_running_loop()
        ended: asyncio.Queue[Watched[R_co]] = asyncio.Queue()
        deadline = None if self._timeout_s is None else loop.time() + self._timeout_s

        def put(watched: Watched[R_co]) -> None:
            loop.call_soon_threadsafe(ended.put_nowait, watched)

        with _watching(self._handles, put):
            for left in range(len(self._handles), 0, -1):
                try:
                    async with asyncio.timeout_at(deadline):
                        handle, future = await ended.get()
                except TimeoutError:
                    raise self._unfinished(left) from None
                future.result()
                yield handle

    def _unfinished(self, left: int) -> NotFinished:
        has = agreeing(left, "has", "have")
        return NotFinished(
            f"{left} of {number_of(len(self._handles))} {has} not ended after {self._timeout_s or 0:g} s.",
            "Wait longer.",
        )


@contextmanager
def _watching(handles: Sequence[Handle[R]], put: Callable[[Watched[R]], None]) -> Generator[None]:
    """Puts each handle when its job has ended, or when the store can no longer tell; nobody waits for it afterwards."""
    watched: list[tuple[Waiter, Watched[R]]] = []

    def puts(one: Watched[R]) -> Callable[[object], None]:
        return lambda _: put(one)

    try:
        for handle in handles:
            waiter, future = handle._watch()  # pyright: ignore[reportPrivateUsage]
            watched.append((waiter, (handle, future)))
            future.add_done_callback(puts((handle, future)))
        yield
    finally:
        for waiter, (handle, future) in watched:
            waiter.forget(handle.job_id, future)
