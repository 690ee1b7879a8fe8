"""Whether work can be done: two questions of those who watch over processes, each answered by yes or no and why."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.core.clock import SystemClock
from windlass.core.plural import agreeing, number_of
from windlass.engines.protocol import Card, Engine
from windlass.ops.cards import is_late, label, labels, leave, listens, staying, take_stock

_clock = SystemClock()


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, a sentence, and the workers it is about."""

    ok: bool
    said: str
    workers: tuple[str, ...] = ()


def ready(engine: Engine, queue: str | None = None, *, now_us: int | None = None) -> Health:
    """Whether at least one living worker takes jobs, of that queue where one is named."""
    now_us = _clock.now_us() if now_us is None else now_us
    cards = take_stock(engine).cards
    living = [card for card in cards if not is_late(card, now_us)]
    stay = staying(living)
    taking = [card for card in stay if queue is None or listens(card, queue)]
    what = "jobs" if queue is None else f"jobs of the queue {queue}"
    if taking:
        return _health(
            taking,
            f"{number_of(len(taking), 'worker')} {agreeing(len(taking), 'takes', 'take')} {what}: {labels(taking)}.",
        )
    if stay:
        return _health(stay, f"No worker takes {what}: there is only {labels(stay)}.", ok=False)
    if living:
        return _health(living, f"No worker takes {what} any more: {leave(living)}.", ok=False)
    if cards:
        return _health(cards, f"No worker has given a sign of life within its lease: {labels(cards)}.", ok=False)
    return _health([], "No worker is running.", ok=False)


def live(engine: Engine, host: str, name: str | None = None, *, now_us: int | None = None) -> Health:
    """Whether the workers of that host, or the one of that name there, have given a sign of life within their lease."""
    now_us = _clock.now_us() if now_us is None else now_us
    cards = [card for card in take_stock(engine).cards if card.host == host and name in {None, card.name}]
    late = [card for card in cards if is_late(card, now_us)]
    if not cards:
        called = "" if name is None else f" called {name}"
        return _health([], f"No worker{called} is running on {host}.", ok=False)
    if late:
        return _health(late, f"{labels(late)} gave no sign of life within the lease.", ok=False)
    return _health(cards, f"{labels(cards)} gave a sign of life within the lease.")


def _health(cards: Sequence[Card], said: str, *, ok: bool = True) -> Health:
    return Health(ok=ok, said=said, workers=tuple(sorted(map(label, cards))))
