"""A task: a function that can be called here and now, or sent to be run by a worker.

    send_email(1, "a@b.c")                                    runs here
    send_email.delay(1, to="a@b.c")                           is sent; gives a Handle of its result
    send_email.using(delay=60, priority=9).delay(1, to=…)     is sent otherwise than usual

Type checkers know the parameters of `delay` and the type of its result from the function itself.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar, cast

from windlass.app.context import current, local_context
from windlass.app.handle import Handle, Post
from windlass.app.handles import Handles
from windlass.app.options import SEND_OPTIONS, SendOptions, TaskOptions, needs_of, read_send_options
from windlass.app.resources import Declared, Opened
from windlass.core.codec import encode_arguments
from windlass.core.durations import Duration
from windlass.core.errors import BadValue, WrongType
from windlass.core.ids import new_id, read_id
from windlass.core.job import Job, Request
from windlass.core.signature import Signature
from windlass.engines.protocol import Receipt

P = ParamSpec("P")
R = TypeVar("R")

USUAL = SendOptions()
SHORT = 20
Call = Sequence[Any] | Mapping[str, Any]
"""The arguments of one call of many: a tuple by position, or a dict by name."""


class House(Post, Protocol):
    """What a task needs of its app."""

    @property
    def resources(self) -> Declared: ...
    @property
    def opened(self) -> Opened: ...
    def queue_of(self, task: str, options: TaskOptions) -> str: ...
    def now_us(self) -> int: ...
    def insert(self, jobs: Sequence[Job]) -> list[Receipt]: ...
    def insert_soon(self, jobs: Sequence[Job]) -> Awaitable[list[Receipt]]: ...


class Sender(Generic[P, R]):
    """Sends jobs of one task, by its name."""

    def __init__(self, house: House, name: str, options: TaskOptions, sending: SendOptions = USUAL) -> None:
        self._house = house
        self.name = name
        self.options = options
        self.sending = sending
        """What `using` said."""
        self._said: Mapping[str, Any] = {}

    def delay(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Sends a job; returns once the store has it."""
        (receipt,) = self._house.insert([self.job(args, kwargs)])
        return self._handle(receipt)

    async def adelay(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """The same from asyncio. Many in one tick of the loop travel as one batch."""
        (receipt,) = await self._house.insert_soon([self.job(args, kwargs)])
        return self._handle(receipt)

    def delay_many(self, calls: Iterable[Call]) -> Handles[R]:
        """Sends a job per call, in few commits: `[(1, "a@b.c"), (2, "d@e.f")]`, or dicts of arguments by name."""
        return Handles([self._handle(receipt) for receipt in self._house.insert(self._jobs(calls))])

    async def adelay_many(self, calls: Iterable[Call]) -> Handles[R]:
        """The same from asyncio."""
        return Handles([self._handle(receipt) for receipt in await self._house.insert_soon(self._jobs(calls))])

    def using(
        self,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        expires: Duration | datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        tags: Sequence[str] | None = None,
        timeout: Duration | None = None,
        grace: Duration | None = None,
        memory: int | str | None = None,
        needs: Mapping[str, int] | None = None,
        keep_result: bool | Duration | None = None,
        id: str | bytes | None = None,  # noqa: A002 - the user's word
        key: str | None = None,
        **unknown: Any,
    ) -> Self:
        """The same task, sent otherwise; what was said before still holds.

        `delay` or `at`: when it may run at the earliest. `expires`: when it is not worth running any more. `id`:
        sending it twice makes one job. `key`: while a job of that key has not ended, sending another gives a handle of
        the first.
        """
        given = {
            "delay": delay,
            "at": at,
            "expires": expires,
            "priority": priority,
            "queue": queue,
            "tags": tags,
            "timeout": timeout,
            "grace": grace,
            "memory": memory,
            "needs": needs,
            "keep_result": keep_result,
            "id": id,
            "key": key,
        }
        said = {name: value for name, value in given.items() if value is not None}
        otherwise = copy.copy(self)
        otherwise._said = {**self._said, **said, **unknown}
        otherwise.sending = read_send_options(self.name, otherwise._said, self._house.limits)
        return otherwise

    def _jobs(self, calls: Iterable[Call]) -> list[Job]:
        jobs: list[Job] = []
        for number, call in enumerate(calls):
            if isinstance(call, Mapping):
                jobs.append(self.job((), call))
            elif isinstance(call, (tuple, list)):
                jobs.append(self.job(call, {}))
            else:
                raise BadValue(
                    f"Call number {number} of {self.name} is a {type(call).__name__}.",
                    "Give each call's arguments as a tuple, (1,), or as a dict by name.",
                )
        if self.sending.id is not None and len(jobs) > 1:
            raise BadValue("One id cannot be that of many jobs.", "Send them one by one, each with its id.")
        return jobs

    def job(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Job:
        """The job that a send of these arguments makes; refused if they cannot be stored or do not fit."""
        own, sending = self.options, self.sending
        payload = self._payload(args, kwargs)
        queue = sending.queue or self._house.queue_of(self.name, own)
        if sending is USUAL:
            return Job(
                request=Request(
                    id=new_id(),
                    task=self.name,
                    queue=queue,
                    payload=payload,
                    priority=own.priority,
                    needs=needs_of(own, sending),
                    tags=own.tags,
                )
            )
        return Job(
            request=Request(
                id=sending.id or new_id(),
                task=self.name,
                queue=queue,
                payload=payload,
                priority=own.priority if sending.priority is None else sending.priority,
                tags=own.tags if sending.tags is None else sending.tags,
                delay_us=sending.delay_us,
                at_us=sending.at_us,
                expires_us=sending.expiry_us(self._house.now_us()),
                unique=sending.key,
                needs=needs_of(own, sending),
                options=sending.stored(),
            )
        )

    def _payload(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        return encode_arguments(args, kwargs, self._house.limits)

    def _handle(self, receipt: Receipt) -> Handle[R]:
        known = receipt.duplicate_of
        return Handle(self._house, known or receipt.id, self._returns(), duplicate=known is not None)

    def _returns(self) -> Any:
        return Any

    def result(self, job_id: str | bytes) -> Handle[R]:
        """A handle of a job of this task that was sent before, its result typed as the task's."""
        return Handle(self._house, job_id if isinstance(job_id, bytes) else read_id(job_id), self._returns())


class Task(Sender[P, R]):
    """A function of an app. Calling it runs it here; `delay` sends it."""

    def __init__(self, house: House, name: str, options: TaskOptions, function: Callable[P, Any]) -> None:
        super().__init__(house, name, options)
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        # Its name and its docstring, but not its attributes: one called `name` would rename the task.
        functools.update_wrapper(cast("Any", self), function, updated=())

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the function here and now, without any queue."""
        if current.get() is not None:  # called by a running task: the job is that one's
            return self.function(*args, **self._with_resources(args, kwargs))
        token = current.set(local_context(self.name, self._house.queue_of(self.name, self.options)))
        try:
            return self.function(*args, **self._with_resources(args, kwargs))
        finally:
            current.reset(token)

    def _with_resources(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        wanted = self.injected
        if not wanted:
            return kwargs
        given = inspect.signature(self.function).bind_partial(*args, **kwargs).arguments
        here = current.get()
        opened = self._house.opened if here is None or here.resources is None else here.resources
        return {**kwargs, **{name: opened.get(kind) for name, kind in wanted.items() if name not in given}}

    @functools.cached_property
    def injected(self) -> Mapping[str, type]:
        """The parameters that the worker fills in, with their types."""
        return self._house.resources.wanted_by(self.function)

    @functools.cached_property
    def signature(self) -> Signature:
        """How it may be called by a sender."""
        return Signature(self.function, self.injected) if self.injected else Signature.of(self.function)

    def _payload(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """Sealed arguments that are sure to fit: unless that is plain to see, they are read back as a worker will."""
        signature = self.signature
        try:
            signature.check(args, kwargs)
        except WrongType as error:
            raise self._option_among(kwargs) or error from None
        payload = encode_arguments(args, kwargs, self._house.limits)
        if not signature.is_sure_to_fit(args, kwargs):
            signature.decode(payload, self._house.limits)
        return payload

    def _returns(self) -> Any:
        return self.signature.returns

    def _option_among(self, kwargs: Mapping[str, Any]) -> WrongType | None:
        """The error about an option of the send that was given as an argument, as other queues have it."""
        name = next((name for name in kwargs if name in SEND_OPTIONS and not self.signature.takes(name)), None)
        if name is None:
            return None
        meant = self.signature.nearest(name)
        hint = f"Did you mean `{meant}`? " if meant else ""
        return WrongType(
            f"{self.signature.name} has no parameter `{name}`.",
            f"{hint}An option of the send goes before it: .using({name}={_shown(kwargs[name])}).delay(…).",
        )

    def __repr__(self) -> str:
        return f"<task {self.name}>"


class AsyncTask(Task[P, R]):
    """A coroutine function of an app: awaiting the call runs it here, a worker runs it on its loop."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Runs the coroutine here, on the caller's loop."""
        return self._run(args, kwargs)

    async def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        if current.get() is not None:
            return await self.function(*args, **self._with_resources(args, kwargs))
        token = current.set(local_context(self.name, self._house.queue_of(self.name, self.options)))
        try:
            return await self.function(*args, **self._with_resources(args, kwargs))
        finally:
            current.reset(token)


def _shown(value: Any) -> str:
    """A value in a line of code, where it is short enough to be one."""
    text = ascii(value)
    return text if isinstance(value, (int, float, str)) and len(text) <= SHORT else "…"
