"""Runs the tests of a mutant on a copy of the tree that has the bug, and first on one that has not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.mutants.patch import Mutant

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 180
"""How long one selection may take. A hang is an error unless the mutant says that it is how the bug shows."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_PASSED = re.compile(r"\b(\d+) passed")

Fate = Literal["caught", "survived", "error", "not run"]


@dataclass(frozen=True)
class Run:
    """What pytest said: its exit status (None: it did not end), how many passed, the first that failed, all text."""

    status: int | None
    passed: int
    first: str | None
    text: str
    seconds: float


@dataclass(frozen=True)
class Result:
    """The fate of a mutant; `by` is the first failing test, or why there is none."""

    mutant: Mutant
    fate: Fate
    by: str
    seconds: float


@contextmanager
def copied_tree() -> Generator[Path]:
    """A copy of what the tests need, in a place of its own."""
    with tempfile.TemporaryDirectory(prefix="windlass-mutant-") as name:
        folder = Path(name)
        skip = shutil.ignore_patterns("__pycache__", "*.patch")
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, folder / part, ignore=skip)
        shutil.copy(ROOT / "pyproject.toml", folder)
        yield folder


def run_tests(tree: Path, tests: Sequence[str]) -> Run:
    """Runs a selection in that tree, stopping at the first failure."""
    options = [
        "-x",
        "-q",
        "-rfE",
        "--no-header",
        "--tb=no",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=tree,
            env=_environment(tree),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Run(None, 0, None, f"no end within {LIMIT_S} s", time.monotonic() - began)
    failed, passed = _FAILED.search(done.stdout), _PASSED.search(done.stdout)
    return Run(
        status=done.returncode,
        passed=int(passed[1]) if passed else 0,
        first=failed[1] if failed else None,
        text=done.stdout,
        seconds=time.monotonic() - began,
    )


def _environment(tree: Path) -> dict[str, str]:
    """PYTHONPATH comes before the installed package; no bytecode, or a copy could be mistaken for its neighbour."""
    return os.environ | {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "PYTHONDONTWRITEBYTECODE": "1"}


def check_place(tree: Path) -> None:
    """Makes sure that the tests of a copy import the copy."""
    code = "import windlass; print(windlass.__file__)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tree, env=_environment(tree), capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).is_relative_to(tree), f"the tests would run on {done.stdout.strip()}"


def apply_patch(tree: Path, mutant: Mutant, *, only_look: bool = False) -> str | None:
    """Puts the bug in; what git says where the patch does not fit any more."""
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", *(["--check"] if only_look else []), str(mutant.path)],
        cwd=tree,
        env=os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return None if done.returncode == 0 else done.stdout.strip().replace("\n", "; ")


class Baseline:
    """The runs without a bug: one per selection, whoever asks for it first."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._lock = threading.Lock()
        self._locks: dict[tuple[str, ...], threading.Lock] = {}
        self._runs: dict[tuple[str, ...], Run] = {}

    def run(self, tests: tuple[str, ...]) -> Run:
        with self._lock:
            lock = self._locks.setdefault(tests, threading.Lock())
        with lock:
            if tests not in self._runs:
                self._runs[tests] = run_tests(self._tree, tests)
            return self._runs[tests]


def try_mutant(mutant: Mutant, baseline: Baseline) -> Result:
    """Whether the suite notices the bug."""
    began = time.monotonic()

    def result(fate: Fate, by: str) -> Result:
        return Result(mutant, fate, by, round(time.monotonic() - began, 1))

    with copied_tree() as tree:
        refused = apply_patch(tree, mutant)
        if refused is not None:
            return result("error", f"the patch does not apply: {refused}")
        clean = baseline.run(mutant.tests)
        if clean.status != 0:
            return result("error", f"without the bug: {clean.first or clean.text[-300:]}")
        if not clean.passed:
            return result("not run", "the tests that catch it are skipped on this machine")
        mutated = run_tests(tree, mutant.tests)
        if mutated.status is None:
            return result("caught" if mutant.hang_counts else "error", mutated.text)
        if mutated.status == 1 and mutated.first is not None:
            return result("caught", mutated.first)
        if mutated.status == 0:
            return result("survived", f"{mutated.passed} tests passed")
        return result("error", mutated.text[-300:])


def try_mutants(mutants: Sequence[Mutant], workers: int) -> Iterator[Result]:
    """The fates of all, in their order, several at a time."""
    with copied_tree() as tree, ThreadPoolExecutor(workers) as pool:
        check_place(tree)
        baseline = Baseline(tree)
        yield from pool.map(try_mutant, mutants, [baseline] * len(mutants))
