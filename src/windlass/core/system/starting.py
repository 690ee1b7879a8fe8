"""How a process starts, and what it is from then on: whose child, within which bounds, under which name."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from windlass.core.system.linux import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_NAME,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    prctl,
    read_whole,
)
from windlass.core.system.posix import SIGKILL, missing

if TYPE_CHECKING:
    import subprocess

FIRST_TO_GO = "501"
"""How much sooner than others the kernel kills such a process where memory runs out; at most 1000."""
NAME_BYTES = 15
"""As much of a name as Linux keeps for a process."""


def start_apart(command: Sequence[str], *, fds: Collection[int]) -> subprocess.Popen[bytes]:
    """Starts a process that has these descriptors under the numbers they have here, and nothing to read.

    It leads a process group: Ctrl-C does not reach it, and it can be killed with whatever it has started.
    To be called by a thread that lives as long as this process: the end of the thread that started it is what
    `die_with_parent` goes by.
    """
    if sys.platform == "win32":
        missing()
    import subprocess

    return subprocess.Popen(  # noqa: S603 – our own command, given as a list
        list(command), pass_fds=tuple(fds), stdin=subprocess.DEVNULL, process_group=0
    )


# ── somebody else's program ─────────────────────────────────────────────────────────────────────────────────


class Bounds(NamedTuple):
    """What a process that somebody else wrote may use."""

    address_bytes: int
    cpu_s: int
    files: int
    file_bytes: int


def start_bound(
    command: Sequence[str], executable: str, environment: Mapping[str, str], fds: Collection[int], bounds: Bounds
) -> subprocess.Popen[bytes]:
    """Starts somebody else's program: in a session of its own, with nothing to read and its output in pipes that can be
    read without waiting. It ends with this process, whose only thread must be the one that calls this.
    """
    if sys.platform == "win32":
        missing()
    import subprocess

    parent = os.getpid()
    process = subprocess.Popen(  # noqa: S603 – a list, never a shell
        list(command),
        executable=executable,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=tuple(fds),
        preexec_fn=lambda: _bind_this_process(bounds, parent),  # noqa: PLW1509 – there is one thread
    )
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
    return process


def _bind_this_process(bounds: Bounds, parent: int) -> None:
    """In a child, between fork and exec: it ends with its parent, gets no more rights, and stays within its bounds."""
    if sys.platform == "win32":
        missing()
    import resource

    die_with_parent(parent)
    if sys.platform == "linux":
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write(FIRST_TO_GO)
    for which, wanted, most in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_CPU, bounds.cpu_s, bounds.cpu_s + 1),  # first SIGXCPU, which names the reason
        (resource.RLIMIT_NOFILE, bounds.files, bounds.files),
        (resource.RLIMIT_FSIZE, bounds.file_bytes, bounds.file_bytes),
        (resource.RLIMIT_AS, bounds.address_bytes, bounds.address_bytes),
    ):
        _, top = resource.getrlimit(which)
        top = most if top == resource.RLIM_INFINITY else min(most, top)
        resource.setrlimit(which, (min(wanted, top), top))


def is_bound(pid: int) -> bool:
    """Whether that process, or one that it comes from, was started by `start_bound`.

    Both marks are inherited, and there to the last moment of a process. No process can lay down that it gets no more
    rights; the other, which root can change, tells it from those that gave theirs up themselves, as browsers do.
    """
    if sys.platform != "linux":
        return False
    try:
        marked = read_whole(f"/proc/{pid}/oom_score_adj").strip() == FIRST_TO_GO.encode()
        return marked and b"NoNewPrivs:\t1" in read_whole(f"/proc/{pid}/status")
    except OSError:
        return False


# ── what a process asks for itself ──────────────────────────────────────────────────────────────────────────


def die_with_parent(parent: int) -> None:
    """In a child, at its start: Linux kills it when its parent ends. If that has ended already, this is the end.

    Other systems kill nobody: there a child notices by the end of what it reads from its parent.
    """
    if sys.platform == "linux":
        prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def outlive_parent() -> None:
    """Takes `die_with_parent` back: this process has something to do when its parent has ended."""
    if sys.platform == "linux":
        prctl(PR_SET_PDEATHSIG, 0)


def adopt_orphans() -> None:
    """From now on what this process' descendants leave behind becomes its child, where Linux lets it."""
    if sys.platform == "linux":
        prctl(PR_SET_CHILD_SUBREAPER, 1)


def raise_file_limit() -> None:
    """As many open files as this process may have."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):  # macOS has a bound of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def set_title(title: str) -> None:
    """What people see of this process in ps and top, as far as that can be had; never an error."""
    title = title.replace("\0", " ").encode(errors="replace").decode()
    try:
        from setproctitle import setproctitle
    except ImportError:
        if sys.platform == "linux":
            prctl(PR_SET_NAME, title.encode()[:NAME_BYTES].decode(errors="ignore").encode())
    else:
        setproctitle(title)
