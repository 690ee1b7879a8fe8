"""`python -m bench.race --group NAME [--rounds N] [--only NAME …] [--quick]`: races; exits 1 if one failed."""

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

from bench.race import entries, rounds, table, verdicts
from bench.race.contestant import QUICK, Contestant, Sizes
from bench.race.ground import Ground
from bench.race.groups import EMBEDDED, GROUPS, Group
from bench.race.result import Finish, Result, load
from bench.race.venvs import OURS, home_of
from bench.report import ROOT, commit, dirty, machine, write
from bench.rounds import say

CACHE = ROOT / ".cache"


def main(arguments: Sequence[str] | None = None) -> int:
    """Races the named entries, or all; the exit code says whether everybody ran and every bar was reached."""
    options = _options(arguments)
    if options.table is not None:
        return _show(options.table)
    if not sys.platform.startswith("linux"):
        say("The race reads /proc: it runs on Linux only.")
        return 2
    group = GROUPS[options.group]
    products = entries.load(options.entries or group.entries)
    names = [entry.name for product in products for entry in product.entry]
    wanted: list[str] = options.only or names
    if unknown := sorted(set(wanted) - set(names)):
        say(f"There is no entry {', '.join(unknown)}. There are: {', '.join(names)}.")
        return 2
    chosen = [product for product in products if {entry.name for entry in product.entry} & set(wanted)]
    load = os.getloadavg()[0]
    began, at = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    code, changed = commit(), dirty()
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="race-", dir=CACHE))
    try:
        with group.ground(folder) as (ground, facts):
            pairs = _pairs(group, chosen, wanted, ground, QUICK if options.quick else Sizes())
            rounds.run(group, pairs, options.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    finishes = [finish for _, finish in pairs]
    result = Result(
        group=group.name,
        commit=code,
        dirty=changed,
        quick=options.quick,
        rounds=options.rounds,
        at=at,
        duration_s=round(time.monotonic() - began, 1),
        machine=machine() | facts | {"load": f"{load:.1f} before, {os.getloadavg()[0]:.1f} after"},
        finishes=finishes,
        bars=verdicts.verdicts(group.name, finishes, quick=options.quick),
    )
    print(table.tables(result))
    # Evidence and page in the repository are of whole runs only.
    whole = wanted == names and not options.quick and options.rounds >= 3 and options.entries is None
    if options.json or whole:
        write(options.json or group.evidence, result)
    if whole and options.json is None:
        table.put(table.PAGE, result)
        say(f"written: {group.evidence}, {table.PAGE}")
    return 1 if result.failed else 0


def _pairs(
    group: Group, products: Sequence[entries.Product], wanted: Sequence[str], ground: Ground, sizes: Sizes
) -> list[tuple[Contestant, Finish]]:
    """Makes their environments. Whoever cannot be installed is not run, and the others race."""
    pairs: list[tuple[Contestant, Finish]] = []
    for product in products:
        home, besides, error = OURS, "", None
        try:
            home = home_of(product, CACHE / "race-venvs")
            besides = ground.prepare(product)
        except Exception as problem:  # no network, no such version: its result, and nobody else's
            error = f"install: {problem}"
            say(f"{product.name}: {error}")
        packages = ", ".join(pin.replace("==", " ") for pin in product.requirements) or group.versions()
        version = ", ".join(part for part in (packages, besides) if part)
        for entry in product.entry:
            if entry.name in wanted:
                contestant = Contestant(product, entry, home, ground, sizes)
                finish = Finish(product=product, entry=entry, version=version, backlog=contestant.backlog, error=error)
                pairs.append((contestant, finish))
    return pairs


def _show(file: Path) -> int:
    """Builds the tables of the page again, from JSON."""
    table.put(table.PAGE, load(file))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.race", description="Race the entries of bench/race/<group>.toml."
    )
    parser.add_argument("--group", choices=list(GROUPS), default=EMBEDDED.name, help="who races (embedded)")
    parser.add_argument("--rounds", type=int, help="rounds of every measurement (3)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="entries to race (all)")
    parser.add_argument("--quick", action="store_true", help="a few jobs, one round, no verdict: tries the code out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there (whole runs: docs/evidence)")
    parser.add_argument("--entries", type=Path, metavar="FILE", help="other entries")
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="race nobody; write that result's tables to the page"
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
