"""`make demo` on this machine: what it shows is there, it ends as it is asked to, and it leaves nothing behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.soak.waiting import wait_for
from windlass import connect
from windlass.engines.protocol import TallyQuery

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "examples" / "demo"
PATIENCE_S = 60
SHOWN = re.compile(r"succeeded [1-9]\d*  retried [1-9]\d*  dead [1-9]\d*  cancelled [1-9]")


class Machine:
    """A home that is empty and a place for temporary files, both with a space in their names."""

    def __init__(self, folder: Path) -> None:
        self.temporary = folder / "temporary files"
        home = folder / "empty home"
        for made in (self.temporary, home):
            made.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DEMO_", "MAKE", "MFLAGS"))}
        # A store that the reader has set must not be touched; this one cannot even be opened.
        self.environ = {**kept, "HOME": str(home), "TMPDIR": str(self.temporary), "WINDLASS_URL": "sqlite:///no/way.db"}

    def run(self, demo: Path = DEMO, **wishes: str) -> subprocess.CompletedProcess[str]:
        """The demo until it ends by itself, without a terminal."""
        environ = {**self.environ, **wishes}
        words = [sys.executable, str(demo)]
        return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def processes(self) -> dict[str, int]:
        """The processes of this machine's demo by what they are (runners by their ids): they live in its temporary
        folder.
        """
        found: dict[str, int] = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                here = os.readlink(process / "cwd").startswith(str(self.temporary))
                words = (process / "cmdline").read_text().split("\0")
            except OSError:
                continue  # it has ended, or is somebody else's
            if here and len(words) > 1:  # one that is just ending has none
                title = words[0].partition("windlass: supervisor of ")[2]
                runs = "windlass" in words[0] or "-m" in words
                found[title or (process.name if runs else Path(words[1]).stem)] = int(process.name)
        return found

    def is_clean(self) -> bool:
        return not self.processes() and not list(self.temporary.iterdir())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@contextmanager
def lines_of(machine: Machine) -> Generator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(DEMO)], env=machine.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.terminate()


def read_until(process: subprocess.Popen[str], wanted: re.Pattern[str]) -> str:
    """What it prints up to a line that shows what is wanted."""
    assert process.stdout is not None
    read = ""
    for line in process.stdout:
        read += line
        if wanted.search(line):
            return read
    raise AssertionError(f"it ended without {wanted.pattern!r}: {read}")


def test_without_a_terminal_it_prints_lines_outlives_a_worker_and_ends_on_an_interrupt(machine: Machine) -> None:
    with lines_of(machine) as demo:
        read = read_until(demo, SHOWN)
        for kind in ("succeeded", "dead", "cancelled"):
            assert re.search(rf"^ +{kind} +\w+ .+: ", read, re.MULTILINE), read
        # A wait that ends between two looks is not seen; that the job was tried again is.
        assert re.search(r"^ +retrying +send_mail .+: attempt \d|: in .+ at attempt \d", read, re.MULTILINE), read
        assert "\x1b" not in read
        assert machine.processes().keys() >= {"box-1", "box-2", "producer"}
        os.kill(machine.processes()["box-2"], signal.SIGKILL)
        read_until(demo, re.compile("workers 1"))
        demo.send_signal(signal.SIGINT)
        assert demo.stdout is not None
        end = demo.stdout.read()
        assert demo.wait(PATIENCE_S) == 0
    for kind in ("succeeded", "retried", "dead", "cancelled"):
        assert re.search(rf"^ +[1-9][\d,]* +{kind}", end, re.MULTILINE), end
    assert "windlass worker examples/demo/tasks.py" in end
    assert machine.is_clean()


def test_killed_it_takes_its_processes_along(machine: Machine) -> None:
    with lines_of(machine) as demo:
        read_until(demo, re.compile("workers 2"))
        assert machine.processes().keys() >= {"box-1", "box-2", "producer"}
        demo.kill()
        wait_for("nobody is left", lambda: not machine.processes())


def test_it_ends_by_itself_and_keeps_store_and_picture_where_that_is_asked_for(
    machine: Machine, tmp_path: Path
) -> None:
    picture = tmp_path / "demo.svg"
    done = machine.run(DEMO_SECONDS="1", DEMO_KEEP="1", DEMO_PICTURE=str(picture))
    assert (done.returncode, done.stderr) == (0, "")
    assert not machine.processes()
    (url,) = re.findall(r"export WINDLASS_URL='(.+)'", done.stdout)
    engine = connect(url)
    engine.open()
    try:
        tally = engine.tally(TallyQuery())
    finally:
        engine.close()
    (sent,) = re.findall(r"^([\d,]+) jobs were sent", done.stdout, re.MULTILINE)
    assert sum(count.n for count in tally.counts) == int(sent.replace(",", ""))
    assert not tally.cards
    drawn = picture.read_text(encoding="utf-8")
    for shown in ("<svg", "make&#160;demo", "queues", "throughput", "workers", "box-1"):
        assert shown in drawn


# ── in a terminal ───────────────────────────────────────────────────────────────────────────────────────


class Screen:
    """A terminal of 80 × 24 in which `make demo` was typed."""

    def __init__(self, machine: Machine) -> None:
        self.keys, theirs = os.openpty()
        termios.tcsetwinsize(self.keys, (24, 80))
        # The stamp is taken as it is: what the tests run in is not made anew by one of them.
        words = ["make", "-o", ".venv/.stamp", f"BIN={Path(sys.executable).parent}", "demo"]
        # The first terminal that the head of a session opens is its own: Ctrl-C is pressed there.
        self.process = subprocess.Popen(
            ["sh", "-c", 'tty=$1; shift; exec "$@" <"$tty" >"$tty" 2>&1', "sh", os.ttyname(theirs), *words],
            cwd=ROOT,
            env={**machine.environ, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.set_blocking(self.keys, False)
        self._theirs = theirs
        self.shown = ""

    def shows(self, wanted: str) -> bool:
        try:
            self.shown += os.read(self.keys, 65536).decode(errors="replace")
        except BlockingIOError:
            pass
        return wanted in self.shown

    def close(self) -> None:
        for end in (self.keys, self._theirs):  # first: who draws where nobody reads waits for ever
            os.close(end)
        self.process.terminate()
        self.process.wait(PATIENCE_S)


def test_in_a_terminal_it_draws_and_ctrl_c_ends_make_too_without_an_error(machine: Machine) -> None:
    screen = Screen(machine)
    try:
        for wanted in ("\x1b[?1049h", "queues", "throughput", "running", "workers", "what happened", "✔ succeeded"):
            wait_for(f"{wanted!r} on the screen", lambda wanted=wanted: screen.shows(wanted))
        os.write(screen.keys, b"\x03")
        wait_for("the end of it", lambda: screen.shows("keeps its store.") and screen.process.poll() is not None)
        assert screen.process.returncode == 0
    finally:
        screen.close()
    _, left, end = screen.shown.partition("\x1b[?1049l")
    assert left
    assert "jobs were sent" in end
    assert "***" not in end, "make tells of an error in this way"
    assert machine.is_clean()


# ── what can go wrong ───────────────────────────────────────────────────────────────────────────────────


def test_a_worker_that_cannot_start_is_one_sentence(machine: Machine, tmp_path: Path) -> None:
    broken = tmp_path / "broken demo"
    shutil.copytree(DEMO, broken)
    (broken / "tasks.py").write_text("raise RuntimeError('the shop is closed')\n")
    done = machine.run(broken)
    assert done.returncode == 1
    assert re.fullmatch(
        r"The worker box-\d could not start\. Its last words: Error: .*RuntimeError: the shop is closed\..*\n",
        done.stderr,
    )
    assert machine.is_clean()


@pytest.mark.parametrize("seconds", ["soon", "0", "nan", "1e9"])
def test_a_time_that_is_none_is_one_sentence(machine: Machine, seconds: str) -> None:
    done = machine.run(DEMO_SECONDS=seconds)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"DEMO_SECONDS is '{seconds}'. Give a number of seconds above 0, such as 60.\n"
    assert machine.is_clean()
