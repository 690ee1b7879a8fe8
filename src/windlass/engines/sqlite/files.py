"""The files of a store, opened only where they are safe: ours, plain, and readable by nobody else.

    jobs.db            the database; SQLite keeps jobs.db-wal and jobs.db-shm beside it
    jobs.db.gate       the lock that every write and checkpoint holds (gate.py)
    jobs.db.d/open     held shared by every open engine; says whether the last one ended cleanly
    jobs.db.d/reserve  bytes to give up when the disk is full, so that running jobs can still be settled
    jobs.db.d/owners/  a lock per living worker (owners.py)
    jobs.db.d/claims/  a lock per claim that may outlive its worker (engines/locks.py)
    jobs.db.d/wake/    a FIFO per listener (listen.py)

A link or a foreign owner in any of these places is refused: whoever can swap a file for a link can make us write
somewhere else. Everything is 0600 in folders of 0700.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from windlass.core import system
from windlass.core.errors import (
    NotADatabase,
    NotWritable,
    StoreCorrupt,
    StoreError,
    StoreReplaced,
    StoreUnavailable,
    UnsafeFile,
    UnsupportedPlatform,
)

MAGIC = b"SQLite format 3\0"
HEADER = 100
APPLICATION, APPLICATION_AT = 0x57494E44, 68
"""SQLite's application id of our files ("WIND"), and its place in their header: written before anything else."""
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs"})


def check_platform(platform: str = sys.platform) -> None:
    """Only where a kernel frees a lock at death and FIFOs wake sleepers."""
    if platform not in {"linux", "darwin"}:
        raise UnsupportedPlatform(
            f"The sqlite engine does not run on {platform} yet.",
            "Use Linux (or macOS, best effort), or memory://.",
        )


class Paths:
    """Where everything of one store lies."""

    def __init__(self, database: str | os.PathLike[str]) -> None:
        # SQLite resolves links on the way to the file before it names the -wal: so must we.
        given = Path(database).absolute()
        self.database = Path(os.path.realpath(given.parent)) / given.name
        self._parent = str(self.database.parent)
        self.wal = Path(f"{self.database}-wal")
        self.shm = Path(f"{self.database}-shm")
        self.gate = Path(f"{self.database}.gate")
        self.folder = Path(f"{self.database}.d")
        self.open = self.folder / "open"
        self.reserve = self.folder / "reserve"
        self.owners = self.folder / "owners"
        self.claims = self.folder / "claims"
        self.wake = self.folder / "wake"

    def prepare(self) -> list[str]:
        """Makes what is missing and refuses what is unsafe, before SQLite sees the path; what a person should know."""
        parent = self.database.parent
        if not parent.is_dir():
            raise NotWritable(f"The folder {parent} does not exist.", "Make it, or give another path in the URL.")
        notices = self._look_at_leftovers()
        self._look_at_the_database()
        for folder in (self.folder, self.owners, self.claims, self.wake):
            make_folder(folder)
        os.close(open_safely(self.database))
        for path in (self.wal, self.shm):
            if path.is_symlink() or path.exists():
                os.close(open_safely(path))
        return notices

    def _look_at_leftovers(self) -> list[str]:
        """Notices what a store that was removed has left behind; refuses to go on over a -wal that may hold its jobs.

        SQLite deletes a -wal that it finds beside an empty database, whatever is in it.
        """
        # First these and then the database, which is made before any of them: another process may be making them now.
        left = [path for path in (self.wal, self.shm, self.open) if os.path.lexists(path)]
        full = self.wal in left and os.lstat(self.wal).st_size > 0
        if not left or os.path.lexists(self.database):
            return []
        names = " and ".join(str(self.folder if path is self.open else path) for path in left)
        if full:
            raise StoreCorrupt(
                f"{self.database} is gone, and {self.wal} beside it may hold its jobs.",
                f"Put the database back, or remove {names} to begin anew.",
            )
        notice = (
            f"{self.database} is gone; left of it: {names}. A new store begins here. "
            "If that is not what you want, stop all workers and put the database back."
        )
        return [notice]

    def _look_at_the_database(self) -> None:
        """Refuses a file that is not ours before anything is done to it or beside it."""
        try:
            found = os.lstat(self.database)
        except FileNotFoundError:
            return
        except OSError as error:
            raise refused(self.database, error) from None
        refuse_stranger(self.database, found, stat.S_ISREG)
        try:
            with self.database.open("rb") as file:
                head = file.read(HEADER)
        except OSError as error:
            raise refused(self.database, error) from None
        if head and not head.startswith(MAGIC):
            raise NotADatabase(
                f"{self.database} is not an SQLite database.", "Give the path of a new or a Windlass file."
            )
        if head and head[APPLICATION_AT : APPLICATION_AT + 4] != APPLICATION.to_bytes(4, "big"):
            raise NotADatabase(
                f"{self.database} is an SQLite database, but not one of Windlass.", "Give the path of a new file."
            )

    def free_bytes(self) -> int:
        """What is left on the disk for this user."""
        return system.free_bytes(self._parent)


