"""What differs between operating systems, in one file.

Everybody else asks here. What Windows lacks raises `UnsupportedPlatform` when it is called, never when it is imported:
a process that needs none of it runs there.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import signal
import stat
import struct
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from windlass.core.errors import UnsupportedPlatform

if TYPE_CHECKING:
    import subprocess

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 15, 36, 38
"""Linux's numbers for `prctl`."""
OPENAT2 = 437
"""The number of that system call, the same on all of Linux's machines."""
RESOLVE_NO_MAGICLINKS, RESOLVE_BENEATH = 0x02, 0x08
FIRST_TO_GO = "501"
"""How much sooner than others the kernel kills such a process where memory runs out; at most 1000."""
NAME_BYTES = 15
"""As much of a name as Linux keeps for a process."""


def _missing(*_: object) -> NoReturn:
    raise UnsupportedPlatform(
        "This needs locks, FIFOs or processes as POSIX has them, and Windows has not.",
        "Use Linux (or macOS, best effort), or memory://.",
    )


# ── names: those of POSIX itself, without a step between, for some are called at every commit ───────────────

if sys.platform == "win32":
    SIGKILL = int(signal.SIGTERM)  # which no process there can refuse
    SIGXCPU = SIGXFSZ = 0
    O_SAFE = 0
    LOCK_SH = LOCK_EX = LOCK_NB = LOCK_UN = 0
    F_RDLCK = F_UNLCK = 0
    flock: Callable[[int, int], None] = _missing
    pread: Callable[[int, int, int], bytes] = _missing
    pwrite: Callable[[int, bytes, int], int] = _missing
    make_fifo: Callable[[Path, int], None] = _missing
    user_id: Callable[[], int] = _missing

    def at_fork(**_hooks: Callable[[], object]) -> None:
        """There is no fork."""

else:
    import fcntl
    import select

    SIGKILL, SIGXCPU, SIGXFSZ = int(signal.SIGKILL), int(signal.SIGXCPU), int(signal.SIGXFSZ)
    O_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK
    """For opening what somebody may have put there: follows no link, and no FIFO can hang us.

    O_CLOEXEC is not needed: Python opens every file so that what it starts does not inherit it.
    """
    LOCK_SH, LOCK_EX, LOCK_NB, LOCK_UN = fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_NB, fcntl.LOCK_UN
    F_RDLCK, F_UNLCK = fcntl.F_RDLCK, fcntl.F_UNLCK
    flock, pread, pwrite, make_fifo, user_id = fcntl.flock, os.pread, os.pwrite, os.mkfifo, os.geteuid
    at_fork = os.register_at_fork

if sys.platform == "linux":
    OFD = hasattr(fcntl, "F_OFD_SETLK")
    """Whether there are locks of open file descriptions: a Python that was built long ago may not know of them."""
    F_OFD_SETLK: int = getattr(fcntl, "F_OFD_SETLK", 0)
    F_OFD_SETLKW: int = getattr(fcntl, "F_OFD_SETLKW", 0)
    lock_bytes: Callable[[int, int, bytes], object] = fcntl.fcntl
else:
    OFD = False
    F_OFD_SETLK = F_OFD_SETLKW = 0
    lock_bytes: Callable[[int, int, bytes], object] = _missing


