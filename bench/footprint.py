"""Footprint: what it costs to have Windlass at all: the times of its import and of its help, the memory of a worker.

All are measured in fresh interpreters that load nothing else, not even this folder.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.rounds import Course, Round, say
from bench.stores import Stock

IMPORTS = 21
"""Fresh interpreters per module and round."""
ROUNDS = 3
MODULES = {"ours": "import windlass", "msgspec": "import msgspec", "all": "from windlass import App, Worker"}
"""`all` is judged by nobody: it says what the first use costs, for which `import windlass` is only a promise."""
HELPS = {"help": ["-m", "windlass", "--help"], "click": ["-c", "import click"]}
"""Whole processes: what somebody waits for who types a command, beside the least that any command on click costs."""

IMPORT = """
import time
start = time.perf_counter()
{statement}
print(time.perf_counter() - start)
"""
WORK = """
import sys
from windlass import App, Worker
with App("sqlite:///" + sys.argv[1]) as app, Worker(app) as worker:
    print(worker.id, flush=True)
    sys.stdin.read()
"""


def import_time(course: Course) -> list[Round]:
    """`import windlass` beside `import msgspec`, in turn, by the median time of the statement."""
    rounds: list[Round] = []
    for number in range(1, (course.rounds or ROUNDS) + 1):
        found: dict[str, list[float]] = {name: [] for name in MODULES}
        for turn in range(3 if course.quick else IMPORTS):
            for name in MODULES if turn % 2 else reversed(MODULES):
                found[name].append(_import_s(MODULES[name]))
        figures = {f"{name}_ms": round(statistics.median(times) * 1e3, 3) for name, times in found.items()}
        rounds.append(Round(figures["ours_ms"] / figures["msgspec_ms"], figures))
        said = ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
        say(f"  round {number}: {said} → {rounds[-1].value:.3f}")
    return rounds


def help_time(course: Course) -> list[Round]:
    """`python -m windlass --help` beside `python -c 'import click'`, whole processes in turn, by the median."""
    rounds: list[Round] = []
    for number in range(1, (course.rounds or ROUNDS) + 1):
        found: dict[str, list[float]] = {name: [] for name in HELPS}
        for turn in range(3 if course.quick else IMPORTS):
            for name in HELPS if turn % 2 else reversed(HELPS):
                found[name].append(_process_s(HELPS[name]))
        figures = {f"{name}_ms": round(statistics.median(times) * 1e3, 3) for name, times in found.items()}
        rounds.append(Round(figures["help_ms"] / figures["click_ms"], figures))
        said = ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
        say(f"  round {number}: {said} → {rounds[-1].value:.3f}")
    return rounds


def worker_rss(course: Course) -> list[Round]:
    """Millions of bytes that a worker of an app without tasks holds in memory, on an empty store."""
    rounds: list[Round] = []
    for number in range(1, (course.rounds or ROUNDS) + 1):
        with course.workshop.copy(Stock()) as path:
            mb = _worker_rss_mb(path, 0.2 if course.quick else 5.0)
        rounds.append(Round(mb, {"rss_mb": mb}))
        say(f"  round {number}: {mb:.1f} MB")
    return rounds


def _import_s(statement: str) -> float:
    code = IMPORT.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def _process_s(words: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def _worker_rss_mb(path: Path, seconds: float) -> float:
    """After some sweeps and a beat, when everything it does while idle has been done once."""
    worker = subprocess.Popen(
        [sys.executable, "-c", WORK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert worker.stdout is not None
        if not worker.stdout.readline().strip():
            raise RuntimeError("The worker did not start; its error stands above.")
        try:
            worker.wait(seconds)
            raise RuntimeError("The worker ended by itself; its error stands above.")
        except subprocess.TimeoutExpired:
            mb = rss_mb(worker.pid)
        worker.communicate()
        if worker.returncode:
            raise RuntimeError("The worker failed while it stopped; its error stands above.")
        return mb
    finally:
        worker.kill()
        worker.wait()


def rss_mb(pid: int) -> float:
    """What a process holds in memory, in millions of bytes."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        found = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS:"))
        return int(found.split()[1]) * 1_024 / 1e6
    done = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(done.stdout) * 1_024 / 1e6
