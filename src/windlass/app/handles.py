"""Handles of many jobs: their results in order, or each as it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from windlass.app.handle import Deadline, Handle, Watched, watching
from windlass.core.durations import Duration
from windlass.core.errors import NotFinished, StoreUnavailable
from windlass.core.ids import JobId
from windlass.core.plural import agreeing, number_of
from windlass.engines.protocol import BATCH, Engine

if TYPE_CHECKING:
    from windlass.app.waiter import Waiter

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


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
    deadline, handles = Deadline(timeout), tuple(handles)
    _refuse_to_block(handles)
    with watching(handles) as watched:
        return [one.handle._result_of(one, deadline) for one in watched]  # pyright: ignore[reportPrivateUsage]


def as_completed(handles: Iterable[Handle[R]], timeout: Duration | None = None) -> Completed[R]:
    """The handles as their jobs end, the first to end first."""
    return Completed(tuple(handles), timeout)


class Completed(Generic[R_co]):
    """Gives handles whose jobs have ended, by `for` or `async for`."""

    def __init__(self, handles: Sequence[Handle[R_co]], timeout: Duration | None) -> None:
        self._handles = handles
        self._timeout = timeout

    def __iter__(self) -> Iterator[Handle[R_co]]:
        from queue import Empty, SimpleQueue

        _refuse_to_block(self._handles)
        ended: SimpleQueue[Watched[R_co]] = SimpleQueue()
        deadline = Deadline(self._timeout)
        with watching(self._handles) as watched:
            for one in watched:
                one.future.add_done_callback(lambda _, one=one: ended.put(one))
            for left in range(len(watched), 0, -1):
                try:
                    one = ended.get(timeout=deadline.left_s())
                except Empty:
                    away = None
                    try:
                        for waiter, ids in _not_ended(watched):
                            waiter.last_look(ids, _nothing)
                    except StoreUnavailable as error:
                        away = error
                    if not _is_one_to_come(watched, left):
                        raise self._unfinished(left, deadline, away) from away
                    one = ended.get()
                one.future.result()
                yield one.handle

    async def __aiter__(self) -> AsyncIterator[Handle[R_co]]:
        import asyncio

        put = asyncio.get_running_loop().call_soon_threadsafe
        ended: asyncio.Queue[Watched[R_co]] = asyncio.Queue()
        deadline = Deadline(self._timeout)
        with watching(self._handles) as watched:
            for one in watched:
                one.future.add_done_callback(lambda _, one=one: put(ended.put_nowait, one))
            for left in range(len(watched), 0, -1):
                try:
                    async with asyncio.timeout(deadline.left_s()):
                        one = await ended.get()
                except TimeoutError:
                    away = None
                    try:
                        for waiter, ids in _not_ended(watched):
                            await waiter.last_look_in_loop(ids, _nothing)
                    except StoreUnavailable as error:
                        away = error
                    if not _is_one_to_come(watched, left):
                        raise self._unfinished(left, deadline, away) from away
                    one = await ended.get()
                one.future.result()
                yield one.handle

    def _unfinished(self, left: int, deadline: Deadline, away: StoreUnavailable | None) -> NotFinished:
        so_many = f"{left} of {number_of(len(self._handles))}"
        if away is not None:
            return deadline.unknown(so_many, away)
        return NotFinished(f"{so_many} {agreeing(left, 'has', 'have')} not ended after {deadline}.", "Wait longer.")


def _refuse_to_block(handles: Sequence[Handle[Any]]) -> None:
    for handle in handles:
        handle._refuse_to_block_unless_ended()  # pyright: ignore[reportPrivateUsage]


def _not_ended(watched: Sequence[Watched[Any]]) -> Iterable[tuple[Waiter, list[JobId]]]:
    """Who is to look once more, and at which jobs: at so many as one step takes, for all were looked at before."""
    left: dict[Waiter, list[JobId]] = {}
    for handle, waiter, future in watched:
        if not future.done():
            left.setdefault(waiter, []).append(handle.job_id)
    return [(waiter, ids[:BATCH]) for waiter, ids in left.items()]


def _is_one_to_come(watched: Sequence[Watched[Any]], left: int) -> bool:
    """Whether one more has ended than was given: the thread that answered it may not have put it down yet."""
    return sum(one.future.done() for one in watched) > len(watched) - left


def _nothing(_: Engine) -> None:
    """What to ask the store after a last look, where nothing else is to be known."""
