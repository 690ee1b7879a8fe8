"""Who works: the cards of living workers, and what each says of itself."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from windlass.core.errors import WindlassError
from windlass.core.ids import WorkerId, show_id
from windlass.core.info import Info, decode_info
from windlass.core.plural import agreeing
from windlass.core.redact import plain
from windlass.core.system import is_running
from windlass.engines.protocol import Card, Engine, Sweep, Tally, TallyQuery

SHOWN = 3
LEAVING = frozenset({"draining", "stopping"})
"""The states of a worker that takes no more jobs."""


def info(card: Card) -> Info:
    """What the card says; nothing where another version wrote something else."""
    try:
        return decode_info(card.info) if card.info else Info()
    except msgspec.DecodeError:
        return Info()


def take_stock(engine: Engine, query: TallyQuery | None = None) -> Tally:
    """The tally, with the cards of those who live.

    Where a lock tells death, the card of a killed worker stays until somebody sweeps. If it was the last one, nobody
    does: so whoever asks sweeps first. A sweep that finds nothing to do writes nothing. Only the doctor, who changes
    nothing, goes by the cards as they are, and by `is_late`.
    """
    query = query or TallyQuery()
    tally = engine.tally(query)
    if tally.cards and engine.capabilities.death == "lock":
        with suppress(WindlassError):  # a look must not fail because the disk is full
            swept = engine.sweep(Sweep())
            if swept.workers or swept.lost:
                return engine.tally(query)
    return tally


def started_us(worker: WorkerId) -> int:
    """When the worker took its id, which is new at every start: an id begins with its milliseconds."""
    return int.from_bytes(worker[:6], "big") * 1_000


def is_late(card: Card, now_us: int) -> bool:
    """Whether its last sign of life is older than its lease: it hangs, is stopped, or cannot reach the store."""
    beat_us = info(card).beat_us
    return beat_us > 0 and now_us - beat_us > card.lease_us


def is_gone(card: Card, now_us: int) -> bool:
    """Whether it is late, and its process on this host is no more: it died, and nobody has swept since."""
    return is_late(card, now_us) and card.host == platform.node() and not is_running(card.pid)


def is_leaving(card: Card) -> bool:
    """Whether it takes no more jobs, because it drains or stops."""
    return info(card).state in LEAVING


def staying(cards: Iterable[Card]) -> list[Card]:
    """Those that go on to take jobs."""
    return [card for card in cards if not is_leaving(card)]


def listens(card: Card, queue: str) -> bool:
    """Whether the worker takes jobs of that queue."""
    return card.queues is None or queue in card.queues


def knows(card: Card, task: str) -> bool:
    """Whether the worker can run that task."""
    return card.tasks is None or task in card.tasks


def label(card: Card) -> str:
    """A worker as people call it."""
    return called(card.name, card.host, show_id(card.worker))


def called(name: str, host: str, worker: str) -> str:
    """`name@host`, or what there is of it; the worker's id where there is nothing."""
    return plain(f"{name}@{host}" if host else name or worker)


def labels(cards: Iterable[Card]) -> str:
    """Some workers by name, and how many more."""
    return listing(sorted(map(label, cards)))


def leave(cards: Sequence[Card]) -> str:
    """`box@web drains or stops`, for workers that take no more jobs."""
    return f"{labels(cards)} {agreeing(len(cards), 'drains or stops', 'drain or stop')}"


def listing(words: list[str], shown: int = SHOWN) -> str:
    """`a`, `a and b`, `a, b, c and 2 more`."""
    if len(words) > shown:
        return f"{', '.join(words[:shown])} and {len(words) - shown} more"
    *others, last = words or ["none"]
    return f"{', '.join(others)} and {last}" if others else last
