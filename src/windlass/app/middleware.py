"""Middleware: a behaviour that stands around sending, running and settling. One class, one small file, some hooks.

    class Tenant(Middleware):
        options = ("tenant",)                       # tasks may now say @app.task(tenant="acme")

        def before_send(self, request):             # the request as it will be stored
            return msgspec.structs.replace(request, tags=(*request.tags, "acme"))

Hooks before a step run in the order of the app's list, hooks after it in the reverse order. A hook that raises before a
send refuses the send; before a run it fails the attempt, as an error in the task would; anywhere else it is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, cast

from windlass.app.context import JobContext
from windlass.core.errors import BadValue
from windlass.core.job import Job, Request
from windlass.core.names import near_miss
from windlass.engines.protocol import Receipt, Settlement, Verdict

log = logging.getLogger(__name__)


class Middleware:
    """Override what you need."""

    options: ClassVar[Sequence[str]] = ()
    """Options that tasks may be given because this middleware reads them (`task.options.extra`)."""

    def before_send(self, request: Request) -> Request:
        """May give another request in its place."""
        return request

    def after_send(self, request: Request, receipt: Receipt) -> None:
        """The store has the job, or says of which one it is a duplicate."""

    def before_run(self, job: JobContext) -> None:
        """The task is about to be called, in the same thread or on the same loop."""

    def after_run(self, job: JobContext, error: BaseException | None) -> None:
        """The task has returned or raised."""

    def before_settle(self, settlement: Settlement) -> Settlement:
        """May give another settlement in its place."""
        return settlement

    def after_settle(self, settlement: Settlement, verdict: Verdict) -> None:
        """The store has answered."""


ALIKE = 0.8
"""A method whose name is so like that of a hook was meant to be it: `befor_run`, and not `before_all`."""
HOOKS = ("before_send", "after_send", "before_run", "after_run", "before_settle", "after_settle")


def listed(middleware: object) -> tuple[Middleware, ...]:
    """The app's list as it was given."""
    if isinstance(middleware, Middleware) or not isinstance(middleware, Iterable):
        shown = getattr(middleware, "__name__", type(middleware).__name__)
        raise BadValue(f"The middleware is {shown}, not a list.", "Give a list of instances: middleware=[Tenant()].")
    return tuple(cast("Iterable[Middleware]", middleware))


class Stack:
    """The hooks of an app's middleware, as far as they were overridden: none, no cost."""

    __slots__ = HOOKS

    def __init__(self, middleware: Sequence[Middleware]) -> None:
        for one in middleware:
            _refuse_what_is_none(one)
        self.before_send: tuple[Callable[[Request], Request], ...] = _those(middleware, "before_send")
        self.after_send: tuple[Callable[[Request, Receipt], None], ...] = _those(middleware, "after_send")
        self.before_run: tuple[Callable[[JobContext], None], ...] = _those(middleware, "before_run")
        self.after_run: tuple[Callable[[JobContext, BaseException | None], None], ...] = _those(middleware, "after_run")
        self.before_settle: tuple[Callable[[Settlement], Settlement], ...] = _those(middleware, "before_settle")
        self.after_settle: tuple[Callable[[Settlement, Verdict], None], ...] = _those(middleware, "after_settle")

    def changed(self, job: Job) -> Job:
        """The job as the hooks before its send want it."""
        request = job.request
        for hook in self.before_send:
            request = hook(request)
            if not isinstance(request, Request):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise BadValue(f"{_name(hook)} gave {request!r}.", "Return the request, changed or not.")
        return job if request is job.request else Job(request=request)

    def settling(self, settlement: Settlement) -> Settlement:
        """The end of an attempt as the hooks before its settle want it; one that fails changes nothing."""
        for hook in self.before_settle:
            try:
                settlement = _same(hook(settlement), settlement)
            except BaseException:
                log.exception("A middleware failed before a settle; the settlement stays as it was.")
        return settlement


def _same(changed: object, settlement: Settlement) -> Settlement:
    """What a hook made of a settlement, if it still is one of the same claim."""
    if not isinstance(changed, Settlement) or (changed.id, changed.fence) != (settlement.id, settlement.fence):
        raise BadValue("The hook before_settle did not return the settlement.", "Return it, as it was or changed.")
    return changed


def _refuse_what_is_none(one: object) -> None:
    """No middleware at all, or one with a hook that nobody would ever call."""
    if not isinstance(one, Middleware):
        raise BadValue(f"{one!r:.80} is no middleware.", "Give an instance of a class of yours: [Tenant()].")
    kind = type(one)
    for name in dir(kind):
        if name.startswith("_") or name in HOOKS or not callable(getattr(kind, name)):
            continue
        meant = near_miss(name, HOOKS, ALIKE)
        if meant is not None:
            raise BadValue(
                f"The middleware {kind.__qualname__} has no hook `{name}`.",
                f"Did you mean `{meant}`? A method that is none begins with an underscore.",
            )


def _those(middleware: Sequence[Middleware], hook: str) -> tuple[Any, ...]:
    overridden = [one for one in middleware if getattr(type(one), hook) is not getattr(Middleware, hook)]
    if hook.startswith("after"):
        overridden.reverse()
    return tuple(getattr(one, hook) for one in overridden)


def tell(hooks: Sequence[Callable[..., None]], *values: object) -> None:
    """Calls hooks whose errors concern nobody else."""
    for hook in hooks:
        try:
            hook(*values)
        except BaseException:  # SystemExit too: it would end a loop of the worker, and not the process
            log.exception("A middleware failed in %s.", _name(hook))


def _name(hook: Callable[..., Any]) -> str:
    return getattr(hook, "__qualname__", repr(hook))
