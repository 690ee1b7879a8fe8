"""`python -m tests.soak [story …] [--seed N] [--rounds N]`: the stories whole; 1 if any invariant was broken."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.soak import (
    evidence,
    frozen,
    kills,
    lost_locks,
    machine,
    poison,
    power_cuts,
    recovery,
    redis_faults,
    redis_machine,
    redis_outage,
    runners,
)
from tests.soak.checker import Violation
from tests.soak.kills import Report

SEED = 20_260_101
CUTS_PER_STORE = 10


class Telling:
    """A line per round: where the story is, what it found, how long it takes."""

    def __init__(self, story: str, rounds: int) -> None:
        self._story = story
        self._rounds = rounds
        self._began = time.monotonic()

    def __call__(self, number: int, report: Report, note: str = "") -> None:
        passed_s = time.monotonic() - self._began
        faults = ", ".join(f"{n:,} {kind}" for kind, n in sorted(report.faults.items()))
        print(
            f"{self._story} {number}/{self._rounds}  {report.counts['jobs']:,} jobs, {faults or 'no faults'}, "
            f"{len(report.violations)} violations, {passed_s:.0f} s {note}".rstrip(),
            flush=True,
        )


def in_folder(run: Callable[[Path], Report]) -> Report:
    """A round in a folder of its own, which is kept only where something was wrong."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-soak-"))
    report = run(folder)
    if report.violations:
        print(f"  kept for study: {folder}", flush=True)
    else:
        shutil.rmtree(folder)
    return report


def run_kills(seed: int, rounds: int) -> Report:
    """Story A."""
    whole, tell = Report(), Telling("kills", rounds)
    for number in range(rounds):
        whole.add(in_folder(lambda folder, n=number: kills.run_round(folder, seed + n, kills.Shape())))
        tell(number + 1, whole)
        if whole.violations:
            break
    return whole


def run_power_cuts(seed: int, rounds: int) -> Report:
    """Story B; a round is a cut."""
    whole, tell = Report(), Telling("power_cuts", rounds)
    cuts = 0
    with tempfile.TemporaryDirectory(prefix="windlass-disk-") as place, power_cuts.Disk.made(Path(place)) as disk:
        while cuts < rounds and not whole.violations:
            n = min(CUTS_PER_STORE, rounds - cuts)
            store_seed = seed + cuts

            def run(folder: Path, store_seed: int = store_seed, n: int = n) -> Report:
                try:
                    return power_cuts.run_store(disk, folder, store_seed, n)
                finally:
                    shutil.rmtree(disk.point / f"store-{store_seed}", ignore_errors=True)

            whole.add(in_folder(run))
            cuts += n
            tell(cuts, whole)
    return whole


def run_lost_locks(seed: int, rounds: int) -> Report:
    """Story C; a round is a store. Then once more without pins, for reading only."""
    whole, tell = Report(), Telling("lost_locks", rounds)
    for number in range(rounds):
        whole.add(in_folder(lambda folder, n=number: lost_locks.run_store(folder, seed + n, lost_locks.BATCH)))
        tell(number + 1, whole)
        if whole.violations:
            return whole
    with tempfile.TemporaryDirectory(prefix="windlass-soak-") as place:
        bare = lost_locks.without_pins(Path(place), seed, 1_000)
    kinds = sorted({violation.invariant for violation in bare.violations})
    note = f"without pins, not asserted: {len(bare.violations)} violations ({', '.join(kinds) or 'none'})"
    whole.notes.append(note)
    print(f"  {note}", flush=True)
    return whole


def run_machine(seed: int, rounds: int) -> Report:
    """Story D; a round is a number of histories on one engine, and engines take turns."""
    whole, tell = Report(), Telling("machine", rounds)
    for number in range(rounds):
        engine = machine.ENGINES[number % len(machine.ENGINES)]
        if not holds(whole, engine, seed + number, lambda e=engine, n=number: machine.run_histories(e, seed + n)):
            break
        whole.counts[f"{engine}_histories"] += machine.EXAMPLES
        tell(number + 1, whole, engine)
    return whole


def holds(whole: Report, engine: str, seed: int, run: Callable[[], None]) -> bool:
    """Whether the histories of a round break no rule."""
    try:
        run()
    except Exception as error:
        whole.violations.append(Violation("machine", "", f"{engine}, seed {seed}: {error}"))
        notes: list[str] = getattr(error, "__notes__", [])
        whole.stories += [str(error), *notes]
        return False
    return True


def run_redis(seed: int, rounds: int) -> Report:
    """Story I; after its rounds outages, and more rounds until there were as many faults as the whole story has."""
    whole, tell = Report(), Telling("redis", rounds)
    began, number = time.monotonic(), 0
    is_whole = rounds == redis_faults.ROUNDS
    while number < rounds or (is_whole and not redis_faults.is_enough(whole, time.monotonic() - began)):
        run = partial(redis_faults.run_round, seed=seed + number, shape=redis_faults.Shape())
        whole.add(in_folder(run))
        number += 1
        tell(number, whole)
        if whole.violations:
            return whole
    outages = redis_outage.Shape() if is_whole else redis_outage.Shape(outages=1, away_s=3)
    whole.add(in_folder(partial(redis_outage.run_round, shape=outages)))
    whole.violations += redis_outage.missed(whole.times_ms)
    return whole


