"""What a script's refusal means: it says a word, and this says the sentence."""

from __future__ import annotations

from windlass.core.errors import (
    LeaseExpired,
    SchemaTooNew,
    StoreCorrupt,
    TicketOutOfOrder,
    UnknownParent,
    WindlassError,
    WorkerGone,
)
from windlass.core.ids import show_id
from windlass.engines.checks import too_many_steps
from windlass.engines.redis.address import Address
from windlass.engines.redis.refusals import Refused


def told(refused: Refused, address: Address) -> WindlassError:
    """The error of ours that a refusal stands for."""
    words = refused.detail.split()
    match refused.code:
        case "SCHEMA":
            return SchemaTooNew(
                f"The namespace {address.namespace} has the schema {words[0]} of a newer Windlass.",
                "Upgrade this process, or use another namespace (?namespace=…).",
            )
        case "KEY":
            key, is_, should_be = words
            return StoreCorrupt(
                f"The key {key} is a {is_}; in a namespace of Windlass it is a {should_be}.",
                "Take another namespace (?namespace=…), or find out who else writes such keys.",
            )
        case "GONE":
            return WorkerGone(
                f"The store holds no card of worker {_id(words[0])}.",
                "Announce the worker with a first beat; after a sweep it needs a new id.",
            )
        case "LEASE":
            return LeaseExpired(f"The lease of worker {_id(words[0])} has run out.", "Renew it, then claim again.")
        case "TICKET":
            return TicketOutOfOrder(
                f"The ticket is older than the worker's last, {words[0]}.",
                "Count tickets up by one for every new claim.",
            )
        case "PARENT":
            return UnknownParent(
                f"The parent {_id(words[0])} of a {words[1]} job is not in the store.",
                "Insert parents first, or put both into one flow.",
            )
        case "STEPS":
            return too_many_steps()
        case _:
            raise AssertionError(f"a script refuses by a word that nobody knows: {refused.code}")


def _id(text: str) -> str:
    return show_id(bytes.fromhex(text))
