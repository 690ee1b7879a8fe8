"""A value that is handed on, and never shown.

In the store it is `{"$secret": value}`: whoever looks at a job, with or without its code, can tell it from what may be
shown (`core.redact`). It is marked, not encrypted: who can read the store can read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar, cast, final

MARK: Final = "$secret"
MARK_IN_JSON: Final = b'"$secret"'

T_co = TypeVar("T_co", covariant=True)


@final
class Secret(Generic[T_co]):
    """An argument or a result that logs, errors, tables and pages show as `***`; `reveal()` gives it."""

    __slots__ = ("_value",)

    def __init__(self, value: T_co) -> None:
        self._value = value

    def reveal(self) -> T_co:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == cast("Secret[object]", other).reveal()

    def __hash__(self) -> int:
        return hash((Secret, self._value))


def is_marked(value: object) -> bool:
    """Whether plain data is the stored form of a secret."""
    return isinstance(value, dict) and len(cast("dict[Any, Any]", value)) == 1 and MARK in value


def revived(value: Any) -> Any:
    """Data that was read without knowing its types, with a `Secret` for each stored form of one."""
    if is_marked(value):
        return Secret(value[MARK])
    if isinstance(value, dict):
        return {key: revived(inner) for key, inner in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        made = [revived(inner) for inner in cast("Sequence[Any]", value)]
        return made if isinstance(value, list) else tuple(made)
    return value
