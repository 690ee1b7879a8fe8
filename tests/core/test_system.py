"""What differs between operating systems: what each does, and what is said where it cannot."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.soak.waiting import wait_for
from windlass.core import system

ON_WINDOWS = """
import asyncio, ctypes, os, psutil, select, signal, sqlite3, subprocess, sys, tempfile, typing
for name in "fork geteuid mkfifo pread pwrite register_at_fork statvfs posix_fallocate memfd_create".split():
    vars(os).pop(name, None)
for name in "O_NOFOLLOW O_NONBLOCK O_CLOEXEC O_DIRECTORY".split():
    vars(os).pop(name)
del signal.SIGKILL, signal.SIGHUP, select.poll
sys.modules["fcntl"] = None
sys.platform = "win32"
"""
"""A process without what Windows lacks. The standard library's own choice is made before."""


def run(code: str, *words: object) -> str:
    done = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_on_windows_a_task_runs_from_memory() -> None:
    code = """
from windlass import App, Worker
app = App("memory://")
task = app.task(lambda: "done", name="t")
with Worker(app):
    print(task.delay().get(timeout=60))
"""
    assert run(ON_WINDOWS + code) == "done\n"


def test_on_windows_the_sqlite_engine_says_that_it_cannot(tmp_path: Path) -> None:
    code = """
from windlass import App
from windlass.core.errors import UnsupportedPlatform
try:
    App("sqlite:///" + sys.argv[1]).task(lambda: 1, name="t").delay()
except UnsupportedPlatform as error:
    print(error)
"""
    said = run(ON_WINDOWS + code, tmp_path / "jobs.db")
    assert said == "The sqlite engine does not run on win32 yet. Use Linux (or macOS, best effort), or memory://.\n"


CALLS = [
    "flock(0, system.LOCK_EX)",
    "lock_bytes(0, system.F_OFD_SETLK, system.byte_range(system.F_RDLCK, 0, 1))",
    "pread(0, 1, 0)",
    "pwrite(0, b'', 0)",
    "make_fifo('x', 0)",
    "user_id()",
    "free_bytes('.')",
    "sync_folder('.')",
    "wait_readable(0, 0)",
    "shared_page(1)",
    "start_apart(['x'], fds=[])",
]


def test_on_windows_what_it_lacks_is_an_error_when_it_is_called() -> None:
    code = """
from windlass.core import system
from windlass.core.errors import UnsupportedPlatform
for call in sys.argv[1:]:
    try:
        eval("system." + call)
    except UnsupportedPlatform as error:
        print(error)
"""
    said = run(ON_WINDOWS + code, *CALLS).splitlines()
    sentence = "This needs locks, FIFOs or processes as POSIX has them, and Windows has not."
    assert said == [f"{sentence} Use Linux (or macOS, best effort), or memory://."] * len(CALLS)


def test_a_process_runs_until_it_has_been_waited_for() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert system.is_running(child.pid)
    child.communicate()
    assert not system.is_running(child.pid)
    assert system.is_running(os.getpid())
    assert system.is_running(1)


HANGUP, INTERRUPT = "signal.signal(signal.SIGHUP, signal.SIG_{})", "signal.signal(signal.SIGINT, signal.SIG_IGN)"
HOW = {
    "none": HANGUP.format("DFL"),
    "as nohup": HANGUP.format("IGN"),
    "background": f"{HANGUP.format('DFL')}; {INTERRUPT}",
}


def test_a_process_ends_by_these_signals_and_under_nohup_by_all_but_one() -> None:
    assert system.SIGKILL == signal.SIGKILL
    code = "print(*(each.name for each in system.ending_signals()))"
    imports = "import signal; from windlass.core import system"
    heard = {ignored: run(f"{imports}; {how}; {code}").split() for ignored, how in HOW.items()}
    both = ["SIGINT", "SIGTERM"]
    assert heard == {"none": [*both, "SIGHUP"], "as nohup": both, "background": [*both, "SIGHUP"]}


def test_on_windows_there_are_processes_and_memory_and_nobody_to_reap() -> None:
    code = """
from windlass.core import system
print(system.is_running(os.getpid()), system.memory_limit(), system.reap_strays([]), len(system.ending_signals()))
system.die_with_parent(os.getppid())
"""
    assert run(ON_WINDOWS + code) == f"True {psutil.virtual_memory().total} 0 2\n"


# ── children and their parents ──────────────────────────────────────────────────────────────────────────────

