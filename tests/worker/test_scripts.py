"""Scripts as jobs, run by a worker as people start it: what they get, what comes of them, what they may not do."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.soak.waiting import wait_for
from tests.worker.yard import Yard, counts, failure, is_there, outcomes, record, wait_ended, wait_gone
from windlass.app.app import App
from windlass.app.handle import Handle
from windlass.core.errors import ScriptFailed
from windlass.core.job import Outcome, State
from windlass.core.limits import MIB
from windlass.core.retry import Retry

HANG_S = 60


@pytest.fixture
def app(yard: Yard) -> Iterator[App]:
    (yard.folder / "jobs").mkdir()
    app = App(yard.url)
    yield app
    app.close()


def said(handle: Handle[Any], stream: str | None = None) -> list[str]:
    """What it has said so far; what is said about its life has the empty stream."""
    return [line.text.decode() for line in handle.job().log if stream in (None, line.stream)]


def wait_said(handle: Handle[Any], text: str) -> None:
    wait_for(f"{text!r} of {handle.id}", lambda: text in said(handle))


def number_in(path: Path) -> int:
    """The process id that somebody writes there."""
    wait_for(f"a number in {path.name}", lambda: path.exists() and path.read_text().strip().isdigit())
    return int(path.read_text())


# ── what it gets, and what comes of it ──────────────────────────────────────────────────────────────────


def test_a_python_script_runs_with_its_arguments_and_its_log_tells_its_life(yard: Yard, app: App) -> None:
    path = yard.script("report.py", "import sys\nprint(sys.argv[1:])\nprint('to stderr', file=sys.stderr)\n", 0o600)
    yard.script_worker("-n", "night")
    handle = app.script(path, args=["--day", "2026-11-15"], name="Daily report")
    assert handle.get(timeout=HANG_S) == 0
    assert (said(handle, "stdout"), said(handle, "stderr")) == (["['--day', '2026-11-15']"], ["to stderr"])
    created, picked_up, ended = said(handle, "")
    assert created.startswith("Created by ")
    assert f"(process {os.getpid()})" in created
    assert re.fullmatch(r"Picked up by worker night, process \d+\.", picked_up)
    assert ended.startswith("Ended with exit code 0 after ")
    assert [line.stream for line in handle.job().log][:2] == ["", ""]
    assert handle.job().log[-1].text.decode() == ended


def test_a_python_script_is_a_main_program_beside_its_neighbours_and_apart_from_the_worker(
    yard: Yard, app: App
) -> None:
    (yard.folder / "jobs" / "neighbour.py").write_text("WORD = 'found'\n")
    (yard.folder / "elsewhere").mkdir()
    (yard.folder / "elsewhere" / "sneaky.py").touch()
    path = yard.script(
        "who.py",
        "import importlib.util, os, sys\nfrom neighbour import WORD\n"
        "print(__name__, __file__, os.getcwd(), WORD)\n"
        "print('windlass' in sys.modules, sys.flags.isolated, sys.stdout.encoding, sorted(globals()))\n"
        "print(importlib.util.find_spec('sneaky'), repr(sys.stdin.read()))\n"
        "print(sorted(name for name in os.environ if name not in ('LC_CTYPE',)))\n",
    )
    paths = [str(yard.folder / "elsewhere"), os.environ.get("PYTHONPATH", "")]
    environ = {"PYTHONPATH": ":".join(paths), "SECRET_TOKEN": "t0p", "WINDLASS_SCRIPT_ENV": "PATH,LANG"}
    yard.script_worker(**environ, LANG="C")
    handle = app.script(path)
    assert handle.get(timeout=HANG_S) == 0
    names = ["WORD", "__annotations__", "__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__"]
    names = [*names, "__package__", "__spec__", "importlib", "os", "sys"]
    where, apart, empty, seen = said(handle, "stdout")
    assert where == f"__main__ {yard.folder / path} {yard.folder} found"
    assert apart == f"False 1 utf-8 {names}"
    assert empty == "None ''"
    assert seen == str(["LANG", "PATH", "WINDLASS_JOB", "WINDLASS_SCRIPT"])


def test_any_executable_with_a_first_line_runs_and_its_exit_code_decides(yard: Yard, app: App) -> None:
    path = yard.script("fails.sh", '#!/bin/sh\necho "$WINDLASS_SCRIPT $WINDLASS_JOB $1"\necho gone wrong >&2\nexit 3\n')
    yard.script_worker()
    handle = app.script(path, args=["x y"])
    wait_ended(handle)
    assert said(handle, "stdout") == [f"{yard.folder / path} {handle.id} x y"]
    assert record(handle).state is State.DEAD
    assert failure(handle).type == ScriptFailed.__name__
    assert failure(handle).message.startswith(f"The script {path} ended with exit code 3.")
    assert failure(handle).traceback == "gone wrong"
    assert said(handle)[-1].startswith("Ended with exit code 3 after ")


def test_it_may_do_less_than_its_worker(yard: Yard, app: App) -> None:
    text = "cat /proc/self/oom_score_adj; grep NoNewPrivs /proc/self/status; ulimit -c; ulimit -n; ulimit -f"
    path = yard.script("bounds.sh", f"#!/bin/sh\n{text}\ncut -d ' ' -f 6 /proc/$$/stat\necho $$\n")
    yard.script_worker()
    handle = app.script(path)
    assert handle.get(timeout=HANG_S) == 0
    oom, privileges, *limits, session, own = said(handle, "stdout")
    assert (oom, privileges.split()) == ("501", ["NoNewPrivs:", "1"])
    assert limits == ["0", "256", str((1 << 30) // 512)]
    assert session == own


def test_words_for_a_shell_are_words_for_nobody(yard: Yard, app: App) -> None:
    path = yard.script("echo.py", "import sys\nprint(sys.argv[1:])\n")
    words = ["; touch stolen", "$(touch stolen)", "`touch stolen`", "-c", "--help", "a\nb", "", "*", "ü"]
    yard.script_worker()
    handle = app.script(path, args=words)
    assert handle.get(timeout=HANG_S) == 0
    assert said(handle, "stdout") == [str(words)]
    assert not (yard.folder / "stolen").exists()


def test_a_script_is_tried_again_as_its_send_says(yard: Yard, app: App) -> None:
    path = yard.script("third.sh", '#!/bin/sh\necho x >> tries\n[ "$(wc -l < tries)" -ge 3 ]\n')
    never = yard.script("never.sh", "#!/bin/sh\nexit 9\n")
    yard.script_worker()
    third, dead = (app.script(name, retry=Retry.custom([0.01, 0.02])) for name in (path, never))
    assert third.get(timeout=HANG_S) == 0
    wait_ended(dead)
    assert (record(third).attempt, outcomes(third)[:2]) == (3, [Outcome.FAILED, Outcome.FAILED])
    assert (record(dead).state, record(dead).attempt) == (State.DEAD, 3)


def test_broken_bytes_stay_readable_and_the_last_words_need_no_end_of_line(yard: Yard, app: App) -> None:
    text = "import sys\nsys.stdout.buffer.write(b'caf\\xc3\\xa9 \\xff\\xfe\\r\\nno end')\n"
    path = yard.script("bytes.py", text)
    yard.script_worker()
    handle = app.script(path)
    assert handle.get(timeout=HANG_S) == 0
    assert said(handle, "stdout") == ["café \\xff\\xfe", "no end"]


def test_an_error_is_shown_as_python_shows_it_and_a_line_too_long_is_one_line(yard: Yard, app: App) -> None:
    path = yard.script(
        "wrong.py", "import sys, time\nsys.stdout.write('y' * 20_000)\ntime.sleep(0.3)\nprint('z')\n1 / 0\n"
    )
    yard.script_worker()
    handle = app.script(path)
    wait_ended(handle)
    (line,) = said(handle, "stdout")
    assert set(line) == {"y", "…"}
    trace = ["Traceback (most recent call last):", f'  File "{yard.folder / path}", line 5, in <module>', "    1 / 0"]
    assert [shown for shown in said(handle, "stderr") if "~" not in shown] == [
        *trace,
        "ZeroDivisionError: division by zero",
    ]


def test_tasks_and_scripts_run_in_one_worker(yard: Yard, app: App) -> None:
    path = yard.script("quick.sh", "#!/bin/sh\n")
    tasks = yard.load()
    handles: list[Handle[Any]] = [app.script(path), tasks.touch.delay(), app.script(path), tasks.touch.delay()]
    yard.worker("--scripts", "jobs", "-c", "1", "--until-empty").wait_ended()
    assert [handle.state for handle in handles] == [State.SUCCEEDED] * 4


def test_without_folders_scripts_wait_and_the_reason_is_told(yard: Yard, app: App) -> None:
    handle = app.script(yard.script("quick.sh", "#!/bin/sh\n"))
    assert "start one" in handle.why()
    yard.worker()
    assert "It is waiting for a worker that runs scripts: " in handle.why()
    yard.worker(WINDLASS_SCRIPTS="jobs")
    assert handle.get(timeout=HANG_S) == 0


def test_no_more_scripts_run_at_once_than_their_memory_allows(yard: Yard, app: App) -> None:
    text = "#!/bin/sh\necho here\nwhile [ ! -e go ]; do sleep 0.02; done\n"
    path = yard.script("waits.sh", text)
    yard.script_worker("--memory", "200MB")
    first = app.script(path)
    wait_said(first, "here")
    second = app.script(path)
    wait_for("the reason", lambda: "It waits for 128MiB of memory" in second.why())
    assert said(second) == []
    yard.go("go")
    assert (first.get(timeout=HANG_S), second.get(timeout=HANG_S)) == (0, 0)


# ── live ────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_it_says_is_there_while_it_runs_and_survives_the_death_of_its_runner(yard: Yard, app: App) -> None:
    path = yard.script("talks.sh", "#!/bin/sh\necho said\nwhile [ ! -e go ]; do sleep 0.02; done\n")
    worker = yard.script_worker()
    handle = app.script(path)
    wait_said(handle, "said")
    assert record(handle).state is State.RUNNING
    runner = worker.script_runner
    os.kill(runner, signal.SIGKILL)
    wait_for("a crash", lambda: record(handle).crashes == 1)
    assert "said" in said(handle, "stdout")
    yard.go("go")
    assert handle.get(timeout=HANG_S) == 0
    assert (outcomes(handle)[0], said(handle, "stdout")) == (Outcome.CRASHED, ["said", "said"])
    created, first, cut_short, second, ended = said(handle, "")
    assert created.startswith("Created by ")
    assert cut_short == "The runner of the script was killed by SIGKILL, and the script with it."
    assert first != second
    assert ended.startswith("Ended with exit code 0")
    assert worker.script_runner != runner


def test_with_its_runner_dies_a_script_and_whatever_it_has_started(yard: Yard, app: App) -> None:
    path = yard.script("family.sh", "#!/bin/sh\necho $$ > own\nsetsid sh -c 'echo $$ > child; sleep 1000' &\nwait\n")
    worker = yard.script_worker()
    handle = app.script(path)
    family = [number_in(yard.folder / "own"), number_in(yard.folder / "child")]
    (yard.folder / "jobs" / "family.sh").write_text("#!/bin/sh\n")
    os.kill(worker.script_runner, signal.SIGKILL)
    assert handle.get(timeout=HANG_S) == 0
    wait_gone(family)
    assert counts(handle) == (1, 1, 0)


HIDES = """
import os, subprocess, time
if os.path.exists("again"):
    raise SystemExit
