"""A contestant: what is asked of everybody in the race, in the same way, from outside.

Senders and workers are processes of the contestant's own environment. Whether and when a job ran is read from the marks
it writes (seats/marks.py), whether its end is stored from the contestant's own store, what it cost from /proc. A method
is one measurement: it returns figures by name, and raises if the work was not done.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from bench.race.entries import Entry, Product
from bench.race.ground import Ground, Place
from bench.race.tree import Tree, last_line
from bench.race.venvs import Home
from bench.report import ROOT

SEATS = Path(__file__).parent / "seats"
MARK = struct.Struct("<qq")
LOOK_S = 0.002
"""How often the marks are looked at."""
QUIET_S = 0.05
"""CPU time in a second of a worker that has started and idles."""

Figures = dict[str, float]


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much is asked; `share` scales the backlogs of the entries."""

    many: int = 20_000
    ones: int = 2_000
    together: int = 50_000
    coroutines: int = 1_000
    send_limit_s: float = 4.0
    share: float = 1.0
    grown: tuple[int, int] = (10_000, 1_000_000)
    drain_limit_s: float = 12.0
    starts: int = 100
    apart_s: float = 0.025
    imports: int = 5
    hold_s: float = 60.0
    held_s: float = 1.0
    idlers: int = 8
    idle_s: float = 30.0
    settled_s: float = 20.0
    """How long workers have been there before they are measured idle: what they do at first is no part of it."""
    patience_s: float = 60.0
    """How long a lost job is waited for, and anything else that must come."""
    lost_s: float = 5.0
    """How long it is waited for if the store holds no job any more."""


QUICK = Sizes(
    many=200, ones=20, together=1_000, coroutines=100, send_limit_s=1.0, share=0.1, grown=(200, 2_000),
    drain_limit_s=20.0, starts=5, imports=1, held_s=0.1, idlers=2, idle_s=1.0, settled_s=0.0, patience_s=20.0,
)  # fmt: skip


