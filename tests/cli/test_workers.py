"""`windlass workers`: orders to workers from anywhere that reaches the store."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shell, Typed
from tests.ops.cards_by_hand import HandWorker, runner, supervisor
from windlass import App
from windlass.core.commands import decode_command
from windlass.core.errors import BadValue
from windlass.core.ids import show_id
from windlass.core.info import Process, Setback
from windlass.engines.protocol import Orders

RUNNERS = (supervisor(), runner(1, 11), runner(2, 12))


def told(orders: Orders) -> str | None:
    """What the worker was told to do."""
    command = None if orders.command is None else decode_command(orders.command)
    return None if command is None else command.do


def id_of(worker: HandWorker) -> str:
    return show_id(worker.card.worker)


# ── who is told what ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("do", ["drain", "stop", "restart"])
def test_a_worker_is_told(app: App, typed: Typed, do: str) -> None:
    box, other = HandWorker(app.engine), HandWorker(app.engine, "other")
    assert typed("workers", do, "box").err == f"box@web was told to {do}.\n"
    assert (told(box.beat()), told(other.beat())) == (do, None)
    assert typed.json("workers", do, "other", id_of(box)) == {"told": [id_of(other), id_of(box)]}
    assert told(other.beat()) == do


def test_workers_are_listed_as_inspect_lists_them(app: App, typed: Typed) -> None:
    assert typed("workers", "list").err == "No worker is running.\n"
    HandWorker(app.engine, state="draining", processes=RUNNERS).beats_at(0)
    assert typed("workers", "list").out == typed("inspect", "workers").out
    assert [one["state"] for one in typed.json("workers", "list")] == ["draining"]


def test_a_name_of_several_means_all_of_them_only_if_it_is_said(app: App, typed: Typed) -> None:
    one, two, other = (HandWorker(app.engine, *called) for called in (("box", "a"), ("box", "b"), ("other", "a")))
    said = typed.refused("workers", "drain", "box", code=2)
    assert f"'box' may be {id_of(one)} (box@a) and {id_of(two)} (box@b). Name one by its id, or say --all." in said
    assert typed("workers", "drain", "box@b").err == "box@b was told to drain.\n"
    assert [told(worker.beat()) for worker in (one, two)] == [None, "drain"]
    assert typed("workers", "stop", "box", "--all", "-y").err == "box@a and box@b were told to stop.\n"
    assert [told(worker.beat()) for worker in (one, two, other)] == ["stop", "stop", None]
    assert "'box' may be" in typed.refused("jobs", "list", "--worker", "box", code=2)


def test_who_means_many_is_asked(app: App, typed: Typed) -> None:
    workers = [HandWorker(app.engine, name) for name in ("ann", "bob")]
    assert "Stop 2 workers? Nobody is there to answer: say --yes" in typed.refused("workers", "stop", "--all", code=2)
    assert typed("workers", "stop", "--all", "-n").out == (
        "ann@web would be told to stop.\nbob@web would be told to stop.\n"
    )
    assert typed.json("workers", "stop", "ann", "-n") == {"would_tell": [id_of(workers[0])]}
    assert [told(worker.beat()) for worker in workers] == [None, None]
    assert typed("workers", "restart", "--all", "--yes").err == "ann@web and bob@web were told to restart.\n"


def test_who_names_nobody_is_told_so(app: App, typed: Typed) -> None:
    assert "Which workers? Give their names, or --all" in typed.refused("workers", "drain", code=2)
    assert typed.refused("workers", "drain", "--all", "--yes", code=1) == "No worker is running."
    assert typed.json("workers", "drain", "--all", "--yes", code=1) == {"told": []}
    HandWorker(app.engine)
    assert "No running worker is called 'bxo'. Did you mean box?" in typed.refused("workers", "stop", "bxo", code=2)
    assert "`windlass workers list` shows" in typed.refused("workers", "stop", "zzzzzz", code=2)
    assert "There is no store" in typed.refused("workers", "stop", "box", "-u", "sqlite:///no.db", code=3)


def test_a_program_is_not_restarted(app: App, typed: Typed) -> None:
    worker = HandWorker(app.engine, processes=(Process(role="embedded", pid=1),))
    said = typed.refused("workers", "restart", "box", code=2)
    assert str(BadValue("Part of a program, without runners of its own: box@web.", "Restart the program.")) in said
    assert told(worker.beat()) is None


def test_a_worker_that_gave_no_sign_of_life_hears_it_later(app: App, typed: Typed) -> None:
    worker = HandWorker(app.engine)
    worker.beats_at(1)
    said = typed("workers", "drain", "box").err
    assert "box@web gave no sign of life within the lease: an order is heard with the next one." in said


# ── until it is done ────────────────────────────────────────────────────────────────────────────────────


def test_a_wait_for_a_drain_ends_when_the_worker_has(app: App, typed: Typed) -> None:
    worker = HandWorker(app.engine)

    def heed(orders: Orders) -> None:
        if told(orders) == "drain":
            worker.leave()

    with worker.answering(heed):
        done = typed("workers", "drain", "box", "--wait")
    assert done.err == "box@web was told to drain.\nbox@web has ended.\n"


def test_a_wait_for_a_restart_ends_when_all_runners_are_new(app: App, typed: Typed) -> None:
    worker = HandWorker(app.engine, processes=RUNNERS)
    steps = [(supervisor(), runner(1, 21), runner(2, 12)), (supervisor(), runner(1, 21), runner(2, 22))]

    def heed(orders: Orders) -> None:
        if told(orders) == "restart" and steps:
            worker.says(processes=steps.pop(0))

    with worker.answering(heed):
        done = typed.json("workers", "restart", "box", "--wait")
    assert done == {"told": [id_of(worker)], "done": [id_of(worker)], "left": [], "lost": [], "failed": []}
    assert not steps


def test_a_wait_that_is_over_fails_and_the_order_stands(app: App, typed: Typed) -> None:
    worker = HandWorker(app.engine, processes=RUNNERS)
    done = typed("workers", "drain", "box", "--timeout", "0", code=1)
    assert done.err.endswith("box@web has not done it yet; the order stands.\n")
    assert told(worker.beat()) == "drain"
    assert typed.json("workers", "restart", "box", "--timeout", "0", code=1)["left"] == [id_of(worker)]


def test_a_worker_that_ends_instead_of_restarting_is_a_failure(app: App, typed: Typed) -> None:
    worker = HandWorker(app.engine, processes=RUNNERS)

    def heed(orders: Orders) -> None:
        if told(orders) == "restart":
            worker.leave()

    with worker.answering(heed):
        assert typed("workers", "restart", "box", "--wait", code=1).err.endswith("box@web ended instead.\n")


def test_a_worker_that_keeps_its_old_runners_is_a_failure_and_says_why(app: App, typed: Typed) -> None:
    worker = HandWorker(app.engine, processes=RUNNERS)
    broken = Setback(at_us=1, why="The app cannot be loaded: ValueError: no such setting.")

    def heed(orders: Orders) -> None:
        if told(orders) == "restart":
            worker.says(processes=(supervisor(setback=broken), *RUNNERS[1:]))

    with worker.answering(heed):
        done = typed("workers", "restart", "box", "--wait", code=1)
    assert done.err.endswith(f"box@web goes on with its old runners. {broken.why}\n")


def test_who_waits_at_a_terminal_sees_for_whom_and_may_leave(app: App, shell: Shell) -> None:
    app.engine.open()
    worker = HandWorker(app.engine)
    app.send("shop.mail")
    worker.claim()
    shown = shell.on_terminal("workers", "drain", "box", "--wait", until="Waiting for box@web: 1 job runs", code=130)
    assert "The order to drain stands; nobody waits for it any more." in shown
    assert told(worker.beat()) == "drain"


def test_names_of_workers_are_completed(app: App, shell: Shell) -> None:
    app.engine.open()
    one, two = HandWorker(app.engine, "box", "a"), HandWorker(app.engine, "box", "a")
    HandWorker(app.engine, "mail", "a")
    HandWorker(app.engine, "slow", "a")
    HandWorker(app.engine, "slow", "b")

    def completed(*words: str) -> set[str]:
        line = " ".join(["windlass", *words])
        environ = {"_WINDLASS_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
        return {item.partition(",")[2] for item in shell(environ=environ).stdout.split()}

    assert completed("workers", "drain", "m") == {"mail"}
    assert completed("workers", "stop", "sl") == {"slow@a", "slow@b"}
    assert completed("workers", "restart", "") >= {id_of(one), id_of(two), "mail"}
    assert completed("jobs", "list", "--worker", "ma") == {"mail"}