ballast = bytearray(200_000_000)
for place in range(0, len(ballast), 4096):
    ballast[place] = 1
child = subprocess.Popen(["sleep", "1000"], env={}, start_new_session=True)
with open("child", "w") as file:
    file.write(str(child.pid))
time.sleep(1000)
"""


@pytest.mark.parametrize("how", ["runner killed", "worker stopped", "worker killed"])
def test_whatever_ends_it_nothing_that_it_has_started_lives_on_however_it_hides(yard: Yard, app: App, how: str) -> None:
    handle = app.script(yard.script("hides.py", HIDES), memory="1GB")
    worker = yard.script_worker("--drain", "0.1s")
    child = number_in(yard.folder / "child")
    wait_for("its first lines", lambda: said(handle))
    yard.go("again")
    if how == "runner killed":
        os.kill(worker.script_runner, signal.SIGKILL)
    elif how == "worker killed":
        os.kill(worker.pid, signal.SIGKILL)
    else:
        assert worker.stop() == 0
    wait_gone([child])
    if how != "runner killed":
        yard.script_worker()
    assert handle.get(timeout=HANG_S) == 0


HOPS = """
import os
if os.fork() == 0:
    while True:
        os.setsid() if os.getsid(0) != os.getpid() else None
        with open("beat", "w") as file:
            file.write(str(os.getpid()))
        if os.fork():
            os._exit(0)