class Contestant:
    """One entry with its environment and the ground it races on."""

    def __init__(self, product: Product, entry: Entry, home: Home, ground: Ground, sizes: Sizes) -> None:
        self.product, self.entry, self.sizes = product, entry, sizes
        self._home, self._ground = home, ground

    def setup(self) -> Figures:
        """Checks what is installed."""
        with self._ground.fresh(self.product, self.entry.name) as place:
            found = self._seat(place, "versions")["packages"]
        for name, version in (pin.split("==") for pin in self.product.requirements):
            if found.get(name) != version:
                raise RuntimeError(f"Its environment holds {name} {found.get(name)} instead of {version}.")
        return {}

    @property
    def backlog(self) -> tuple[int, ...]:
        """How many jobs lie in the store, and in the large one if there is one."""
        return tuple(round(jobs * self.sizes.share) for jobs in self.product.backlog)

    def send(self) -> Figures:
        """Sending one by one and many at once, into a store that nobody works on."""
        sizes = self.sizes
        with self._ground.fresh(self.product, self.entry.name) as place:
            found = self._seat(place, "sends", sizes.many, sizes.ones, sizes.send_limit_s)
        ones = found["ones"]
        figures = {
            "send_one_per_s": ones["jobs"] / ones["wall_s"],
            "send_one_cpu_s": ones["cpu_s"] * 10_000 / ones["jobs"],
        }
        if "many" in found:
            figures["send_many_per_s"] = found["many"]["jobs"] / found["many"]["wall_s"]
        return figures

    def together(self) -> Figures:
        """Sending one by one from many coroutines of one loop."""
        sizes = self.sizes
        with self._ground.fresh(self.product, self.entry.name) as place:
            found = self._seat(place, "together", sizes.together, sizes.coroutines, sizes.send_limit_s)
        return {"send_together_per_s": found["jobs"] / found["wall_s"]}

    def drain(self) -> Figures:
        """The small store, then as many jobs of the large one; the clock runs from the first start to the last end."""
        small, *larger = self.backlog
        figures = self._drain(small, small)
        for large in larger:
            figures |= _growth(figures, self._drain(large, small))
        return figures

    def far(self) -> Figures:
        """The same drain by a worker that has a longer way to its store."""
        jobs = self.backlog[0]
        return {"far_per_s": self._drain(jobs, jobs, far=True)["drain_per_s"]}

    def growth(self) -> Figures:
        """The first jobs of a very large store, beside a store that has no others."""
        small, large = self.sizes.grown
        return _growth(self._drain(small, small), self._drain(large, small))

    def _drain(self, backlog: int, jobs: int, *, far: bool = False) -> Figures:
        with self._ground.filled(self.product, self.entry.name, backlog, self.fill) as place:
            marks = Marks(place.folder)
            with self.worker(place, far=far) as worker:
                self.until(lambda: marks.count() > 0, worker)
                before, before_cpu_s, before_server_s = marks.count(), worker.cpu_s(), place.cpu_s()
                limit_s = time.monotonic() + self.sizes.drain_limit_s
                while marks.count() < jobs and time.monotonic() < limit_s:
                    worker.check()
                    time.sleep(LOOK_S)
                whole = backlog == jobs and marks.count() >= jobs
                if whole:
                    self.until(lambda: place.stored(jobs) >= jobs, worker)
                now_ns, ran, cpu_s, server_s = time.monotonic_ns(), marks.count(), worker.cpu_s(), place.cpu_s()
                stored = place.stored(backlog)
                rss_mb, pss_mb = worker.memory_mb()
            started = marks.read()
        numbers = sorted(number for number, _ in started)
        if len(set(numbers)) != len(numbers) or (whole and numbers != list(range(jobs))):
            raise RuntimeError(f"{len(set(numbers))} of {jobs} jobs ran, {len(numbers)} times.")
        per_10k = 10_000 / max(1, ran - before)
        return {
            "drain_per_s": stored * 1e9 / (now_ns - started[0][1]),
            "drain_cpu_s": (cpu_s - before_cpu_s) * per_10k,
            "server_cpu_s": (server_s - before_server_s) * per_10k,
            "rss_mb": rss_mb,
            "pss_mb": pss_mb,
        }

    def start(self) -> Figures:
        """From just before a send to the start of its job, in a worker that had nothing to do."""
        with self._ground.fresh(self.product, self.entry.name) as place:
            marks = Marks(place.folder)
            self._seat(place, "hold", 0)  # when it has run, the worker is there
            with self.worker(place) as worker:
                self.until(lambda: marks.count() == 1, worker)
                sent_ns = self._seat(place, "paced", self.sizes.starts, self.sizes.apart_s)["sent_ns"]
                self.until(lambda: marks.count() == 2 + len(sent_ns), worker)
            waited = waits_ms(marks.read(), sent_ns)
        return _percentiles("start", waited)

    def answer(self) -> Figures:
        """From just before a send to its result in the sender's hands, by a worker that had nothing to do."""
        with self._ground.fresh(self.product, self.entry.name) as place:
            marks = Marks(place.folder)
            self._seat(place, "hold", 0)
            with self.worker(place) as worker:
                self.until(lambda: marks.count() == 1, worker)
                took_ns = self._seat(place, "calls", self.sizes.starts, self.sizes.apart_s)["took_ns"]
        return _percentiles("answer", [each_ns / 1e6 for each_ns in took_ns])

    def idle(self) -> Figures:
        """What several workers that have nothing to do cost their server, in CPU seconds a minute."""
        with self._ground.fresh(self.product, self.entry.name) as place:
            alone_s = self._idle_cpu_s(place)
            with ExitStack() as stack:
                workers = [stack.enter_context(self.worker(place)) for _ in range(self.sizes.idlers)]
                self._until_quiet(workers)
                time.sleep(self.sizes.settled_s)
                with_workers_s = self._idle_cpu_s(place)
                for worker in workers:
                    worker.check()
        return {"idle_cpu_s": (with_workers_s - alone_s) * 60 / self.sizes.idle_s}

    def _idle_cpu_s(self, place: Place) -> float:
        before_s = place.cpu_s()
        time.sleep(self.sizes.idle_s)
        return place.cpu_s() - before_s

    def kill(self) -> Figures:
        """From kill -9 of the whole worker, restarted at once, to the second start of the job it had.

        No figure: the store holds no such job any more, or nobody took it within the patience.
        """
        with self._ground.fresh(self.product, self.entry.name) as place:
            marks = Marks(place.folder)
            self._seat(place, "hold", self.sizes.hold_s)
            with self.worker(place) as worker:
                self.until(lambda: marks.count() == 1, worker)
                time.sleep(self.sizes.held_s)
                worker.kill()
                killed_ns = time.monotonic_ns()
            with self.worker(place) as worker:
                while marks.count() < 2:
                    worker.check()
                    waited_s = (time.monotonic_ns() - killed_ns) / 1e9
                    if waited_s > self.sizes.lost_s and not place.waiting():
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
            done = subprocess.run([self._home.interpreter, "-c", code], capture_output=True, text=True, check=True)
            found.append(float(done.stdout))
        return {"import_ms": statistics.median(found) * 1e3}

    # --- processes ---------------------------------------------------------------------------------

    def fill(self, place: Place, jobs: int) -> float:
        """Puts in so many jobs, by the fastest way it has; the CPU time that took its sender."""
        return self._seat(place, "fill", jobs, **self.entry.fill)["cpu_s"]

    def _seat(self, place: Place, *words: object, **env: str) -> dict[str, Any]:
        """Asks the contestant's sender, in its environment; the last line is the answer."""
        log = place.folder / "seat.log"
        command = [str(self._home.interpreter), *self._home.seat[1:], self.product.seat, *map(str, words)]
        with log.open("wb") as errors:
            done = subprocess.run(
                command, cwd=SEATS, env=self._env(place) | env, stdout=subprocess.PIPE, stderr=errors, check=False
            )
        if done.returncode:
            raise RuntimeError(f"{words[0]} failed: {last_line(log)}")
        return json.loads(done.stdout.splitlines()[-1])

    def worker(self, place: Place, *, far: bool = False) -> Tree:
        """Its worker, on that store."""
        env = self._env(place, far=far)
        words = f"{self.product.worker} {self.entry.options}".replace("{store}", env["RACE_STORE"])
        command = shlex.split(words)
        command[0] = str(self._home.programs / command[0])
        return Tree(command, cwd=SEATS, env=env, log=place.folder / "worker.log")

    def _env(self, place: Place, *, far: bool = False) -> dict[str, str]:
        own = place.env(far=far) | {"RACE_MARKS": str(place.folder / "marks")}
        path = os.pathsep.join([str(SEATS), str(ROOT)])
        return os.environ | {"PYTHONPATH": path} | self._home.env | own | self.entry.env

    def until(self, done: Callable[[], bool], worker: Tree) -> None:
        """Waits, as long as the worker lives and patience lasts."""
        until = time.monotonic() + self.sizes.patience_s
        while not done():
            worker.check()
            if time.monotonic() > until:
                raise RuntimeError(f"Its worker did not get so far within {self.sizes.patience_s:.0f} s.")
            time.sleep(LOOK_S)

    def _until_quiet(self, workers: Sequence[Tree]) -> None:
        """Until they have started: for a second, each takes hardly any CPU time."""
        until = time.monotonic() + self.sizes.patience_s
        while True:
            before_s = sum(worker.cpu_s() for worker in workers)
            time.sleep(1)
            if sum(worker.cpu_s() for worker in workers) - before_s < QUIET_S * len(workers):
                return
            if time.monotonic() > until:
                raise RuntimeError(f"Its workers are not quiet after {self.sizes.patience_s:.0f} s.")


def _growth(small: Figures, large: Figures) -> Figures:
    """CPU time of a job, of whoever spent it: with a large backlog, and how many times that with a small one."""
    of_small, of_large = (figures["drain_cpu_s"] + figures["server_cpu_s"] for figures in (small, large))
    return {"drain_large_cpu_s": of_large, "growth_x": of_large / of_small}


def _percentiles(name: str, waited_ms: Sequence[float]) -> Figures:
    return {
        f"{name}_p50_ms": statistics.median(waited_ms),
        f"{name}_p95_ms": statistics.quantiles(waited_ms, n=20)[-1],
    }


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

    def __init__(self, folder: Path) -> None:
        self._path = folder / "marks"

    def count(self) -> int:
        """How many there are."""
        return self._path.stat().st_size // MARK.size if self._path.exists() else 0

    def read(self) -> list[tuple[int, int]]:
        """Number and time of each, in the order they were written."""
        return [(number, started_ns) for number, started_ns in MARK.iter_unpack(self._path.read_bytes())]
