"""`windlass queues`: counts, rules, and to stop, start or empty them."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Typed
from windlass import App, State, Worker


@pytest.fixture
def mail(app: App) -> list[str]:
    """Two jobs that wait in a queue, one of them for later."""
    task = app.task(name="shop.mail", queue="mail")(print)
    return [task.delay().id, task.using(delay=3600).delay().id]


def test_queues_are_listed_with_their_counts_and_rules(app: App, typed: Typed, mail: list[str]) -> None:
    assert mail
    (row,) = typed("queues", "list").rows
    assert (row["queue"], row["ready"], row["scheduled"], row["workers"], row["rule"]) == ("mail", "1", "1", "0", "")
    with Worker(app, queues=["reports"]):
        assert [(row["queue"], row["workers"]) for row in typed("queues", "list").rows] == [
            ("mail", "0"),
            ("reports", "1"),
        ]
    typed("queues", "pause", "mail")
    assert [row["rule"] for row in typed("queues", "list", "mail", "other").rows] == ["paused", ""]
    assert typed.json("queues", "list", "mail")[0]["paused"] is True


def test_a_paused_queue_starts_nothing_until_it_is_resumed(app: App, typed: Typed, mail: list[str]) -> None:
    assert typed("queues", "pause", "mail").err == "The queue mail is paused.\n"
    assert "was paused already" in typed.refused("queues", "pause", "mail", code=1)
    waiting = app.result(mail[0])
    with Worker(app):
        assert not waiting.wait(timeout=0.2)
        assert "Its queue mail is paused" in typed("jobs", "show", mail[0], "--why").out
        assert typed("queues", "resume", "mail").err == "The queue mail is resumed.\n"
        assert waiting.wait(timeout=10)
    assert "was not paused" in typed.refused("queues", "resume", "mail", code=1)
    assert typed.json("queues", "resume", "mail", code=1) == {"changed": []}


def test_a_queue_that_is_nearly_called_so_is_not_paused_by_mistake(typed: Typed, mail: list[str]) -> None:
    assert mail
    said = typed.refused("queues", "pause", "mayl", code=2)
    assert "No job and no worker names the queue mayl. Did you mean mail? With --yes it is paused." in said
    typed("queues", "pause", "mayl", "--yes")
    typed("queues", "pause", "somethingelse")
    assert [row["rule"] for row in typed("queues", "list", "mayl", "mail").rows] == ["", "paused"]


def test_a_queue_that_nothing_names_is_paused_with_a_remark(typed: Typed, mail: list[str]) -> None:
    """Somebody may pause ahead; somebody who mistook the name must see it."""
    assert mail
    remark = "No job and no worker names the queue zebra yet; known: mail.\n"
    assert typed("queues", "pause", "zebra", "mail").err == (
        f"The queue zebra is paused.\nThe queue mail is paused.\n{remark}"
    )
    assert "yet" not in typed.refused("queues", "pause", "zebra", code=1), "it was said when it was paused"
    assert typed("queues", "resume", "zebra").err == "The queue zebra is resumed.\n"
    assert typed("queues", "pause", "zebra", "--json").err == remark
    assert "not paused. No job and no worker names the queue mayl. Did you mean mail?" in typed.refused(
        "queues", "resume", "mayl", code=1
    )


def test_the_first_queue_may_be_paused_before_it_is_used(typed: Typed) -> None:
    assert typed("queues", "pause", "mail").err.endswith(
        "No job and no worker names the queue mail yet; known: none.\n"
    )


def test_what_waits_in_a_queue_is_purged(app: App, typed: Typed, mail: list[str]) -> None:
    assert "Delete 2 jobs?" in typed.refused("queues", "purge", "mail", code=2)
    assert typed.json("queues", "purge", "mail", "-n") == {"would_change": 2}
    assert app.result(mail[0]).state is State.READY
    assert typed("queues", "purge", "mail", "-y").err == "2 jobs deleted.\n"
    assert "Nothing waits in the queue mail." in typed.refused("queues", "purge", "mail", "-y", code=1)
    assert "queue name" in typed.refused("queues", "purge", "ma il", code=2)
    assert typed("queues", "list").err == "No queue has a job, and no worker names one.\n"
