"""Gates open and shut streams: pure rules for how many jobs may pass now, and when to look again.

A stream is the set of ready jobs that share all gates: the queue's own, the one their task shares with
others (if any), and a resource class. Shutting a gate changes one record and touches no job. A breaker
is a gate that is shut until an instant and then lets a few probes through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from windlass.core import rates
from windlass.core.errors import BadValue
from windlass.core.limits import show_memory
from windlass.core.rates import Rate

Needs = tuple[tuple[str, int], ...]
MEMORY: Final = "memory"
"""The resource whose amounts are bytes."""


class Gate(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The rule of one gate, as it is kept under `queue/<name>` or `gate/<name>` in the store's facts."""

    paused: bool = False
    shut_until_us: int = 0
    probes: int | None = None
    limit: int | None = None
    rate: Rate | None = None


class Opening(msgspec.Struct, frozen=True):
    """How many may pass now (None: any number) and, if a clock decides, when to look again."""

    count: int | None
    again_us: int | None = None


OPEN = Gate()
_gate = msgspec.json.Decoder(Gate).decode


def read_gate(value: bytes) -> Gate:
    """The rule somebody wrote, refused in one sentence if it is none."""
    try:
        gate = _gate(value)
    except msgspec.DecodeError as error:
        raise BadValue(f"This is not a gate's rule: {error}.", "See docs/reference/wire.md for its fields.") from None
    if gate.limit is not None and gate.limit < 0:
        raise BadValue(f"A gate's limit cannot be {gate.limit}.", "Give 0 or more, or leave it out.")
    return gate


def opening(gate: Gate, tat_us: int, running: int, now_us: int) -> Opening:
    """What the gate lets through now, given its bucket (`tat_us`) and how many of its jobs run."""
    if gate.paused:
        return Opening(0)
    if now_us < gate.shut_until_us:
        return Opening(0, gate.shut_until_us)
    bounds = [bound - running for bound in (gate.limit, gate.probes) if bound is not None]
    again_us: int | None = None
    if gate.rate is not None:
        tokens = rates.allowance(gate.rate, tat_us, now_us)
        bounds.append(tokens)
        again_us = rates.next_us(gate.rate, tat_us, now_us)
    return Opening(max(0, min(bounds)), again_us) if bounds else Opening(None)


def resource_class(needs: Needs) -> Needs:
    """The needs rounded up to few sizes, so that jobs of nearly equal size share a stream."""
    return tuple(sorted((name, _round_up(amount)) for name, amount in needs if amount > 0))


def least_of(rounded: Needs) -> Needs:
    """The smallest needs of a resource class: where they do not fit, no job of the class does."""
    return tuple((name, _least(amount)) for name, amount in rounded)


def _round_up(amount: int) -> int:
    # Exact to 8, then four steps per doubling: at most a quarter too much.
    shift = max(0, amount.bit_length() - 3)
    return -(-amount >> shift) << shift


def _least(rounded: int) -> int:
    step = 1 << max(0, (rounded - 1).bit_length() - 3)
    return rounded - step + 1


def fits(needs: Needs, free: Mapping[str, int]) -> bool:
    """Whether everything needed is free."""
    return all(free.get(name, 0) >= amount for name, amount in needs)


def pack_needs(needs: Needs) -> str:
    """Needs as they are stored and as a stream's name has them, in their order: `browser=2,memory=1048576`."""
    return ",".join(f"{name}={amount}" for name, amount in needs)


def read_needs(text: str) -> Needs:
    """The needs that such a text says."""
    pairs = (pair.rpartition("=") for pair in text.split(",")) if text else ()
    return tuple((name, int(amount)) for name, _, amount in pairs)


def show_need(name: str, amount: int) -> str:
    """An amount of a resource in words: `8GB of memory`, `2 browser`."""
    return f"{show_memory(amount)} of memory" if name == MEMORY else f"{amount} {name}"