def byte_range(kind: int, start: int, length: int) -> bytes:
    """What `lock_bytes` takes: the kernel's struct flock."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────


def free_bytes(folder: str) -> int:
    """What is left for this user on the disk of that folder."""
    if sys.platform == "win32":
        _missing()
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def set_aside(descriptor: int, size: int) -> None:
    """Takes so many bytes of the disk for a file, where the system can."""
    if sys.platform == "linux":
        os.posix_fallocate(descriptor, 0, size)


def open_folder(path: Path) -> int:
    """A descriptor of a folder."""
    if sys.platform == "win32":
        _missing()
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def sync_folder(path: Path) -> None:
    """Puts the names in a folder on the disk."""
    descriptor = open_folder(path)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_beneath(folder: int, path: str) -> int:
    """A descriptor for reading the file of that path below an opened folder; a link out of it is an `OSError`.

    Linux's `openat2` looks at each part as it goes, so nobody can put a link there meanwhile. Where that cannot be had,
    no part may be a link at all.
    """
    if sys.platform == "win32":
        _missing()
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not hang us
    if sys.platform == "linux":
        found = _openat2(folder, path, flags)
        if found is not None:
            return found
    here = os.dup(folder)
    try:
        *parts, name = PurePosixPath(path).parts or (".",)
        for part in parts:
            if stat.S_ISLNK(os.stat(part, dir_fd=here, follow_symlinks=False).st_mode):  # to say so; see the flags
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=here)
    finally:
        os.close(here)


def _openat2(folder: int, path: str, flags: int) -> int | None:
    """None: this kernel, or whoever filters its calls, does not let us."""
    try:
        import ctypes

        syscall = ctypes.CDLL(None, use_errno=True).syscall
    except (ImportError, OSError, AttributeError):
        return None
    how = struct.pack("QQQ", flags, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
    while True:
        found = syscall(ctypes.c_long(OPENAT2), ctypes.c_int(folder), os.fsencode(path), how, ctypes.c_size_t(len(how)))
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number in (errno.ENOSYS, errno.EPERM):
            return None
        if number != errno.EAGAIN:  # something was renamed meanwhile
            raise OSError(number, os.strerror(number), path)


def wait_readable(descriptor: int, timeout_s: float) -> bool:
    """Whether anything came. Not by `select`, which knows no descriptor above 1023."""
    if sys.platform == "win32":
        _missing()
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout_s * 1_000))


# ── processes ───────────────────────────────────────────────────────────────────────────────────────────────


def is_running(pid: int) -> bool:
    """Whether there is such a process on this host."""
    if sys.platform == "win32":
        import psutil

        return psutil.pid_exists(pid)  # there, signal 0 is Ctrl-C
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True


def start_apart(command: Sequence[str], *, fds: Collection[int]) -> subprocess.Popen[bytes]:
    """Starts a process that has these descriptors under the numbers they have here, and nothing to read.

    It leads a process group: Ctrl-C does not reach it, and it can be killed with whatever it has started.
    To be called by a thread that lives as long as this process: the end of the thread that started it is what
    `die_with_parent` goes by.
    """
    if sys.platform == "win32":
        _missing()
    import subprocess

    return subprocess.Popen(  # noqa: S603 – our own command, given as a list
        list(command), pass_fds=tuple(fds), stdin=subprocess.DEVNULL, process_group=0
    )


def outlive_parent() -> None:
    """Takes `die_with_parent` back: this process has something to do when its parent has ended."""
    if sys.platform == "linux":
        _prctl(PR_SET_PDEATHSIG, 0)


def start_bound(
    command: Sequence[str], executable: str, environment: Mapping[str, str], fds: Collection[int], bounds: Bounds
) -> subprocess.Popen[bytes]:
    """Starts somebody else's program: in a session of its own, with nothing to read and its output in pipes that can be
    read without waiting. It ends with this process, whose only thread must be the one that calls this.
    """
    if sys.platform == "win32":
        _missing()
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


def wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """How a process that leads a group ended. One that was killed or failed takes along whatever it had started."""
    if sys.platform == "linux":
        with suppress(ChildProcessError):
            # Looked at and not reaped: until it is, nobody else can have its number.
            found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            if found is not None and (found.si_code != os.CLD_EXITED or found.si_status):
                kill_group(process.pid)
        return process.wait()
    code = process.wait()
    if code and sys.platform != "win32":
        kill_group(process.pid)
    return code


def ending_signals() -> list[signal.Signals]:
    """What asks a process to end: a person, a process manager, and a terminal that is closed unless that is ignored, as
    under nohup. The others count even so: a shell starts what runs in its background with SIGINT ignored.
    """
    found = [signal.SIGINT, signal.SIGTERM]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        found.append(signal.SIGHUP)
    return found


def leave_unheeded(numbers: Collection[signal.Signals]) -> None:
    """These signals do nothing in this process from now on, but all in processes that are forked or started by it.

    So they are not ignored, which programs would inherit. A forked process is given the usual handlers before any
    signal can reach it: `multiprocessing` ends its processes by one as soon as it likes.
    """
    for number in numbers:
        signal.signal(number, _do_nothing)
    if sys.platform == "win32":
        return
    masks: dict[int, set[int | signal.Signals]] = {}

    def block() -> None:
        masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop(threading.get_ident(), set()))

    def heed() -> None:
        for number in numbers:
            if signal.getsignal(number) is _do_nothing:
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=heed)


def _do_nothing(_number: int, _frame: object) -> None:
    """Somebody else hears it, and says what to do."""


def cores(root: Path = Path("/")) -> int:
    """How many cores this process may use: those it is bound to, or fewer where a cgroup gives it less time."""
    there = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    said = (line.split() for line in _cgroup_files(root, "cpu", "cpu.max"))
    shares = [int(quota) / int(period) for quota, period in said if quota != "max"]
    return max(1, min([there, *map(math.ceil, shares)]))


def signal_group(leader: int, number: int) -> None:
    """To all processes of its group; one that has ended is no error."""
    if sys.platform == "win32":
        _missing()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def kill_group(leader: int) -> None:
    """Kills a process that was started so, and its group; one that has ended is no error."""
    signal_group(leader, SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(leader, SIGKILL)  # it may have left its group


def die_with_parent(parent: int) -> None:
    """In a child, at its start: Linux kills it when its parent ends. If that has ended already, this is the end.

    Other systems kill nobody: there a child notices by the end of what it reads from its parent.
    """
    if sys.platform == "linux":
        _prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


class Bounds(NamedTuple):
    """What a process that somebody else wrote may use."""

    address_bytes: int
    cpu_s: int
    files: int
    file_bytes: int


def _bind_this_process(bounds: Bounds, parent: int) -> None:
    """In a child, between fork and exec: it ends with its parent, gets no more rights, and stays within its bounds."""
    if sys.platform == "win32":
        _missing()
    import resource

    die_with_parent(parent)
    if sys.platform == "linux":
        _prctl(PR_SET_NO_NEW_PRIVS, 1)
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


def raise_file_limit() -> None:
    """As many open files as this process may have."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):  # macOS has a bound of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def adopt_orphans() -> None:
    """From now on what this process' descendants leave behind becomes its child, where Linux lets it."""
    if sys.platform == "linux":
        _prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_of(pid: int) -> int | None:
    """A descriptor that becomes readable when that child has ended; None where there is no such thing."""
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def is_bound(pid: int) -> bool:
    """Whether that process, or one that it comes from, was started by `start_bound`.

    Both marks are inherited, and there to the last moment of a process. No process can lay down that it gets no more
    rights; the other, which root can change, tells it from those that gave theirs up themselves, as browsers do.
    """
    if sys.platform != "linux":
        return False
    try:
        marked = _read(f"/proc/{pid}/oom_score_adj").strip() == FIRST_TO_GO.encode()
        return marked and b"NoNewPrivs:\t1" in _read(f"/proc/{pid}/status")
    except OSError:
        return False


