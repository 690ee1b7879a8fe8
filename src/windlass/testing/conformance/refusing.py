"""Values of a wrong shape: every engine refuses them with a sentence, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from windlass.core.errors import InputError
from windlass.core.ids import new_id
from windlass.core.job import State
from windlass.engines.protocol import Amendment, Beat, Card, Change, Note, Order, Put, Query, Settlement, TallyQuery
from windlass.testing.conformance.harness import Harness

WRONG: dict[str, Callable[[Harness], object]] = {
    "a job that is no list": lambda h: h.engine.insert(h.new()),  # pyright: ignore[reportArgumentType]
    "a card with a text of tasks": lambda h: _renew(h, tasks="add"),
    "a card with a number of queues": lambda h: _renew(h, queues=3),
    "a worker's id as text": lambda h: _renew(h, worker="w"),
    "a worker's id that is too short": lambda h: _renew(h, worker=b"abc"),
    "a worker's name that moves a cursor": lambda h: _renew(h, name="mailer-\x1b]0;title\x07"),
    "a worker's name of two lines": lambda h: _renew(h, name="mailer\nforged"),
    "a host that turns the line around": lambda h: _renew(h, host="db\u202e"),
    "a lease of nothing": lambda h: _renew(h, lease_us=0),
    "a lease below nothing": lambda h: _renew(h, lease_us=-1),
    "a claim from a text of queues": lambda h: _claim(h, queues="mailbox"),
    "a claim from a bad queue": lambda h: _claim(h, queues=("a b",)),
    "a claim with a ticket as text": lambda h: _claim(h, ticket="7"),
    "a claim with a limit as text": lambda h: _claim(h, limit="5"),
    "a claim of nothing": lambda h: _claim(h, limit=0),
    "a settle with a fence as text": lambda h: _settle(h, fence="1"),
    "a settle with a result as text": lambda h: _settle(h, result="text"),
    "a settle with a result as a dict": lambda h: _settle(h, result={"a": 1}),
    "a note of an unknown kind": lambda h: _note(h, kind="logg"),
    "a note as text": lambda h: _note(h, kind="log", data="text"),
    "a line of an unknown stream": lambda h: _note(h, kind="log", stream="stdin"),
    "a line of a time before all times": lambda h: _note(h, kind="log", at_us=-1),
    "a line of a time after all times": lambda h: _note(h, kind="log", at_us=1 << 63),
    "a line at a time as text": lambda h: _note(h, kind="log", at_us="now"),
    "one id instead of a list": lambda h: h.engine.fetch(new_id()),  # pyright: ignore[reportArgumentType]
    "an id as text": lambda h: h.engine.fetch([new_id().hex()]),  # pyright: ignore[reportArgumentType]
    "a search for an unknown state": lambda h: _search(h, state="on the way"),
    "a page of nothing": lambda h: _search(h, limit=0),
    "an unknown change": lambda h: _amend(h, change="cancel all"),
    "a change of nothing": lambda h: _amend(h, change=None),
    "a change of one id instead of a list": lambda h: _amend(h, change=Change.CANCEL, ids=new_id()),
    "a fact as text": lambda h: _write(h, value="text"),
    "a fact as a dict": lambda h: _write(h, value={"a": 1}),
    "a fact with a number as its key": lambda h: _write(h, key=7),
}


class Refusing:
    """What no verb takes."""

    @pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
    def test_a_value_of_a_wrong_shape_is_refused_in_a_sentence(
        self, harness: Harness, wrong: Callable[[Harness], object]
    ) -> None:
        running = harness.running(queue="mail")
        with pytest.raises(InputError) as caught:
            wrong(harness)
        assert caught.value.message.endswith(".")
        assert caught.value.todo.endswith(".")
        # Everybody can still read everything, and nothing has moved.
        assert sum(count.n for count in harness.engine.tally(TallyQuery()).counts if count.queue == "mail") == 1
        assert harness.record(running.id).state is State.RUNNING


def _made(which: Any, /, **fields: Any) -> Any:
    """A value as an untyped caller makes it."""
    return which(**fields)


def _renew(harness: Harness, **fields: Any) -> object:
    return harness.engine.renew(Beat(card=_made(Card, **{"worker": new_id(), **fields}), beat=0))


def _claim(harness: Harness, **fields: Any) -> object:
    return harness.engine.claim(_made(Order, **{"worker": harness.worker(), "ticket": 1, **fields}))


def _settle(harness: Harness, **fields: Any) -> object:
    claim = harness.running()
    return harness.engine.settle([_made(Settlement, **{"id": claim.id, "fence": claim.fence, **fields})])


def _note(harness: Harness, **fields: Any) -> object:
    claim = harness.running()
    return harness.engine.note([_made(Note, **{"id": claim.id, "fence": claim.fence, **fields})])


def _search(harness: Harness, **fields: Any) -> object:
    return harness.engine.search(_made(Query, **fields))


def _amend(harness: Harness, **fields: Any) -> object:
    return harness.engine.amend(_made(Amendment, **{"ids": (), **fields}))


def _write(harness: Harness, **fields: Any) -> object:
    return harness.engine.write([_made(Put, **{"key": "k", "value": b"1", **fields})])
