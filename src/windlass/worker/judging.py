"""What becomes of a job whose process was killed for its sake: a runner is asked.

The policy and the hooks of its task are the user's code, which a supervisor does not run. A runner that gets no further
is not asked, and one that does not answer in time is asked no more. If nobody answers, the death counts as a crash, for
which no policy is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windlass.core.clock import Clock
from windlass.engines.protocol import Claim
from windlass.worker.frames import Judge, Key
from windlass.worker.roster import Roster
from windlass.worker.runner_process import RunnerProcess

PATIENCE_US = 5_000_000
"""How long one may take to answer."""
MOST_ASKED = 2
LOOK_S = 0.5


@dataclass
class Case:
    """One such job, and who was asked about it."""

    judge: Judge
    since_us: int
    runner: RunnerProcess | None = None
    asked_us: int = 0
    asked: int = 0


class Judging:
    """Those that nobody has judged yet."""

    def __init__(self, roster: Roster, clock: Clock, give_up: Callable[[Judge], None]) -> None:
        self._roster = roster
        self._clock = clock
        self._give_up = give_up
        self._cases: dict[Key, Case] = {}

    def ask(self, judge: Judge) -> None:
        """A runner is asked, now or when there is one."""
        now_us = self._clock.monotonic_us()
        with self._roster.lock:
            case = self._cases[judge.claim.id, judge.claim.fence] = Case(judge, now_us)
            self._ask_one(case, now_us)

    def _ask_one(self, case: Case, now_us: int) -> None:
        there = self._roster.of_tasks()
        able = [runner for runner in there if runner.state == "working" and not runner.is_silent(now_us)]
        if able:
            runner = min(able, key=lambda runner: len(runner.claims))
            case.runner, case.asked_us = runner, now_us
            case.asked += 1
            runner.judging.add((case.judge.claim.id, case.judge.claim.fence))
            runner.send(case.judge)

    def answered(self, runner: RunnerProcess, key: Key) -> Claim | None:
        """It says what becomes of that one; None: it was not asked, or others were since."""
        with self._roster.lock:
            runner.judging.discard(key)
            case = self._cases.get(key)
            if case is None or case.runner is not runner:
                return None
            del self._cases[key]
            return case.judge.claim

    def lost(self, runner: RunnerProcess) -> None:
        """It is dead: others are asked in its stead."""
        now_us = self._clock.monotonic_us()
        with self._roster.lock:
            for case in self._cases.values():
                if case.runner is runner:
                    case.runner = None
        self.look(now_us)

    def look(self, now_us: int) -> float | None:
        """Asks again where nobody was asked or nobody answers; gives when to look again."""
        hopeless: list[Judge] = []
        with self._roster.lock:
            for key, case in list(self._cases.items()):
                if case.runner is not None and now_us - case.asked_us >= PATIENCE_US:
                    case.runner.judging.discard(key)
                    case.runner = None
                if case.runner is None and self._is_hopeless(case, now_us):
                    del self._cases[key]
                    hopeless.append(case.judge)
                elif case.runner is None:
                    self._ask_one(case, now_us)
            left = bool(self._cases)
        for judge in hopeless:
            self._give_up(judge)
        return LOOK_S if left else None

    def _is_hopeless(self, case: Case, now_us: int) -> bool:
        """Whether enough were asked; or there are some, and none of them gets any further."""
        there = any(runner.state == "working" for runner in self._roster.of_tasks())
        return case.asked >= MOST_ASKED or (there and now_us - case.since_us >= MOST_ASKED * PATIENCE_US)

    def take_back(self) -> list[Claim]:
        """Those about which nobody could be asked."""
        with self._roster.lock:
            unasked = [key for key, case in self._cases.items() if case.runner is None]
            return [self._cases.pop(key).judge.claim for key in unasked]