"""


def test_one_that_hops_from_process_to_process_is_ended_and_leaves_no_dead_behind(yard: Yard, app: App) -> None:
    worker = yard.script_worker()
    handle = app.script(yard.script("hops.py", HOPS))
    wait_ended(handle)
    runner = worker.script_runner
    wait_for("no child, dead or alive", lambda: Path(f"/proc/{runner}/task/{runner}/children").read_text() == "")


# ── asked to end ────────────────────────────────────────────────────────────────────────────────────────


def test_a_timeout_asks_first_and_what_it_says_then_is_kept(yard: Yard, app: App) -> None:
    path = yard.script("heeds.sh", "#!/bin/sh\ntrap 'echo bye; exit 0' TERM\nwhile :; do sleep 0.02; done\n")
    yard.script_worker()
    handle = app.script(path, timeout=0.3)
    wait_ended(handle)
    assert (outcomes(handle), record(handle).reason) == ([Outcome.TIMED_OUT], "timed_out")
    assert failure(handle).message == f"The script {path} did not end within its timeout of 300ms."
    assert said(handle, "stdout") == ["bye"]
    assert re.match("Timed out after .*, and ended with exit code 0", said(handle, "")[-1])


def test_one_that_ignores_sigterm_is_killed_after_its_grace(yard: Yard, app: App) -> None:
    path = yard.script("deaf.sh", "#!/bin/sh\ntrap '' TERM\necho $$ > own\nwhile :; do sleep 0.02; done\n")
    yard.script_worker()
    handle = app.script(path, timeout=0.3, grace=0.2)
    own = number_in(yard.folder / "own")
    wait_ended(handle)
    assert outcomes(handle) == [Outcome.TIMED_OUT]
    assert re.match("Timed out after .*, and was killed by SIGKILL", said(handle, "")[-1])
    wait_gone([own])


def test_while_its_supervisor_stands_still_a_script_has_its_bounds(yard: Yard, app: App) -> None:
    path = yard.script("endless.sh", "#!/bin/sh\ntrap '' TERM\necho $$ > own\nwhile :; do yes | head -n 1000; done\n")
    worker = yard.script_worker()
    handle = app.script(path, timeout=1, grace=0.2)
    own = number_in(yard.folder / "own")
    with worker.frozen():
        wait_gone([own])
    wait_ended(handle)
    assert outcomes(handle) == [Outcome.TIMED_OUT]


def test_a_cancel_ends_it(yard: Yard, app: App) -> None:
    path = yard.script("long.sh", "#!/bin/sh\necho $$ > own\nsleep 1000\n")
    yard.script_worker()
    handle = app.script(path)
    own = number_in(yard.folder / "own")
    wait_for("its first line", lambda: said(handle))
    handle.cancel()
    wait_ended(handle)
    assert record(handle).state is State.CANCELLED
    wait_gone([own])


def test_a_stop_gives_it_back_and_leaves_nothing_behind(yard: Yard, app: App) -> None:
    text = "#!/bin/sh\necho $$ > own\nsetsid sh -c 'echo $$ > child; sleep 1000' &\nwait\n"
    worker = yard.script_worker("--drain", "0.1s")
    handle = app.script(yard.script("long.sh", text))
    family = [number_in(yard.folder / "own"), number_in(yard.folder / "child")]
    assert worker.stop() == 0
    wait_gone(family)
    assert (record(handle).state, counts(handle)) == (State.READY, (1, 0, 0))
    assert said(handle)[-1] == "Killed, for its worker stops; it runs again."


# ── more than it may ────────────────────────────────────────────────────────────────────────────────────

EATS = """
import os, sys, time
if os.fork() == 0:
    eaten = bytearray(300_000_000)
    for place in range(0, len(eaten), 4096):
        eaten[place] = 1
    time.sleep(1000)
