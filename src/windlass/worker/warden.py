"""The warden: what runners may not exceed, seen from outside, so that not even a task that holds the GIL escapes it.

past its timeout               its runner gets no more jobs, and those that it has not started go back
past its grace too             the runner is killed; that job timed out, its neighbours go back uncounted
over its memory                likewise, with `MemoryLimit`
a runner over its own memory   it retires: no more jobs, and another takes its place
no sign of life for long       the runner is killed; what it ran counts a crash
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.core.durations import show
from windlass.core.limits import show_memory
from windlass.core.system import footprint
from windlass.worker.budget import memory_of
from windlass.worker.frames import Key, Recall
from windlass.worker.page import Mark
from windlass.worker.roster import Roster
from windlass.worker.runner_process import HOARD_US, RunnerProcess, Sentence
from windlass.worker.service import Vigil, log

LOOK_S = 0.05
MEMORY_US = 100_000
"""How often the memory of a runner is looked at."""
SILENCE_US = 600_000_000
"""How long a runner with work may show no sign of life: one that holds the GIL in C code, or was stopped. Long enough
for what holds it and is well; a task with a timeout has its own."""
IDLE_SILENCE_US = 60_000_000
"""The same for one that runs nothing, and so harms nobody by its end."""
GAP_US = 1_000_000
"""Where the supervisor itself has not looked for so long, it was stopped, and its runners perhaps too."""


class Warden:
    """Looks at what every runner does, and kills where nothing else helps."""

    def __init__(
        self,
        roster: Roster,
        retire: Callable[[RunnerProcess], bool],
        hear: Callable[[RunnerProcess], None],
        take_from: Callable[[RunnerProcess, list[Key]], None],
    ) -> None:
        self._roster = roster
        self._retire = retire
        self._hear = hear
        self._take = take_from
        self._max_memory = roster.plan.max_memory
        self._lenient_until_us = 0
        """Until then nobody is killed for what may have been in time."""
        self._looked_us = 0
        self._was_busy = False
        self._next_us = 0
        self._memory_at_us = 0
        self.vigil = Vigil(LOOK_S)

    def look(self, now_us: int) -> float | None:
        """Gives when to look again: soon while anything runs."""
        if now_us < self._next_us:
            return (self._next_us - now_us) / 1e6
        self.vigil.look()
        # One that has lost all its claims is looked at too: it is closed until it is known to go on.
        busy = [runner for runner in self._roster.all() if runner.claims or runner.alone or runner.revoked_us]
        if now_us - self._looked_us > GAP_US:
            self._lenient_until_us = now_us + GAP_US if self._was_busy else 0
            for runner in busy:
                runner.heard_us = now_us
        self._looked_us, self._was_busy = now_us, bool(busy)
        weigh = now_us >= self._memory_at_us
        if weigh:
            self._memory_at_us = now_us + MEMORY_US
        for runner in busy:
            if runner.sentence is None and runner.code is None:
                marks = self._roster.marks(runner)
                self._keep_time(runner, marks, now_us)
                self._take_from(runner, marks, now_us)
                self._listen(runner, marks, now_us)
                if weigh:
                    self._weigh(runner, marks)
        pause_s = self.vigil.next_s(now_us, is_busy=bool(busy))
        self._next_us = now_us + int((pause_s or 0) * 1e6)
        return pause_s

    def _keep_time(self, runner: RunnerProcess, marks: list[Mark], now_us: int) -> None:
        late = [mark for mark in marks if mark.soft_us and now_us >= mark.soft_us]
        if late and not runner.late:
            runner.send(Recall())
        runner.late.update((mark.job, mark.fence) for mark in late)
        for mark in late:
            if mark.hard_us and now_us >= max(mark.hard_us, self._lenient_until_us):
                self._hear(runner)  # its end may have been written, and not read yet
                if (mark.job, mark.fence) in runner.claims:
                    self._sentence(runner, Sentence((mark.job, mark.fence), "timeout", _unheeded(runner, mark, now_us)))
                return

    def _take_from(self, runner: RunnerProcess, marks: list[Mark], now_us: int) -> None:
        """Claims that wait in a runner which does not get any further go to others, though it cannot give them back.

        First the page says that they must not start; those that have not by the next look are nobody's any more.
        """
        silent_us = now_us - max(runner.page.looked_us, runner.heard_us)
        if silent_us < HOARD_US or 0 < runner.revoked_us < runner.page.looked_us:
            runner.revoked_us = 0
        elif not runner.revoked_us and len(runner.claims) > len(marks):
            with self._roster.lock:  # whoever gives it a claim sees first whether it is open
                runner.epoch += 1
                runner.page.revoke(runner.epoch)
                runner.revoked_us = now_us
            log.info("%s gets no further; what waits in it goes to others.", runner.name)
        elif runner.revoked_us and now_us - runner.revoked_us >= LOOK_S * 1e6:
            # What is not on the page now has not started, or its end was written before: that is read first.
            started = {(mark.job, mark.fence) for mark in marks}
            self._hear(runner)
            self._take(runner, [key for key in list(runner.claims) if key not in started])

    def _listen(self, runner: RunnerProcess, marks: list[Mark], now_us: int) -> None:
        silent_us = now_us - max(runner.page.looked_us, runner.heard_us)
        limit_us = SILENCE_US if marks else IDLE_SILENCE_US
        has_other_limits = bool(marks) and all(mark.hard_us for mark in marks)
        if (runner.claims or runner.revoked_us) and silent_us > limit_us and not has_other_limits:
            text = f"it has shown no sign of life for {show(silent_us)}"
            self._sentence(runner, Sentence(None, "silence", text))

    def _weigh(self, runner: RunnerProcess, marks: list[Mark]) -> None:
        claim = runner.alone if runner.alone_sent else None
        memory = memory_of(claim) if claim is not None else None
        if (memory is None and self._max_memory is None) or runner.for_scripts:
            return  # that one weighs each of its scripts itself
        seen = footprint(runner.pid)
        if seen is None:
            return
        used = seen.rss - runner.base_rss
        if claim is not None and memory is not None and used > memory and marks:
            text = f"a task used {show_memory(used)}, more than its memory of {show_memory(memory)}"
            self._sentence(runner, Sentence((claim.id, claim.fence), "memory", text, used))
        elif self._max_memory is not None and seen.rss > self._max_memory and self._retire(runner):
            log.info("%s has %s in memory; another takes its place.", runner.name, show_memory(seen.rss))

    def _sentence(self, runner: RunnerProcess, sentence: Sentence) -> None:
        runner.sentence = sentence
        runner.kill()


def _unheeded(runner: RunnerProcess, mark: Mark, now_us: int) -> str:
    after = f"after {show(now_us - mark.started_us)}"
    if runner.for_scripts:
        return f"it has not ended a script whose time was over, {after}"
    return f"a task did not heed its timeout of {show(mark.soft_us - mark.started_us)}, {after}"
