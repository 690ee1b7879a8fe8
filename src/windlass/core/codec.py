"""Arguments and results become text that any language can read, and come back typed.

The envelope is ASCII in front of the body, `version:codec:key id:checksum:body`:

    1:json::1a2b3c4d:{"a":[1],"k":{"to":"ann"}}

The checksum is CRC-32 over everything but itself, so one flipped bit anywhere, header included, is found.
The layout of the header never changes; a new version may only change what the body means. Nothing here
imports what the text names: types come from the annotations of the function that reads it.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import sys
import threading
import typing
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, Protocol, TypeGuard, cast

import msgspec

from windlass.core.errors import CorruptRecord, JobError, NotSerialisable, WindlassError, WrongType
from windlass.core.limits import DEFAULT, Limits
from windlass.core.secret import MARK, MARK_IN_JSON, Secret, is_marked, revived
from windlass.core.system import at_fork

VERSION: Final = 1
CODECS: Final = frozenset({"json"})

_PLAIN: Final = b"1:json::"
_PLAIN_CRC: Final = zlib.crc32(_PLAIN + b":")
_BODY_AT: Final = len(_PLAIN) + 9
#: The levels of `{"a":[…]}` around the arguments, which are not the user's.
WRAPPED: Final = 2
_UPGRADE: Final = "Upgrade Windlass here, or let a newer worker run this job."
_SEND_INSTEAD: Final = (
    "Use str, numbers, lists, dicts, datetime, UUID, Decimal, bytes, enums, dataclasses, msgspec structs or "
    "pydantic models, or give an id and load the object inside the task."
)

Read = Callable[[Any], Any]


class Envelope(msgspec.Struct, frozen=True):
    """What stood around a body whose checksum is right."""

    version: int
    codec: str
    key_id: str
    body: bytes


def seal(body: bytes, codec: str = "json", key_id: str = "") -> bytes:
    """The body in an envelope that `unseal` takes apart, or refuses if a single bit of it changed."""
    if codec == "json" and not key_id:
        return b"%b%08x:%b" % (_PLAIN, zlib.crc32(body, _PLAIN_CRC), body)
    if ":" in codec or ":" in key_id:
        raise NotSerialisable("A codec or key id cannot hold a colon.", "Use letters, digits, - and _.")
    head = f"{VERSION}:{codec}:{key_id}:".encode("ascii")
    return b"%b%08x:%b" % (head, zlib.crc32(body, zlib.crc32(head + b":")), body)


def unseal(data: bytes) -> Envelope:
    """The parts of an undamaged envelope; `CorruptRecord` for damage, `JobError` for one from the future."""
    parts = data.split(b":", 4)
    if len(parts) != 5:
        raise corrupt("has no envelope")
    version, codec, key_id, checksum, body = parts
    head = b"%b:%b:%b::" % (version, codec, key_id)
    # Compared as text: as numbers, "1A" and "1a" would be the same and hide a flipped bit.
    if b"%08x" % zlib.crc32(body, zlib.crc32(head)) != checksum:
        raise corrupt("does not fit its checksum")
    try:
        envelope = Envelope(int(version[:9]), codec.decode("ascii"), key_id.decode("ascii"), body)
    except ValueError:
        raise corrupt("has a header that cannot be read") from None
    if envelope.version != VERSION:
        message = f"This record has format {envelope.version}; this Windlass reads format {VERSION}."
        raise JobError(message, _UPGRADE)
    if envelope.codec not in CODECS:
        raise JobError(f"This record is written with the codec {codec[:40]!r}, which is unknown here.", _UPGRADE)
    return envelope


def corrupt(what: str) -> CorruptRecord:
    """The error for a record that nobody can read any more."""
    return CorruptRecord(
        f"The stored record {what}: it was damaged, or not written by Windlass.",
        "Check the disk and the store, then send the job again.",
    )


def open_json(data: bytes, limits: Limits, wrapped: int) -> bytes:
    """The JSON of an undamaged envelope, no deeper and with no longer numbers than the limits allow."""
    body = data[_BODY_AT:]
    if data[:_BODY_AT] != b"%b%08x:" % (_PLAIN, zlib.crc32(body, _PLAIN_CRC)):
        envelope = unseal(data)
        if envelope.key_id:
            raise JobError(f"This record needs the key {envelope.key_id[:40]!r}.", _UPGRADE)
        body = envelope.body
    limits.check_json(body, "The stored record", wrapped)
    return body


# --- encode -----------------------------------------------------------------------------------------


def encode_arguments(args: Sequence[Any], kwargs: Mapping[str, Any], limits: Limits = DEFAULT) -> bytes:
    """The sealed arguments, sure to fit the limits and to be readable again."""
    body = _encode({"a": args, "k": kwargs} if kwargs else {"a": args}, limits, WRAPPED, _argument_paths)
    sealed = seal(body)
    if len(sealed) > limits.payload_bytes:
        limits.check_payload(len(sealed))
    return sealed


def encode_result(value: Any, limits: Limits = DEFAULT) -> bytes:
    """The sealed result, sure to fit the limits and to be readable again."""
    sealed = seal(_encode(value, limits, 0, _result_path))
    limits.check_result(len(sealed))
    return sealed


_Paths = Callable[[Any], Iterable[tuple[str, Any]]]


def _argument_paths(call: Any) -> Iterator[tuple[str, Any]]:
    yield from ((f"args[{index}]", value) for index, value in enumerate(call["a"]))
    yield from call.get("k", {}).items()


def _result_path(value: Any) -> Iterator[tuple[str, Any]]:
    yield "result", value


def _encode(value: Any, limits: Limits, wrapped: int, paths: _Paths) -> bytes:
    try:
        body = _ENCODER.encode(value)
    except RecursionError:
        raise limits.too_deep("The value") from None
    except Exception as error:
        raise _blame(paths(value), error, limits) from None
    limits.check_json(body, "The value", wrapped)
    # msgspec writes nan and inf as null: a price that became None would be found weeks later.
    if b"null" in body and _has_nonfinite(value):
        raise _name_nonfinite(paths(value))
    return body


def _enc_hook(value: Any) -> Any:
    if isinstance(value, Secret):
        return {MARK: cast("Secret[Any]", value).reveal()}
    if _is_model(cast("Any", type(value))):
        dumped = value.model_dump(mode="json", by_alias=True, round_trip=True)
        # pydantic writes SecretStr as asterisks: the job would run with a password of asterisks.
        if "**********" in repr(dumped) and _holds_masked(value):
            raise NotSerialisable(
                "holds a secret, which pydantic masks",
                "Send it beside the model as a windlass.Secret, or load it inside the task.",
            )
        return dumped
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise NotImplementedError


def _holds_masked(value: Any) -> bool:
    """Whether a value of pydantic's that masks itself is in it."""
    return hasattr(cast("Any", type(value)), "get_secret_value") or any(
        _holds_masked(inner) for _, inner in _children("", value)
    )