def has_ended(pid: int) -> bool:
    """Whether that child has, without reaping it: until it is reaped nobody else can have its number."""
    if sys.platform == "win32" or sys.platform == "darwin":
        return _own_footprint(pid) is None
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:
        return True


def environment_of(pid: int) -> dict[str, str]:
    """The variables that a process was started with; empty where that may not be known."""
    if sys.platform == "linux":
        try:
            words = _read(f"/proc/{pid}/environ").split(b"\0")
        except OSError:
            return {}
        pairs = (os.fsdecode(word).partition("=") for word in words if word)
        return {name: value for name, _, value in pairs}
    import psutil

    try:
        return psutil.Process(pid).environ()
    except psutil.Error:
        return {}


def set_title(title: str) -> None:
    """What people see of this process in ps and top, as far as that can be had; never an error."""
    title = title.replace("\0", " ").encode(errors="replace").decode()
    try:
        from setproctitle import setproctitle
    except ImportError:
        if sys.platform == "linux":
            _prctl(PR_SET_NAME, title.encode()[:NAME_BYTES].decode(errors="ignore").encode())
    else:
        setproctitle(title)


def _prctl(option: int, value: int | bytes) -> None:
    """Asks Linux for something for this process; where Python cannot ask, nothing comes of it."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return
    none = ctypes.c_ulong(0)
    prctl(option, value if isinstance(value, bytes) else ctypes.c_ulong(value), none, none, none)


def children(pid: int, *, recursive: bool = False) -> list[int]:
    """The processes that it has started and not yet reaped; on request also those that they have started."""
    if sys.platform == "linux" and os.path.exists("/proc/thread-self/children"):
        found = list(_children(pid))
        if recursive:
            for child in found:
                found += _children(child)  # and so the loop comes to these too
        return found
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=recursive)]
    except psutil.Error:
        return []


def _children(pid: int) -> Iterator[int]:
    """As Linux keeps them, a list for each thread: a look at every process of the host costs a hundred times more."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        try:
            yield from map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
        except OSError:
            pass  # it has ended; another has its children now


