"""Things that are made once per worker and given to tasks by annotation: a database pool, a client, a model.

    @app.resource
    def pool() -> Iterator[Pool]:
        with Pool(...) as pool:
            yield pool

    @app.task
    def charge(order_id: int, pool: Pool = injected) -> None: ...

A resource is what its function returns or yields; after a `yield`, the rest runs when the worker stops, in reverse
order. Functions may be async: those run on the worker's loop. `injected` tells type checkers that nobody passes it.

A test puts another in its place by `app.override`. A value belongs to the function that made it, not to its type: so
whoever has resources open finds the fake as soon as it stands in, and the real one again afterwards.
"""

from __future__ import annotations

import functools
import inspect
import threading
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from typing import Any, Final, cast

from windlass.core.errors import BadValue, DuplicateResource

injected: Final[Any] = cast("Any", ...)
"""The default of a parameter that the worker fills in."""

RunCoroutine = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine on the worker's loop and waits for it."""

Maker = Callable[[], Any]
"""Makes a resource: returns or yields it, or does so async."""

_NOTHING: Final = object()
_YIELDING = (Iterator, Generator, AsyncIterator, AsyncGenerator)


def provided_type(function: Callable[..., Any]) -> type:
    """The type that a resource function makes, as its return annotation says."""
    try:
        annotation = typing.get_type_hints(function).get("return")
    except NameError as error:
        raise BadValue(f"The return annotation of {function.__qualname__} is unknown: {error}.", "Import it.") from None
    if typing.get_origin(annotation) in _YIELDING:
        annotation = typing.get_args(annotation)[0]
    if not isinstance(annotation, type) or annotation is type(None):
        raise BadValue(
            f"The resource {function.__qualname__} does not say which type it makes.",
            "Annotate what it returns or yields: -> Pool, or -> Iterator[Pool].",
        )
    return annotation


class Declared:
    """The resources an app knows, by type."""

    def __init__(self) -> None:
        self._makers: dict[type, Maker] = {}
        self._instead: dict[type, tuple[Maker, ...]] = {}
        """Those that stand in the place of the declared ones; of several the last."""

    def add(self, function: Maker) -> None:
        kind = provided_type(function)
        if kind in self._makers:
            raise DuplicateResource(
                f"Two resources make {kind.__qualname__}: {_name(self._makers[kind])}, {_name(function)}.",
                "Give one of them a type of its own.",
            )
        self._makers[kind] = function

    def __iter__(self) -> Iterator[type]:
        return iter(self._makers)

    def maker(self, kind: type) -> Maker:
        instead = self._instead.get(kind)
        return instead[-1] if instead else self._makers[kind]

    def stand_in(self, kind: type, fake: object) -> Maker:
        """From now on `fake` is the resource of that type, or makes it."""
        if kind not in self._makers:
            name = getattr(kind, "__qualname__", repr(kind))
            raise BadValue(
                f"Nothing makes a {name}, so nothing can stand in its place.",
                "Give the type of a resource, and import the module that declares it.",
            )
        maker = _maker_of(fake)
        self._instead[kind] = (*self._instead.get(kind, ()), maker)
        return maker

    def step_aside(self, kind: type, maker: Maker) -> None:
        """That one no longer stands in; whichever came before or after it does."""
        left = tuple(one for one in self._instead[kind] if one is not maker)
        if left:
            self._instead[kind] = left
        else:
            del self._instead[kind]

    def wanted_by(self, function: Callable[..., Any]) -> Mapping[str, type]:
        """The parameters of a function that are resources, with their types."""
        try:
            hints = typing.get_type_hints(function)
        except (NameError, TypeError):
            hints = {}
        found: dict[str, type] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            kind = hints.get(name)
            if kind in self._makers:
                found[name] = kind
            elif parameter.default is injected:
                raise BadValue(
                    f"Nothing makes the `{name}` of {function.__qualname__}.",
                    f"Declare it: @app.resource, a function that returns {getattr(kind, '__name__', 'its type')}.",
                )
        return found


class Opened:
    """The resources of one worker, or of this process for plain calls: made at the first need, closed in reverse."""

    def __init__(self, declared: Declared, run: RunCoroutine | None = None) -> None:
        self._declared = declared
        self._run = run
        self._lock = threading.RLock()
        self._values: dict[Maker, Any] = {}
        self._open: dict[Maker, Any] = {}

    def get(self, kind: type) -> Any:
        """The resource of that type."""
        maker = self._declared.maker(kind)
        found = self._values.get(maker)
        if found is None:
            with self._lock:
                if maker not in self._values:
                    self._values[maker] = self._make(maker)
                found = self._values[maker]
        return found

    def open_all(self) -> None:
        """Makes every declared one: a worker that cannot reach its database says so before it claims a job."""
        for kind in self._declared:
            self.get(kind)

    def _make(self, maker: Maker) -> Any:
        made = maker()
        if inspect.iscoroutine(made):
            return self._await(made, maker)
        if inspect.isgenerator(made):
            value = next(made, _NOTHING)
            if value is _NOTHING:
                raise _yielded_nothing(maker)
            self._open[maker] = made
            return value
        if inspect.isasyncgen(made):
            value = self._await(_first(cast("AsyncGenerator[Any, Any]", made)), maker)
            if value is _NOTHING:
                raise _yielded_nothing(maker)
            self._open[maker] = made
            return value
        return made

    def _await(self, waits: Coroutine[Any, Any, Any], maker: Maker) -> Any:
        if self._run is None:
            waits.close()
            raise BadValue(
                f"The resource {_name(maker)} is async, and there is no worker's loop here.",
                "Run the task by a worker with pool='auto' or 'aio', or pass the argument.",
            )
        return self._run(waits)

    def close(self) -> None:
        """Runs what stands behind each `yield`, the last made first; the first error is raised after all have run."""
        errors: list[Exception] = []
        while self._open:
            try:
                self._finish(*self._open.popitem())
            except Exception as error:
                errors.append(error)
        self._values.clear()
        if errors:
            raise errors[0]

    def let_go(self, maker: Maker) -> None:
        """Closes what that one made, if it made anything here."""
        with self._lock:
            self._values.pop(maker, None)
            made = self._open.pop(maker, None)
        if made is not None:
            self._finish(maker, made)

    def _finish(self, maker: Maker, made: Any) -> None:
        """Runs what stands behind its `yield`."""
        if inspect.isasyncgen(made):
            self._await(_rest(cast("AsyncGenerator[Any, Any]", made)), maker)
        else:
            next(made, None)


def _maker_of(fake: object) -> Maker:
    """A function or a class makes the fake; anything else is it, a callable mock too.

    The answer is new each time, for it is what the value is kept by: the same fake twice is made twice.
    """
    if inspect.isroutine(fake) or isinstance(fake, (type, functools.partial)):
        return functools.partial(cast("Maker", fake))
    return lambda: fake


def _name(maker: Maker) -> str:
    plain = maker.func if isinstance(maker, functools.partial) else maker
    return getattr(plain, "__qualname__", repr(plain))


def _yielded_nothing(maker: Maker) -> BadValue:
    return BadValue(f"The resource {_name(maker)} yielded nothing.", "Let it yield what it makes, once.")


async def _first(made: AsyncGenerator[Any, Any]) -> Any:
    return await anext(made, _NOTHING)


async def _rest(made: AsyncGenerator[Any, Any]) -> None:
    await anext(made, None)
