"""A contestant: what is asked of everybody in the race, in the same way, from outside.

Senders and workers are processes of the contestant's own environment. Whether and when a job ran is read from the marks
it writes (seats/marks.py), whether its end is stored from the contestant's own file, what it cost from /proc. A method
is one measurement: it returns figures by name, and raises if the work was not done.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sqlite3
import statistics
import struct
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.race.entries import Entry, Product
from bench.race.tree import Tree, last_line
from bench.report import ROOT

SEATS = Path(__file__).parent / "seats"
MARK = struct.Struct("<qq")
LOOK_S = 0.002
"""How often the marks are looked at."""

Figures = dict[str, float]


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much is asked; `share` scales the backlogs of entries.toml."""

    many: int = 20_000
    ones: int = 2_000
    send_limit_s: float = 4.0
    share: float = 1.0
    drain_limit_s: float = 12.0
    starts: int = 100
    apart_s: float = 0.025
    imports: int = 5
    hold_s: float = 60.0
    held_s: float = 1.0
    patience_s: float = 60.0
    """How long a lost job is waited for, and anything else that must come."""
    lost_s: float = 5.0
    """How long it is waited for if the store holds no job any more."""


QUICK = Sizes(
    many=200, ones=20, send_limit_s=1.0, share=0.1, drain_limit_s=20.0, starts=5, imports=1, held_s=0.1, patience_s=20.0
)