def _blame(found: Iterable[tuple[str, Any]], error: Exception, limits: Limits) -> WindlassError:
    """The error that names the innermost value that cannot be encoded."""
    path, culprit = "value", cast("Any", None)
    # A cycle cannot keep this going: it ends in RecursionError before anybody is blamed.
    for _ in range(limits.json_depth + WRAPPED + 1):
        for inner_path, inner in found:
            inner_error = _failure(inner)
            if inner_error is not None:
                path, culprit, error = inner_path, inner, inner_error
                # What a model's fields become is pydantic's to say: those msgspec cannot write may be fine.
                found = () if _is_model(cast("Any", type(inner))) else _children(inner_path, inner)
                break
        else:
            break
    kind = type(culprit).__name__
    if isinstance(error, NotSerialisable):
        return NotSerialisable(f"`{path}` ({kind}) {error.message}.", error.todo)
    if _is_model(cast("Any", type(culprit))):
        message = f"`{path}` is a {kind} that pydantic cannot write as JSON."
        return NotSerialisable(message, 'Its `model_dump(mode="json")` shows why.')
    if isinstance(error, UnicodeError):
        return NotSerialisable(f"`{path}` is text with a lone surrogate.", "Send bytes, or clean the text.")
    if isinstance(culprit, int):
        return limits.too_many_digits(f"`{path}`")
    if isinstance(culprit, Mapping):
        keys = ", ".join(sorted({type(key).__name__ for key in cast("Mapping[Any, Any]", culprit)}))
        return NotSerialisable(
            f"`{path}` is a {kind} with keys of type {keys}.", "Keys must be text, numbers, enums or dates."
        )
    return NotSerialisable(f"`{path}` is a {kind}, which has no stored form.", _SEND_INSTEAD)


