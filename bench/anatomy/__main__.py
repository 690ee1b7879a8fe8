"""`python -m bench.anatomy [--rounds N] [--quick] [--json FILE]`: measures where a job's microseconds go."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.anatomy import rights, sheet
from bench.anatomy.drain import JOBS, drain
from bench.anatomy.result import Column, Result, load
from bench.race import entries, table
from bench.race.contestant import Contestant, Sizes
from bench.race.ground import Ground
from bench.race.groups import REDIS
from bench.race.venvs import OURS
from bench.report import ROOT, commit, dirty, machine, write
from bench.rounds import say

COLUMNS = ("windlass-solo", "windlass-threads", "windlass-aio", "bare-lua", "bare-pipeline")
EVIDENCE = ROOT / "docs" / "evidence" / "anatomy.json"
CACHE = ROOT / ".cache"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures all columns, round by round."""
    options = _options(arguments)
    if options.table is not None:
        sheet.put(table.PAGE, load(options.table))
        return 0
    if not sys.platform.startswith("linux"):
        say("This reads /proc: it runs on Linux only.")
        return 2
    try:
        rights.check()
    except rights.Forbidden as problem:
        say(str(problem))
        return 2
    jobs = JOBS // 2 if options.quick else JOBS
    load_before = os.getloadavg()[0]
    began, at = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    code, changed = commit(), dirty()
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="anatomy-", dir=CACHE))
    try:
        with REDIS.ground(folder) as (ground, facts):
            columns = _measured(ground, options.rounds, jobs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result = Result(
        commit=code,
        dirty=changed,
        quick=options.quick,
        rounds=options.rounds,
        at=at,
        duration_s=round(time.monotonic() - began, 1),
        machine=machine() | facts | {"load": f"{load_before:.1f} before, {os.getloadavg()[0]:.1f} after"},
        jobs=jobs,
        columns=columns,
    )
    print(sheet.table(result))
    # Evidence and page in the repository are of whole runs only.
    whole = not options.quick and options.rounds >= 3
    if options.json or whole:
        write(options.json or EVIDENCE, result)
    if whole and options.json is None:
        sheet.put(table.PAGE, result)
        say(f"written: {EVIDENCE}, {table.PAGE}")
    return 0


def _measured(ground: Ground, rounds: int, jobs: int) -> list[Column]:
    """Every round drains for each column, one right after the other; who is first changes by the round."""
    products = entries.load(REDIS.entries)
    found = {entry.name: (product, entry) for product in products for entry in product.entry}
    pairs = [(Contestant(*found[name], OURS, ground, Sizes()), Column(name, [])) for name in COLUMNS]
    for number in range(rounds):
        for contestant, column in pairs if number % 2 == 0 else reversed(pairs):
            say(f"round {number + 1}: {column.name}")
            column.drains.append(drain(contestant, ground, jobs))
    return [column for _, column in pairs]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.anatomy", description="Measure where a job's microseconds go, on a server."
    )
    parser.add_argument("--rounds", type=int, help="drains of each column (3)")
    parser.add_argument("--quick", action="store_true", help="half of the jobs, one round; the page stays as it is")
    parser.add_argument("--json", type=Path, metavar="FILE", help=f"write the result there (whole runs: {EVIDENCE})")
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="measure nothing; write that result's table to the page"
    )
    options = parser.parse_args(arguments)
    options.rounds = options.rounds if options.rounds is not None else 1 if options.quick else 3
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    return options


if __name__ == "__main__":
    # An exception, so that no worker of anybody is left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