def make_folder(path: Path) -> None:
    """A folder of 0700 that is ours."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise refused(path, error) from None
    check_owner(path, os.lstat(path), stat.S_ISDIR)


def open_safely(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """A descriptor of a plain file of ours, made with 0600 where it is missing; never follows a link."""
    try:
        descriptor = os.open(path, flags | system.O_SAFE, 0o600)
    except OSError as error:
        raise refused(path, error) from None
    try:
        check_owner(path, os.fstat(descriptor), stat.S_ISREG)
    except StoreError:
        os.close(descriptor)
        raise
    return descriptor


def check_owner(path: Path, found: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    """Refuses a link, another kind of file and another owner, and takes away rights of others."""
    refuse_stranger(path, found, is_kind)
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(path, stat.S_IMODE(found.st_mode) & 0o700)


def refuse_stranger(path: Path, found: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    """Refuses a link, another kind of file and another owner; changes nothing."""
    if not is_kind(found.st_mode):
        raise UnsafeFile(f"{path} is a link or another kind of file than it should be.", "Give another path.")
    if found.st_uid != system.user_id():
        raise UnsafeFile(
            f"{path} belongs to user {found.st_uid}; this process runs as {system.user_id()}.",
            "Run as its owner, or give a file of your own.",
        )


def refused(path: Path, error: OSError) -> StoreError:
    """The error of a system call in words."""
    if error.errno == errno.ELOOP:
        return UnsafeFile(f"{path} is a link.", "Give the path of the file itself.")
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return NotWritable(f"{path} cannot be written by this user.", "Change its rights, or give another path.")
    if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}:
        return NotWritable(f"{path} cannot be made: {error.strerror}.", "Make its folder, or give another path.")
    if error.errno in {errno.EISDIR, errno.ENXIO}:
        return UnsafeFile(f"{path} is not a plain file.", "Give the path of a file.")
    return StoreUnavailable(f"{path} cannot be opened: {error.strerror}.", "Look at the disk, then try again.")


def replaced(path: Path) -> StoreReplaced:
    """The database is not the file that was opened."""
    return StoreReplaced(
        f"{path} was moved, deleted or replaced while it was open.",
        "Put it back, or restart every process that uses it.",
    )


def inode(path: Path) -> int:
    """The number of the file that has this name now; 0 if there is none."""
    try:
        return os.stat(path).st_ino
    except (FileNotFoundError, NotADirectoryError):
        return 0


def network_file_system(path: Path) -> str | None:
    """The kind of network file system the path lies on, where the kernel tells."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text()
    except OSError:
        return None
    best, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = left.split()[4].replace("\\040", " ")
        inside = str(path) == point or str(path).startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind if kind in NETWORK else None


class Presence:
    """Held shared while an engine is open. The last one out writes that the end was clean."""

    def __init__(self, paths: Paths) -> None:
        self._folder = paths.folder
        self._descriptor = open_safely(paths.open)

    def enter(self) -> bool:
        """Joins those who have it open; True if the last end was unclean and nobody else is in."""
        alone = _try_lock(self._descriptor, system.LOCK_EX)
        marked = system.pread(self._descriptor, 5, 0) == b"dirty"
        if not marked:
            # On the disk before the first write: a power cut must find it there too.
            try:
                system.pwrite(self._descriptor, b"dirty", 0)
                os.fsync(self._descriptor)
                for folder in (self._folder, self._folder.parent):
                    system.sync_folder(folder)
            except OSError as error:
                raise refused(self._folder, error) from None
        system.flock(self._descriptor, system.LOCK_SH)
        return alone and marked

    def leave(self, *, clean: bool) -> None:
        """Goes; the last one leaves the file clean behind it."""
        if clean and _try_lock(self._descriptor, system.LOCK_EX):
            system.pwrite(self._descriptor, b"clean", 0)
        os.close(self._descriptor)

    def forget(self) -> None:
        """In a forked child: the lock is the parent's; only the copy of its descriptor goes."""
        os.close(self._descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        system.flock(descriptor, kind | system.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Reserve:
    """Bytes set aside on the disk. Given up when it is full, so that what runs can still be settled."""

    def __init__(self, paths: Paths, size: int) -> None:
        self._path = paths.reserve
        self._size = size

    def keep(self, free_bytes: int) -> None:
        """Sets the bytes aside again once there is room for them."""
        if self._size and free_bytes > 2 * self._size and not self._path.exists():
            descriptor = open_safely(self._path)
            try:
                system.set_aside(descriptor, self._size)
            except OSError:
                self.give_up()
            finally:
                os.close(descriptor)

    def give_up(self) -> bool:
        """Frees the bytes; True if there were any."""
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        return True