def reap_strays(own: Collection[int]) -> int:
    """Reaps the dead children that are not among `own`, and gives their number: what a process with the id 1 owes.

    Each is asked for by its id. A wait for any child would take the end of an own one from whoever waits for that.
    """
    if sys.platform == "win32":
        return 0  # there, nobody stays for being waited for
    reaped = 0
    for pid in children(os.getpid()):
        if pid not in own:
            try:
                reaped += os.waitpid(pid, os.WNOHANG)[0] == pid
            except ChildProcessError:
                pass  # another thread was faster
    return reaped


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────


def shared_page(size: int) -> int:
    """A descriptor of so many zeros in memory that children can share."""
    if sys.platform == "win32":
        _missing()
    if sys.platform == "linux" and hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("windlass", os.MFD_CLOEXEC)
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:  # has no name, or loses it at once
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def map_page(descriptor: int, size: int) -> mmap.mmap:
    """The bytes of a shared page: what one process writes, the others read."""
    return mmap.mmap(descriptor, size)


def memory_limit(root: Path = Path("/")) -> int:
    """How many bytes this process may use: those of the machine, or fewer where a cgroup above it says so."""
    # "max" is none; the older cgroups say 2**63 for it, which is more than any machine has.
    said = _cgroup_files(root, "memory", "memory.max", "memory.limit_in_bytes")
    return min([_physical(), *(int(limit) for limit in said if limit.isdecimal())])


def _physical() -> int:
    if sys.platform == "win32":
        import psutil

        return psutil.virtual_memory().total
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cgroup_files(root: Path, controller: str, name: str, older: str = "") -> Iterator[str]:
    """What each level above the process says. In a container the path may be the host's: only its top is there then."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    mount = root / "sys/fs/cgroup"
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            top, file = mount, name
        elif older and controller in controllers.split(","):
            top, file = mount / controller, older
        else:
            continue
        parts = PurePosixPath(path).parts[1:]
        for depth in range(len(parts) + 1):
            with suppress(OSError):
                yield top.joinpath(*parts[:depth], file).read_text().strip()


class Footprint(NamedTuple):
    """What a process costs: resident bytes, its descendants' included, and its own seconds of CPU."""

    rss: int
    cpu_s: float


def footprint(pid: int, *, alone: bool = False) -> Footprint | None:
    """What that process costs now, or it `alone`, without its descendants; None if it has ended, reaped or not, or
    where this may not be known.
    """
    own = _own_footprint(pid)
    if own is None or alone:
        return own
    others = map(_own_footprint, children(pid, recursive=True))
    return Footprint(own.rss + sum(other.rss for other in others if other is not None), own.cpu_s)


def _own_footprint(pid: int) -> Footprint | None:
    if sys.platform == "linux":
        try:
            # Its name may hold anything; what follows it are a letter and numbers.
            fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        except OSError:
            return None
        if fields[0] in b"ZX":
            return None
        cpu = int(fields[11]) + int(fields[12])
        return Footprint(int(fields[21]) * mmap.PAGESIZE, cpu / os.sysconf("SC_CLK_TCK"))
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        times = process.cpu_times()
        return Footprint(process.memory_info().rss, times.user + times.system)
    except psutil.Error:
        return None


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