class Contestant:
    """One entry with its environment and a folder to work in."""

    def __init__(self, product: Product, entry: Entry, python: Path, folder: Path, sizes: Sizes) -> None:
        self.product, self.entry, self.sizes = product, entry, sizes
        self._python = python
        self._folder = folder / entry.name
        self._prepared: dict[int, Path] = {}

    def setup(self) -> Figures:
        """Checks what is installed; fills the small and the large store, once: every drain gets a copy."""
        with self._fresh("versions") as place:
            found = self._seat(place, "versions")["packages"]
        for name, version in (pin.split("==") for pin in self.product.requirements):
            if found.get(name) != version:
                raise RuntimeError(f"Its environment holds {name} {found.get(name)} instead of {version}.")
        for backlog in self.backlog:
            with self._fresh("full") as place:
                self._seat(place, "fill", backlog, **self.entry.fill)
                self._prepared[backlog] = place.rename(self._folder / f"backlog-{backlog}")
        return {}

    @property
    def backlog(self) -> tuple[int, int]:
        """How many jobs lie in the small and in the large store."""
        small, large = self.product.backlog
        return round(small * self.sizes.share), round(large * self.sizes.share)

    def send(self) -> Figures:
        """Sending one by one and many at once, into a store that nobody works on."""
        sizes = self.sizes
        with self._fresh("send") as place:
            found = self._seat(place, "sends", sizes.many, sizes.ones, sizes.send_limit_s)
        ones = found["ones"]
        figures = {
            "send_one_per_s": ones["jobs"] / ones["wall_s"],
            "send_one_cpu_s": ones["cpu_s"] * 10_000 / ones["jobs"],
        }
        if "many" in found:
            figures["send_many_per_s"] = found["many"]["jobs"] / found["many"]["wall_s"]
        return figures

    def drain(self) -> Figures:
        """The small store, then as many jobs of the large one; the clock runs from the first start to the last end."""
        small, large = self.backlog
        figures = self._drain(small, small)
        of_many = self._drain(large, small)
        growth = of_many["drain_cpu_s"] / figures["drain_cpu_s"]
        return figures | {"drain_large_cpu_s": of_many["drain_cpu_s"], "growth_x": growth}

    def _drain(self, backlog: int, jobs: int) -> Figures:
        with self._fresh("drain", self._prepared[backlog]) as place:
            marks = Marks(place)
            with self._worker(place) as worker:
                self._until(lambda: marks.count() > 0, worker)
                before, before_cpu_s = marks.count(), worker.cpu_s()
                limit_s = time.monotonic() + self.sizes.drain_limit_s
                while marks.count() < jobs and time.monotonic() < limit_s:
                    worker.check()
                    time.sleep(LOOK_S)
                whole = backlog == jobs and marks.count() >= jobs
                if whole:
                    self._until(lambda: self._stored(place) >= jobs, worker)
                now_ns, ran, cpu_s = time.monotonic_ns(), marks.count(), worker.cpu_s()
                stored = self._stored(place)
                rss_mb, pss_mb = worker.memory_mb()
            started = marks.read()
        numbers = sorted(number for number, _ in started)
        if len(set(numbers)) != len(numbers) or (whole and numbers != list(range(jobs))):
            raise RuntimeError(f"{len(set(numbers))} of {jobs} jobs ran, {len(numbers)} times.")
        return {
            "drain_per_s": stored * 1e9 / (now_ns - started[0][1]),
            "drain_cpu_s": (cpu_s - before_cpu_s) * 10_000 / max(1, ran - before),
            "rss_mb": rss_mb,
            "pss_mb": pss_mb,
        }

    def start(self) -> Figures:
        """From just before a send to the start of its job, in a worker that had nothing to do."""
        with self._fresh("start") as place:
            marks = Marks(place)
            self._seat(place, "hold", 0)  # when it has run, the worker is there
            with self._worker(place) as worker:
                self._until(lambda: marks.count() == 1, worker)
                sent_ns = self._seat(place, "paced", self.sizes.starts, self.sizes.apart_s)["sent_ns"]
                self._until(lambda: marks.count() == 2 + len(sent_ns), worker)
            waited = waits_ms(marks.read(), sent_ns)
        return {"start_p50_ms": statistics.median(waited), "start_p95_ms": statistics.quantiles(waited, n=20)[-1]}

    def kill(self) -> Figures:
        """From kill -9 of the whole worker, restarted at once, to the second start of the job it had.

        No figure: the store holds no such job any more, or nobody took it within the patience.
        """
        with self._fresh("kill") as place:
            marks = Marks(place)
            self._seat(place, "hold", self.sizes.hold_s)
            with self._worker(place) as worker:
                self._until(lambda: marks.count() == 1, worker)
                time.sleep(self.sizes.held_s)
                worker.kill()
                killed_ns = time.monotonic_ns()
            with self._worker(place) as worker:
                while marks.count() < 2:
                    worker.check()
                    waited_s = (time.monotonic_ns() - killed_ns) / 1e9
                    if waited_s > self.sizes.lost_s and not self._count(place, self.product.waiting):
                        return {"lost": 1}
                    if waited_s > self.sizes.patience_s:
                        return {"later_than_s": self.sizes.patience_s}
                    time.sleep(LOOK_S)
            return {"rerun_s": (marks.read()[1][1] - killed_ns) / 1e9}

    def load(self) -> Figures:
        """The time of the import statement in a fresh interpreter, the median of some."""
        code = f"import time; t = time.perf_counter(); {self.product.imports}; print(time.perf_counter() - t)"
        found: list[float] = []
        for _ in range(self.sizes.imports):
            done = subprocess.run([self._python, "-c", code], capture_output=True, text=True, check=True)
            found.append(float(done.stdout))
        return {"import_ms": statistics.median(found) * 1e3}

    # --- processes ---------------------------------------------------------------------------------

    def _seat(self, place: Path, *words: object, **env: str) -> dict[str, Any]:
        """Runs seat.py in the contestant's environment; its last line is the answer."""
        log = place / "seat.log"
        command = [str(self._python), "seat.py", self.product.seat, *(str(word) for word in words)]
        with log.open("wb") as errors:
            done = subprocess.run(
                command, cwd=SEATS, env=self._env(place) | env, stdout=subprocess.PIPE, stderr=errors, check=False
            )
        if done.returncode:
            raise RuntimeError(f"{words[0]} failed: {last_line(log)}")
        return json.loads(done.stdout.splitlines()[-1])

    def _worker(self, place: Path) -> Tree:
        command = shlex.split(f"{self.product.worker} {self.entry.options}")
        command[0] = str(self._python.parent / command[0])
        return Tree(command, cwd=SEATS, env=self._env(place), log=place / "worker.log")

    def _env(self, place: Path) -> dict[str, str]:
        own = {"RACE_STORE": str(place / "store.db"), "RACE_MARKS": str(place / "marks")}
        path = os.pathsep.join([str(SEATS), str(ROOT)])
        return os.environ | {"PYTHONPATH": path} | own | self.entry.env

    def _until(self, done: Callable[[], bool], worker: Tree) -> None:
        until = time.monotonic() + self.sizes.patience_s
        while not done():
            worker.check()
            if time.monotonic() > until:
                raise RuntimeError(f"Its worker did not get so far within {self.sizes.patience_s:.0f} s.")
            time.sleep(LOOK_S)

    # --- what it left behind -----------------------------------------------------------------------

    @contextmanager
    def _fresh(self, name: str, like: Path | None = None) -> Generator[Path]:
        """A folder of its own, empty or like another one, on the disk before anybody is measured."""
        place = self._folder / name
        shutil.rmtree(place, ignore_errors=True)
        if like is None:
            place.mkdir(parents=True)
        else:
            shutil.copytree(like, place)
            os.sync()
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _stored(self, place: Path) -> int:
        return self._count(place, self.product.stored.sql, self.product.stored.beside)

    def _count(self, place: Path, sql: str, beside: str = "") -> int:
        with closing(sqlite3.connect(f"file:{place}/store.db{beside}?mode=ro", uri=True, timeout=30)) as database:
            return database.execute(sql).fetchone()[0]


def waits_ms(started: Sequence[tuple[int, int]], sent_ns: Sequence[int]) -> list[float]:
    """How long each job waited for its start, in whatever order they ran.

    The first mark is of the job that showed that the worker is there. The sender's first job, which opened its store,
    has a number past the end; it may come late, because not everybody runs jobs in the order they were sent.
    """
    counted = [(number, started_ns) for number, started_ns in started[1:] if number < len(sent_ns)]
    if sorted(number for number, _ in counted) != list(range(len(sent_ns))):
        raise RuntimeError(f"Of {len(sent_ns)} jobs that were sent, {len(counted)} started.")
    return [(started_ns - sent_ns[number]) / 1e6 for number, started_ns in counted]


class Marks:
    """The starts of jobs, as the jobs themselves have written them down."""

    def __init__(self, place: Path) -> None:
        self._path = place / "marks"

    def count(self) -> int:
        """How many there are."""
        return self._path.stat().st_size // MARK.size if self._path.exists() else 0

    def read(self) -> list[tuple[int, int]]:
        """Number and time of each, in the order they were written."""
        return [(number, started_ns) for number, started_ns in MARK.iter_unpack(self._path.read_bytes())]