def _failure(value: Any) -> Exception | None:
    try:
        _ENCODER.encode(value)
    except Exception as error:
        return error
    return None


def _children(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        yield from ((f"{path}[{str(key)[:40]!a}]", inner) for key, inner in items)
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"{path}[{index}]", inner) for index, inner in enumerate(cast("Iterable[Any]", value)))
    elif isinstance(value, Secret):
        yield path, cast("Secret[Any]", value).reveal()
    else:
        yield from ((f"{path}.{name}", getattr(value, name, None)) for name in _field_names(value))


def _field_names(value: Any) -> Iterable[str]:
    kind = cast("Any", type(value))
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if is_dataclass(kind):
        return [field.name for field in fields(kind)]
    if _is_model(kind):
        return tuple(cast("dict[str, Any]", vars(value)))
    return [attribute.name for attribute in getattr(kind, "__attrs_attrs__", ())]


def _has_nonfinite(value: Any) -> bool:
    kind = cast("Any", type(value))
    if kind is dict:
        return any(map(_has_nonfinite, value.values()))
    if kind is list or kind is tuple:
        return any(map(_has_nonfinite, value))
    if isinstance(value, float):
        return not math.isfinite(value)
    if value is None or kind is str or kind is int or kind is bytes:
        return False
    return any(_has_nonfinite(inner) for _, inner in _children("", value))


def _name_nonfinite(found: Iterable[tuple[str, Any]]) -> NotSerialisable:
    path, value = next((path, value) for path, value in found if _has_nonfinite(value))
    if not isinstance(value, float):
        return _name_nonfinite(_children(path, value))
    todo = "Send None or text in its place, and say so in the annotation."
    return NotSerialisable(f"`{path}` is {value!r}, which JSON cannot hold.", todo)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_enc_hook)


# --- decode -----------------------------------------------------------------------------------------


class _Model(Protocol):
    """The part of pydantic's BaseModel used here. Duck-typed: Windlass never imports pydantic by itself."""

    @classmethod
    def model_validate_json(cls, json_data: bytes) -> Any: ...


def _is_model(kind: object) -> TypeGuard[type[_Model]]:
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_dump")


def _dec_hook(kind: Any, value: Any) -> Any:
    if kind is object:
        return value
    if kind is Secret or typing.get_origin(kind) is Secret:
        return _secret(kind, value)
    if not _is_model(kind):
        raise TypeError(f"`{_spell(kind)}` cannot be read from JSON")
    # Through JSON, not Python objects: a strict model takes a datetime from JSON text but not from a str.
    return _validated(kind.model_validate_json, msgspec.json.encode(value))


def _secret(kind: Any, value: Any) -> Secret[Any]:
    """Only what was marked: a value that was sent in the open would be shown in the open."""
    if not is_marked(value):
        raise ValueError(f"Expected `{_spell(kind)}`, got a value that is not marked as secret")
    (inner,) = typing.get_args(kind) or (Any,)
    try:
        return Secret(_result_reader(inner)(msgspec.json.encode(value[MARK])))
    except Exception:
        # What is wrong with it may quote it.
        raise ValueError(f"Expected `{_spell(kind)}`, got a secret of another type") from None


def _validated(validate: Callable[[bytes], Any], text: bytes) -> Any:
    try:
        return validate(text)
    except Exception as error:
        listed = getattr(error, "errors", None)
        if not callable(listed):
            raise ValueError(f"{type(error).__name__}: {error}") from None
        # pydantic's own text quotes the input, which may be a secret on its way to a log.
        details = cast("list[Any]", listed())[:5]
        said = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'value'}: {one['msg']}" for one in details)
        raise ValueError(said) from None