def run_redis_machine(seed: int, rounds: int) -> Report:
    """Story J; a round is a number of histories on one kind of server, and the kinds take turns."""
    whole, tell = Report(), Telling("redis_machine", rounds)
    for number in range(rounds):
        server = redis_machine.SERVERS[number % len(redis_machine.SERVERS)]
        if not holds(whole, server, seed + number, lambda s=server, n=number: redis_machine.run_histories(s, seed + n)):
            break
        whole.counts[f"{server}_histories"] += redis_machine.EXAMPLES
        tell(number + 1, whole, server)
    return whole


def run_poison(seed: int, rounds: int) -> Report:
    """Story E; a round is a store with a thousand good jobs and a hundred pills."""
    whole, tell = Report(), Telling("poison", rounds)
    for number in range(rounds):
        whole.add(in_folder(lambda folder, n=number: poison.run_round(folder, seed + n, poison.Shape())))
        tell(number + 1, whole)
    return whole


def run_recovery(_seed: int, rounds: int) -> Report:
    """Story F; a round is every kind of death, so many times as its shape says."""
    whole, tell = Report(), Telling("recovery", rounds)
    for number in range(rounds):
        whole.add(in_folder(lambda folder: recovery.run_round(folder, recovery.Shape())))
        tell(number + 1, whole)
    whole.violations += recovery.missed(whole.times_ms)
    return whole


def run_runners(seed: int, rounds: int) -> Report:
    """Story G."""
    whole, tell = Report(), Telling("runners", rounds)
    for number in range(rounds):
        whole.add(in_folder(lambda folder, n=number: runners.run_round(folder, seed + n, runners.Shape())))
        tell(number + 1, whole)
        if whole.violations:
            break
    return whole


def run_frozen(_seed: int, rounds: int) -> Report:
    """Story H; a round is a standstill where a lock tells of deaths, and one where a lease does."""
    whole, tell = Report(), Telling("frozen", rounds)
    for number in range(rounds):
        whole.add(in_folder(lambda folder: frozen.run_round(folder, "lock")))
        whole.add(in_folder(lambda folder: frozen.run_round(folder, "lease")))
        tell(number + 1, whole)
    return whole


STORIES: dict[str, tuple[Callable[[int, int], Report], int]] = {
    "kills": (run_kills, 200),
    "power_cuts": (run_power_cuts, 300),
    "lost_locks": (run_lost_locks, lost_locks.JOBS // lost_locks.BATCH),
    "machine": (run_machine, 2 * 500 // machine.EXAMPLES),
    "poison": (run_poison, 1),
    "recovery": (run_recovery, 1),
    "runners": (run_runners, 20),
    "frozen": (run_frozen, 5),
    "redis": (run_redis, redis_faults.ROUNDS),
    "redis_machine": (run_redis_machine, 3 * 500 // redis_machine.EXAMPLES),
}


def run_story(name: str, seed: int, rounds: int | None) -> bool:
    """Runs a story, writes its evidence, and shows what broke; True if nothing did."""
    run, whole = STORIES[name]
    rounds = whole if rounds is None else rounds
    skipped = power_cuts.unable() if name == "power_cuts" else None
    started, began = evidence.now(), time.monotonic()
    report = Report() if skipped else run(seed, rounds)
    result = f"skipped: {skipped}" if skipped else ("failed" if report.violations else "passed")
    path = evidence.write(
        evidence.Evidence(
            story=name,
            result=result,
            commit=evidence.commit(),
            seed=seed,
            rounds=rounds,
            counts=evidence.positive(report.counts),
            faults=evidence.positive(report.faults),
            violations=[str(violation) for violation in report.violations[:100]],
            notes=report.notes,
            times_ms={name: recovery.figures(times) for name, times in report.times_ms.items()},
            duration_s=round(time.monotonic() - began, 1),
            started=started,
        )
    )
    print(f"{name}: {result}, {path}", flush=True)
    for what, times in report.times_ms.items():
        print(f"  {what}: " + ", ".join(f"{which} {ms:.0f} ms" for which, ms in recovery.figures(times).items()))
    for violation in report.violations[:20]:
        print(f"  {violation}")
    for line in report.stories[:200]:
        print(f"    {line}")
    if report.violations:
        print(f"  again: python -m tests.soak {name} --seed {seed}")
    return not report.violations


def main() -> int:
    """Runs the named stories, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("stories", nargs="*", metavar="story", help=f"of {', '.join(STORIES)}; all if none")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--rounds", type=int, default=None, help="fewer or more than the whole story")
    given = parser.parse_args()
    logging.getLogger("windlass").setLevel(logging.ERROR)  # after every cut open says so, as it should
    unknown = [name for name in given.stories if name not in STORIES]
    if unknown:
        parser.error(f"no story {unknown[0]!r}; there are {', '.join(STORIES)}")
    passed = [run_story(name, given.seed, given.rounds) for name in given.stories or STORIES]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
