"""`windlass config` and `windlass completion`: what is set, and what a shell completes."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Shell

PASSWORD = "hunter2"


def test_settings_are_shown_with_their_origin_and_without_passwords(shell: Shell) -> None:
    (shell.folder / "windlass.toml").write_text('lease = "20s"\n')
    shell.environ |= {"WINDLASS_URL": f"redis://me:{PASSWORD}@db/0", "WINDLASS_BEAT": "2s"}
    lines = [line.split("\t") for line in shell.out("config", "--show-origin").splitlines()]
    assert lines[0] == ["setting", "value", "origin"]
    table = {name: (value, origin) for name, value, origin in lines[1:]}
    assert table["url"] == ("redis://me:***@db/0", "environment WINDLASS_URL")
    assert table["lease"] == ("20s", str(shell.folder / "windlass.toml"))
    assert table["beat"] == ("2s", "environment WINDLASS_BEAT")
    assert table["sweep"] == ("1s", "default")
    plain = json.loads(shell.out("config", "--json"))
    assert plain == {name: value for name, (value, _) in table.items()}
    whole = json.loads(shell.out("config", "--json", "--show-origin", "-u", "sqlite:///a.db"))
    assert whole["url"] == {"value": "sqlite:///a.db", "origin": "argument"}
    assert PASSWORD not in json.dumps([lines, plain, whole])


def test_a_setting_that_cannot_be_used_is_told(shell: Shell) -> None:
    shell.environ["WINDLASS_LAESE"] = "3s"
    assert "WINDLASS_LAESE sets nothing. Did you mean WINDLASS_LEASE?" in shell.refused("config", code=2)


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(shell: Shell, kind: str) -> None:
    assert "_WINDLASS_COMPLETE" in shell.out("completion", kind)


def test_a_shell_that_is_not_known_is_refused(shell: Shell) -> None:
    assert "'tcsh' is not one of" in shell.refused("completion", "tcsh", code=2)


def completed(shell: Shell, typed: str) -> list[str]:
    words = typed.split(" ")
    environ = {"_WINDLASS_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    done = shell(environ=environ)
    assert done.stderr == ""
    return [line.removeprefix("plain,") for line in done.stdout.splitlines() if line]


def test_tasks_and_queues_are_completed_from_the_store(shell: Shell) -> None:
    assert completed(shell, "windlass comp") == ["completion"]
    assert completed(shell, "windlass call ") == [], "there is no store yet"
    assert not (shell.folder / "windlass.db").exists(), "and looking for names has not made one"
    shell("call", "-A", "tasks.py", "greet", "anne")
    shell("call", "-A", "tasks.py", "add", "1", "2")
    assert completed(shell, "windlass call tasks.") == ["tasks.add", "tasks.greet"]
    assert completed(shell, "windlass send gr") == ["greet"]
    assert completed(shell, "windlass worker tasks.py -Q mail,d") == ["mail,default"]
    (shell.folder / "windlass.db").write_text("this is no database" * 100)
    assert completed(shell, "windlass call ") == [], "a broken store is no business of who presses Tab"