_building = threading.Lock()
"""msgspec learns a class the first time it is asked for it, and another thread that asks meanwhile crashes the process
(a read of a null pointer in 0.22). So it is asked by one thread at a time, here, and for our own classes at import.
"""


def _after_fork() -> None:
    """In a forked child: a thread that did not come along may have held the lock."""
    global _building  # noqa: PLW0603
    _building = threading.Lock()


at_fork(after_in_child=_after_fork)


def reader(annotation: Any, whose: str) -> Read:
    """A compiled reader that gives the annotated type or raises; `WrongType` if there can be none."""
    if annotation in (inspect.Parameter.empty, object):
        annotation = Any
    for inner in _secrets(annotation):
        reader(inner, whose)  # what it cannot hold is told now, and not by every job
    try:
        with _building:
            return msgspec.json.Decoder(annotation, dec_hook=_dec_hook).decode
    except Exception as error:
        # msgspec knows no unions of models, which are everyday for pydantic.
        pydantic: Any = sys.modules.get("pydantic")
        if pydantic is not None and _mentions_model(annotation) and not _secrets(annotation):
            validate = pydantic.TypeAdapter(annotation).validate_json
            return lambda raw: _validated(validate, bytes(raw))
        raise WrongType(
            f"{whose} is annotated `{_spell(annotation)}`, which cannot be read from JSON: {error}.",
            "Use another annotation, tag the classes of a union (msgspec `tag=True`), or leave it out.",
        ) from None


def _secrets(annotation: Any) -> list[Any]:
    """What the secrets in an annotation are annotated to hold."""
    inner = typing.get_args(annotation)
    return list(inner) if typing.get_origin(annotation) is Secret else [one for each in inner for one in _secrets(each)]


def _mentions_model(annotation: Any) -> bool:
    return _is_model(annotation) or any(map(_mentions_model, typing.get_args(annotation)))


def _spell(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


@functools.lru_cache(maxsize=1024)
def _result_reader(annotation: Any) -> Read:
    return reader(annotation, "The result")


def decode_result(data: bytes, annotation: Any = Any, limits: Limits = DEFAULT) -> Any:
    """The result as the annotated type; `WrongType` if it does not fit, `CorruptRecord` if it is damaged."""
    body = open_json(data, limits, 0)
    try:
        read = _result_reader(annotation)
    except TypeError:  # an annotation that cannot be hashed, and so not be cached
        read = reader(annotation, "The result")
    try:
        found = read(body)
    except Exception as error:
        raise _wrong_result(error) from None
    return revived(found) if MARK_IN_JSON in body else found


def wrong_type(name: str, whose: str, error: Exception) -> WindlassError:
    """The error that says where in argument `name` which type was expected and which was found."""
    where, what = _misfit(name, error)
    return _damage(error) or WrongType(
        f"Wrong type at {where} of {whose}: {what}.",
        "Send what the annotation says, or change the annotation to fit what is sent.",
    )


def _wrong_result(error: Exception) -> WindlassError:
    """The same for a result. Whoever reads it has sent nothing wrong, and the job has succeeded."""
    where, what = _misfit("result", error)
    return _damage(error) or WrongType(
        f"The stored result does not fit the return annotation of its task: {what} at {where}.",
        "Correct what the task returns or its annotation; app.result(id).get() gives the result as it was stored.",
    )


def _damage(error: Exception) -> WindlassError | None:
    if isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError):
        return corrupt("is not JSON")
    return corrupt("is not UTF-8 text") if isinstance(error, UnicodeDecodeError) else None


_QUOTING: Final = re.compile(r"(Invalid (?:enum )?value) .*", re.DOTALL)
"""How msgspec quotes what it found, which may be a secret on its way to a log."""


def _misfit(name: str, error: Exception) -> tuple[str, str]:
    """Where in the value called `name`, and what was expected there."""
    what, _, where = str(error).partition(" - at ")
    what = _QUOTING.sub(r"\1", what)
    return where.replace("`$", f"`{name}") or f"`{name}`", what.replace("Expected", "expected", 1)
