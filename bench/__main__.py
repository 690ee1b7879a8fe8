"""`python -m bench [name …] [--rounds N] [--quick] [--json FILE]`: measures bars; exits 1 if one is not reached."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import bars, claims, drains, footprint, growth, inserts, latency, lines, redis_size, runners
from bench.report import ROOT, Line, judged, report, table, write
from bench.rounds import Course, Round, say
from bench.stores import BYTES_PER_JOB, Workshop

EVIDENCE = ROOT / "docs" / "evidence" / "bars.json"
NEEDED_BYTES = 3 * 1_100_000 * BYTES_PER_JOB
"""The largest store, a copy of it, and what WAL and small stores take beside them."""

MEASUREMENTS: dict[str, Callable[[Course], list[Round]]] = {
    measurement.__name__: measurement
    for measurement in (
        claims.claim_settle,
        inserts.bulk_insert,
        inserts.single_insert,
        inserts.threads_insert,
        growth.backlog_growth,
        growth.finished_growth,
        growth.held_growth,
        growth.lane_growth,
        drains.drain_solo,
        drains.drain_solo_cpu,
        drains.drain_threads,
        drains.drain_aio,
        latency.start_p50,
        latency.start_p95,
        latency.idle_cpu,
        footprint.import_time,
        footprint.worker_rss,
        footprint.help_time,
        runners.runner_drain,
        runners.second_runner,
        runners.idle_runners,
        runners.runners_pss,
        lines.silent_lines,
        lines.talker,
        redis_size.redis_job_bytes,
    )
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures the named bars, or all; the exit code says whether all were reached."""
    options = _options(arguments)
    known = bars.load()
    names: list[str] = options.names or [bar.name for bar in known]
    wanted = [bar for bar in known if bar.name in names]
    unknown = set(names) - {bar.name for bar in wanted}
    if unknown:
        say(f"There is no bar {', '.join(sorted(unknown))}. There are: {', '.join(bar.name for bar in known)}.")
        return 2
    inside = ROOT / ".cache"
    if not options.quick and not _has_room(inside):
        return 2
    began, lines = time.monotonic(), list[Line]()
    with Workshop.opened(inside) as workshop:
        course = Course(workshop, options.rounds, options.quick)
        for bar in wanted:
            say(f"[{time.monotonic() - began:5.0f} s] {bar.name}: {bar.sentence}")
            lines.append(judged(bar, MEASUREMENTS[bar.name](course), quick=options.quick))
    result = report(lines, quick=options.quick, duration_s=time.monotonic() - began)
    print(table(lines))
    # The evidence in the repository is of whole runs only.
    whole = len(wanted) == len(known) and not options.quick and options.rounds is None
    file: Path | None = options.json or (EVIDENCE if whole else None)
    if file is not None:
        write(file, result)
        say(f"written: {file}")
    return 1 if result.failed else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the bars of bench/bars.toml.")
    parser.add_argument("names", nargs="*", metavar="name", help="bars to measure (all)")
    parser.add_argument("--rounds", type=int, help="rounds of every measurement (5)")
    parser.add_argument("--quick", action="store_true", help="tiny stores, one round, no verdict: tries the code out")
    parser.add_argument("--json", type=Path, metavar="FILE", help=f"write the result there (whole runs: {EVIDENCE})")
    options = parser.parse_args(arguments)
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    if options.quick and options.rounds is None:
        options.rounds = 1
    return options


def _has_room(folder: Path) -> bool:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free >= NEEDED_BYTES:
        return True
    say(f"The bars need {NEEDED_BYTES / 1e9:.1f} GB free in {folder}; there are {free / 1e9:.1f} GB.")
    return False


if __name__ == "__main__":
    sys.exit(main())
