"""`windlass jobs`: jobs are found, shown whole, followed, and changed only as they were asked for."""

from __future__ import annotations

import json
import platform
import re
import threading
from typing import Any, NoReturn

import pytest

from tests.cli.conftest import Shell, Typed
from tests.soak.waiting import wait_for
from windlass import App, Handle, Retry, State, Worker, current_job
from windlass.cli.bulk import Manner
from windlass.cli.remedy import REMEDIES
from windlass.core.durations import show_instant
from windlass.core.ids import JobId, new_id, show_id
from windlass.engines.protocol import Engine, TallyQuery
from windlass.engines.sqlite import SqliteEngine
from windlass.ops import view
from windlass.ops.why import Cause


def add(a: int, b: int) -> int:
    return a + b


def flaky(name: str) -> str:
    current_job().log(f"greeting {name}")
    current_job().progress(1, 2, "half")
    if current_job().attempt == 1:
        raise ValueError("not yet")
    return f"hello {name}"


def fail() -> None:
    raise ValueError("broken")


@pytest.fixture
def sent(app: App) -> dict[str, Handle[Any]]:
    """A job in each of some states, by a word."""
    task = app.task(name="shop.add", tags=["sums"])(add)
    retried = app.task(name="shop.flaky", queue="mail", retry=Retry.fixed(1, base=0))(flaky)
    broken = app.task(name="shop.broken", queue="mail")(fail)
    with Worker(app, name="box"):
        done, failed = retried.delay("ann"), broken.delay()
        assert done.get(timeout=10) == "hello ann"
        assert failed.wait(timeout=10)
    return {
        "succeeded": done,
        "dead": failed,
        "scheduled": task.using(delay=3600).delay(1, 2),
        "ready": task.delay(3, 4),
    }


def ids(done: Any) -> set[str]:
    return {row["id"] for row in done.rows}


def test_jobs_are_listed_by_what_they_have_in_common(app: App, typed: Typed, sent: dict[str, Handle[Any]]) -> None:
    for words, wanted in (
        ((), {"succeeded", "dead", "scheduled", "ready"}),
        (("--state", "scheduled"), {"scheduled"}),
        (("-q", "mail"), {"succeeded", "dead"}),
        (("-t", "flaky"), {"succeeded"}),
        (("-t", "shop.add", "-s", "ready"), {"ready"}),
        (("--tag", "sums"), {"scheduled", "ready"}),
        (("--since", "1h", "-q", "mail"), {"succeeded", "dead"}),
    ):
        assert ids(typed("jobs", "list", *words)) == {sent[name].id for name in wanted}, words
    assert [job["id"] for job in typed.json("jobs", "list", "-s", "dead")] == [sent["dead"].id]
    limited = typed("jobs", "list", "--limit", "2")
    assert len(limited.rows) == 2
    assert "There are more than 2" in limited.err
    assert not typed("jobs", "list", "--limit", "4").err
    with Worker(app, name="box", queues=["nothing"]):
        assert typed("jobs", "list", "--worker", "box").err == "No job matches.\n"
        assert "Did you mean box?" in typed.refused("jobs", "list", "--worker", "bos", code=2)


def test_a_job_is_shown_with_everything(typed: Typed, sent: dict[str, Handle[Any]]) -> None:
    shown = typed("jobs", "show", sent["succeeded"].id).out
    for part in (
        "Task        shop.flaky",
        "State       succeeded, attempt 2",
        "Why         It has succeeded",
        " UTC (",
        'Arguments   0 = "ann"',
        'Result      "hello ann"',
        "Progress    1 of 2, half",
        "Attempt 1: failed after ",
        "  ValueError: not yet",
        "  | Traceback (most recent call last):",
        "#1  greeting ann",
        "#2  greeting ann",
    ):
        assert part in shown, shown
    seen = typed.json("jobs", "show", sent["succeeded"].id)
    assert (seen["args"], seen["result"], len(seen["attempts"]), len(seen["log"])) == (["ann"], "hello ann", 2, 2)


