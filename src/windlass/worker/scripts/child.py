"""One running script: started within its bounds, its output read line by line, its end known.

It leads a session of its own, has nothing to read, and sees of the worker's environment what the settings allow. A lock
that it keeps open, and whatever it starts, says that it lives: even when its worker is dead.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from windlass.app.options import Travelling
from windlass.core.ids import show_id
from windlass.core.job import Stream
from windlass.core.retry import Retry
from windlass.core.scripts import Script
from windlass.core.settings import Settings
from windlass.core.system import SIGKILL, Bounds, end_of, has_ended, signal_group, start_bound
from windlass.engines.locks import Held
from windlass.engines.protocol import Claim
from windlass.worker.desk import GRACE_US
from windlass.worker.scripts.boot import BOOT
from windlass.worker.scripts.descent import MARK, Kin, kill
from windlass.worker.scripts.files import Found
from windlass.worker.spool import LAST, LONGEST_LINE, Spool

if TYPE_CHECKING:
    import subprocess

CHUNK: Final = 1 << 16
MOST_AT_ONCE: Final = 1 << 20
"""How many bytes of a stream are read between two flushes: who writes more waits for its pipe."""
ADDRESSES: Final = 4
"""How many times its memory a script may have of addresses: a net, should it grow faster than anybody looks."""
LAST_WORDS: Final = 20
"""How many of its last lines on stderr are shown with its error."""

Why = Literal["timeout", "memory", "processes", "cancel", "cut"]


class Order(NamedTuple):
    """What is to be run, and how."""

    claim: Claim
    script: Script
    said: Travelling
    memory: int
    retry: Retry | None

    @property
    def timeout_us(self) -> int | None:
        return self.said.timeout_us

    @property
    def grace_us(self) -> int:
        return GRACE_US if self.said.grace_us is None else self.said.grace_us


class Pipe:
    """One of its streams, on our side."""

    def __init__(self, descriptor: int, stream: Stream) -> None:
        self.descriptor = descriptor
        self.stream: Stream = stream
        self.rest = b""
        """What came after the last end of a line."""
        self.is_cut = False
        """Whether that is the rest of a line whose beginning was too long, and is kept already."""
        self.came = 0
        """How many bytes, since the last flush."""
        self.at_end = False

    def read(self) -> bytes:
        """Some of what is there; empty: nothing yet, or nothing any more."""
        try:
            data = os.read(self.descriptor, CHUNK)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self.at_end = not data
        self.came += len(data)
        return data

    @property
    def is_open(self) -> bool:
        """Whether it is to be listened to now."""
        return not self.at_end and self.came < MOST_AT_ONCE


class Child:
    """A script, from its start to its end."""

    def __init__(
        self, order: Order, found: Found, settings: Settings, lock: Held | None, now_us: Callable[[], int]
    ) -> None:
        self.order = order
        self.claim = order.claim
        self.key = (order.claim.id, order.claim.fence)
        self.job = show_id(order.claim.id)
        self.why: Why | None = None
        """Why it is being ended, if it is."""
        self.used = 0
        """The most it had in memory, of all its processes, whenever somebody looked."""
        self.most = 0
        """The most processes that it was."""
        self.left_behind = 0
        """How many others of it lived when its first process had ended."""
        self.spool = Spool()
        self.last_words: deque[str] = deque(maxlen=LAST_WORDS)
        self.lock = lock
        self.started_us = 0
        self._kill_at_us = 0
        self.ended_us = 0
        """When its first process had ended; 0: it has not."""
        self._now_us = now_us
        self._process = _start(order, found, settings, lock)
        self.pid = self._process.pid
        self.end = end_of(self.pid)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.pipes = (Pipe(self._process.stdout.fileno(), "stdout"), Pipe(self._process.stderr.fileno(), "stderr"))

    # ── its output ──────────────────────────────────────────────────────────────────────────────────────

    def listen(self, pipe: Pipe) -> None:
        """Takes some of what it has said."""
        data = pipe.read()
        if not data:
            return
        *lines, pipe.rest = (pipe.rest + data).split(b"\n", self.spool.room)
        for line in lines:
            if not pipe.is_cut:
                self._keep(pipe.stream, line)
            pipe.is_cut = False
        if b"\n" in pipe.rest:  # more than is kept: but for the last of them they are only counted
            first, *lines, pipe.rest = pipe.rest.rsplit(b"\n", LAST)
            self.spool.skip(first.count(b"\n") + (not pipe.is_cut))
            pipe.is_cut = False
            for line in lines:
                self._keep(pipe.stream, line)
        if len(pipe.rest) > LONGEST_LINE:
            if not pipe.is_cut:
                self._keep(pipe.stream, pipe.rest)
            pipe.rest, pipe.is_cut = b"", True

    def _keep(self, stream: Stream, line: bytes) -> None:
        text = line.removesuffix(b"\r").decode(errors="backslashreplace")
        if stream == "stderr":
            self.last_words.append(text)
        self.spool.add(stream, self._now_us(), text)

    def hear_last_words(self) -> None:
        """It has ended, and whatever it had started: what still lies in its pipes, but no more than a flush takes."""
        for pipe in self.pipes:
            pipe.came = 0
            before = -1
            while pipe.is_open and pipe.came != before:
                before = pipe.came
                self.listen(pipe)
            if pipe.rest and not pipe.is_cut:
                self._keep(pipe.stream, pipe.rest)

    # ── its bounds ──────────────────────────────────────────────────────────────────────────────────────

    def weigh(self, kin: Kin, most_processes: int) -> None:
        """Ends it where it, with all that it has started, is more than it may be."""
        self.used, self.most = max(self.used, kin.rss), max(self.most, len(kin.living))
        if len(kin.living) > most_processes:  # first: what they share counts for each of them
            self.kill("processes", kin)
        elif kin.rss > self.order.memory:
            self.kill("memory", kin)

    def keep_time(self, kin: Kin, now_us: int) -> None:
        """Asks it to end when its time is over, and kills it when its grace is, too."""
        timeout_us = self.order.timeout_us
        if self._kill_at_us and now_us >= self._kill_at_us:
            self.kill(self.why or "timeout", kin)
        elif timeout_us is not None and now_us >= self.started_us + timeout_us:
            self.ask("timeout", now_us)

    def ask(self, why: Why, now_us: int) -> None:
        """SIGTERM to its group; SIGKILL follows after its grace."""
        if self.why is None and not self.ended_us:
            self.why, self._kill_at_us = why, now_us + self.order.grace_us
            signal_group(self.pid, signal.SIGTERM)

    def kill(self, why: Why | None, kin: Kin) -> None:
        """Its group, where nobody can flee by forking, and whoever has left that."""
        self.why = self.why or why
        signal_group(self.pid, SIGKILL)
        kill(pid for pid in kin.living if pid != self.pid)

    # ── its end ─────────────────────────────────────────────────────────────────────────────────────────

    def look(self, now_us: int) -> bool:
        """Whether its first process has just ended. It is not reaped yet, so nobody else can have its number."""
        if self.ended_us or not has_ended(self.pid):
            return False
        self.ended_us = now_us
        return True

    def reap(self) -> int:
        """How it ended, as `subprocess` says it."""
        code = self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        if self.end is not None:
            os.close(self.end)
        return code


def _start(order: Order, found: Found, settings: Settings, lock: Held | None) -> subprocess.Popen[bytes]:
    path, words = str(found.path), order.script.args
    if found.is_python:
        # Nothing of the worker's: neither its PYTHON* variables, nor its user's packages, nor its folder.
        command = [sys.executable, "-I", "-u", "-X", "utf8", "-c", BOOT, str(found.descriptor), path, *words]
        executable = sys.executable
    else:
        command, executable = [path, *words], f"/proc/self/fd/{found.descriptor}"
    environment = {name: os.environ[name] for name in settings.script_env if name in os.environ}
    bounds = Bounds(
        address_bytes=ADDRESSES * order.memory,
        cpu_s=max(1, int(settings.script_cpu_s)),
        files=settings.script_files,
        file_bytes=settings.script_file_bytes,
    )
    kept = [found.descriptor, *([] if lock is None else [lock.descriptor])]
    environment |= {MARK: show_id(order.claim.id), "WINDLASS_SCRIPT": path}
    return start_bound(command, executable, environment, kept, bounds)
