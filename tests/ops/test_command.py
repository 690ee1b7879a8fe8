"""Orders to workers: who is meant, what they are handed, and when it is done."""

from __future__ import annotations

import pytest

from tests.ops.cards_by_hand import HandWorker, runner, supervisor
from tests.soak.waiting import wait_for
from windlass import App
from windlass.core.commands import Command, Do, decode_command
from windlass.core.errors import BadValue
from windlass.core.ids import show_id
from windlass.core.info import Process, Setback
from windlass.engines.protocol import Card, Orders
from windlass.ops import command
from windlass.ops.cards import take_stock
from windlass.testing.conformance import Harness


def given(orders: Orders) -> Command | None:
    return None if orders.command is None else decode_command(orders.command)


def cards(*called: tuple[str, str]) -> list[Card]:
    return [Card(worker=bytes([place]) * 16, name=name, host=host) for place, (name, host) in enumerate(called)]


# ── who is meant ────────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_is_meant_by_id_label_name_or_host() -> None:
    ann, bob, eve = known = cards(("ann", "here"), ("bob", "there"), ("", "nowhere"))
    for word in (show_id(ann.worker), ann.worker.hex(), "ann@here", "ann", "here"):
        assert command.find_each(known, [word]) == [ann], word
    assert command.find_each(known, ["there", "bob", "ann", "nowhere"]) == [bob, ann, eve], "each once"


def test_a_name_is_meant_before_a_host() -> None:
    known = cards(("web", "a"), ("box", "web"))
    assert command.find(known, ["web"]) == known[:1]


def test_a_name_of_several_is_refused_with_their_ids_unless_all_are_wanted() -> None:
    known = cards(("box", "a"), ("box", "b"), ("box", "b"))
    ids = [show_id(card.worker) for card in known]
    said = f"'box' may be {ids[0]} \\(box@a\\), {ids[1]} \\(box@b\\) and {ids[2]} \\(box@b\\). Name one by its id."
    with pytest.raises(BadValue, match=said):
        command.find_each(known, ["box"])
    assert command.find(known, ["box"]) == known
    assert command.find_each(known, ["box@a"]) == known[:1]
    assert command.find(known, ["b"]) == known[1:]


@pytest.mark.parametrize(("word", "meant"), [("bxo", "box"), ("weeb", "web"), ("box@wab", "box@web")])
def test_a_near_miss_is_named(word: str, meant: str) -> None:
    with pytest.raises(BadValue, match=rf"No running worker is called '{word}'\. Did you mean {meant}\?"):
        command.find(cards(("box", "web")), [word])


def test_a_name_that_is_near_to_nothing_is_told_where_to_look() -> None:
    for known in (cards(("box", "web")), []):
        with pytest.raises(BadValue, match="`windlass workers list` shows"):
            command.find(known, ["zzzzzz\x1b[2J"])


# ── the order ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_is_handed_its_order_with_its_next_beat(harness: Harness) -> None:
    ann, bob, eve = (harness.worker(name=name) for name in ("ann", "bob", "eve"))
    told = command.order(harness.engine, [ann, bob], "drain")
    assert told.do == "drain"
    assert given(harness.renew(ann)) == given(harness.renew(bob)) == told
    assert given(harness.renew(ann)) == told, "until it expires: the token tells that it is the same"
    assert given(harness.renew(eve)) is None


def test_a_new_order_takes_the_place_of_the_old_one_and_has_another_token(harness: Harness) -> None:
    worker = harness.worker()
    told = [command.order(harness.engine, [worker], do) for do in ("drain", "drain", "stop")]
    assert len({one.token for one in told}) == 3
    assert given(harness.renew(worker)) == told[-1]


def test_an_order_is_forgotten_after_an_hour(harness: Harness) -> None:
    worker = harness.worker()
    command.order(harness.engine, [worker], "stop")
    harness.pass_time(3_590)
    assert given(harness.renew(worker)) is not None
    harness.pass_time(20)
    assert given(harness.renew(worker)) is None


