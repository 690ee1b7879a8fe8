"""What a verb refuses before it writes anything: the same for every engine, so that none takes what another refuses.

A wrong value must not get in: a card with a text where a list belongs would break `tally` for everybody, and an order
for `queues="mailbox"` would claim from `mail` and `box`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from windlass.core.durations import LAST_US
from windlass.core.errors import BadValue, TooLarge
from windlass.core.gates import read_gate
from windlass.core.ids import JobId, read_id
from windlass.core.intake import ID_BYTES, check_jobs
from windlass.core.job import STREAMS, State
from windlass.core.lifecycle import Event, allowed
from windlass.core.limits import Limits
from windlass.core.names import check_label, check_name
from windlass.engines.protocol import (
    BATCH,
    STEPS_KEPT,
    Amendment,
    Beat,
    Card,
    Note,
    Order,
    Put,
    Query,
    Settlement,
)

for _kind in (Amendment, Beat, Card, Note, Order, Put, Query, Settlement):
    # Learnt here and now: two threads that ask msgspec for a new class at once crash the process (core/codec.py).
    msgspec.json.Decoder(_kind)

KINDS = frozenset({"start", "log", "progress", "step"})


def _check_shape(value: msgspec.Struct, kind: type[msgspec.Struct]) -> None:
    """Refuses a value with a field of another type than it says."""
    if type(value) is not kind:
        raise BadValue(f"A {type(value).__name__} is no {kind.__name__}.", f"Give a {kind.__name__}.")
    try:
        msgspec.convert(msgspec.structs.asdict(value), kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        field = where.strip("`").removeprefix("$.") or "a field"
        raise BadValue(f"`{field}` of the {kind.__name__} is wrong: {what}.", "Give what its type says.") from None


def check_ids(ids: Iterable[JobId]) -> None:
    """Refuses what is no list of ids: a single id is a list of sixteen numbers."""
    for job_id in ids:
        _check_id("A job's id", job_id)


def _check_id(what: str, value: object) -> None:
    if type(value) is not bytes or len(value) != ID_BYTES:
        shown = f"{len(value)} bytes" if isinstance(value, bytes) else f"a {type(value).__name__}"
        raise BadValue(f"{what} is 16 bytes, not {shown}.", "Make one with windlass.new_id(), read one with read_id().")


# ── work ────────────────────────────────────────────────────────────────────────────────────────────────


def check_order(order: Order) -> None:
    """Refuses a claim that asks for nothing that could be."""
    _check_shape(order, Order)
    _check_id("A worker's id", order.worker)
    if order.limit < 1:
        raise BadValue(f"A claim of {order.limit} jobs makes no sense.", "Give a limit of 1 or more.")
    for queue in order.queues or ():
        check_name("queue", queue)


def check_settlements(settlements: Sequence[Settlement], limits: Limits) -> None:
    """Refuses a settle with a bad follow-up or too large a result before anything is written."""
    for settlement in settlements:
        if type(settlement.fence) is not int or type(settlement.id) is not bytes:
            _check_shape(settlement, Settlement)
        if settlement.follow_ups:
            check_jobs(settlement.follow_ups, limits)
        _check_transition(settlement)
        if settlement.result is not None:
            _check_bytes("A result", settlement.result)
            limits.check_result(len(settlement.result))


def _check_bytes(what: str, value: object) -> None:
    if type(value) is not bytes:
        raise BadValue(f"{what} is stored as bytes, not as {type(value).__name__}.", "Encode it first.")


def _check_transition(settlement: Settlement) -> None:
    to, outcome = settlement.transition.to, settlement.outcome
    if to not in allowed(State.RUNNING, Event.GIVE_BACK if outcome is None else outcome):
        raise BadValue(
            f"A running job cannot become {to} by {outcome or 'being given back'}.",
            "Let windlass.core.lifecycle.decide make the transition.",
        )
    if settlement.become is not None and all(job.id != settlement.become for job in settlement.follow_ups):
        raise BadValue("The heir is not among the follow-ups.", "Let `become` name one of `follow_ups`.")


def check_notes(notes: Sequence[Note], limits: Limits) -> None:
    """Refuses a note of no kind, or one that is too large, before anything is written."""
    for entry in notes:
        if entry.kind not in KINDS:
            raise BadValue(f"There is no kind of note {entry.kind!r}.", f"Use one of: {', '.join(sorted(KINDS))}.")
        _check_bytes("A note", entry.data)
        limits.check_note(len(entry.data))
        if entry.kind == "step":
            check_name("step", entry.key)
        if type(entry.at_us) is not int or not 0 <= entry.at_us < LAST_US:
            raise BadValue(
                f"A line cannot be of the time {entry.at_us!r}.", "Give microseconds since 1970, or 0 for now."
            )
        if entry.stream not in STREAMS:
            raise BadValue(f"There is no stream {entry.stream!r}.", f"Use one of: {', '.join(filter(None, STREAMS))}.")


def too_many_steps() -> TooLarge:
    """The refusal of one more step than a job may keep."""
    return TooLarge(f"A job keeps at most {STEPS_KEPT:,} steps.", "Give steps that repeat the same key, or fewer.")


def check_beat(beat: Beat) -> None:
    """Refuses a card that others could not read."""
    _check_shape(beat, Beat)
    _check_shape(beat.card, Card)
    _check_id("A worker's id", beat.card.worker)
    check_label("worker name", beat.card.name)
    check_label("host name", beat.card.host)
    if beat.card.lease_us <= 0:
        raise BadValue(f"A lease of {beat.card.lease_us} µs is over before it begins.", "Give some seconds.")


# ── looking and steering ────────────────────────────────────────────────────────────────────────────────


def check_query(query: Query) -> None:
    """Refuses a query for something that cannot be."""
    _check_shape(query, Query)
    if query.limit < 1:
        raise BadValue(f"A page of {query.limit} jobs makes no sense.", "Give a limit of 1 or more.")


def check_amendment(amendment: Amendment) -> None:
    """Refuses a change that there is not, or of more jobs at once than a step may touch."""
    _check_shape(amendment, Amendment)
    check_ids(amendment.ids)
    if amendment.query is not None:
        check_query(amendment.query)
    if len(amendment.ids) > BATCH:
        raise BadValue(f"{len(amendment.ids)} jobs are too many for one change.", f"Name {BATCH} at a time.")


# ── facts ───────────────────────────────────────────────────────────────────────────────────────────────


def check_puts(puts: Sequence[Put], limits: Limits) -> None:
    """Refuses a write that makes no sense before anything is written."""
    for put in puts:
        _check_shape(put, Put)
        for name in put.key.split("/"):
            check_name("key", name)
        if put.value is None:
            continue
        _check_bytes("A fact", put.value)
        limits.check_fact(len(put.value))
        if is_gate(put.key):
            read_gate(put.value)
        flow_of(put.key)


def is_gate(key: str) -> bool:
    """Whether the fact is the rule of a gate."""
    return key.startswith(("queue/", "gate/"))


def flow_of(key: str) -> JobId | None:
    """The flow that writing this fact starts; the key has one spelling, so that it goes with the flow."""
    if not key.startswith("flow/"):
        return None
    flow = read_id(key.removeprefix("flow/"))
    if key != f"flow/{flow.hex()}":
        raise BadValue(f"{key} is not how a flow's fact is written.", f"Write flow/{flow.hex()}.")
    return flow
