"""The command line on a store over a network: the same commands, and one sentence where the server does not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.servers.namespace import Namespace
from tests.servers.redis_server import RedisServer
from tests.soak.waiting import HANG_S

ROOT = Path(__file__).resolve().parents[2]


def test_the_same_commands_work_on_a_server(shell: Shell, valkey: Namespace) -> None:
    shell.environ["WINDLASS_URL"] = valkey.url
    job_id = shell.out("call", "-A", "tasks", "add", "1", "2")
    shell("call", "-A", "tasks", "fail", "no")
    shell("worker", "tasks.py", "--until-empty")
    assert "succeeded" in shell("jobs", "show", job_id).stdout
    assert "ValueError: no" in shell("dead", "list").stdout
    assert "1 dead" in shell("status").stdout
    assert "a restart loses all jobs" in shell("doctor").stdout


def test_what_the_server_keeps_is_said_by_a_worker_and_the_doctor_and_by_no_other_command(
    shell: Shell, valkey: Namespace
) -> None:
    said = "The server keeps nothing on its disk: a restart loses all jobs."
    shell.environ["WINDLASS_URL"] = valkey.url
    sends = "from tasks import app\n\n@app.task\ndef again() -> None:\n    app.send('tasks.add', 1, 2)\n"
    (shell.folder / "sends.py").write_text(sends)
    called = shell("call", "-A", "sends", "again")
    assert shell("worker", "sends.py", "--until-empty").stderr.count(said) == 1, "by the supervisor, not by its runners"
    job_id = called.stdout.strip()
    for done in (
        called,
        shell("call", "tasks.add", "1", "2"),
        shell("jobs", "list"),
        shell("jobs", "show", job_id),
        shell("status"),
        shell("result", job_id),
    ):
        assert said not in done.stdout + done.stderr
    doctor = shell("doctor", code=None)  # a job waits, and no worker is there
    assert (doctor.stdout.count(said), doctor.stderr.count(said)) == (1, 0)


def test_a_server_that_does_not_fit_is_refused_with_one_sentence_and_exit_code_3(
    shell: Shell, new_server: Callable[..., RedisServer]
) -> None:
    server = new_server(password="right")
    host = f"127.0.0.1:{server.port}"
    for url, said in (
        (f"redis://{host}/0", "wants a password"),
        (f"redis://:wrong@{host}/0", "does not accept the password"),
        (f"redis://:right@{host}/99", "has no database 99"),
        (f"rediss://:right@{host}/0", "speaks no TLS"),
        ("redis://127.0.0.1:1/0", "cannot be reached"),
    ):
        shell.environ["WINDLASS_URL"] = url
        told = shell.refused("call", "-A", "tasks", "add", "1", "2", code=3)
        assert said in told
        assert "wrong" not in told, "a password is shown"
    with server.client() as client:
        assert client.dbsize() == 0
        client.config_set("maxmemory-policy", "allkeys-lru")
        shell.environ["WINDLASS_URL"] = f"redis://:right@{host}/0"
        told = shell.refused("worker", "tasks.py", code=3)
        assert "allkeys-lru" in told
        assert client.dbsize() == 0


def test_the_doctor_tells_how_full_the_server_is(shell: Shell, new_server: Callable[..., RedisServer]) -> None:
    server = new_server(appendonly="everysec")
    shell.environ["WINDLASS_URL"] = server.url()
    with server.client() as client:
        assert "no limit is set (maxmemory 0)" in shell("doctor").stdout
        client.config_set("maxmemory", "1gb")
        assert " of 1GiB are used, 0 % (maxmemory)." in shell("doctor").stdout
        client.setrange("ballast", 20_000_000, "x")  # beside which a connection more does not count
        client.config_set("maxmemory", client.info("memory")["used_memory"] * 10 // 9)
        told = shell("doctor").stdout
    (line,) = [line for line in told.splitlines() if "(maxmemory)" in line]
    assert line.startswith("warning memory")
    assert "At 100 % new jobs are refused; those that are there go on." in line


def test_a_backup_is_left_to_the_server_and_the_way_is_told(shell: Shell, valkey: Namespace) -> None:
    shell.environ["WINDLASS_URL"] = valkey.url
    told = shell.refused("backup", "copy.db", code=2)
    assert "is backed up by its server, not by Windlass. There: BGSAVE, then copy dump.rdb" in told
    page, _, place = told.split()[-1].partition("#")
    assert f"\n## {place.title()}\n" in (ROOT / page).read_text(encoding="utf-8"), "that page has the steps"
    assert not (shell.folder / "copy.db").exists()


def test_a_store_of_a_newer_windlass_is_refused(shell: Shell, valkey: Namespace) -> None:
    with valkey.client() as client:
        client.hset(f"{{{valkey.name}}}:meta", "schema", 2)
    shell.environ["WINDLASS_URL"] = valkey.url
    told = shell.refused("worker", "tasks.py", code=3)
    assert "schema 2 of a newer Windlass" in told


def test_a_worker_whose_store_is_emptied_says_what_is_gone_and_goes_on(shell: Shell, valkey: Namespace) -> None:
    shell.environ["WINDLASS_URL"] = valkey.url
    with shell.running("worker", "tasks.py") as worker:
        shell("call", "-A", "tasks", "add", "1", "2", "--wait")
        valkey.clear()
        worker.wait_for(f"The namespace {valkey.name} of ")
        worker.wait_for("goes on under a new id")
        assert shell.out("call", "-A", "tasks", "add", "1", "2", "--wait").endswith("3")
        assert worker.text.count("was emptied: somebody has removed its keys (FLUSHALL?)") == 1
        assert "All jobs and results that were there are gone." in worker.text
        assert "has to wait" not in worker.text


def test_who_watches_a_store_goes_on_through_an_outage(shell: Shell, new_server: Callable[..., RedisServer]) -> None:
    server = new_server(appendonly="always")
    shell.environ["WINDLASS_URL"] = server.url()
    job_id = shell.out("call", "-A", "tasks", "add", "1", "2")
    with shell.running("jobs", "logs", "-f", job_id) as logs:
        logs.wait_for("No worker is running")
        server.kill()
        logs.wait_for("Waiting for it; Ctrl-C ends this.")
        server.start()
        shell("worker", "tasks.py", "--until-empty")
        logs.wait_for("The job is succeeded.")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_who_waits_for_a_result_goes_on_through_an_outage(
    shell: Shell, new_server: Callable[..., RedisServer], form: tuple[str, ...]
) -> None:
    server = new_server(appendonly="always")
    shell.environ["WINDLASS_URL"] = server.url()
    with shell.running("call", "-A", "tasks", "add", "1", "2", "--wait", *form) as call:
        call.wait_for("No worker is running")
        server.kill()
        call.wait_for("It is tried again until it is back.")
        server.start()
        shell("worker", "tasks.py", "--until-empty")
        assert call.process.wait(HANG_S) == 0


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_who_has_waited_long_enough_for_a_store_is_told_so_with_exit_code_3(
    shell: Shell, new_server: Callable[..., RedisServer], form: tuple[str, ...]
) -> None:
    server = new_server()
    shell.environ["WINDLASS_URL"] = server.url()
    with shell.running("call", "-A", "tasks", "add", "1", "2", "--timeout", "5", *form) as call:
        call.wait_for("No worker is running")
        server.kill()
        call.wait_for("is known after 5 s.")
        assert call.process.wait(HANG_S) == 3
