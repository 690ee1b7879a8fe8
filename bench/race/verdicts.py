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
Rule = Callable[[Found], list[Round]]
Values = list[float]
"""One of each round."""


def _of(found: Found, figure: str, *names: str) -> list[Values]:
    """That figure of each of those who raced and have it."""
    return [found[name].figures[figure] for name in names if name in found and figure in found[name].figures]


def _each(several: Sequence[Values], chosen: Callable[[list[float]], float]) -> Values:
    """One value of several, round by round; who failed in between counts as long as it raced."""
    rounds = max((len(values) for values in several), default=0)
    return [chosen([values[number] for values in several if number < len(values)]) for number in range(rounds)]


def _beside(
    ours: Sequence[Values], theirs: Sequence[Values], best: Callable[[list[float]], float] = max
) -> list[Round]:
    """The best of ours over the best of theirs in the same round."""
    pairs = zip(_each(ours, best), _each(theirs, best), strict=False)
    return [Round(own / other, {"ours": own, "best": other}) for own, other in pairs if other]


def _alone(several: Sequence[Values]) -> list[Round]:
    """The largest of several, where less is better."""
    return [Round(value, {}) for value in _each(several, max)]


def _kind(found: Found, kind: str, runtime: str | None = None) -> list[str]:
    return [
        name
        for name, finish in found.items()
        if finish.product.kind == kind and finish.product.runtime == (runtime or finish.product.runtime)
    ]


# --- embedded --------------------------------------------------------------------------------------


def _drains(found: Found, ours: str, peers: Sequence[str]) -> list[Round]:
    return _beside(_of(found, "drain_per_s", ours), _of(found, "drain_per_s", *peers))


def _others(found: Found) -> list[str]:
    return [name for name in _kind(found, "peer") if name != "huey-fsync"]


def _reruns(found: Found) -> list[Round]:
    return _alone(_of(found, "rerun_s", *_kind(found, "ours")))


# --- redis -----------------------------------------------------------------------------------------

BULLMQ = ("bullmq", "bullmq-2")


def _python_on_redis(found: Found) -> list[str]:
    """The Python peers that send through the server itself."""
    return [name for name in _kind(found, "peer", "python") if not found[name].product.broker]


def _fastest(found: Found, names: Sequence[str]) -> list[str]:
    """Of several configurations the one that drains best, by the median of its rounds."""
    measured = {name: rate for name in names if name in found and (rate := found[name].median("drain_per_s"))}
    return [max(measured, key=lambda name: measured[name])] if measured else []


def _ours_beside(found: Found, peers: Sequence[str]) -> list[Round]:
    """The drain of our best configuration over that of their best one."""
    ours, theirs = _fastest(found, _kind(found, "ours")), _fastest(found, peers)
    return _beside(_of(found, "drain_per_s", *ours), _of(found, "drain_per_s", *theirs))


def _all_cpu(found: Found, *names: str) -> list[Values]:
    """Worker and server together, of each."""
    return [
        [worker + server for worker, server in zip(*both, strict=True)]
        for name in names
        if len(both := _of(found, "drain_cpu_s", name) + _of(found, "server_cpu_s", name)) == 2
    ]


def _sends(found: Found, figure: str, peers: Sequence[str]) -> list[Round]:
    return _beside(_of(found, figure, "windlass-solo"), _of(found, figure, *peers))


def _starts(found: Found) -> list[Round]:
    ours, theirs = (_of(found, "start_p50_ms", *_kind(found, kind)) for kind in ("ours", "peer"))
    return _beside(ours, theirs, best=min)


def _far(found: Found) -> list[Round]:
    ours = _fastest(found, _kind(found, "ours"))
    return _beside(_of(found, "far_per_s", *ours), _of(found, "drain_per_s", *ours))


def _together(found: Found) -> list[Round]:
    ours = "windlass-solo"
    return _beside(_of(found, "send_together_per_s", ours), _of(found, "send_one_per_s", ours))


RULES: dict[str, dict[str, Rule]] = {
    "embedded": {
        "solo_huey": lambda found: _drains(found, "windlass-solo", ["huey-fsync"]),
        "default_huey": lambda found: _drains(found, "windlass", ["huey-fsync"]),
        "default_best": lambda found: _drains(found, "windlass", _others(found)),
        "solo_cpu": lambda found: _alone(_of(found, "drain_cpu_s", "windlass-solo")),
        "rerun": _reruns,
    },
    "redis": {
        "drain_bullmq": lambda found: _ours_beside(found, BULLMQ),
        "drain_python": lambda found: _ours_beside(found, _python_on_redis(found)),
        "drain_celery": lambda found: _ours_beside(found, ["celery-prefork"]),
        "cpu_solo": lambda found: _alone(_all_cpu(found, "windlass-solo")),
        "cpu_bullmq": lambda found: _beside(_all_cpu(found, "windlass-solo"), _all_cpu(found, *BULLMQ), best=min),
        "cpu_threads": lambda found: _alone(_all_cpu(found, "windlass-threads")),
        "cpu_aio": lambda found: _alone(_all_cpu(found, "windlass-aio")),
        "send_many": lambda found: _sends(found, "send_many_per_s", BULLMQ),
        "send_one_bare": lambda found: _sends(found, "send_one_per_s", ["bare-lua"]),
        "send_one_best": lambda found: _sends(found, "send_one_per_s", _kind(found, "peer")),
        "send_together": _together,
        "start_best": _starts,
        "idle": lambda found: _alone(_of(found, "idle_cpu_s", *_kind(found, "ours"))),
        "far": _far,
        "growth": lambda found: _alone(_of(found, "growth_x", *_kind(found, "ours"))),
    },
}


def verdicts(group: str, finishes: Sequence[Finish], *, quick: bool) -> list[Line]:
    """A line for every bar of the group whose contestants raced."""
    found = {finish.entry.name: finish for finish in finishes}
    rules = RULES[group]
    measured = [(bar, rules[bar.name](found)) for bar in bars.load(FILE) if bar.name in rules]
    return [judged(bar, rounds, quick=quick) for bar, rounds in measured if rounds]
