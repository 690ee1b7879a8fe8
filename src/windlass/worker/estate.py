"""What a dead runner leaves behind: each of its claims gets its end, or goes back.

not on the runner's page     it had not started, and goes back at its rank
started                      it counts a crash
the runner killed for it     a living runner says what becomes of it (`judging.py`)
the runner killed otherwise  for another's sake or to stop: it goes back uncounted
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.core.clock import Clock
from windlass.core.errors import JobError
from windlass.core.ids import show_id
from windlass.core.scripts import SCRIPT
from windlass.engines.protocol import Claim, Note
from windlass.worker import deaths
from windlass.worker.executor import crashed
from windlass.worker.frames import Judge
from windlass.worker.judging import Judging
from windlass.worker.roster import Roster
from windlass.worker.runner_process import RunnerProcess
from windlass.worker.service import log
from windlass.worker.staff import Office


class Estate:
    """Settles for the dead."""

    def __init__(self, roster: Roster, clock: Clock, office: Callable[[], Office]) -> None:
        self._roster = roster
        self._clock = clock
        self._office = office
        self.judging = Judging(roster, clock, self._settle_unjudged)

    def divide(self, runner: RunnerProcess) -> None:
        """It is dead, and all that it wrote has been read."""
        now_us = self._clock.monotonic_us()
        with self._roster.lock:
            marks = {(mark.job, mark.fence): mark for mark in self._roster.marks(runner)}
            claims = [(key, claim, marks.get(key)) for key, claim in runner.claims.items()]
            if runner.alone is not None and not runner.alone_sent:
                claims.append(((runner.alone.id, runner.alone.fence), runner.alone, None))
            runner.claims.clear()
        back = [claim for _, claim, mark in claims if mark is None]
        for key, claim, mark in claims:
            if mark is None:
                continue
            ran_us = max(0, now_us - mark.started_us)
            sentence = runner.sentence
            if sentence is None or sentence.why == "silence":
                died = deaths.runner_died if runner.for_scripts else deaths.crashed
                error = deaths.silent() if sentence is not None else died(runner.code or 0)
                self._settle_crashed(claim, error, ran_us)
            elif sentence.claim == key and runner.for_scripts:
                self._settle_crashed(claim, deaths.silent(), ran_us)  # it should have ended the script itself
            elif sentence.claim == key and sentence.why != "stop":
                self.judging.ask(Judge(claim, sentence.why, ran_us, sentence.used))
            else:
                why = "its worker stops" if sentence.why == "stop" else "the script runner hung"
                self._tell_end(claim, f"Killed, for {why}; it runs again.")
                back.append(claim)
        self._office().give_back(back)
        self.judging.lost(runner)

    def _settle_crashed(self, claim: Claim, error: JobError, ran_us: int) -> None:
        hello = self._roster.hello
        assert hello is not None
        self._tell_end(claim, error.message)
        dead_queue = hello.dead_queues.get(claim.task)
        self._office().settle([(crashed(claim, error, hello.settings.limits, ran_us, dead_queue), claim)])

    def _tell_end(self, claim: Claim, text: str) -> None:
        """The last line in the log of a script that could not say it itself."""
        if claim.task == SCRIPT:
            now_us = self._clock.now_us()
            self._office().note(Note(id=claim.id, fence=claim.fence, kind="log", data=text.encode(), at_us=now_us))

    def _settle_unjudged(self, judge: Judge) -> None:
        log.warning("No runner says what becomes of job %s; it counts a crash.", show_id(judge.claim.id))
        self._settle_crashed(judge.claim, deaths.unjudged(judge.why), judge.ran_us)
