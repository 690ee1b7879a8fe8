"""listen and signal: sleeping on a FIFO until there is something to do. A hint may be lost; the store is the truth.

A listener is *idle* exactly while it holds its FIFO open for reading: a sender that opens it for writing gets an error
otherwise, and goes on to the next. So a sender wakes one idle worker, and pays almost nothing when there is none.

    jobs.db.d/wake/<id>.w         the FIFO of a listener for work and orders; .e for ends of jobs, .we for both
    jobs.db.d/wake/<id>.w.json    for which queues and which worker it listens

Once a second, as a net, the listener looks whether the store has changed at all.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import stat
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from windlass.core import system
from windlass.core.errors import StoreError
from windlass.core.ids import new_id
from windlass.engines.protocol import Hint, Interest
from windlass.engines.sqlite.files import Paths, make_folder, open_safely, refused
from windlass.engines.sqlite.folder import Folder

log = logging.getLogger(__name__)

NET_S = 1.0
STALE_S = 3_600.0
"""A FIFO that nobody has touched for so long and nobody reads has lost its listener; a living one makes it anew."""
NOBODY = frozenset({errno.ENXIO, errno.ENOENT, errno.ELOOP})
"""What opening a FIFO for writing says where nobody reads it."""
CHUNK = 100
"""Ids in one write: what fits into a pipe at once is never torn."""


class Listens(msgspec.Struct, frozen=True):
    """For whom a FIFO listens, as its neighbour file says."""

    queues: tuple[str, ...] | None
    worker: bytes | None
    bell: bytes | None = None


_listens = msgspec.json.Decoder(Listens).decode


class Ear:
    """A FIFO that one listening thread uses at a time."""

    def __init__(self, folder: Path, interest: Interest) -> None:
        works = interest.queues != () or interest.worker is not None or interest.bell is not None
        kind = ("w" if works else "") + ("e" if interest.ends else "")
        self.path = folder / f"{new_id().hex()}.{kind or 'w'}"
        self._side = Path(f"{self.path}.json")
        self._listens = Listens(interest.queues, interest.worker, interest.bell)

    def open(self) -> int:
        """Becomes idle: from now on senders can write. Where anything of it was removed, it is made anew."""
        if self.is_there():
            try:
                return self._open()
            except FileNotFoundError:
                pass  # a sweeper took it for a dead listener's just now
        try:
            self._make()
            return self._open()
        except OSError as error:
            raise refused(self.path, error) from None

    def is_there(self) -> bool:
        """Whether senders can find it, and know for whom it listens."""
        return os.path.exists(self.path) and os.path.exists(self._side)

    def _open(self) -> int:
        return os.open(self.path, os.O_RDONLY | system.O_SAFE)

    def _make(self) -> None:
        make_folder(self.path.parent)
        self.path.unlink(missing_ok=True)
        descriptor = open_safely(self._side)
        try:
            os.write(descriptor, msgspec.json.encode(self._listens))
        finally:
            os.close(descriptor)
        system.make_fifo(self.path, 0o600)

    def remove(self) -> None:
        for path in (self.path, self._side):
            with suppress(OSError):
                path.unlink()


class Bells:
    """The listening and the ringing of one engine."""

    def __init__(self, paths: Paths) -> None:
        self._folder = paths.wake
        self._names_of = Folder(paths.wake)
        self._read = -1
        self._there: list[str] = []
        self._lock = threading.Lock()
        self._ears: dict[Interest, list[Ear]] = {}
        self._busy: list[Ear] = []
        self._known: dict[str, Listens] = {}
        self._closed = False
        self._told = False

    # ── listening ───────────────────────────────────────────────────────────────────────────────────────

    def listen(self, interest: Interest, timeout_s: float, missed: Callable[[], list[Hint]]) -> list[Hint]:
        """Sleeps until a hint comes, the store changed, or the time is over."""
        deadline = time.monotonic() + timeout_s
        # The ends one waits for differ at every call; the FIFO is the same.
        key = msgspec.structs.replace(interest, ends=frozenset([b""]) if interest.ends else frozenset())
        ear = self._take(key, interest)
        descriptor = -1
        try:
            descriptor = ear.open()
            while True:
                hints = missed()
                left_s = deadline - time.monotonic()
                if hints or self._closed or left_s <= 0:
                    return hints or ([Hint(kind="closed")] if self._closed else [])
                if system.wait_readable(descriptor, min(left_s, NET_S)):
                    hints = [hint for hint in _read(descriptor) if _concerns(hint, interest)]
                    if hints:
                        return hints
                elif ear.is_there():
                    continue
                # Opened anew before the old one is closed: what is rung in between stays in the FIFO.
                spent, descriptor = descriptor, ear.open()
                os.close(spent)
        finally:
            if descriptor >= 0:
                os.close(descriptor)
            self._give_back(key, ear)

    def _take(self, key: Interest, interest: Interest) -> Ear:
        with self._lock:
            stock = self._ears.setdefault(key, [])
            ear = stock.pop() if stock else Ear(self._folder, interest)
            self._busy.append(ear)
            return ear

    def _give_back(self, key: Interest, ear: Ear) -> None:
        with self._lock:
            self._busy.remove(ear)
            if self._closed:
                ear.remove()
            else:
                self._ears.setdefault(key, []).append(ear)

    def forget(self, worker: bytes) -> None:
        """Takes away the FIFOs of a worker that has gone; its next start has another id."""
        with self._lock:
            for interest in [interest for interest in self._ears if interest.worker == worker]:
                for ear in self._ears.pop(interest):
                    ear.remove()

    def close(self) -> None:
        """Wakes everybody who listens here, and takes the FIFOs away."""
        with self._lock:
            self._closed = True
            for ears in self._ears.values():
                for ear in ears:
                    ear.remove()
            self._ears.clear()
            busy = [ear.path.name for ear in self._busy]
        for name in busy:
            self._ring(name, b"closed\n")

    # ── ringing ─────────────────────────────────────────────────────────────────────────────────────────

    def signal(self, hints: Iterable[Hint]) -> None:
        """Rings one idle worker for work, and everybody concerned for the rest.

        Never fails: what it tells of is on the disk, and whoever is not rung looks for itself a second later.
        """
        try:
            self._signal(hints)
        except (OSError, StoreError) as error:
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        if not self._told:
            self._told = True
            log.warning("Sleepers cannot be woken (%s); they look for themselves every %g s.", error, NET_S)

    def _signal(self, hints: Iterable[Hint]) -> None:
        names = self._names()
        # Nobody listens: the hints are not even made.
        hints = list(hints) if names else ()
        if not hints:
            return
        random.shuffle(names)
        workers = [name for name in names if name.endswith((".w", ".we"))]
        ends = [hint.id.hex() for hint in hints if hint.kind == "end" and hint.id is not None]
        for start in range(0, len(ends), CHUNK):
            message = "".join(f"end {job_id}\n" for job_id in ends[start : start + CHUNK]).encode()
            for name in names:
                if name.endswith("e"):
                    self._ring(name, message)
        for hint in hints:
            if hint.kind == "work":
                self._ring_first(workers, hint)
            elif hint.kind == "order" and hint.id is not None:
                for name in self._of(workers, hint.id):
                    self._ring(name, f"order {hint.id.hex()}\n".encode())

    def _names(self) -> list[str]:
        """The FIFOs there are. The folder is read again only when it has changed."""
        with self._lock:
            version = self._names_of.look()
            if version != self._read:
                make_folder(self._folder)
                self._there = [name for name in os.listdir(self._folder) if not name.endswith(".json")]
                self._read = version
            return list(self._there)

    def _ring_first(self, names: list[str], hint: Hint) -> None:
        for name in names:
            listens = self._listens(name)
            if listens is None or (listens.queues is not None and hint.queue not in listens.queues):
                continue
            if self._ring(name, f"work {hint.queue}\n".encode()):
                return

    def _of(self, names: list[str], whom: bytes) -> list[str]:
        found = ((name, self._listens(name)) for name in names)
        return [name for name, listens in found if listens is not None and whom in (listens.worker, listens.bell)]

    def _listens(self, name: str) -> Listens | None:
        known = self._known.get(name)
        if known is None:
            try:
                known = _listens((self._folder / f"{name}.json").read_bytes())
            except (OSError, msgspec.DecodeError):
                return None
            if len(self._known) > 1_000:
                self._known.clear()
            self._known[name] = known
        return known

    def _ring(self, name: str, message: bytes) -> bool:
        """Writes into a FIFO that somebody reads; False where nobody does."""
        try:
            descriptor = os.open(self._folder / name, os.O_WRONLY | system.O_SAFE)
        except OSError as error:
            if error.errno not in NOBODY:
                self._tell(error)
            return False
        try:
            os.write(descriptor, message)
        except OSError:
            return False  # it is full, or its reader has just gone
        finally:
            os.close(descriptor)
        return True

    def clear_strays(self) -> None:
        """Removes FIFOs whose listener died long ago, and what is left of such."""
        before = time.time() - STALE_S
        try:
            for entry in os.scandir(self._folder):
                # Its listener may take it away while we look.
                with suppress(FileNotFoundError):
                    _clear(entry, before)
        except FileNotFoundError:
            pass  # no folder, no strays
        except OSError as error:
            self._tell(error)


def _clear(entry: os.DirEntry[str], before: float) -> None:
    found = entry.stat(follow_symlinks=False)
    if found.st_mtime >= before:
        return
    fifo = Path(entry.path.removesuffix(".json"))
    if entry.name.endswith(".json") and os.path.lexists(fifo):
        return  # it is written once, and goes with its FIFO
    if stat.S_ISFIFO(found.st_mode) and _is_read(fifo):
        os.utime(fifo)  # not asked again for as long
        return
    fifo.unlink(missing_ok=True)
    Path(f"{fifo}.json").unlink(missing_ok=True)


def _is_read(fifo: Path) -> bool:
    """Whether somebody sleeps on it."""
    try:
        os.close(os.open(fifo, os.O_WRONLY | system.O_SAFE))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False
    return True


def _read(descriptor: int) -> list[Hint]:
    try:
        lines = os.read(descriptor, 65_536).decode().splitlines()
    except BlockingIOError:
        return []
    hints: list[Hint] = []
    for line in lines:
        kind, _, rest = line.partition(" ")
        match kind:
            case "work":
                hints.append(Hint(kind="work", queue=rest))
            case "end":
                hints.append(Hint(kind="end", id=bytes.fromhex(rest)))
            case "order":
                hints.append(Hint(kind="order", id=bytes.fromhex(rest)))
            case _:
                hints.append(Hint(kind="closed"))
    return hints


def _concerns(hint: Hint, interest: Interest) -> bool:
    return hint.kind != "end" or hint.id in interest.ends