def test_a_running_job_says_since_when_and_where_by_name(app: App, typed: Typed) -> None:
    started, gate = threading.Event(), threading.Event()

    def hold() -> None:
        started.set()
        gate.wait(30)
        raise ValueError("broken")

    handle = app.task(name="shop.hold", retry=Retry.fixed(1, base=0))(hold).delay()
    with Worker(app, name="box"):
        assert started.wait(10)
        shown, seen = typed("jobs", "show", handle.id).out, typed.json("jobs", "show", handle.id)
        gate.set()
        assert handle.wait(timeout=10)
        after = typed("jobs", "show", handle.id).out
    box = f"box@{platform.node()}"
    since = show_instant(seen["claimed_us"])
    assert re.search(rf"^Started     {re.escape(since)}, running for \d+m?s$", shown, re.MULTILINE), shown
    assert f"Worker      {box}\n" in shown
    assert seen["worker"] not in shown
    assert seen["worker_name"] == box
    assert after.count(f"  worker {box}\n") == 2
    assert "running for" not in after
    gone, kept = typed("jobs", "show", handle.id).out, typed.json("jobs", "show", handle.id)
    assert gone.count("  worker gone\n") == 2, "the name went with its card"
    assert {(one["worker"], one["worker_name"]) for one in kept["attempts"]} == {(seen["worker"], None)}, (
        "the id is for programs"
    )


def test_why_a_job_waits_is_one_sentence(typed: Typed, sent: dict[str, Handle[Any]]) -> None:
    for state, sentence in (("scheduled", "It is scheduled for "), ("ready", "No worker is running: start one")):
        said = typed("jobs", "show", sent[state].id, "--why").out
        assert said.startswith(sentence)
        assert said.count("\n") == 1
        assert said.strip() in typed("jobs", "show", sent[state].id).out or state == "scheduled"
        assert typed.json("jobs", "show", sent[state].id, "--why")["why"].startswith(sentence)


def test_why_a_job_waits_comes_with_what_to_type(app: App, typed: Typed, sent: dict[str, Handle[Any]]) -> None:
    def told(job_id: str) -> tuple[str, str]:
        """The cause, and what is said last; the page says the same."""
        said, seen = typed("jobs", "show", job_id, "--why").out.strip(), typed.json("jobs", "show", job_id, "--why")
        assert said == f"{seen['why']} {seen['todo']}"
        assert f"Why         {said}\n" in typed("jobs", "show", job_id).out
        return seen["cause"], seen["todo"]

    mail, ready = app.named("shop.unknown").using(queue="mail").delay().id, sent["ready"].id
    assert told(ready) == ("no_worker", "For example: windlass worker tasks.py")
    with Worker(app, name="box", queues=["mail"]):
        assert told(ready) == ("queue_not_taken", "Start one: windlass worker tasks.py -Q default")
        assert told(mail) == ("task_not_known", "Start one with its code: windlass worker tasks.py -Q mail")
        typed("queues", "pause", "mail")
        assert told(mail) == ("queue_paused", "Resume it: windlass queues resume mail")
    scheduled = typed.json("jobs", "show", sent["scheduled"].id, "--why")
    assert (scheduled["cause"], scheduled["todo"]) == ("not_due", None)
    assert REMEDIES.keys() == set(Cause)


def test_a_log_is_printed_and_can_be_followed(typed: Typed, sent: dict[str, Handle[Any]]) -> None:
    job_id = sent["succeeded"].id
    assert [line.split("  ")[1:] for line in typed("jobs", "logs", job_id).out.splitlines()] == [
        ["#1", "greeting ann"],
        ["#2", "greeting ann"],
    ]
    assert [line["text"] for line in typed.json("jobs", "logs", job_id)] == ["greeting ann"] * 2
    followed = typed("jobs", "logs", job_id, "-f", "--json")
    assert [json.loads(line)["attempt"] for line in followed.out.splitlines()] == [1, 2]
    assert followed.err == "The job is succeeded.\n"


def test_a_log_is_followed_until_the_job_ends(shell: Shell) -> None:
    job_id = shell.out("call", "-A", "tasks", "slow", "0.5")
    with shell.running("worker", "tasks.py"):
        followed = shell("jobs", "logs", job_id, "--follow")
    assert followed.stdout.endswith("#1  it begins\n")
    assert followed.stderr.endswith("The job is succeeded.\n")


