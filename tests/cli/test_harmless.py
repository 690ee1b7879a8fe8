"""What commands show can neither tell a secret nor act on the screen that shows it."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shell, Typed
from windlass import App, Retry, Secret, Worker, current_job
from windlass.core.ids import new_id
from windlass.core.redact import SECRET_NAMES
from windlass.engines.protocol import Beat, Card

CANARY = "hunter2-canary"
URL = f"redis://ann:{CANARY}@db.example/0"
TASKS = """
from windlass import App, Retry, Secret, current_job

app = App()

@app.task(queue="money", retry=Retry.fixed(1, base=0))
def charge(url: str, pin: Secret[str], *, password: str, options: dict, broken: bool) -> dict:
    current_job().log(f"connecting to {url} with {pin}")
    current_job().progress(1, 2, f"at {url}")
    if broken:
        raise ConnectionError(f"cannot reach {url} with {pin!r}")
    return {"pin": pin, "token": password, "url": url, "headers": [["Authorization", password]]}
"""
LOOKS = (
    ("jobs", "list"),
    ("jobs", "show", "ID"),
    ("jobs", "show", "ID", "--why"),
    ("jobs", "logs", "ID"),
    ("jobs", "logs", "ID", "--follow"),
    ("jobs", "cancel", "ID"),
    ("jobs", "retry", "--state", "succeeded", "-n"),
    ("jobs", "delete", "ID", "-n"),
    ("dead", "list"),
    ("dead", "list", "--ungrouped"),
    ("dead", "show", "ID"),
    ("dead", "retry", "ID", "--edit", "broken=1", "--edit", "0=***"),
    ("dead", "retry", "ID", "--kwargs", '{"password": "***", "options": {"token": "***"}}'),
    ("dead", "purge", "--all", "-n"),
    ("queues", "list"),
    ("queues", "purge", "money"),
    ("inspect", "active"),
    ("inspect", "processes"),
    ("inspect", "registered"),
    ("inspect", "stats"),
    ("inspect", "workers"),
    ("status",),
    ("result", "ID"),
)


def test_no_secret_is_ever_shown(shell: Shell, typed: Typed) -> None:
    Path(shell.folder, "tasks.py").write_text(TASKS)
    options = json.dumps({"token": CANARY, "again": {"where": URL}})
    pin = json.dumps({"$secret": CANARY})
    words = ("call", "-A", "tasks", "charge", URL, pin, f"password={CANARY}", f"options={options}")
    dead, done = (shell.out(*words, f"broken={broken}") for broken in ("true", "false"))
    shown = shell("worker", "tasks.py", "--until-empty", "--show-jobs").stderr
    shell.out(*words, "broken=true")
    shown += shell("worker", "tasks.py", "--until-empty", "--show-jobs", "--log-format", "json").stderr
    assert shown.count("redis://ann:***@db.example/0") >= 4, "each failed attempt was told of, masked"
    for look in LOOKS:
        for job_id in (dead, done):
            for more in ((), ("--json",)):
                if look[0] == "result" and job_id == done:
                    continue  # who asks for a result is given it
                shown += both(typed, *(word.replace("ID", job_id) for word in look), *more)
    shown += both(typed, "jobs", "list", "-u", f"postgres://me:{CANARY}@db/x")
    shown += both(typed, "jobs", "list", "-u", f"sqlite:///no.db?token={CANARY}")
    assert CANARY not in shown
    for part in (
        "cannot reach redis://ann:***@db.example/0 with Secret(***)",
        '"pin": "***"',
        '"password": "***"',
        'password = "***"',
        '"token": "***"',
    ):
        assert part in shown, "it was shown, masked"


def test_a_secret_result_is_asked_for_in_vain(app: App, typed: Typed) -> None:
    task = app.task(name="shop.key")(key)
    with Worker(app):
        handle = task.delay()
        assert handle.get(timeout=10) == Secret(CANARY)
    for words in (("result", handle.id), ("result", handle.id, "--json"), ("jobs", "show", handle.id)):
        shown = typed(*words).out
        assert "***" in shown
        assert CANARY not in shown


def key() -> Secret[str]:
    return Secret(CANARY)


def test_a_secret_inside_of_a_result_is_masked(app: App, typed: Typed) -> None:
    task = app.task(name="shop.keys")(keys)
    with Worker(app):
        handle = task.delay()
        handle.get(timeout=10)
    for words in (("result", handle.id), ("result", handle.id, "--json"), ("jobs", "show", handle.id, "--json")):
        shown = typed(*words).out
        assert json.dumps({"user": "ann", "pin": "***", "more": ["***"]}) in shown
        assert CANARY not in shown


def keys() -> dict[str, Any]:
    return {"user": "ann", "pin": Secret(CANARY), "more": [Secret(CANARY)]}


def both(typed: Typed, *words: str) -> str:
    """What a command prints, whatever its end."""
    done = typed.anyhow(*words)
    return done.out + done.err


def test_names_that_the_settings_call_secret_are_masked(
    app: App, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = app.send("shop.task", iban="DE00", password="x").id
    assert 'iban = "DE00"' in typed("jobs", "show", job_id).out
    monkeypatch.setenv("WINDLASS_SECRET_NAMES", ",".join((*SECRET_NAMES, "iban")))
    assert 'iban = "***"' in typed("jobs", "show", job_id).out


HOSTILE = "wipe\x1b[2J\x1b]0;title\x07 turn\u202e\u2066 line\nforged\tcolumn\r\x9b31m\u2028end"
RAW = re.compile(r"\x1b\[2J|\x1b\]0|\x07|\u202e|\u2066|\x9b|\u2028")


def hostile(text: str, *, name: str) -> None:
    current_job().log(text)
    current_job().progress(1, 1, text)
    raise type(name, (ValueError,), {})(text)


@pytest.fixture
def attacked(app: App) -> str:
    """A dead job whose arguments, log, progress and error are written for a terminal."""
    task = app.task(name="shop.hostile", retry=Retry.fixed(0))(hostile)
    with Worker(app):
        handle = task.using(key="k").delay(HOSTILE, name=f"Odd\x1b[2J{HOSTILE}")
        assert handle.wait(timeout=10)
    return handle.id


def test_nothing_acts_on_a_pipe(typed: Typed, attacked: str) -> None:
    for words in (
        ("jobs", "list"),
        ("jobs", "show", attacked),
        ("jobs", "show", attacked, "--why"),
        ("jobs", "logs", attacked),
        ("dead", "list"),
        ("dead", "list", "--ungrouped"),
        ("status",),
        ("inspect", "stats"),
        ("jobs", "list", "-q", HOSTILE),
        ("jobs", "show", HOSTILE),
        ("jobs", "list", "-s", HOSTILE),
        ("jobs", HOSTILE),
        ("queues", "pause", HOSTILE),
        ("dead", "retry", attacked, "--edit", f"{HOSTILE}=1"),
        ("jobs", "list", "--worker", HOSTILE),
        ("workers", "drain", HOSTILE),
    ):
        shown = both(typed, *words)
        assert shown
        assert not RAW.search(shown), words
        assert not any(line.startswith("forged") for line in shown.splitlines()), words
        told = both(typed, *words, "--json")
        assert not RAW.search(told), words
    assert len(typed("jobs", "list").rows) == 1, "a line that was forged is no row"
    assert len(typed("jobs", "logs", attacked).out.splitlines()) == 1
    assert "wipe\\x1b[2J\\x1b]0;title\\x07 turn\\u202e\\u2066 line\\nforged\\tcolumn" in typed("jobs", "list").out


def test_an_error_of_the_command_line_is_harmless(typed: Typed, tmp_path: Path) -> None:
    name = "mailer-\x1b]0;title\x07\x1b[2J"
    (tmp_path / name).touch()
    said = typed.refused("backup", name, code=2)
    assert said.startswith("Usage: windlass backup [OPTIONS] FILE Try 'windlass backup --help' for help. Error: ")
    assert "mailer-\\x1b]0;title\\x07\\x1b[2J exists." in said
    assert not RAW.search(said)
    assert "called 'redis://ann:***@db.example/0'." in typed.refused("jobs", "list", "--worker", URL, code=2)


def test_the_near_miss_of_a_worker_is_harmless(app: App, typed: Typed) -> None:
    app.engine.renew(Beat(card=Card(worker=new_id(), name="mailer-1"), beat=0))
    name = r"mailer-\u001b]0;title\u0007\nforged"
    with closing(sqlite3.connect("windlass.db", isolation_level=None)) as stranger:  # no engine takes such a name
        stranger.execute("UPDATE card SET card = CAST(replace(CAST(card AS TEXT), 'mailer-1', ?) AS BLOB)", (name,))
    shown = typed.refused("jobs", "list", "--worker", "mailer-]0;title-forged", code=2)
    assert r"Did you mean mailer-\x1b]0;title\x07\nforged?" in shown


def test_nothing_acts_on_a_terminal(shell: Shell, attacked: str) -> None:
    for words in (("jobs", "list"), ("jobs", "show", attacked), ("dead", "list"), ("status",)):
        shown = shell.on_terminal(*words, width=200)
        assert not RAW.search(shown), words
        assert "wipe\\x1b[2J" in shown, words


# ── terminals ───────────────────────────────────────────────────────────────────────────────────────────


def send(app: App, count: int) -> list[Any]:
    task = app.task(name="shop.a_task_with_a_rather_long_name", queue="mail", tags=["bulk"])(print)
    return list(task.delay_many([()] * count))


def test_a_person_is_asked_and_shown_how_far_it_is(app: App, shell: Shell) -> None:
    handles = send(app, 250)
    refused = shell.on_terminal("jobs", "cancel", "--tag", "bulk", answer="n\n", code=1)
    assert "Cancel 250 jobs? [y/N]:" in refused
    assert "Nothing was changed." in refused
    assert handles[0].state == "ready"
    done = shell.on_terminal("jobs", "cancel", "--tag", "bulk", answer="y\n")
    assert "250/250" in done, "the bar"
    assert "250 jobs cancelled or asked to stop." in done
    assert handles[0].state == "cancelled"


def test_who_interrupts_is_told_how_far_it_came(app: App, shell: Shell) -> None:
    send(app, 10_000)
    shown = shell.on_terminal("jobs", "delete", "--tag", "bulk", "--yes", until="Delete", code=130)
    assert " of 10,000 gone through so far. The same command goes on." in shown
    shell("jobs", "delete", "--tag", "bulk", "--yes")
    assert shell("jobs", "list").stderr == "No job matches.\n"


@pytest.mark.parametrize(("width", "heads"), [(70, "ID STATE TASK WHEN"), (120, "ID STATE TASK QUEUE TRY WHEN ERROR")])
def test_a_table_fits_the_terminal_and_ids_stay_whole(app: App, shell: Shell, width: int, heads: str) -> None:
    (handle,) = send(app, 1)
    shown = shell.on_terminal("jobs", "list", width=width, NO_COLOR="1")
    first, row = (re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in shown.splitlines())
    assert first.split() == heads.split()
    assert row.startswith(f"{handle.id}  ready  ")
    assert len(row) <= width
    assert "\x1b[3" not in shown, "no colour where none is wanted"