PARENT = """
import os, signal, sys
from windlass.core import system
system.start_apart([sys.executable, "-c", sys.argv[1], str(os.getpid())], fds=[])
signal.pause()
"""
CHILD = """
import os, sys, time
from windlass.core import system
system.die_with_parent(int(sys.argv[1]))
print(os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills a child at the end of its parent")
def test_a_child_dies_with_its_parent_however_that_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    wait_for("the child has died", lambda: system.footprint(child) is None)


def test_a_child_whose_parent_has_gone_already_ends_at_once() -> None:
    code = "import sys; from windlass.core import system; system.die_with_parent(int(sys.argv[1])); print('goes on')"
    assert run(code, os.getpid()) == "goes on\n"
    assert run(code, os.getppid()) == ""


LOOKS = """
import os, sys
there = [os.path.exists(f"/dev/fd/{number}") for number in sys.argv[1:]]
print(os.read(0, 1), there, os.getpgid(0) == os.getpid())
"""
STARTS = """
import os, sys
from windlass.core import system
command = [sys.executable, "-c", *sys.argv[1:]]
system.start_apart(command, fds=[int(sys.argv[2])]).wait()
"""


def test_a_child_has_the_descriptors_it_is_given_and_no_others_and_reads_nothing() -> None:
    ends = os.pipe()
    done = subprocess.run(
        [sys.executable, "-c", STARTS, LOOKS, *map(str, ends)],
        pass_fds=ends,
        input=b"words",
        stdout=subprocess.PIPE,
        check=True,
    )
    for end in ends:
        os.close(end)
    assert done.stdout == b"b'' [True, False] True\n"


REAPS = """
import ctypes, os, signal, subprocess, sys
import psutil
from windlass.core import system
sys.platform = sys.argv[1]

def ended(pid):
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid

def spawned(code):
    return os.posix_spawn(sys.executable, [sys.executable, "-c", code], os.environ)

ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans below come to this process, as they do to process 1
own = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
ended(own.pid)
dead = [ended(spawned("pass")) for _ in range(2)]
alive = spawned("import signal; signal.pause()")
orphan = int(subprocess.check_output(["sh", "-c", "sleep 600 >/dev/null & echo $!"]))
print(system.reap_strays({own.pid}), system.reap_strays({own.pid}))
for pid in (alive, orphan):
    os.kill(pid, signal.SIGKILL)
    ended(pid)
