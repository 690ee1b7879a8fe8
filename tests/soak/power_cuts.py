"""Story B: the power goes, for real as far as a file system can tell; what was acknowledged is there afterwards.

The store lies on an ext4 image. EXT4_IOC_SHUTDOWN without flushing the log makes the file system forget everything
that was not synced, as a power cut does; umount and mount are the reboot. Copying a live file would prove nothing: the
copy comes from the page cache, where a missing sync does not show. What processes write down lies outside the image.

Unlike a real cut, this one leaves the process alive, and a sync that was under way at that very moment may return
success for what never reached the disk (seen with a plain write and fdatasync on Linux 6.18: 3 such answers in 40
cuts). At a real cut nobody lives to hear such an answer; so answers written down after it had begun count as not given.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.soak.checker import ALL, Evidence, Violation, digest
from tests.soak.kills import Report, count, judge, plan_of
from tests.soak.recorder import Recorder, Watch, read_folder, read_ledger, read_lines
from tests.soak.store import look
from tests.soak.waiting import HANG_S, Hangs, wait_for
from tests.soak.worker import ROOT, Assignment

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
IMAGE_BYTES = 96 << 20
THREADS = 4
STORE_JOBS = 700


def unable() -> str | None:
    """Why there can be no power cuts here; None: there can."""
    if sys.platform != "linux":
        return "power cuts need Linux"
    if os.geteuid() != 0:
        return "power cuts need root, to mount an image"
    if not os.path.exists("/dev/loop-control"):
        return "power cuts need a loop device"
    missing = [tool for tool in ("losetup", "mkfs.ext4", "mount", "umount") if shutil.which(tool) is None]
    return f"power cuts need {', '.join(missing)}" if missing else None


class Disk:
    """An ext4 file system in an image of our own, whose power can be cut."""

    def __init__(self, folder: Path) -> None:
        self._image = folder / "image"
        self.point = folder / "disk"
        self._mounted = False

    @classmethod
    @contextmanager
    def made(cls, folder: Path) -> Generator[Disk]:
        """A fresh one, mounted; taken away at the end whatever happens."""
        disk = cls(folder)
        disk.point.mkdir()
        with disk._image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        _run("mkfs.ext4", "-q", "-F", str(disk._image))
        disk.mount()
        try:
            yield disk
        finally:
            disk.unmount()

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.point))
        self._mounted = True

    def unmount(self) -> None:
        if self._mounted:
            # Lazily where somebody still has a file open: the mount must not outlive the test.
            if subprocess.run(["umount", str(self.point)], capture_output=True, check=False).returncode:
                _run("umount", "-l", str(self.point))
            self._mounted = False

    def cut(self) -> None:
        """The power goes: nothing that was not synced is on the disk."""
        descriptor = os.open(self.point, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def reboot(self) -> None:
        """And comes back."""
        self.unmount()
        # A process with mounts of its own (unshare, a container) that was started meanwhile holds it too; to mount it
        # now would bring back the file system whose power is gone.
        wait_for("nobody to have it mounted any more", lambda: not self._is_held(), step_s=0.01)
        self.mount()

    def _is_held(self) -> bool:
        return bool(subprocess.run(["losetup", "-j", str(self._image)], capture_output=True, check=True).stdout)

    def new_folder(self, name: str) -> Path:
        """A folder that is there for good before anybody uses it."""
        path = self.point / name
        path.mkdir()
        descriptor = os.open(self.point, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        return path


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


class Bench:
    """One store on the disk, and the process that works on it, again after every cut."""

    def __init__(self, disk: Disk, folder: Path, seed: int, cuts: int) -> None:
        self.disk = disk
        self.folder = folder
        self.seed = seed
        self.database = disk.new_folder(f"store-{seed}") / "jobs.db"
        self._cuts = cuts
        self._generation = -1
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._generation += 1
        given = self._given()
        command = [sys.executable, "-m", "tests.soak.worker", msgspec.json.encode(given).decode()]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _given(self) -> Assignment:
        return Assignment(
            database=str(self.database),
            folder=str(self.folder),
            seed=self.seed,
            jobs=STORE_JOBS,
            slot=0,
            slots=1,
            generation=self._generation,
            threads=THREADS,
            stages=self._cuts + 1,
        )

    def progress(self) -> int:
        """How much the process has written down."""
        given = self._given()
        return sum(Watch(given.file(thread)).size() for thread in range(THREADS))

    def said(self, word: str) -> bool:
        """Whether every thread said it."""
        given, wanted = self._given(), f'"op":"{word}"'.encode()
        files = [given.file(thread) for thread in range(THREADS)]
        return all(path.exists() and wanted in path.read_bytes() for path in files)

    def forget_after(self, cut: int) -> int:
        """Takes back what the process wrote down as answered after the power had gone; how many lines."""
        given, forgotten = self._given(), 0
        for thread in range(THREADS):
            path = given.file(thread)
            lines = read_lines(path) if path.exists() else []
            kept = [line for line in lines if line.what == "invoke" or line.at < cut]
            forgotten += len(lines) - len(kept)
            path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in kept))
        return forgotten

    def release(self) -> None:
        with (self.folder / "release").open("ab") as file:
            file.write(b".")

    def join(self, hang_s: float = HANG_S) -> int:
        """Waits for the process to end by itself."""
        assert self._process is not None
        return self._process.wait(timeout=hang_s)

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def run_store(disk: Disk, folder: Path, seed: int, cuts: int, told: Callable[[str], None] = lambda _: None) -> Report:
    """One store through `cuts` power cuts, checked after each; then it is worked off and checked whole."""
    report = Report()
    nemesis = random.Random(f"cuts {seed}")
    recorder = Recorder(folder / "nemesis.jsonl")
    bench = Bench(disk, folder, seed, cuts)
    try:
        for number in range(cuts):
            bench.start()
            _wait_until_hurt(bench, nemesis, first=number == 0)
            recorder.say("kill", f"power cut {number + 1}")
            began = time.monotonic_ns()
            disk.cut()
            report.faults["power cut"] += 1
            try:
                bench.join()
            except subprocess.TimeoutExpired:
                report.violations.append(Violation("progress", "", "the process hung after a power cut"))
                bench.end()
            report.faults["answers after the cut"] += bench.forget_after(began)
            bench.release()
            disk.reboot()
            _judge(bench, report, drained=False)
            told(f"store {seed} cut {number + 1}/{cuts}: {len(report.violations)} violations")
            if report.violations:
                return report
        bench.start()
        wait_for("all parcels to be sent", lambda: bench.said("sent"), step_s=0.01)
        (folder / "finish").touch()
        if bench.join():
            report.violations.append(Violation("progress", "", "the last process broke"))
        _judge(bench, report, drained=True)
    except (Hangs, subprocess.TimeoutExpired) as error:
        report.violations.append(Violation("progress", "", str(error)))
    finally:
        bench.end()
        recorder.close()
    return report


def _wait_until_hurt(bench: Bench, nemesis: random.Random, *, first: bool) -> None:
    """Random progress from the process's first line on; a store's first cut may hit its creation."""
    early, target, patience_s = nemesis.random(), nemesis.randrange(1, 60_000), nemesis.random() * 0.4
    if not first or early < 0.5:
        wait_for("the process to work", bench.progress)
    began = time.monotonic()
    while bench.progress() < target and time.monotonic() - began < patience_s:
        time.sleep(0.0005)


def _judge(bench: Bench, report: Report, *, drained: bool) -> None:
    lines = read_folder(bench.folder)
    history = digest(lines)
    try:
        store = look(bench.database, drained=drained)
    except Exception as error:
        report.violations.append(Violation("12 the_store_is_whole", "", f"cannot be read: {error!r}"))
        return
    report.counts["unclean_ends_noticed"] += store.noticed
    evidence = Evidence(
        plan_of(bench.seed, STORE_JOBS), history, store, read_ledger(bench.folder / "ledger"), drained=drained
    )
    where = f"store seed {bench.seed} after {report.faults['power cut']} cuts"
    judge(report, where, evidence, lines, ALL)
    if drained:
        count(report, evidence)
