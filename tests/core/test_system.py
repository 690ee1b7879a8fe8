"""What differs between operating systems: what each does, and what is said where it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from windlass.core import system

ON_WINDOWS = """
import asyncio, ctypes, os, select, signal, sqlite3, subprocess, sys, tempfile, typing
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
