"""The bars of the race: ratios within a round, medians over the rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench import bars
from bench.race.result import Finish
from bench.report import Line, judged
from bench.rounds import Round

FILE = Path(__file__).parent / "bars.toml"

Found = dict[str, Finish]


def _drains(found: Found, ours: str, peers: Sequence[str]) -> list[Round]:
    """Our drains over the best of those peers in the same round."""
    rounds: list[Round] = []
    theirs = [found[peer].figures.get("drain_per_s", []) for peer in peers if peer in found]
    for number, own in enumerate(found[ours].figures.get("drain_per_s", []) if ours in found else []):
        best = max((values[number] for values in theirs if number < len(values)), default=None)
        if best:
            rounds.append(Round(own / best, {"ours": own, "best": best}))
    return rounds


def _reruns(found: Found) -> list[Round]:
    """The slower of ours, round by round."""
    own = [finish.figures.get("rerun_s", []) for finish in found.values() if finish.product.kind == "ours"]
    return [Round(max(values), {}) for values in zip(*own, strict=False)]


def _others(found: Found) -> list[str]:
    return [name for name, finish in found.items() if finish.product.kind == "peer" and name != "huey-fsync"]


RULES: dict[str, Callable[[Found], list[Round]]] = {
    "solo_huey": lambda found: _drains(found, "windlass-solo", ["huey-fsync"]),
    "default_huey": lambda found: _drains(found, "windlass", ["huey-fsync"]),
    "default_best": lambda found: _drains(found, "windlass", _others(found)),
    "rerun": _reruns,
}


def verdicts(finishes: Sequence[Finish], *, quick: bool) -> list[Line]:
    """A line for every bar whose contestants raced."""
    found = {finish.entry.name: finish for finish in finishes}
    measured = [(bar, RULES[bar.name](found)) for bar in bars.load(FILE)]
    return [judged(bar, rounds, quick=quick) for bar, rounds in measured if rounds]