def test_a_log_that_is_followed_is_printed_once_though_nothing_comes_for_a_while(
    app: App, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, go_on = threading.Event(), threading.Event()

    @app.task(name="shop.slow")
    def slow() -> None:
        current_job().log("it begins")
        written.set()
        go_on.wait(30)
        current_job().log("it ends")

    looks: list[int] = []
    look = view.log

    def watched(engine: Engine, job_id: JobId, after: int = 0) -> view.LogPage:
        page = look(engine, job_id, after)
        looks.append(len(page.lines))
        if looks.count(0) == 2:
            go_on.set()
        return page

    monkeypatch.setattr("windlass.ops.view.log", watched)
    monkeypatch.setattr("windlass.cli.jobs.LOOK_S", 0.01)
    with Worker(app):
        handle = slow.delay()
        assert written.wait(10)
        wait_for("the line is stored", lambda: look(app.engine, handle.job_id).lines)
        out = typed("jobs", "logs", handle.id, "-f").out
    assert [line.split("  ")[-1] for line in out.splitlines()] == ["it begins", "it ends"]


# ── steering ────────────────────────────────────────────────────────────────────────────────────────────


def test_named_jobs_are_changed_without_asking(typed: Typed, sent: dict[str, Handle[Any]]) -> None:
    said = typed("jobs", "cancel", sent["ready"].id, sent["scheduled"].id, "--reason", "not needed")
    assert (said.out, said.err) == ("", "2 jobs cancelled or asked to stop.\n")
    assert sent["ready"].state is State.CANCELLED
    assert "cancelled (not needed)" in typed("jobs", "show", sent["ready"].id).out
    again = typed.refused("jobs", "cancel", sent["ready"].id, code=1)
    assert "0 jobs cancelled or asked to stop, 1 left as is." in again
    assert typed.json("jobs", "retry", sent["ready"].id, sent["dead"].id)["changed"] == 2
    assert sent["dead"].state is State.READY
    typed("jobs", "delete", sent["dead"].id)
    assert "There is no job" in typed.refused("jobs", "show", sent["dead"].id, code=1)


def test_a_dry_run_looks_at_the_jobs_named_and_ends_as_the_change_would(
    typed: Typed, sent: dict[str, Handle[Any]]
) -> None:
    gone = show_id(new_id())
    delete = ("jobs", "delete", sent["ready"].id, gone)
    done = typed(*delete, "--dry-run", code=1)
    assert done.out == "1 job would be deleted, 1 left as is.\n"
    assert done.err == f"{gone}: There is no such job.\n"
    refusals = [{"id": gone, "why": "There is no such job."}]
    assert typed.json(*delete, "--dry-run", code=1) == {"would_change": 1, "refused": 1, "refusals": refusals}
    assert typed("jobs", "delete", sent["ready"].id, "-n").out == "1 job would be deleted.\n"
    assert sent["ready"].state is State.READY
    assert typed.json(*delete, code=1) == {"changed": 1, "refused": 1, "refusals": refusals}


def test_what_a_query_finds_is_counted_and_asked_about(typed: Typed, sent: dict[str, Handle[Any]]) -> None:
    query = ("jobs", "cancel", "--tag", "sums")
    assert "Cancel 2 jobs? Nobody is there to answer: say --yes" in typed.refused(*query, code=2)
    assert typed(*query, "--dry-run").out == "2 jobs would be cancelled or asked to stop.\n"
    assert typed.json(*query, "--dry-run") == {"would_change": 2}
    assert sent["ready"].state is State.READY
    assert typed.json(*query, "--yes") == {"changed": 2, "refused": 0, "refusals": []}
    assert sent["ready"].state is State.CANCELLED
    assert "No job matches." in typed.refused(*query, "--yes", code=1), "something was named, and nothing was changed"
    typed("jobs", "retry", "--state", "cancelled", "--yes")
    assert sent["ready"].state is State.READY
    typed("jobs", "cancel", "--state", "held", "--yes")
    typed("jobs", "delete", "-q", "mail", "--yes")
    assert ids(typed("jobs", "list")) == {sent["ready"].id, sent["scheduled"].id}


@pytest.mark.parametrize("words", [("jobs", "cancel", "-q", "default"), ("queues", "purge", "default")])
def test_names_are_looked_up_only_where_nothing_was_found(
    typed: Typed, sent: dict[str, Handle[Any]], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def tally(engine: Engine, query: TallyQuery) -> NoReturn:
        raise AssertionError((engine, query))

    assert sent["ready"].state is State.READY
    monkeypatch.setattr(SqliteEngine, "tally", tally)
    assert typed.json(*words, "--yes")["changed"] == 2


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "cancel", "-q", "mail"),
        ("jobs", "delete", "-q", "mail", "-s", "ready"),
        ("jobs", "retry", "-q", "mail", "-s", "cancelled"),
        ("dead", "retry", "--all"),
        ("dead", "purge", "--all"),
        ("queues", "purge", "mail"),
    ],
)
def test_what_comes_while_somebody_thinks_about_the_question_is_left_alone(
    app: App, typed: Typed, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    state = State.DEAD if words[0] == "dead" else State.CANCELLED if "cancelled" in words else State.READY

    def come(n: int) -> list[Handle[Any]]:
        sent: list[Handle[Any]] = [broken.delay() for _ in range(n)]
        if state is State.DEAD:
            with Worker(app):
                assert all(one.wait(timeout=10) for one in sent)
        elif state is State.CANCELLED:
            for one in sent:
                one.cancel()
        assert {one.state for one in sent} == {state}
        return sent

    late: list[Handle[Any]] = []

    def think(question: str, _manner: Manner) -> None:
        assert "3 jobs?" in question
        late.extend(come(5))

    broken = app.task(name="shop.broken", queue="mail")(fail)
    come(3)
    monkeypatch.setattr("windlass.cli.bulk.ask", think)
    assert typed.json(*words)["changed"] == 3
    assert [one.state for one in late] == [state] * 5


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("lst",), 2, "There is no command 'lst'. Did you mean 'list'?"),
        (("list", "-s", "rnning"), 2, "There is no state 'rnning'. Did you mean running?"),
        (("list", "-s", "failed"), 2, "Did you mean dead?"),
        (("list", "-s", "blue"), 2, "There are: held, ready"),
        (("list", "-q", "a b"), 2, "queue name"),
        (("list", "--since", "soon"), 2, "soon"),
        (("list", "--limit", "0"), 2, "It takes a whole number from 1 to 100,000, not '0'."),
        (("list", "--worker", "box"), 2, "No running worker is called 'box'"),
        (("show", "12"), 2, "'12' is not a job id."),
        (("show", show_id(new_id())), 1, "There is no job"),
        (("logs", show_id(new_id())), 1, "There is no job"),
        (("show",), 2, "Missing argument"),
        (("cancel",), 2, "Which jobs? Give their ids, or options"),
        (("cancel", show_id(new_id()), "-q", "mail"), 2, "not both"),
        (("delete", show_id(new_id())), 1, "There is no such job."),
        (("list", "-u", "sqlite:///nowhere.db"), 3, "There is no store sqlite:///nowhere.db."),
        (("list", "-A", "tasks", "-u", "memory://"), 2, "not both"),
    ],
)
def test_what_is_asked_for_wrongly_is_told(typed: Typed, words: tuple[str, ...], code: int, said: str) -> None:
    assert said in typed.refused("jobs", *words, code=code)


def test_a_name_that_is_nearly_one_of_the_store_is_named(typed: Typed, sent: dict[str, Handle[Any]]) -> None:
    assert sent
    for option, kind, word, meant in (
        ("-q", "queue", "mayl", " Did you mean mail?"),
        ("-t", "task", "shop.flakey", " Did you mean shop.flaky?"),
        ("-t", "task", "ad", " Did you mean shop.add?"),
        ("-q", "queue", "zebra", ""),
        ("-t", "task", "zebra", ""),
    ):
        said = f"No job matches. No job and no worker names the {kind} {word}.{meant}\n"
        assert typed("jobs", "list", option, word).err == said
    assert typed("jobs", "list", "-q", "mail", "-s", "ready").err == "No job matches.\n", "a queue that is known"
    assert "Did you mean mail?" in typed.refused("jobs", "cancel", "-q", "mayl", "-y", code=1)


def test_a_url_that_was_typed_outvotes_an_app_of_the_environment(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_APP", "nowhere.tasks")
    typed("jobs", "list", "-u", "sqlite:///windlass.db")
    assert "nowhere" in typed.refused("jobs", "list", code=2)
