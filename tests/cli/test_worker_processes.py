"""`windlass worker` as process managers and people see it: signals, titles, pid files, process 1, orders."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Running, Shell
from tests.soak.waiting import wait_for
from tests.worker import titles
from tests.worker.yard import counts, is_there, wait_gone
from windlass import App, Handle, State
from windlass.core.system import children, cores

HANG_S = 60
TASKS = """
import os, subprocess, sys, time
from pathlib import Path
from windlass import App

app = App()

@app.task
def hold(name: str) -> str:
    Path(f"{name}.began").touch()
    while not Path(f"{name}.go").exists():
        time.sleep(0.005)
    return name

@app.task
def pid() -> int:
    return os.getpid()

kept = []

@app.task
def orphan() -> int:
    '''Leaves a process behind that nobody waits for, which writes down its own id and lives as long as its pipe.'''
    child = "import os; os.fork() or (os.setsid(), print(os.getpid(), flush=True), os.close(1), os.read(0, 1))"
    started = subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    kept.append(started)
    assert started.stdout is not None
    return int(started.stdout.readline())
"""


class Box:
    """A folder with tasks, an app that sends to it, and `windlass` typed there."""

    def __init__(self, shell: Shell, app: App) -> None:
        self.shell = shell
        self.app = app
        self.folder = shell.folder
        (self.folder / "tasks.py").write_text(TASKS)

    @contextmanager
    def worker(self, *words: str, before: Sequence[str] = ()) -> Generator[Running]:
        """One that has started, in a session of its own; nothing of it is left."""
        process = subprocess.Popen(
            [*before, *self.shell.command("worker", "tasks.py", *words)],
            cwd=self.folder,
            env=self.shell.environ,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running = Running(process)
        try:
            running.wait_for("has started")
            yield running
        finally:
            left = children(process.pid, recursive=True)
            if process.poll() is None:
                process.kill()
            running.stop()
            wait_gone(left)

    def send(self, task: str, *args: Any, **options: Any) -> Handle[Any]:
        return self.app.named(f"tasks.{task}").using(**options).delay(*args)

    def hold(self, name: str) -> Handle[Any]:
        """A job that has begun, and runs until `go`."""
        handle = self.send("hold", name)
        wait_for(f"{name} to begin", (self.folder / f"{name}.began").exists)
        return handle

    def go(self, name: str) -> None:
        (self.folder / f"{name}.go").touch()

    def pid(self) -> int:
        """Where a job runs that is sent now."""
        return self.send("pid").get(HANG_S)

    def work_off(self) -> None:
        """Another worker does what is left."""
        self.shell("worker", "tasks.py", "--until-empty")

    def json(self, *words: str) -> Any:
        return json.loads(self.shell.out(*words, "--json"))


@pytest.fixture
def box(shell: Shell, app: App) -> Box:
    return Box(shell, app)


def runners_of(worker: Running, count: int = 1) -> list[int]:
    wait_for(f"{count} runners", lambda: len(titles.runners_of(worker.process.pid)) == count)
    return titles.runners_of(worker.process.pid)


def cmdline(pid: int) -> str:
    """Nothing, if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


# ── signals ─────────────────────────────────────────────────────────────────────────────────────────────────


def to_supervisor(worker: Running) -> None:
    worker.process.send_signal(signal.SIGTERM)


def to_group(worker: Running) -> None:
    os.killpg(worker.process.pid, signal.SIGTERM)


def to_all(worker: Running) -> None:
    """As systemd does with a control group."""
    for pid in (*children(worker.process.pid, recursive=True), worker.process.pid):
        os.kill(pid, signal.SIGTERM)