time.sleep(1000)
"""


def test_the_memory_of_all_its_processes_counts_and_its_neighbour_goes_on(yard: Yard, app: App) -> None:
    path, other = (
        yard.script("eats.py", EATS),
        yard.script("waits.sh", "#!/bin/sh\nuntil [ -e go ]; do sleep 0.02; done\n"),
    )
    yard.script_worker()
    neighbour, handle = app.script(other), app.script(path, memory="100MB")
    wait_ended(handle)
    assert failure(handle).type == "MemoryLimit"
    assert failure(handle).message.startswith(f"The script {path} used ")
    assert "more than its memory of 100MB" in failure(handle).message
    yard.go("go")
    assert neighbour.get(timeout=HANG_S) == 0


def test_what_it_asks_for_at_once_is_refused_by_the_kernel(yard: Yard, app: App) -> None:
    path = yard.script("gulps.py", "bytearray(600_000_000)\n")
    yard.script_worker()
    handle = app.script(path, memory="100MB")
    wait_ended(handle)
    assert failure(handle).message.startswith(f"The script {path} ended with exit code 1.")
    assert failure(handle).traceback.endswith("MemoryError")


ESCAPES = """
import os, sys, time
for name in ("known", "hidden"):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            environ = dict(os.environ) if name == "known" else {}
            os.execve("/bin/sh", ["sh", "-c", f"echo $$ > {name}; trap '' TERM; while :; do sleep 0.05; done"], environ)
        os._exit(0)
