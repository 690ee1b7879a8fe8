"""Stored arguments reach a function as the types its parameters are annotated with, or not at all.

Each parameter's reader is compiled once per function. The outer shape `{"a":[…],"k":{…}}` is cut into raw
pieces first and each piece read by its parameter's reader: as fast as one big typed decoder, it serves
`*args` and `**kwargs` the same way, and an error knows which parameter it is about.
"""

from __future__ import annotations

import functools
import inspect
import sys
import typing
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec

from windlass.core.codec import WRAPPED, Read, corrupt, open_json, reader, wrong_type
from windlass.core.errors import WrongType
from windlass.core.limits import DEFAULT, Limits
from windlass.core.names import near_miss
from windlass.core.plural import agreeing, number_of
from windlass.core.secret import MARK_IN_JSON, revived

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_EMPTY: Final = inspect.Parameter.empty
_PLAIN: Final = frozenset({bool, float, int, str})


class _Call(msgspec.Struct, frozen=True):
    a: list[msgspec.Raw] = []
    k: dict[str, msgspec.Raw] = {}


_CALL: Final = msgspec.json.Decoder(_Call)
_known: weakref.WeakKeyDictionary[Callable[..., Any], Signature] = weakref.WeakKeyDictionary()


class Signature:
    """How a function may be called and what its parameters are; built once per function by `of`."""

    __slots__ = (
        "_by_name",
        "_enough",
        "_least",
        "_most",
        "_named",
        "_names",
        "_plain",
        "_reads",
        "_required",
        "_rest",
        "_rest_named",
        "_whole",
        "name",
        "returns",
    )

    def __init__(self, function: Callable[..., Any], without: Collection[str] = ()) -> None:
        self.name: str = getattr(function, "__qualname__", None) or type(function).__qualname__
        # Those that the sender does not pass are no part of the stored arguments.
        found = _passed(_parameters(function, self.name), without)
        hints = _Hints(function, self.name)
        types = {each.name: hints.of(each) for each in found}
        readers = {name: reader(type_, f"`{name}` of {self.name}") for name, type_ in types.items()}
        required = [each for each in found if each.default is _EMPTY]
        #: The result's annotation, for `decode_result`; Any where there is none or it cannot be resolved.
        self.returns: Any = hints.returns()
        self._names = tuple(each.name for each in found if each.kind in _POSITIONAL)
        self._reads = tuple(readers[name] for name in self._names)
        self._plain = tuple(types[name] if _is_plain(types[name]) else None for name in self._names)
        self._whole = _whole(self._plain) if len(self._plain) == len(found) and all(self._plain) else None
        self._by_name = {each.name: readers[each.name] for each in found if each.kind in _NAMED}
        self._rest = next((readers[each.name] for each in found if each.kind is each.VAR_POSITIONAL), None)
        self._rest_named = next((readers[each.name] for each in found if each.kind is each.VAR_KEYWORD), None)
        self._required = frozenset(each.name for each in required if each.kind in _NAMED)
        # Positional-only names may appear among **kwargs as well, so they cannot clash with a keyword.
        self._named = tuple(each.name if each.kind in _NAMED else None for each in found if each.kind in _POSITIONAL)
        self._least = sum(each.kind is each.POSITIONAL_ONLY for each in required)
        self._most = len(self._names)
        # From this many arguments by position on, no keyword is needed: the check of most calls.
        needed = [place for place, name in enumerate(self._named) if name is None or name in self._required]
        self._enough = max(needed, default=-1) + 1 if self._required <= set(self._named) else sys.maxsize

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Signature:
        """The function's signature, the same object each time; `WrongType` for an unusable annotation."""
        try:
            known = _known.get(function)
        except TypeError:  # a callable that takes no weak reference or has no hash is not cached
            return cls(function)
        if known is None:
            known = _known[function] = cls(function)
        return known

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Returns only if the function can be called like this; else `WrongType` names the parameter."""
        count = len(args)
        if not kwargs and self._enough <= count <= self._most:
            return
        if count > self._most and self._rest is None:
            given = f"{count} {agreeing(count, 'was', 'were')} given"
            raise self._refuse(f"takes at most {number_of(self._most, 'argument')} by position, {given}")
        if count < self._least:
            raise self._refuse(f"needs a value for `{self._names[count]}`, by position")
        # Plain loops: this runs for every call with keywords, and set algebra takes three times as long.
        for name in self._named[:count]:
            if name in kwargs:
                raise self._refuse(f"was given `{name}` twice, by position and by name")
        if self._rest_named is None:
            for name in kwargs:
                if name not in self._by_name:
                    raise self._unknown(name)
        missing = self._required.difference(self._named[:count], kwargs)
        if missing:
            name = next(name for name in (*self._named, *self._by_name) if name in missing)
            raise self._refuse(f"needs a value for `{name}`")

    def is_sure_to_fit(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether all are texts, numbers or truth values where just that is annotated: `decode` gives the same."""
        return not kwargs and tuple(map(type, args)) == self._plain[: len(args)]

    def takes(self, name: str) -> bool:
        """Whether a sender may give an argument of that name."""
        return name in self._by_name or self._rest_named is not None

    def nearest(self, name: str) -> str | None:
        """The parameter that was most likely meant by that name."""
        return near_miss(name, self._by_name)

    def place_of(self, name: str) -> int | None:
        """The place of the parameter among arguments by position; None where it is given by name only, or unknown."""
        return self._names.index(name) if name in self._names else None

    def decode(self, data: bytes, limits: Limits = DEFAULT) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments in the annotated types, sure to fit the parameters.

        `WrongType` names the argument that does not fit, `CorruptRecord` says that the record is damaged.
        """
        body = open_json(data, limits, WRAPPED)
        if self._whole is not None:
            try:
                return self._whole(body).a, {}
            except (msgspec.DecodeError, UnicodeError):
                pass  # some are left to their defaults, given by name, or wrong, which is told below
        try:
            call = _CALL.decode(body)
        except RecursionError:
            raise limits.too_deep("The stored record") from None
        except (msgspec.DecodeError, UnicodeError):
            raise corrupt("does not hold arguments") from None
        args = self._read_positional(call.a)
        kwargs = self._read_named(call.k) if call.k else {}
        if MARK_IN_JSON in body:
            args, kwargs = revived(args), revived(kwargs)
        self.check(args, kwargs)
        return args, kwargs

    def _read_positional(self, pieces: list[msgspec.Raw]) -> tuple[Any, ...]:
        slots: Iterable[Read] = self._reads
        if len(pieces) > self._most:
            if self._rest is None:
                self.check(pieces, {})
            slots = chain(slots, repeat(cast("Read", self._rest)))
        args: list[Any] = []
        try:
            # Not strict: a function's last parameters may have been left to their defaults.
            for piece, read in zip(pieces, slots, strict=False):
                args.append(read(piece))
        except Exception as error:
            place = len(args)
            name = self._names[place] if place < self._most else f"args[{place}]"
            raise wrong_type(name, self.name, error) from None
        return tuple(args)

    def _read_named(self, pieces: dict[str, msgspec.Raw]) -> dict[str, Any]:
        kwargs: dict[str, Any] = {}
        name = ""
        try:
            for name, piece in pieces.items():
                read = self._by_name.get(name) or self._rest_named
                if read is None:
                    break
                kwargs[name] = read(piece)
            else:
                return kwargs
        except Exception as error:
            raise wrong_type(name, self.name, error) from None
        raise self._unknown(name)

    def _unknown(self, name: str) -> WrongType:
        meant = self.nearest(name)
        shown = ascii(name[:60]).strip("'\"")
        return self._refuse(f"has no parameter `{shown}`", f"Did you mean `{meant}`?" if meant else "")

    def _refuse(self, what: str, hint: str = "") -> WrongType:
        todo = "Call it as it is defined; after changing a task's parameters, keep old ones until old jobs ran."
        return WrongType(f"{self.name} {what}.", f"{hint} {todo}".strip())


def _is_plain(annotation: Any) -> bool:
    return isinstance(annotation, type) and annotation in _PLAIN


def _whole(types: tuple[type | None, ...]) -> Callable[[bytes], Any]:
    """Reads all arguments at once, where they are plain, all there and given by position."""
    call = msgspec.defstruct("_Whole", [("a", tuple[types])], frozen=True, forbid_unknown_fields=True)
    return msgspec.json.Decoder(call).decode


def _passed(parameters: Iterable[inspect.Parameter], without: Collection[str]) -> list[inspect.Parameter]:
    """The parameters that a sender passes; behind a left-out one by name only, for their places are the function's."""
    found: list[inspect.Parameter] = []
    shifted = False
    for each in parameters:
        if each.name in without:
            shifted = shifted or each.kind in _POSITIONAL
        elif not shifted or each.kind in {each.KEYWORD_ONLY, each.VAR_KEYWORD}:
            found.append(each)
        elif each.kind is each.POSITIONAL_OR_KEYWORD:
            found.append(each.replace(kind=each.KEYWORD_ONLY))
    return found


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError, NameError) as error:
        raise WrongType(f"{name} does not tell its parameters: {error}.", "Wrap it in a plain function.") from None


