"""A handle of a job: its state, its result, its end. It is an id and an app; it can be made anew from the id.

Waiting for many of them is in `handles.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from windlass.app.context import current, shielded
from windlass.core.codec import decode_result
from windlass.core.durations import SECOND_US, Duration, to_us
from windlass.core.errors import (
    JobCancelled,
    JobDead,
    JobExpired,
    NotFinished,
    ResultGone,
    StoreUnavailable,
    WouldBlock,
)
from windlass.core.ids import JobId, show_id
from windlass.core.job import ENDED, Job, State
from windlass.core.limits import Limits
from windlass.engines.protocol import ALL_PARTS, Amendment, Change, Engine, Part
from windlass.ops.lookup import find, record_of, unknown

if TYPE_CHECKING:
    from windlass.app.waiter import Ended, Waiter

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
        with shielded():
            return self._why(self._post.engine)

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
        `timeout` seconds are over; the job goes on then. A store that cannot be reached meanwhile is waited for, too.
        """
        return self._value(self._wait(Deadline(timeout), self._why))

    def wait(self, timeout: Duration | None = None) -> bool:
        """Whether the job has ended, at the latest after `timeout` seconds; False also if the store cannot tell."""
        try:
            self._wait(Deadline(timeout), lambda _: "")
        except NotFinished:
            return False
        return True

    def _why(self, engine: Engine) -> str:
        from windlass.ops.why import why  # most senders never ask

        return why(engine, self.job_id, now_us=self._post.now_us())

    def _wait(self, deadline: Deadline, why: Callable[[Engine], str]) -> Job:
        """The job once it has ended; `NotFinished` when the time is over, with what `why` says then."""
        refusal = self._would_block()
        if refusal is not None:
            return self._ended_already(refusal)
        with watching([self]) as (watched,):
            return self._end(watched, deadline, why)

    def _end(self, watched: Watched[R_co], deadline: Deadline, why: Callable[[Engine], str]) -> Job:
        """What `_wait` gives, of a job that is watched."""
        _, waiter, future = watched
        try:
            job = future.result(deadline.left_s())
        except TimeoutError:
            said, away = "", None
            if not future.done():
                try:
                    said = waiter.last_look([self.job_id], lambda engine: "" if future.done() else why(engine))
                except StoreUnavailable as error:
                    away = error
            if not future.done():
                raise self._unfinished(deadline, said, away) from away
            job = future.result()  # it ended just now, or the store has said itself that nobody will run it
        if job is None:
            raise unknown(self.job_id)
        return job

    def _unfinished(self, deadline: Deadline, why: str, away: StoreUnavailable | None) -> NotFinished:
        if away is not None:
            return deadline.unknown(f"the job {self.id}", away)
        said = f"The job {self.id} has not ended after {deadline}. {why}"
        return NotFinished(said, "Wait longer, or ask again later: it goes on.")

    def _result_of(self, watched: Watched[R_co], deadline: Deadline) -> R_co:
        return self._value(self._end(watched, deadline, self._why))

    def _ended_already(self, refusal: WouldBlock) -> Job:
        """The job, which must have ended where nobody may wait for it; nor is the store waited for."""
        job = self._fetch(RESULT)
        if not _has_ended(job):
            raise refusal
        return job

    def _refuse_to_block_unless_ended(self) -> None:
        refusal = self._would_block()
        if refusal is not None:
            self._ended_already(refusal)

    def _would_block(self) -> WouldBlock | None:
        """Why nobody may wait here for a job that has not ended: it would keep it from ever ending."""
        here = current.get()
        if here is None or here.store is not self._post:
            return None
        if here.is_async:
            return WouldBlock(
                "Waiting here would stop the worker's loop, and every job on it.",
                "Write `await handle` or `async for` in an async task.",
            )
        return self._stands_in_its_own_way() if here.alone else None

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
        if here is not None and here.alone and here.store is self._post:
            return self._value(self._ended_already(self._stands_in_its_own_way()))
        with watching([self]) as (watched,):
            job = await asyncio.wrap_future(watched.future)
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


def _has_ended(job: Job) -> bool:
    return job.record is not None and job.record.state in ENDED


# ── waiting ─────────────────────────────────────────────────────────────────────────────────────────────


class Deadline:
    """How long somebody waits, and what is said when that is over."""

    def __init__(self, timeout: Duration | None) -> None:
        """None: for ever. Numbers are taken as they are: a negative one means not at all."""
        if timeout is not None and not isinstance(timeout, (int, float)):
            timeout = to_us(timeout) / SECOND_US
        self._timeout_s = timeout
        self._began_s = time.monotonic()

    def left_s(self) -> float | None:
        """The time that is left, as the threads of Python take it."""
        if self._timeout_s is None:
            return None
        return max(0.0, self._began_s + self._timeout_s - time.monotonic())

    def unknown(self, what: str, away: StoreUnavailable) -> NotFinished:
        """The error when the time is over and the store cannot be asked any more: what it is about may have ended."""
        said = f"No end of {what} is known after {self}. {away.message}"
        return NotFinished(said, "Wait longer, or ask again when the store is back.")

    def __str__(self) -> str:
        return f"{self._timeout_s or 0:g} s"


class Watched(NamedTuple, Generic[R_co]):
    """A handle whose end somebody waits for."""

    handle: Handle[R_co]
    waiter: Waiter
    future: Ended


@contextmanager
def watching(handles: Sequence[Handle[R]]) -> Generator[Sequence[Watched[R]]]:
    """Each with a future of its end, which the store does not delay; nobody waits for them afterwards."""
    watched: list[Watched[R]] = []
    try:
        for post, some in groupby(handles, lambda handle: handle._post):  # pyright: ignore[reportPrivateUsage]
            same = tuple(some)
            with shielded():
                waiter = post.waiter
                futures = waiter.watch([handle.job_id for handle in same])
                watched += [Watched(handle, waiter, future) for handle, future in zip(same, futures, strict=True)]
        yield watched
    finally:
        for handle, waiter, future in watched:
            waiter.forget(handle.job_id, future)
