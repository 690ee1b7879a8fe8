"""`windlass doctor` and `windlass backup`: what is wrong, and a copy for the day when something is."""

from __future__ import annotations

import errno
import json
import os

from tests.cli.conftest import Shell


def test_the_doctor_tells_what_is_wrong_and_what_to_do(shell: Shell) -> None:
    assert "There is no store sqlite:///windlass.db." in shell("doctor", code=3).stdout
    assert json.loads(shell("doctor", "--json", code=3).stdout)["ok"] is False
    assert "postgres:// is not in this version" in shell("doctor", "-u", "postgres://db/x", code=1).stdout
    shell("call", "-A", "tasks", "add", "1", "2")
    done = shell("doctor", code=1)
    assert "problem workers     No worker is running; jobs that wait: 1.\n" in done.stdout
    assert "→ Start one: windlass worker tasks.py" in done.stdout
    assert "1 problem, 0 warnings." in done.stderr
    shell("call", "-A", "tasks", "fail", "redis://me:hunter2@db\x1b[2J")
    shell("worker", "tasks.py", "--until-empty")
    report = json.loads(shell("doctor", "--json").stdout)
    assert (report["ok"], report["problems"], report["warnings"]) == (True, 0, 2)
    dead = next(one for one in report["findings"] if one["name"] == "dead jobs")
    assert "ValueError: redis://me:***@db" in dead["said"]
    shown = shell("doctor").stdout
    assert "\\x1b[2J" in shown
    assert "hunter2" not in shown
    shell.environ["WINDLASS_LAESE"] = "1s"
    assert "WINDLASS_LAESE (did you mean WINDLASS_LEASE?)" in shell("doctor", code=1).stdout


def test_a_backup_is_a_store_of_its_own_and_overwrites_only_if_asked_to(shell: Shell) -> None:
    job_id = shell.out("call", "-A", "tasks", "add", "1", "2")
    shell("worker", "tasks.py", "--until-empty")
    done = shell("backup", "copy.db")
    assert done.stdout == f"{shell.folder / 'copy.db'}\n"
    assert "MB copied." in done.stderr
    assert "exists. Name another file, or replace it with --force." in shell.refused("backup", "copy.db", code=2)
    copied = json.loads(shell.out("backup", "copy.db", "--force", "--json", "-u", "sqlite:///windlass.db"))
    assert copied["bytes"] == (shell.folder / "copy.db").stat().st_size
    assert shell.out("result", job_id, "-u", "sqlite:///copy.db") == "3"
    assert "copy.db is a store" in shell.refused("backup", "copy.db", "--force", code=2), "now it may be in use"
    assert "windlass.db is a store" in shell.refused("backup", "windlass.db", "--force", code=2)
    assert "has no backup" in shell.refused("backup", "x.db", "-u", "memory://", code=2)
    assert "There is no store" in shell.refused("backup", "x.db", "-u", "sqlite:///no.db", code=3)


def test_a_backup_that_cannot_be_made_is_told_and_leaves_nothing_behind(shell: Shell) -> None:
    shell("call", "-A", "tasks", "add", "1", "2")
    longest = "y" * (os.pathconf(shell.folder, "PC_NAME_MAX") - len("-journal"))
    (shell.folder / f"{longest}y").touch()
    before = sorted(os.listdir(shell.folder))
    for words in (("x" * 300,), ("x" * 300, "--force"), (f"{longest}z",), (f"{longest}y", "--force")):
        why = os.strerror(errno.ENAMETOOLONG)
        said = shell.refused("backup", *words, code=2)
        assert said == f"Error: {words[0]} cannot be made: {why}. Give another path."
    assert f"tasks.py/x cannot be made: {os.strerror(errno.ENOTDIR)}." in shell.refused("backup", "tasks.py/x", code=2)
    assert sorted(os.listdir(shell.folder)) == before
    shell("backup", longest)
    shell("backup", longest, "--force")
    assert sorted(os.listdir(shell.folder)) == sorted([*before, longest])