class _Hints:
    """Resolves annotations one by one, so that an unusable one is named and a bad return is no harm."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        plain: Any = function
        while isinstance(plain, functools.partial):
            plain = cast("functools.partial[Any]", plain).func
        plain = inspect.unwrap(plain)
        if not hasattr(plain, "__globals__") and not inspect.ismethod(plain):
            plain = getattr(plain, "__call__", plain)  # noqa: B004 - its globals are wanted, not whether it is there
        self._function = function
        self._name = name
        self._globals: dict[str, Any] = getattr(inspect.unwrap(plain), "__globals__", {})

    def of(self, parameter: inspect.Parameter) -> Any:
        if parameter.annotation is _EMPTY:
            return Any
        try:
            hint = self._resolve(parameter.annotation)
        except Exception as error:
            raise WrongType(
                f"The annotation of `{parameter.name}` of {self._name} cannot be resolved: {error}.",
                "Import the name at run time (not only under TYPE_CHECKING) and define it at module level.",
            ) from None
        # `to: str = None` is common; refusing the None that the function itself chose would surprise.
        return hint | None if parameter.default is None and hint is not Any else hint

    def returns(self) -> Any:
        try:
            annotation = inspect.signature(self._function).return_annotation
            return Any if annotation is _EMPTY else self._resolve(annotation)
        except Exception:
            return Any

    def _resolve(self, annotation: Any) -> Any:
        holder = SimpleNamespace(__annotations__={"it": annotation})
        return typing.get_type_hints(holder, self._globals, include_extras=True)["it"]


def _anything(*args: Any, **kwargs: Any) -> Any:
    """Takes whatever was sent."""


ANYTHING: Final = Signature(_anything)
"""Reads the arguments of a task whose code is not here, as plain data."""