while not all(os.path.exists(name) and open(name).read().strip() for name in ("known", "hidden")):
    time.sleep(0.01)
"""


def test_one_that_forks_and_escapes_is_found_and_ended_with_the_script(yard: Yard, app: App) -> None:
    path = yard.script("escapes.py", ESCAPES)
    yard.script_worker()
    handle = app.script(path)
    assert handle.get(timeout=HANG_S) == 0
    wait_gone([number_in(yard.folder / name) for name in ("known", "hidden")])
    assert "What it left behind was killed: " in said(handle)[-1]


def test_more_processes_than_it_may_be_end_it(yard: Yard, app: App) -> None:
    text = (
        "import os, time\nfor _ in range(40):\n    if os.fork() == 0:\n        time.sleep(1000)\nprint(os.getpid())\n"
    )
    path = yard.script("bomb.py", f"{text}time.sleep(1000)\n")
    worker = yard.script_worker(WINDLASS_SCRIPT_PROCESSES="8")
    handle = app.script(path)
    wait_ended(handle)
    assert failure(handle).message.startswith(f"The script {path} was more than 8 processes.")
    runner = worker.script_runner
    wait_for("no child", lambda: Path(f"/proc/{runner}/task/{runner}/children").read_text() == "")


def test_one_that_prints_without_end_fills_neither_the_store_nor_anybodys_memory(yard: Yard, app: App) -> None:
    path = yard.script("endless.sh", "#!/bin/sh\necho first\nexec yes and again\n")
    other = yard.script("quick.sh", "#!/bin/sh\necho heard\n")
    worker = yard.script_worker()
    handle = app.script(path, timeout=2)
    wait_said(handle, "first")
    neighbour = app.script(other)
    assert neighbour.get(timeout=HANG_S) == 0
    assert said(neighbour, "stdout") == ["heard"]
    wait_ended(handle)
    lines = handle.job().log
    assert sum(len(line.text) for line in lines) < MIB
    assert said(handle, "stdout")[0] == "first"
    assert any("left out: they came too fast" in line for line in said(handle, ""))
    assert said(handle)[-1].startswith("Timed out after ")
    status = Path(f"/proc/{worker.script_runner}/status").read_text()
    assert int(status.split("VmHWM:")[1].split()[0]) < 150_000


@pytest.mark.parametrize(
    ("name", "text", "said_of_it"),
    [
        ("fills.sh", "#!/bin/sh\nexec head -c 5000000 /dev/zero > big\n", "It wrote a file longer than 1MB"),
        ("fills.py", "open('big', 'wb').write(bytes(5_000_000))\n", "ended with exit code 1"),
    ],
)
def test_one_that_fills_the_disk_is_stopped(yard: Yard, app: App, name: str, text: str, said_of_it: str) -> None:
    path = yard.script(name, text)
    yard.script_worker(WINDLASS_SCRIPT_FILE_BYTES="1MB")
    handle = app.script(path)
    wait_ended(handle)
    assert said_of_it in failure(handle).message
    assert (yard.folder / "big").stat().st_size <= 1_000_000


def test_one_that_uses_up_its_processor_time_is_ended(yard: Yard, app: App) -> None:
    path = yard.script("spins.sh", "#!/bin/sh\nwhile :; do :; done\n")
    yard.script_worker(WINDLASS_SCRIPT_CPU="1s")
    handle = app.script(path)
    wait_ended(handle)
    said_of_it = "was killed by SIGXCPU. It used more than 1s of CPU: see `script_cpu`."
    assert failure(handle).message == f"The script {path} {said_of_it}"


# ── a worker that dies ──────────────────────────────────────────────────────────────────────────────────

OUTLIVES = """#!/bin/sh
[ -e again ] && exit 0
setsid sh -c 'echo $$ > child; while :; do sleep 0.05; done' &
wait
"""


def test_with_its_worker_a_script_dies_and_whatever_it_has_started(yard: Yard, app: App) -> None:
    handle, worker = app.script(yard.script("outlives.sh", OUTLIVES)), yard.script_worker()
    child = number_in(yard.folder / "child")
    wait_for("its first lines", lambda: said(handle))
    yard.go("again")
    os.kill(worker.pid, signal.SIGKILL)
    wait_gone([child])
    yard.script_worker()
    assert handle.get(timeout=HANG_S) == 0
    assert counts(handle) == (1, 0, 1)
    assert "It runs again, for its last worker has died." in said(handle, "")


def test_after_the_death_of_all_its_processes_a_script_that_goes_on_keeps_its_job_and_others_are_taken_at_once(
    yard: Yard, app: App
) -> None:
    path = yard.script("outlives.sh", OUTLIVES)
    other = yard.script("dies.sh", "#!/bin/sh\n[ -e again ] && exit 0\nexec sleep 1000\n")
    worker = yard.script_worker()
    outlives, dies = app.script(path), app.script(other)
    child = number_in(yard.folder / "child")
    try:
        for handle in (outlives, dies):
            wait_for("its first lines", lambda handle=handle: said(handle))
        yard.go("again")
        runner = worker.script_runner
        os.kill(runner, signal.SIGSTOP)
        os.kill(worker.pid, signal.SIGKILL)
        os.kill(runner, signal.SIGKILL)
        yard.script_worker()
        assert dies.get(timeout=HANG_S) == 0
        assert is_there(child)
        assert (record(outlives).state, counts(outlives)) == (State.RUNNING, (1, 0, 0))
        assert outlives.why().startswith("Its worker is dead, and its script goes on")
    finally:
        os.kill(child, signal.SIGKILL)
    assert outlives.get(timeout=HANG_S) == 0
    assert counts(outlives) == (1, 0, 1)


def test_one_that_cannot_be_started_now_is_started_later(yard: Yard, app: App) -> None:
    path = yard.script("busy.sh", "#!/bin/sh\necho ran\n")
    writing = (yard.folder / path).open("a")  # the kernel starts no file that somebody writes
    try:
        worker = yard.script_worker()
        handle = app.script(path)
        worker.wait_for("cannot be started now: Text file busy.")
    finally:
        writing.close()
    assert handle.get(timeout=HANG_S) == 0
    assert (said(handle, "stdout"), record(handle).attempt) == (["ran"], 1)


# ── what is no script there ─────────────────────────────────────────────────────────────────────────────


def test_what_cannot_be_run_is_dead_with_one_sentence_and_the_worker_goes_on(yard: Yard, app: App) -> None:
    jobs = yard.folder / "jobs"
    (yard.folder / "secret.py").write_text("print('stolen')\n")
    os.symlink("../secret.py", jobs / "link.py")
    yard.script("plain.sh", "#!/bin/sh\n", 0o644)
    yard.script("bare", "no first line\n")
    (jobs / "dos.sh").write_bytes(b"#!/bin/sh\r\necho\r\n")
    (jobs / "dos.sh").chmod(0o755)
    (jobs / "folder").mkdir()
    swapped = app.script(yard.script("swapped.py", "print('good')\n"))
    (jobs / "swapped.py").unlink()
    os.symlink("../secret.py", jobs / "swapped.py")
    refused = {
        app.script("jobs/none.py", retry=5): "There is no script ",
        app.script("secret.py"): "is not in a folder of scripts of this worker.",
        app.script("jobs/../secret.py"): "is not in a folder of scripts of this worker.",
        app.script("jobs/link.py"): "is a link out of its folder.",
        swapped: "is a link out of its folder.",
        app.script("jobs/plain.sh"): "is not executable. Run: chmod +x plain.sh",
        app.script("jobs/folder"): "is a folder, not a script.",
        app.script("jobs/bare"): "cannot be started: Exec format error. Its first line names its program: #!/bin/sh.",
        app.script(
            "jobs/dos.sh"
        ): "cannot be started by '/bin/sh\\r': No such file or directory. Write its lines as Unix",
        app.script("jobs/bare", args=["x" * 200_000]): "cannot be started: Argument list too long.",
        app.send("windlass.script", "jobs/none.py", ["a\0b"]): "cannot hold a NUL.",
        app.send("windlass.script", 7): "",
    }
    yard.script_worker()
    wait_ended(*refused)
    for handle, sentence in refused.items():
        assert (record(handle).state, record(handle).reason, record(handle).attempt) == (State.DEAD, "script", 1)
        assert sentence in failure(handle).message
        assert failure(handle).traceback == ""
        assert said(handle)[-1].startswith("Refused: ")
    assert app.script(yard.script("good.py", "")).get(timeout=HANG_S) == 0