def test_an_order_wakes_whom_it_is_for(app: App) -> None:
    app.engine.open()
    heard: list[Command | None] = []
    worker = HandWorker(app.engine)

    def is_heard() -> bool:
        if not heard:  # a hint for somebody who does not sleep yet is lost
            command.order(app.engine, [worker.card.worker], "report")
        return bool(heard)

    with worker.answering(lambda orders: heard.append(given(orders))):
        wait_for("the order", is_heard)
    assert heard[0] is not None
    assert heard[0].do == "report"


def test_runners_of_a_program_cannot_be_restarted(harness: Harness) -> None:
    runs = HandWorker(harness.engine, "box", processes=(supervisor(), runner(1, 11)))
    command.refuse_embedded([runs.card])
    embedded = HandWorker(harness.engine, "shop", processes=(Process(role="embedded", pid=12),))
    with pytest.raises(BadValue, match=r"without runners of its own: shop@web\. Restart the program\."):
        command.refuse_embedded([runs.card, embedded.card])


# ── its end ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("do", ["drain", "stop"])
def test_who_drains_or_stops_has_done_it_when_its_card_is_gone(harness: Harness, do: Do) -> None:
    first, second = (HandWorker(harness.engine, name) for name in ("ann", "bob"))
    before = [first.card, second.card]
    first.says(state="draining")
    seen = command.progress(harness.engine, do, before)
    assert [card.worker for card in seen.left] == [first.card.worker, second.card.worker]
    first.leave()
    seen = command.progress(harness.engine, do, before)
    assert [card.worker for card in seen.left] == [second.card.worker]
    assert seen.lost == ()
    second.leave()
    assert command.progress(harness.engine, do, before).left == ()


def test_a_restart_is_done_when_all_runners_are_others_and_work(harness: Harness) -> None:
    one, two = runner(1, 11, started_us=1), runner(2, 12, started_us=1)
    worker = HandWorker(harness.engine, processes=(supervisor(), one, two))
    before = [worker.card]

    def is_done(*runners: Process) -> bool:
        worker.says(processes=(supervisor(), *runners))
        return not command.progress(harness.engine, "restart", before).left

    new_one, new_two = runner(1, 11, started_us=2), runner(2, 14, started_us=3)
    assert not is_done(one, two)
    assert not is_done(new_one, two), "one after the other"
    assert not is_done(new_one), "the other is not there yet"
    assert not is_done()
    assert not is_done(new_one, runner(2, 14, "starting", started_us=3))
    assert is_done(new_one, new_two), "a number that came again is another process"
    worker.says(processes=(supervisor(), one, two, runner(0, 13, started_us=1)))
    before = [worker.card]
    assert is_done(new_one, new_two), "a suspect's own comes and goes"


def test_a_worker_that_ends_instead_of_restarting_is_told_of(harness: Harness) -> None:
    worker = HandWorker(harness.engine, processes=(supervisor(), runner(1, 11)))
    worker.leave()
    seen = command.progress(harness.engine, "restart", [worker.card])
    assert (seen.left, seen.lost) == ((), (worker.card,))


def test_a_restart_that_was_given_up_since_is_told_of(harness: Harness) -> None:
    long_ago, now = Setback(at_us=1, why="It was broken."), Setback(at_us=2, why="It is broken.")
    one = runner(1, 11)
    worker = HandWorker(harness.engine, processes=(supervisor(setback=long_ago), one))
    before = [worker.card]
    assert command.progress(harness.engine, "restart", before).failed == ()
    worker.says(processes=(supervisor(setback=now), one))
    seen = command.progress(harness.engine, "restart", before)
    assert (seen.left, seen.failed) == ((), (worker.card,))


def test_who_says_nothing_of_its_runners_has_not_restarted_them(harness: Harness) -> None:
    worker = HandWorker(harness.engine)
    assert command.progress(harness.engine, "restart", list(take_stock(harness.engine).cards)).left == (worker.card,)