@pytest.mark.parametrize("send", [to_supervisor, to_group, to_all])
def test_a_signal_lets_running_jobs_end_and_gives_back_the_others(box: Box, send: Callable[[Running], None]) -> None:
    with box.worker("-p", "2", "-c", "1") as worker:
        runners = runners_of(worker, 2)
        held = [box.hold("a"), box.hold("b")]
        waiting = [box.send("pid") for _ in range(3)]
        send(worker)
        worker.wait_for("is asked to stop; 2 tasks are running.")
        assert all(map(is_there, runners))
        box.go("a")
        box.go("b")
        assert worker.process.wait(HANG_S) == 0
        wait_gone(runners)
    assert [one.get(0) for one in held] == ["a", "b"]
    assert {one.state for one in waiting} == {State.READY}
    box.work_off()
    assert {one.get(0) for one in waiting}.isdisjoint(runners)


def test_a_second_signal_ends_everything_at_once(box: Box) -> None:
    with box.worker("-p", "2") as worker:
        runners = runners_of(worker, 2)
        job = box.hold("a")
        worker.process.send_signal(signal.SIGTERM)
        worker.wait_for("is asked to stop")
        assert worker.stop(signal.SIGTERM) == -signal.SIGTERM
        wait_gone(runners)
    box.go("a")
    box.work_off()
    assert job.get(0) == "a"


def test_when_the_drain_is_over_jobs_go_back_and_run_elsewhere(box: Box) -> None:
    with box.worker("--drain", "0.2s") as worker:
        runners = runners_of(worker)
        job = box.hold("a")
        assert worker.stop() == 0
        wait_gone(runners)
    assert f"The job {job.id} still runs; it goes back to the store." in worker.text
    assert job.state is State.READY
    box.go("a")
    box.work_off()
    assert (job.get(0), counts(job)) == ("a", (1, 0, 0))


def test_a_terminal_that_is_closed_stops_it_but_not_under_nohup(box: Box) -> None:
    with box.worker() as worker:
        assert worker.stop(signal.SIGHUP) == 0
        assert "has stopped" in worker.text
    with box.worker(before=["nohup"]) as worker:
        for pid in (worker.process.pid, *runners_of(worker)):
            os.kill(pid, signal.SIGHUP)
        assert box.pid() in runners_of(worker), "it works on"
        assert worker.stop(signal.SIGTERM) == 0


