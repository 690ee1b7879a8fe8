"""`windlass dead`: what died by its error, and to run it again, as it was or with other arguments."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import Shell, Typed
from windlass import App, Handle, State, Worker
from windlass.core.ids import new_id, show_id
from windlass.engines.protocol import Amended, Amendment, Change
from windlass.engines.sqlite import SqliteEngine
from windlass.ops import view


def charge(amount: int, *, token: str, to: str = "ann") -> str:
    if amount < 0:
        raise ValueError(f"{amount} is below zero")
    return f"{to}: {amount} {token}"


def crawl(url: str) -> None:
    raise ConnectionError(f"{url} is down")


@pytest.fixture
def died(app: App) -> dict[str, list[Handle[Any]]]:
    """Three that died of one error, and one of another."""
    charged = app.task(name="shop.charge", queue="money")(charge)
    crawled = app.task(name="shop.crawl")(crawl)
    sent = {
        "charge": [charged.delay(-number, token="tok-secret", to="ann") for number in (1, 2, 3)],
        "crawl": [crawled.delay("http://x")],
    }
    with Worker(app):
        assert all(handle.wait(timeout=10) for handles in sent.values() for handle in handles)
    return sent


def work(app: App, handle: Handle[Any]) -> Any:
    with Worker(app):
        return handle.get(timeout=10)


def fingerprint(typed: Typed, task: str) -> str:
    (row,) = typed("dead", "list", "-t", task).rows
    return row["fingerprint"]


def test_the_dead_are_grouped_by_their_error(typed: Typed, died: dict[str, list[Handle[Any]]]) -> None:
    first, second = typed("dead", "list").rows
    assert (first["count"], first["tasks"], second["count"], second["tasks"]) == ("3", "shop.charge", "1", "shop.crawl")
    assert first["error"].startswith("ValueError: -")
    assert second["error"] == "ConnectionError: http://x is down"
    assert first["example"] in {handle.id for handle in died["charge"]}
    assert [group["count"] for group in typed.json("dead", "list")] == [3, 1]
    alone = typed("dead", "list", "--ungrouped", "--error", first["fingerprint"][:6]).rows
    assert {row["id"] for row in alone} == {handle.id for handle in died["charge"]}
    assert len(typed("dead", "list", "-q", "default").rows) == 1
    assert typed("dead", "list", "-q", "monney").err == (
        "No dead job. No job and no worker names the queue monney. Did you mean money?\n"
    )
    assert "ValueError: -1 is below zero" in typed("dead", "show", died["charge"][0].id).out


def test_all_of_an_error_are_retried(app: App, typed: Typed, died: dict[str, list[Handle[Any]]]) -> None:
    assert app
    query = ("dead", "retry", "--error", fingerprint(typed, "shop.charge"))
    assert "Retry 3 jobs?" in typed.refused(*query, code=2)
    assert typed(*query, "-n").out == "3 jobs would be put back in the queue.\n"
    assert typed(*query, "--yes").err == "3 jobs put back in the queue.\n"
    assert {handle.state for handle in died["charge"]} == {State.READY}
    assert died["crawl"][0].state is State.DEAD
    assert typed.json("dead", "retry", "--all", "--yes")["changed"] == 1
    typed("dead", "retry", "--all", "--yes")
    assert "No job matches." in typed.refused(*query, "--yes", code=1)


def test_a_retry_by_hand_shows_in_the_attempts_and_keeps_the_first_time(
    app: App, typed: Typed, died: dict[str, list[Handle[Any]]]
) -> None:
    (crawl,) = died["crawl"]
    (before,) = typed.json("dead", "list", "-t", "crawl")
    for _ in range(2):
        typed("dead", "retry", crawl.id)
        with Worker(app):
            assert crawl.wait(timeout=10)
    shown = typed("jobs", "show", crawl.id).out
    assert [line.partition(":")[0] for line in shown.splitlines() if line.startswith("Attempt")] == [
        "Attempt 1",
        "Attempt 1 of retry 1 by hand",
        "Attempt 1 of retry 2 by hand",
    ]
    assert "State       dead (failed), attempt 1 of retry 2 by hand\n" in shown
    (after,) = typed.json("dead", "list", "-t", "crawl")
    assert after["first_us"] == before["first_us"]
    assert after["last_us"] > before["last_us"]


def test_one_is_sent_again_with_other_arguments(app: App, typed: Typed, died: dict[str, list[Handle[Any]]]) -> None:
    old, other, third = died["charge"]
    new = typed("dead", "retry", old.id, "--edit", "0=5", "--edit", "to=bob").out.strip()
    assert work(app, app.result(new)) == "bob: 5 tok-secret", "the mask that was not touched is the secret again"
    seen = view.job(app.engine, old.job_id)
    assert (seen.state, seen.retried_by) == (State.DEAD, (new,))
    assert view.job(app.engine, app.result(new).job_id).retry_of == old.id
    whole = typed.json("dead", "retry", other.id, "--args", "[7]", "--kwargs", '{"token": "t", "to": "cy"}')["id"]
    assert work(app, app.result(whole)) == "cy: 7 t"
    assert typed("dead", "retry", third.id, "--args", "[7]", "-n").out == "1 job would be sent in its place.\n"
    assert f"Retried by  {new}" in typed("dead", "show", old.id).out


def test_an_argument_by_position_is_found_by_its_name_with_the_app(shell: Shell) -> None:
    job_id = shell.out("call", "-A", "tasks", "fail", "broken")
    shell("worker", "tasks.py", "--until-empty")
    assert "only its function knows which one is 'text'" in shell.refused(
        "dead", "retry", job_id, "--edit", "text=better", code=2
    )
    assert "has no parameter `txt`" in shell.refused(
        "dead", "retry", job_id, "-A", "tasks", "--edit", "txt=better", code=2
    )
    assert "Wrong type at `text`" in shell.refused("dead", "retry", job_id, "-A", "tasks", "--edit", "text=5", code=2)
    new = shell.out("dead", "retry", job_id, "-A", "tasks", "--edit", "text=better")
    assert '0 = "better"' in shell.out("jobs", "show", new)


def test_the_dead_are_purged(typed: Typed, died: dict[str, list[Handle[Any]]]) -> None:
    typed("dead", "purge", died["charge"][0].id)
    assert typed("dead", "purge", "--task", "charge", "--dry-run").out == "2 jobs would be deleted.\n"
    typed("dead", "purge", "--task", "charge", "--yes")
    assert [row["tasks"] for row in typed("dead", "list").rows] == ["shop.crawl"]
    typed("dead", "purge", "--all", "--yes")
    assert typed("dead", "list").err == "No dead job.\n"


def test_a_dead_job_that_somebody_retries_meanwhile_is_not_purged(
    app: App, typed: Typed, died: dict[str, list[Handle[Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (crawl,) = died["crawl"]
    amend = SqliteEngine.amend

    def late(engine: SqliteEngine, amendment: Amendment) -> Amended:
        if crawl.state is State.DEAD:
            amend(app.engine, Amendment(change=Change.RETRY, ids=(crawl.job_id,)))  # pyright: ignore[reportArgumentType]
        return amend(engine, amendment)

    monkeypatch.setattr(SqliteEngine, "amend", late)
    assert f"{crawl.id}: It is ready, not dead." in typed.refused("dead", "purge", crawl.id, code=1)
    assert crawl.state is State.READY


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("retry",), 2, "Which dead jobs? Give their ids"),
        (("retry", "--all", "--queue", "mail"), 2, "Which dead jobs?"),
        (("retry", show_id(new_id())), 1, "There is no job"),
        (("retry", "--args", "[1]"), 2, "Give one id"),
        (("retry", show_id(new_id()), "--edit", "a=1", "--all"), 2, "Give one id, and no option that finds jobs."),
        (("retry", show_id(new_id()), "--args", "[1]", "-q", "mail"), 2, "no option that finds jobs."),
        (("retry", show_id(new_id()), "--args", "[1]", "--dry-run"), 1, "There is no job"),
        (("purge", show_id(new_id()), "--dry-run"), 1, "There is no job"),
        (("retry", show_id(new_id()), "--args", "{}"), 2, "It must be a JSON array."),
        (("retry", show_id(new_id()), "--kwargs", "{"), 2, "It is not JSON"),
        (("retry", show_id(new_id()), "--edit", "a=1"), 1, "There is no job"),
        (("retry", "--error", "ffff", "--yes"), 1, "No job matches."),
        (("purge",), 2, "Which dead jobs?"),
        (("purge", "--all"), 0, "No job matches."),
        (("lis",), 2, "Did you mean 'list'?"),
    ],
)
def test_what_is_asked_for_wrongly_is_told(typed: Typed, words: tuple[str, ...], code: int, said: str) -> None:
    assert said in typed.refused("dead", *words, code=code)


def test_what_is_not_dead_is_left_alone(app: App, typed: Typed, died: dict[str, list[Handle[Any]]]) -> None:
    waiting = app.send("shop.charge", 1, token="t")
    for words in (("purge", waiting.id), ("retry", died["charge"][0].id, waiting.id)):
        assert f"The job {waiting.id} is ready, not dead." in typed.refused("dead", *words, code=2)
    for manner in ((), ("--dry-run",)):
        assert "is ready." in typed.refused("dead", "retry", waiting.id, "--args", "[1]", *manner, code=2)
        assert "is ready." in typed.refused("dead", "retry", waiting.id, "--edit", "0=1", *manner, code=2)
    assert died["charge"][0].state is State.DEAD
    none = "An edit names no argument"
    for edit, said in (
        ("7=1", "7 is none of them"),
        ("=1", none),
        ('{"$secret": "hunter2"}', none),
        ("b=1", "only its"),
    ):
        told = typed.refused("dead", "retry", died["charge"][0].id, "--edit", edit, code=2)
        assert said in told
        assert "hunter2" not in told
    assert "is still masked" in typed.refused("dead", "retry", died["crawl"][0].id, "--edit", "0=***", code=2)
