"""The result of a run: what was measured in every drain, and what a job's step costs by all of them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.anatomy.steps import KERNEL, STEPS, UNKNOWN
from bench.anatomy.verbs import TOLD_APART
from bench.race.result import Run

ELSE = "everything else"


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """One drain of one contestant; times are µs per job."""

    per_s: float
    sender_us: float
    insert_us: float
    """The server's, while it was filled."""
    cpu_us: dict[str, float]
    """By process: supervisor and runner, or the worker of a floor, which is one process."""
    in_kernel: dict[str, float]
    """The part of it that was system time."""
    server_us: float
    verbs: dict[str, float]
    """The parts of it that claim, settle and all other scripts took."""
    samples: dict[str, dict[str, int]]
    unknown: dict[str, dict[str, int]]
    """Where the samples were that belong to no step."""


class Column(msgspec.Struct, frozen=True):
    """All drains of one contestant."""

    name: str
    drains: list[Drain]

    def median(self, figure: Callable[[Drain], float]) -> float:
        return statistics.median(map(figure, self.drains))

    def cost(self) -> dict[tuple[str, str], float]:
        """µs of CPU per job, by who spent it and for what; of each part of the machine they add up to its median."""
        costs = {
            ("sender", "encode, round trip"): self.median(lambda drain: drain.sender_us),
            ("server", "insert"): self.median(lambda drain: drain.insert_us),
        }
        for who in self.drains[0].cpu_us:
            costs |= {(who, step): us for step, us in self._process(who).items()}
        server_us = self.median(lambda drain: drain.server_us)
        server = {verb: server_us * self.median(lambda drain, verb=verb: drain.verbs[verb]) for verb in TOLD_APART}
        server[ELSE] = server_us - sum(server.values())
        return costs | {("server", what): us for what, us in server.items()}

    def _process(self, who: str) -> dict[str, float]:
        """The CPU of a process: its user time divided by the samples of all rounds; or whole, if nobody sampled it."""
        us = self.median(lambda drain: drain.cpu_us[who])
        if who not in STEPS:
            return {"all of it": us}
        samples: Counter[str] = Counter()
        for drain in self.drains:
            samples.update(drain.samples[who])
        if not samples:
            raise RuntimeError(f"py-spy has seen nothing of the {who} of {self.name}.")
        kernel_us = us * self.median(lambda drain: drain.in_kernel[who])
        user = {step: (us - kernel_us) * samples[step] / samples.total() for step in (*STEPS[who], UNKNOWN)}
        return user | {KERNEL: kernel_us}


class Result(Run, frozen=True, kw_only=True):
    """One run."""

    jobs: int
    columns: list[Column]


def load(file: Path) -> Result:
    """A result that was written before."""
    return msgspec.json.decode(file.read_bytes(), type=Result)