def test_ctrl_c_at_a_terminal_lets_running_jobs_end(box: Box) -> None:
    """The terminal sends it to all processes of its foreground group; runners are not among them."""
    ours, theirs = pty.openpty()
    own_terminal = f"import fcntl, os, sys; fcntl.ioctl(0, {termios.TIOCSCTTY}, 0); os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", own_terminal, *box.shell.command("worker", "tasks.py")],
        cwd=box.folder,
        env=box.shell.environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen = bytearray()
    os.set_blocking(ours, False)

    def shows(text: str) -> bool:
        try:
            seen.extend(os.read(ours, 65_536))
        except OSError:
            pass  # there is nothing now, or nobody any more
        return text.encode() in seen

    try:
        wait_for("a start", lambda: shows("has started"))
        job = box.hold("a")
        os.write(ours, b"\x03")
        wait_for("a stop", lambda: shows("is asked to stop; 1 task is running"))
        box.go("a")
        wait_for("its end", lambda: shows("has stopped"))
        assert process.wait(HANG_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert job.get(0) == "a"
    assert b"Traceback" not in seen


# ── what others see of it ───────────────────────────────────────────────────────────────────────────────────


def test_the_pid_file_says_who_works(box: Box) -> None:
    file = box.folder / "w.pid"
    file.write_text("4000000\n")
    with box.worker("--pidfile", "w.pid") as worker:
        assert file.read_text() == f"{worker.process.pid}\n", "one of a process that is gone is replaced"
        said = box.shell.refused("worker", "tasks.py", "--pidfile", "w.pid", code=2)
        assert f"w.pid says that process {worker.process.pid} works already. Stop that one" in said
        assert worker.stop() == 0
    assert not file.exists()
    for text in ("", "0"):
        file.write_text(text)
        box.shell("worker", "tasks.py", "--until-empty", "--pidfile", "w.pid")
        assert not file.exists()
    file.write_text("my notes")
    said = box.shell.refused("worker", "tasks.py", "--pidfile", "w.pid", code=2)
    assert "w.pid holds something other than a process id. Name another file." in said
    assert file.read_text() == "my notes"
    (box.folder / "broken.py").write_text("1 // 0\n")
    with box.shell.running("worker", "broken.py", "--pidfile", "b.pid") as worker:
        assert worker.process.wait(60) == 1
    assert not (box.folder / "b.pid").exists()
    assert "cannot be written" in box.shell.refused("worker", "tasks.py", "--pidfile", "no/such/w.pid", code=2)


def test_processes_say_in_their_titles_what_they_are(box: Box) -> None:
    with box.worker("-n", "mail", "-p", "2") as worker:
        runners = runners_of(worker, 2)
        wait_for("titles", lambda: all("windlass: runner" in cmdline(pid) for pid in runners))
        titles = sorted(cmdline(pid) for pid in (worker.process.pid, *runners))
    assert titles == ["windlass: runner 1 of mail", "windlass: runner 2 of mail", "windlass: supervisor of mail"]


def test_auto_means_as_many_runners_as_cores(box: Box) -> None:
    with box.worker("-p", "auto") as worker:
        runners_of(worker, cores())


def test_until_empty_with_several_runners_leaves_nothing_behind(box: Box) -> None:
    jobs = [box.send("pid") for _ in range(50)]
    box.shell("worker", "tasks.py", "--until-empty", "-p", "2")
    assert {job.state for job in jobs} == {State.SUCCEEDED}
    assert not any(is_there(job.get(0)) for job in jobs)


def test_until_empty_ends_beside_jobs_that_are_too_big_for_it(box: Box) -> None:
    big, other, now = box.send("pid", memory="200MB"), box.send("pid", needs={"browser": 1}), box.send("pid")
    box.shell("worker", "tasks.py", "--until-empty", "--memory", "100MB")
    assert [one.state for one in (big, other, now)] == [State.READY, State.READY, State.SUCCEEDED]


def test_two_workers_of_one_name_are_two(box: Box) -> None:
    with box.worker("-n", "mail") as one, box.worker("-n", "mail") as two:
        found = box.json("inspect", "workers")
        assert [(worker["name"], worker["pid"]) for worker in sorted(found, key=lambda worker: worker["pid"])] == [
            ("mail", pid) for pid in sorted((one.process.pid, two.process.pid))
        ]
        assert len({worker["id"] for worker in found}) == 2
        assert box.pid() in {*runners_of(one), *runners_of(two)}
        assert "'mail' may be" in box.shell.refused("workers", "stop", "mail", code=2)


# ── process 1 ───────────────────────────────────────────────────────────────────────────────────────────────


def can_be_process_1() -> bool:
    unshare = shutil.which("unshare")
    return (
        unshare is not None
        and not subprocess.run(
            [unshare, "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False
        ).returncode
    )


needs_a_namespace = pytest.mark.skipif(
    not can_be_process_1(), reason="this user may not make a PID namespace: unshare --pid --fork --mount-proc"
)
AS_PROCESS_1 = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def process_1(worker: Running) -> int:
    """Its id as seen from here."""
    (pid,) = children(worker.process.pid)
    return pid


@needs_a_namespace
def test_as_process_1_it_reaps_what_others_leave_behind_and_heeds_a_signal(box: Box) -> None:
    with box.worker("-n", "init", before=AS_PROCESS_1) as worker:
        init = process_1(worker)
        wait_for("its title", lambda: cmdline(init) == "windlass: supervisor of init")
        box.send("orphan").get(HANG_S)
        (orphan,) = wait_for("an orphan", lambda: [pid for pid in children(init) if "os.setsid" in cmdline(pid)])
        os.kill(orphan, signal.SIGKILL)
        wait_for("it to be reaped", lambda: not Path(f"/proc/{orphan}").exists())
        assert box.pid()
        job = box.hold("a")
        os.kill(init, signal.SIGTERM)
        worker.wait_for("is asked to stop; 1 task is running")
        box.go("a")
        assert worker.process.wait(HANG_S) == 0
    assert job.get(0) == "a"


@needs_a_namespace
def test_as_process_1_it_ends_at_once_by_a_second_signal(box: Box) -> None:
    """The kernel gives process 1 no signal that it does not handle."""
    with box.worker(before=AS_PROCESS_1) as worker:
        init = process_1(worker)
        box.hold("a")
        os.kill(init, signal.SIGTERM)
        worker.wait_for("is asked to stop")
        os.kill(init, signal.SIGTERM)
        assert worker.process.wait(HANG_S) == 128 + signal.SIGTERM
        assert not is_there(init)


# ── orders ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_shows_what_it_does_and_heeds_orders(box: Box) -> None:
    with box.worker("-n", "mail", "-p", "2") as worker:
        runners = runners_of(worker, 2)
        job = box.hold("a")

        def at_work() -> list[Any]:
            (seen,) = box.json("inspect", "processes")
            boss, *others = (one for one in seen["processes"] if one["role"] != "spare")
            works = [one["state"] for one in others] == ["working"] * 2 and any(one["active"] for one in others)
            return [boss, *others] if works else []

        boss, *others = wait_for("both runners to work, and the job to be shown", at_work)
        assert (boss["role"], boss["pid"]) == ("supervisor", worker.process.pid)
        assert [(one["role"], one["number"], one["state"]) for one in others] == [
            ("runner", number, "working") for number in (1, 2)
        ]
        assert sorted(one["pid"] for one in others) == sorted(runners)
        assert [ran["id"] for one in others for ran in one["active"]] == [job.id]
        assert all(one["rss"] > 1_000_000 and one["cpu_s"] > 0 for one in (boss, *others))
        (listed,) = box.json("inspect", "workers")
        assert (listed["name"], listed["pid"], listed["slots"]) == ("mail", worker.process.pid, 2 * 4)
        (active,) = box.json("inspect", "active")
        assert [ran["id"] for ran in active["running"]] == [job.id]
        box.go("a")
        assert job.get(HANG_S) == "a"

        said = box.shell("workers", "restart", "mail", "--wait").stderr
        assert re.search(r"mail@\S+ was told to restart\.\nmail@\S+ has new runners\.", said)
        assert not any(map(is_there, runners))
        assert box.pid() in runners_of(worker, 2)
        assert worker.process.poll() is None

        said = box.shell("workers", "stop", "mail", "--wait").stderr
        assert re.search(r"mail@\S+ has ended\.", said)
        assert worker.process.wait(HANG_S) == 0


def test_a_worker_that_drains_lets_its_jobs_end_however_long_they_take(box: Box) -> None:
    with box.worker("-n", "mail", "-c", "1", "--drain", "0") as worker:
        job = box.hold("a")
        later = box.send("pid")
        assert box.shell("workers", "drain", "mail", "--timeout", "0", code=1)
        worker.wait_for("Worker mail is asked to drain.")
        wait_for("it to say so", lambda: [one["state"] for one in box.json("inspect", "workers")] == ["draining"])
        box.go("a")
        assert worker.process.wait(HANG_S) == 0
    assert (job.get(0), later.state) == ("a", State.READY)


# ── dev ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_dev_that_is_killed_leaves_no_process(box: Box) -> None:
    with box.shell.running("dev", "tasks.py", "-p", "2") as running:
        running.wait_for("has started")
        (worker,) = children(running.process.pid)
        wait_for("2 runners", lambda: len(titles.runners_of(worker)) == 2)
        left = [worker, *children(worker)]
        assert box.pid() in left
        running.process.kill()
        wait_gone(left)
