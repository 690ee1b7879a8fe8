"""`windlass health`: one line, and an exit code that a probe understands."""

from __future__ import annotations

import json
import signal

from tests.cli.conftest import Shell
from tests.soak.waiting import wait_for
from tests.sqlite.rig import stopped_inside


def test_a_probe_sees_a_store_a_worker_and_a_worker_that_hangs(shell: Shell) -> None:
    assert shell("health", "--ready", code=3).stdout.startswith("not ready: There is no store sqlite:///windlass.db.")
    shell.environ |= {"WINDLASS_LEASE": "5s", "WINDLASS_BEAT": "300ms"}
    with shell.running("worker", "tasks.py", "--name", "box", "-Q", "mail") as worker:
        worker.wait_for("has started")
        assert shell.out("health", "--ready", "--queue", "mail").startswith("ready: 1 worker takes jobs of the queue")
        assert shell("health", "--ready", "-q", "other", code=1).stdout.startswith("not ready: No worker takes jobs")
        live = json.loads(shell.out("health", "--live", "--name", "box", "--json"))
        assert live["ok"]
        assert live["workers"][0].startswith("box@")
        worker.process.send_signal(signal.SIGSTOP)
        try:
            wait_for("the lease is over", lambda: '"ok": false' in _live(shell))
        finally:
            worker.process.send_signal(signal.SIGCONT)
    said = shell("health", "--live", code=1).stdout
    assert said.startswith("not live: No worker is running on ")
    assert said.count("\n") == 1


def _live(shell: Shell) -> str:
    """Whatever its code: a worker that was stopped in the middle of a write makes the store itself unreachable."""
    return shell("health", "--live", "--json", code=None).stdout


def test_a_probe_does_not_wait_for_ever_for_a_worker_that_was_stopped_in_a_write(shell: Shell) -> None:
    shell("call", "tasks.greet", "you")
    with stopped_inside(shell.folder / "windlass.db") as pid:
        said = shell("health", "--live", code=3).stdout
    assert said.startswith(f"not live: Process {pid} was stopped in the middle of a write, and holds ")


def test_what_is_asked_for_wrongly_is_told(shell: Shell) -> None:
    assert "Which question?" in shell.refused("health", code=2)
    assert "--name goes with --live" in shell.refused("health", "--ready", "--name", "x", code=2)
    assert "--queue goes with --ready" in shell.refused("health", "--live", "--queue", "x", code=2)
    assert "queue" in shell.refused("health", "--ready", "--queue", "a b", code=2)
