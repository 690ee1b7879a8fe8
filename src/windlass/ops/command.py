"""Orders to workers, from anywhere that reaches the store: who is meant, the order itself, and whether it is done.

    cards = command.find(take_stock(engine).cards, ["box"])
    command.order(engine, [card.worker for card in cards], "drain")
    command.progress(engine, "drain", cards).left              who has not done it yet

An order is a fact that the worker is handed with its next beat; a hint lets it beat at once. A worker that cannot reach
the store gets it when it can again, within the hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from windlass.core.commands import Command, Do, command_key, encode_command
from windlass.core.durations import HOUR_US
from windlass.core.errors import BadValue
from windlass.core.ids import WorkerId, new_id, show_id
from windlass.core.info import Process, Setback
from windlass.core.names import near_miss
from windlass.core.redact import plain
from windlass.engines.protocol import Card, Engine, Hint, Put
from windlass.ops.cards import info, label, listing, take_stock

KEPT_US: Final = HOUR_US
"""Whoever has not beaten for so long has other troubles than an order of then."""
SHOWN: Final = 10


# ── who is meant ────────────────────────────────────────────────────────────────────────────────────────


def find(cards: Iterable[Card], words: Iterable[str]) -> list[Card]:
    """The workers that the words mean, each once, by id, `name@host`, name or host; a word may mean several."""
    known = sorted(cards, key=lambda card: card.worker)
    return list(dict.fromkeys(card for word in words for card in _meant(known, word)))


def find_each(cards: Iterable[Card], words: Sequence[str], todo: str = "Name one by its id.") -> list[Card]:
    """The same, but a word that means several is refused, with their ids and what `todo` says."""
    known = list(cards)
    for word in words:
        found = find(known, [word])
        if len(found) > 1:
            ids = listing([f"{show_id(card.worker)} ({label(card)})" for card in found], SHOWN)
            raise BadValue(f"{word!a} may be {ids}.", todo)
    return find(known, words)


def _meant(cards: Sequence[Card], word: str) -> list[Card]:
    found = _called(cards, word)
    if not found:
        names = (name for card in cards for name in (card.name, card.host, label(card)) if name)
        meant = near_miss(word, names)
        hint = f"Did you mean {plain(meant)}?" if meant else "`windlass workers list` shows those that run."
        raise BadValue(f"No running worker is called {word!a}.", hint)
    return found


def _called(cards: Sequence[Card], word: str) -> list[Card]:
    """Those of that id; if there is none, those of that label, then name, then host."""
    digits = word.replace("-", "").lower()
    for found in (
        [card for card in cards if card.worker.hex() == digits],
        [card for card in cards if label(card) == word],
        [card for card in cards if card.name == word],
        [card for card in cards if card.host == word],
    ):
        if found:
            return found
    return []


# ── the order ───────────────────────────────────────────────────────────────────────────────────────────


def order(engine: Engine, workers: Sequence[WorkerId], do: Do) -> Command:
    """Tells the workers, in place of what they were told before; they are woken to hear it."""
    command = Command(do=do, token=new_id().hex())
    value = encode_command(command)
    engine.write([Put(key=command_key(worker), value=value, ttl_us=KEPT_US) for worker in workers])
    engine.signal([Hint(kind="order", id=worker) for worker in workers])
    return command


def refuse_embedded(cards: Iterable[Card]) -> None:
    """Refuses to restart runners where there are none: the worker is part of a program."""
    embedded = [card for card in cards if any(process.role == "embedded" for process in info(card).processes)]
    if embedded:
        names = listing(sorted(map(label, embedded)))
        raise BadValue(f"Part of a program, without runners of its own: {names}.", "Restart the program.")


# ── whether it is done ──────────────────────────────────────────────────────────────────────────────────


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far an order is."""

    left: tuple[Card, ...]
    """Those that have not done it yet, as their cards are now."""
    lost: tuple[Card, ...] = ()
    """Those that ended though they should have gone on."""
    failed: tuple[Card, ...] = ()
    """Those that gave the restart up; their old runners go on."""


def progress(engine: Engine, do: Do, before: Sequence[Card]) -> Progress:
    """How far the order is, given the cards of just before it.

    Who drains or stops has done it when its card is gone; who restarts, when none of its runners of then is there and
    all of now work, or it has given up. Clocks of several hosts are not compared.
    """
    now = {card.worker: card for card in take_stock(engine).cards}
    there = [(card, now[card.worker]) for card in before if card.worker in now]
    if do != "restart":
        return Progress(left=tuple(latest for _, latest in there))
    failed = tuple(latest for old, latest in there if setback(latest) != setback(old))
    return Progress(
        left=tuple(latest for old, latest in there if latest not in failed and not _has_new_runners(old, latest)),
        lost=tuple(card for card in before if card.worker not in now),
        failed=failed,
    )


def setback(card: Card) -> Setback | None:
    """The last restart that the worker gave up."""
    return next((process.setback for process in info(card).processes if process.setback is not None), None)


def _has_new_runners(old: Card, latest: Card) -> bool:
    were, are = _runners(old), _runners(latest)
    places_were, places_are = ({process.number for process in some} for some in (were, are))
    # A process is known by its id and its start, for ids come again.
    left = {(process.pid, process.started_us) for process in were} & {
        (process.pid, process.started_us) for process in are
    }
    return bool(are) and places_are >= places_were and not left and {process.state for process in are} == {"working"}


def _runners(card: Card) -> list[Process]:
    """Those that stay; one for a suspect comes and goes."""
    return [process for process in info(card).processes if process.role == "runner" and process.number]
