"""What the doctor finds: each check once well and once not."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import windlass
from tests.ops.cards_by_hand import runner
from windlass.core.errors import BadValue
from windlass.core.info import encode_info
from windlass.core.job import Failure, Outcome, State
from windlass.core.limits import MIB
from windlass.engines.findings import Level
from windlass.engines.protocol import TallyQuery
from windlass.engines.sqlite import SqliteEngine
from windlass.engines.sqlite.examine import NEARLY, examine
from windlass.engines.sqlite.files import Paths
from windlass.ops.backup import backup
from windlass.ops.cards import Info
from windlass.ops.doctor import OFTEN, of_machine, of_store, worst
from windlass.testing.conformance import Harness


def found(harness: Harness, name: str, *, later_us: int = 0) -> tuple[str, str]:
    """The level and the sentence of one check."""
    findings = {
        one.name: one for one in of_store(harness.engine, windlass.__version__, now_us=harness.now_us + later_us)
    }
    one = findings[name]
    assert bool(one.todo) is (one.level is not Level.OK), "whatever is not well has something to do"
    return one.level.value, one.said


def test_a_store_that_nobody_works_on(harness: Harness) -> None:
    assert found(harness, "workers") == ("warning", "No worker is running.")
    harness.send_many(2)
    assert found(harness, "workers") == ("problem", "No worker is running; jobs that wait: 2.")
    assert found(harness, "queues")[0] == "ok", "told once"
    harness.worker(name="ann", host="here")
    assert found(harness, "workers") == ("ok", "1 running: ann@here.")


def test_jobs_that_nobody_takes(harness: Harness) -> None:
    harness.send_many(2, "mail.send", queue="mail")
    harness.send("mail.sned", queue="other")
    harness.worker(name="ann", queues=("mail",), tasks=("mail.send",))
    assert found(harness, "queues") == ("problem", "No worker takes jobs of other (1).")
    assert found(harness, "tasks") == ("problem", "No worker knows the task of these jobs: mail.sned (1).")
    harness.worker(name="bob", tasks=("mail.sned",))
    assert found(harness, "queues")[0] == found(harness, "tasks")[0] == "ok"


def test_workers_that_hang_or_are_of_another_version(harness: Harness) -> None:
    harness.worker(
        name="ann",
        host="here",
        lease_us=15_000_000,
        info=msgspec.json.encode(Info(beat_us=harness.now_us, version="0.0.1")),
    )
    assert found(harness, "heartbeats")[0] == "ok"
    level, said = found(harness, "heartbeats", later_us=15_000_001)
    assert (level, said) == ("problem", "ann@here gave no sign of life within the lease.")
    level, said = found(harness, "versions")
    assert level == "warning"
    assert "ann@here (0.0.1)" in said


def test_workers_whose_runners_are_replaced_again_and_again(harness: Harness) -> None:
    def runners(*restarts: int) -> bytes:
        return encode_info(Info(processes=tuple(runner(n, 10 + n, restarts=it) for n, it in enumerate(restarts, 1))))

    harness.worker(name="ann", host="here", info=runners(OFTEN, 0))
    assert found(harness, "restarts") == ("ok", "No runner was replaced more than 5 times.")
    harness.worker(name="bob", host="here", info=runners(1, OFTEN + 1))
    level, said = found(harness, "restarts")
    assert (level, said.partition(": ")[2]) == ("warning", "bob@here runner 2 (6).")


def test_workers_that_take_no_more_jobs(harness: Harness) -> None:
    assert found(harness, "leaving") == ("ok", "No worker drains or stops.")
    harness.send(queue="mail")
    harness.worker(name="ann", host="here", info=encode_info(Info(state="draining")))
    assert found(harness, "leaving") == ("warning", "No more jobs are taken by ann@here: draining or stopping.")
    assert found(harness, "queues") == ("problem", "No worker takes jobs of mail (1).")
    harness.worker(name="bob", host="here")
    assert found(harness, "queues")[0] == "ok"


def test_dead_workers_are_told_of_and_left_to_others(harness: Harness) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    beaten = msgspec.json.encode(Info(beat_us=harness.now_us, version=windlass.__version__))
    dead = harness.worker(name="ann", host=platform.node(), pid=process.pid, lease_us=15_000_000, info=beaten)
    harness.send_many(2)
    (claim,) = harness.claim(dead, 1)
    assert found(harness, "deaths")[0] == "ok"
    harness.vanish(dead)
    harness.set_gate("queue/default", paused=True)
    for _ in range(2):
        said = f"ann@{platform.node()} died: no sign of life within the lease, and no such process."
        level, told = found(harness, "deaths", later_us=15_000_001)
        assert (level, told) == ("problem", f"{said} Jobs that were there: 1.")
        assert found(harness, "workers", later_us=15_000_001)[0] == "problem"
        assert found(harness, "heartbeats", later_us=15_000_001)[0] == "ok", "told once"
        assert [card.worker for card in harness.engine.tally(TallyQuery()).cards] == [dead]
        assert harness.state(claim.id) is State.RUNNING, "looking takes nothing over"


def test_a_silent_worker_whose_process_is_there_or_elsewhere_is_late(harness: Harness) -> None:
    beaten = msgspec.json.encode(Info(beat_us=harness.now_us, version=windlass.__version__))
    harness.worker(name="ann", host=platform.node(), pid=os.getpid(), lease_us=15_000_000, info=beaten)
    harness.worker(name="bob", host="elsewhere.example", pid=2**22 + 1, lease_us=15_000_000, info=beaten)
    assert found(harness, "deaths", later_us=15_000_001)[0] == "ok"
    assert found(harness, "heartbeats", later_us=15_000_001) == (
        "problem",
        f"ann@{platform.node()} and bob@elsewhere.example gave no sign of life within the lease.",
    )


def test_pauses_and_jobs_that_wait_for_long(harness: Harness) -> None:
    harness.send(queue="mail")
    assert found(harness, "pauses")[0] == found(harness, "waiting")[0] == "ok"
    harness.set_gate("queue/mail", paused=True)
    assert found(harness, "pauses") == ("warning", "Paused: mail (1).")
    level, said = found(harness, "waiting", later_us=3_600_000_000)
    assert (level, said) == ("warning", "Jobs that could run wait, one of them for 1h.")


def test_dead_jobs_are_counted_by_error(harness: Harness) -> None:
    assert found(harness, "dead jobs") == ("ok", "There are none.")
    claim = harness.running()
    failure = Failure(type="ValueError", message="no", traceback="", fingerprint="f")
    harness.finish(claim, Outcome.FAILED, failure=failure)
    level, said = found(harness, "dead jobs")
    assert level == "warning"
    assert said.startswith("1: ValueError: no (1)")


def test_the_machine(tmp_path: Path) -> None:
    def said(environ: dict[str, str]) -> dict[str, tuple[str, str]]:
        return {one.name: (one.level.value, one.said) for one in of_machine(None, environ, tmp_path)}

    assert said({})["settings"] == ("ok", "All are defaults.")
    assert said({"WINDLASS_LEASE": "20s"})["settings"] == ("ok", "Set: lease from environment WINDLASS_LEASE.")
    assert said({"WINDLASS_LEASE": "soon"})["settings"][0] == "problem"
    unknown = said({"WINDLASS_LAESE": "20s", "WINDLASS_QQQQQQ": "1", "WINDLASS_SERVICE_HOST": "10.0.0.1"})
    assert unknown["environment"] == (
        "problem",
        "Variables that set nothing: WINDLASS_LAESE (did you mean WINDLASS_LEASE?) and WINDLASS_QQQQQQ.",
    )
    assert unknown["settings"][0] == "ok", "what is wrong with the others is told all the same"


def test_the_file_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SqliteEngine(tmp_path / "jobs.db")
    engine.open()
    assert worst(engine.examine()) is Level.OK
    paths = Paths(tmp_path / "jobs.db")

    def levels(floor: int = 1, behind_us: int = 0) -> dict[str, str]:
        return {one.name: one.level.value for one in examine(paths, floor, behind_us) if one.level is not Level.OK}

    free = paths.free_bytes()
    assert levels(floor=free + 64 * MIB) == {"disk": "problem"}
    assert levels(floor=free // (NEARLY - 1)) == {"disk": "warning"}
    assert levels(behind_us=60_000_001) == {"clock": "warning"}
    os.chmod(tmp_path, 0o777)
    assert levels() == {"rights": "warning"}
    os.chmod(tmp_path, 0o700)

    def on_nfs(_path: Path) -> str:
        return "nfs4"

    monkeypatch.setattr("windlass.engines.sqlite.examine.network_file_system", on_nfs)
    assert levels() == {"place": "problem"}
    engine.close()


def test_a_damaged_store_is_a_problem(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "jobs.db")
    engine.open()
    copy = engine.backup(tmp_path / "copy.db")
    engine.close()
    damaged = bytearray(copy.read_bytes())
    damaged[4096 * 3 : 4096 * 3 + 64] = b"\xff" * 64
    copy.write_bytes(damaged)
    broken = SqliteEngine(copy)
    broken.open()
    (finding,) = (one for one in broken.examine() if one.name == "integrity")
    broken.close()
    assert finding.level is Level.PROBLEM


# ── backup ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_backup_replaces_only_what_it_may(harness: Harness, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    if not isinstance(harness.engine, SqliteEngine):
        with pytest.raises(BadValue, match="has no backup"):
            backup(harness.engine, target)
        return
    assert backup(harness.engine, target) == target
    first = target.stat().st_ino
    with pytest.raises(BadValue, match="exists"):
        backup(harness.engine, target)
    backup(harness.engine, target, overwrite=True)
    assert target.stat().st_ino != first, "a new file takes its place at once"
    (tmp_path / "link.db").symlink_to(target)
    (tmp_path / "folder").mkdir()
    for wrong in ("jobs.db", "link.db", "folder"):
        with pytest.raises(BadValue):
            backup(harness.engine, tmp_path / wrong, overwrite=True)
    assert not list(tmp_path.glob(".*.part"))
