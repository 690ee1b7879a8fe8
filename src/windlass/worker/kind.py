"""The kinds of pools, in one place: whoever offers them must not have to import what runs them."""

from __future__ import annotations

from typing import Literal, get_args

Kind = Literal["auto", "solo", "threads", "aio"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def as_kind(name: str) -> Kind:
    """The kind of that name, which is one."""
    return next(kind for kind in KINDS if kind == name)