print(system.reap_strays({own.pid}), own.wait(), system.reap_strays(()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only process 1 gets the orphans")
@pytest.mark.parametrize("way", ["linux", "darwin"], ids=["by /proc", "by psutil"])
def test_strays_are_reaped_and_the_end_of_an_own_child_is_left_to_whoever_waits_for_it(way: str) -> None:
    assert run(REAPS, way) == "2 0\n2 7 0\n"


# ── titles ──────────────────────────────────────────────────────────────────────────────────────────────────

TITLE = """
import sys
{before}
import psutil
from windlass.core import system
system.set_title(sys.argv[1])
print(psutil.Process().cmdline()[0], open("/proc/self/comm").read().strip(), sep="|")
system.set_title("no\\0 title\\ud800" * 1_000)
system.set_title("")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_a_process_is_called_as_it_says() -> None:
    assert run(TITLE.format(before=""), "windlass: 4 runners").startswith("windlass: 4 runners|")


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.parametrize(
    ("title", "shown"), [("windlass: 4 runners", "windlass: 4 run"), ("fourteen bytesü", "fourteen bytes")]
)
def test_without_setproctitle_a_process_has_the_first_bytes_as_its_name(title: str, shown: str) -> None:
    said = run(TITLE.format(before="sys.modules['setproctitle'] = None"), title).strip()
    assert said == f"{sys.executable}|{shown}"


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_page_is_shared_with_a_child_and_starts_as_zeros(*, in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    descriptor = system.shared_page(8_192)
    try:
        assert not os.get_inheritable(descriptor)
        with system.map_page(descriptor, 8_192) as page:
            assert page[:] == bytes(8_192)
            page[0] = 1
            code = "import sys; from windlass.core import system; page = system.map_page(int(sys.argv[1]), 8_192)"
            command = [sys.executable, "-c", f"{code}; page[8_191] = page[0] + 1", str(descriptor)]
            assert system.start_apart(command, fds=[descriptor]).wait() == 0
            assert page[8_191] == 2
    finally:
        os.close(descriptor)


PHYSICAL = psutil.virtual_memory().total


def machine(root: Path, cgroup: str, limits: dict[str, str]) -> Path:
    """One that has these files."""
    files = {"proc/self/cgroup": cgroup} | {f"sys/fs/cgroup/{name}": f"{said}\n" for name, said in limits.items()}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_without_cgroups_the_limit_is_the_memory_of_the_machine(tmp_path: Path) -> None:
    assert system.memory_limit(tmp_path) == PHYSICAL
    assert 0 < system.memory_limit() <= PHYSICAL


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({"app/job/memory.max": "1000", "app/memory.max": "2000"}, 1_000),
        ({"app/job/memory.max": "2000", "app/memory.max": "1000"}, 1_000),
        ({"app/job/memory.max": "max", "app/memory.max": "3000"}, 3_000),
        ({"app/job/memory.max": "max", "app/memory.max": "max"}, PHYSICAL),
        ({"app/job/deeper/memory.max": "1000", "other/memory.max": "1000"}, PHYSICAL),
        ({"memory.max": "4000"}, 4_000),
        ({"app/memory.max": f"{PHYSICAL * 2}"}, PHYSICAL),
        ({"app/memory.max": ""}, PHYSICAL),
    ],
)
def test_the_smallest_limit_on_the_way_up_counts(tmp_path: Path, limits: dict[str, str], wanted: int) -> None:
    assert system.memory_limit(machine(tmp_path, "0::/app/job\n", limits)) == wanted


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({"memory/docker/ab/memory.limit_in_bytes": "1000"}, 1_000),
        ({"memory/memory.limit_in_bytes": "2000"}, 2_000),  # in the container itself: the path is the host's
        ({"memory/memory.limit_in_bytes": "9223372036854771712"}, PHYSICAL),
        ({"cpu/docker/ab/memory.limit_in_bytes": "1000"}, PHYSICAL),
    ],
)
def test_the_older_cgroups_have_limits_too(tmp_path: Path, limits: dict[str, str], wanted: int) -> None:
    cgroup = "9:cpu,cpuacct:/docker/ab\n4:hugetlb,memory:/docker/ab\n0::/\n"
    assert system.memory_limit(machine(tmp_path, cgroup, limits)) == wanted


@pytest.mark.skipif(sys.platform != "linux", reason="Only Linux binds a process to cores.")
@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({}, 8),
        ({"app/cpu.max": "max 100000"}, 8),
        ({"app/cpu.max": "150000 100000"}, 2),
        ({"app/cpu.max": "20000 100000"}, 1),
        ({"app/cpu.max": "1600000 100000"}, 8),
        ({"app/job/cpu.max": "600000 100000", "app/cpu.max": "300000 100000", "cpu.max": "max 100000"}, 3),
    ],
)
def test_a_process_has_the_cores_that_it_is_bound_to_or_fewer_if_a_cgroup_gives_it_less_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, str], wanted: int
) -> None:
    def bound_to(_pid: int) -> set[int]:
        return set(range(8))

    monkeypatch.setattr(os, "sched_getaffinity", bound_to)
    assert system.cores(tmp_path) == 8, "no cgroup at all"
    assert system.cores(machine(tmp_path, "0::/app/job\n", limits)) == wanted


MIB = 1_048_576
FAMILY = f"""
import subprocess, sys, threading, time
holds = "import sys; x = bytearray({64 * MIB}); print(1, flush=True); sys.stdin.read()"
threading.Thread(target=lambda: subprocess.run([sys.executable, "-c", holds])).start()
while time.process_time() < 0.5:
    pass
print(1, flush=True)
"""


@pytest.fixture
def family() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has used the CPU, and whose thread has started one that holds 64 MiB; both wait."""
    command = [sys.executable, "-c", FAMILY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(2):
            assert process.stdout.readline() == b"1\n"
        yield process
        process.kill()


@pytest.fixture(params=["linux", "darwin"], ids=["by /proc", "by psutil"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """psutil, which has chosen its own way already, gives the same answers as the files of Linux."""
    if request.param == "linux" != sys.platform:
        pytest.skip("it reads /proc")
    monkeypatch.setattr(sys, "platform", request.param)


@pytest.mark.usefixtures("_way")
def test_a_footprint_has_the_memory_of_all_descendants_and_the_time_of_the_process(
    family: subprocess.Popen[bytes],
) -> None:
    found = system.footprint(family.pid)
    assert found is not None
    process = psutil.Process(family.pid)
    (child,) = process.children()
    rss = process.memory_info().rss + child.memory_info().rss
    assert child.memory_info().rss > 64 * MIB
    assert rss * 0.9 < found.rss < rss * 1.1
    assert 0.45 < found.cpu_s < 5  # the kernel counts in hundredths, and rounds down
    own = system.footprint(child.pid)
    assert own is not None
    assert own.rss < found.rss


@pytest.mark.usefixtures("_way")
def test_who_has_ended_has_no_footprint_and_no_children_whether_reaped_or_not(family: subprocess.Popen[bytes]) -> None:
    (child,) = system.children(family.pid)
    assert child not in system.children(os.getpid())
    assert child in system.children(os.getpid(), recursive=True)
    family.kill()
    os.waitid(os.P_PID, family.pid, os.WEXITED | os.WNOWAIT)
    assert system.footprint(family.pid) is None
    family.wait()
    assert system.footprint(family.pid) is None
    assert system.children(family.pid) == []
