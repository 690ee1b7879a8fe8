"""The foreman: starts runners, reads what they say, buries the dead, and puts new ones in their place.

One thread does all of it, sleeping until a socket, a death or a deadline wakes it. It also is the parent thread that
the kernel's death signal goes by, so it lives until the last runner has ended.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from windlass.core.clock import Clock
from windlass.core.errors import BrokenApp, RunnersDie, WindlassError, error_with_code
from windlass.core.info import Setback
from windlass.core.plural import number_of
from windlass.core.scripts import SCRIPT
from windlass.worker.frames import FromRunner, Key, Recall, Scripts, Stop, Unfit, gathered
from windlass.worker.plan import APART, SCRIPTS
from windlass.worker.roster import Roster
from windlass.worker.runner_process import RunnerProcess, Sentence
from windlass.worker.scripts.descent import end_orphans
from windlass.worker.service import Service, log
from windlass.worker.suspects import Suspects
from windlass.worker.warden import Warden

QUICK_US = 1_000_000
"""A runner that lives for less, and has run nothing, died by itself and not of a job."""
MOST_QUICK = 5
FIRST_PAUSE_US, LONGEST_PAUSE_US = 100_000, 2_000_000
SETTLED_US = 3_000_000
"""So long after a worker's start a spare process is started, and not before."""
GATHER_S = 0.002
"""How long ends are left to come together while their runner has more to run: to be woken for each costs more than the
work on it."""
SLOW_S = 10.0
"""How long a runner may take to start before it is told of."""
END_S = 10.0
"""How long runners may take for `on_stop`, the ends of their resources, and whatever tasks have left behind there."""


class Boss(Protocol):
    """Whom the foreman works for."""

    def hear(self, runner: RunnerProcess, frame: FromRunner) -> None:
        """It says something."""
        ...

    def send_alone(self, runner: RunnerProcess, now_us: int) -> None:
        """It is free for the job that has it to itself."""
        ...

    def give_up_reserving(self, runner: RunnerProcess, now_us: int) -> None:
        """Its other jobs take too long for the one that waits for them."""
        ...

    def take_from(self, runner: RunnerProcess, claims: list[Key]) -> None:
        """It will not start these."""
        ...

    def inherit(self, runner: RunnerProcess) -> None:
        """It is dead: its claims have to go somewhere."""
        ...

    def look_after_judges(self, now_us: int) -> float | None:
        """Some were asked what becomes of a job, and may not answer; gives when to look again."""
        ...


class Foreman(Service):
    """Keeps as many runners alive as are wanted."""

    name = "foreman"

    def __init__(self, clock: Clock, roster: Roster, boss: Boss) -> None:
        super().__init__(clock)
        self._roster = roster
        self._boss = boss
        self._plan = roster.plan
        self._warden = Warden(roster, self.retire_in_turn, self._hear_all, boss.take_from)
        self._selector = selectors.DefaultSelector()
        self._bell_in, self._bell_out = socket.socketpair()
        for end in (self._bell_in, self._bell_out):
            end.setblocking(False)
        self._selector.register(self._bell_out, selectors.EVENT_READ)
        self._ready: list[RunnerProcess] = []
        self.suspects = Suspects(roster, self.wake)
        self._to_restart: deque[RunnerProcess] = deque()
        self._quick = 0
        self._not_before_us = 0
        self._restarts: dict[int, int] = {}
        self.spare: RunnerProcess | None = None
        self._spare_from_us = 0
        self.first = threading.Event()
        """Set when the first runner works, or cannot."""
        self.trouble: WindlassError | None = None
        """Why no runner can be kept alive."""
        self.on_trouble: Callable[[], None] = lambda: None
        self.setback: Setback | None = None
        """Why the last restart was given up."""

    # ── the loop ────────────────────────────────────────────────────────────────────────────────────────

    def wake(self) -> None:
        try:
            self._bell_in.send(b"!")
        except OSError:
            pass  # it is full, and so rings already; or it is closed

    def expect(self) -> None:
        """Claims were given out: they are looked after from now on."""
        if self._warden.vigil.is_over or any(runner.waits_to_be_alone for runner in self._roster.all()):
            self.wake()

    def rest(self, pause_s: float | None) -> None:
        runners = self._roster.all()
        found = self._wait(runners, pause_s)
        heard = [key.data for key, _ in found if key.data is not None]
        heard += [runner for runner in runners if runner.ring.has_news and runner not in heard]
        is_called = any(key.data is None for key, _ in found)
        if heard and not is_called and all(runner.has_more for runner in heard):
            time.sleep(GATHER_S)
        for key, events in found:
            if key.data is None:
                self._silence()
            elif events & selectors.EVENT_WRITE:
                key.data.flush()
        self._ready += heard

    def _wait(self, runners: list[RunnerProcess], pause_s: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Sleeps until a socket has something; the runners are told, so that they ring when a ring has."""
        for runner in runners:
            runner.ring.sleeps(True)
        try:
            return self._selector.select(0 if any(runner.ring.has_news for runner in runners) else pause_s)
        except OSError:
            log.exception("The foreman cannot wait for its runners.")
            time.sleep(FIRST_PAUSE_US / 1e6)
            return []
        finally:
            for runner in runners:
                runner.ring.sleeps(False)

    def _silence(self) -> None:
        try:
            while self._bell_out.recv(4_096):
                pass
        except BlockingIOError:
            pass

    def tick(self, now_us: int) -> float | None:
        ready, self._ready = self._ready, []
        for runner in ready:
            self._hear(runner)
        for runner in self._roster.all():
            if runner.code is not None:
                self._bury(runner, now_us)
            else:
                self._look_after(runner, now_us)
        pauses = [
            self._warden.look(now_us),
            self._fill(now_us),
            self._watch_starters(now_us),
            self._boss.look_after_judges(now_us),
            self._hurry(now_us),
        ]
        self._go_on_restarting()
        pauses.append(self._keep_a_spare(now_us))
        return min((pause_s for pause_s in pauses if pause_s is not None), default=None)

    def _hear(self, runner: RunnerProcess) -> None:
        self._hand_on(runner, runner.read())
        if runner.is_mute:
            self._stop_listening(runner)  # it may live on for a while, and would be found ready all the time

    def _stop_listening(self, runner: RunnerProcess) -> None:
        if runner.link in self._selector.get_map():
            self._selector.unregister(runner.link)

    def _hear_all(self, runner: RunnerProcess) -> None:
        self._hand_on(runner, runner.read_to_the_end())

    def _hand_on(self, runner: RunnerProcess, frames: list[FromRunner]) -> None:
        for frame in gathered(frames):
            try:
                self._boss.hear(runner, frame)
            except Exception:  # what cannot be done must not cost what follows it
                log.exception("%s says what cannot be done.", runner.name)

    def _look_after(self, runner: RunnerProcess, now_us: int) -> None:
        """What one runner needs now: its job alone, its end, or to be written to."""
        with self._roster.lock:
            if runner.state == "working" and runner.waits_to_be_alone:
                if not runner.claims and not runner.revoked_us:
                    self._boss.send_alone(runner, now_us)
                elif now_us > runner.alone_until_us:
                    self._boss.give_up_reserving(runner, now_us)
            if runner.state == "retiring" and runner.has_done_all and not runner.leaving:
                runner.leaving, runner.told_us = True, now_us
                runner.send(Stop())
            most = self._plan.max_jobs
            if most is not None and runner.ended >= most and not runner.for_scripts and self.retire_in_turn(runner):
                log.info("%s has run %s; another takes its place.", runner.name, number_of(runner.ended))
            if runner.apart and runner.alone is None:
                self.retire(runner)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if runner.has_unsent else 0)
        if not runner.is_mute and self._selector.get_key(runner.link).events != events:
            self._selector.modify(runner.link, events, runner)

    # ── starting ────────────────────────────────────────────────────────────────────────────────────────

    def _fill(self, now_us: int) -> float | None:
        roster = self._roster
        if roster.stopping or self.trouble is not None:
            return None
        if now_us < self._not_before_us:
            return (self._not_before_us - now_us) / 1e6
        with roster.lock:  # whoever asks whether there is room for a suspect sees it wait, or its runner
            while (suspect := self.suspects.first) is not None:
                runner = self._start(APART, roster.scripts if suspect.task == SCRIPT else None)
                runner.apart, runner.alone = True, self.suspects.take()
        # Until one has told where the store is and that the app can be loaded, one is enough.
        wanted = self._plan.processes if roster.hello is not None else 1
        there = {runner.number for runner in roster.living if runner.state != "retiring"}
        for number in range(1, wanted + 1) if self._plan.app else ():
            if number not in there:
                self._start(number)
        if roster.scripts is not None and SCRIPTS not in there:
            self._start(SCRIPTS, roster.scripts)
        return None

    def _start(self, number: int, scripts: Scripts | None = None) -> RunnerProcess:
        runner, self.spare = self.spare, None
        if runner is None or runner.code is not None:
            runner = self._new()
        runner.welcome(self._plan.welcome(number, scripts))
        runner.restarts = self._restarts.get(number, 0)
        with self._roster.lock:
            self._roster.living.append(runner)
        self._selector.register(runner.link, selectors.EVENT_READ, runner)
        return runner

    def _new(self) -> RunnerProcess:
        return RunnerProcess(self._plan.places, self._clock, self.wake)

    def _all(self) -> list[RunnerProcess]:
        spare = self.spare
        return [*self._roster.all(), *([spare] if spare is not None else [])]

    def pids(self) -> set[int]:
        """All processes that are there on purpose."""
        return {runner.pid for runner in self._all()}

    def _keep_a_spare(self, now_us: int) -> float | None:
        """One process waits that has loaded all but the app: whoever takes a dead one's place works so much sooner.

        It is started when nobody else is starting, and a while after the worker: it would keep them, and the jobs that
        have waited for the worker, from the processor.
        """
        roster = self._roster
        at_rest = roster.hello is not None and not roster.stopping and self.trouble is None
        if not at_rest or self.spare is not None or any(runner.state != "working" for runner in roster.all()):
            return None
        if now_us < self._spare_from_us:
            return (self._spare_from_us - now_us) / 1e6
        self.spare = self._new()
        return None

    def _watch_starters(self, now_us: int) -> float | None:
        """An app may take as long as it likes to load, but not unsaid: it may wait for what never comes."""
        starters = [runner for runner in self._roster.of_tasks() if runner.state == "starting" and not runner.slow]
        for runner in starters:
            if now_us - runner.heard_us >= SLOW_S * 1e6:
                runner.slow = True
                log.warning("%s (process %d) is still loading the app.", runner.name, runner.pid)
        return SLOW_S if starters else None

    def greeted(self, runner: RunnerProcess) -> None:
        """It can work."""
        runner.greeted_us = self._clock.monotonic_us()
        log.debug("%s works, process %d.", runner.name, runner.pid)
        if not self.first.is_set():
            self._spare_from_us = runner.greeted_us + SETTLED_US
            self.first.set()
        elder = self._elder(runner)
        if elder is not None:
            self.retire(elder)
            runner.restarts += 1

    def complain(self, runner: RunnerProcess, unfit: Unfit) -> None:
        """It says that it cannot."""
        runner.unfit, runner.told_us = unfit, self._clock.monotonic_us()
        if self._roster.hello is None:
            self._give_up(_error_of(unfit))

    # ── ending ──────────────────────────────────────────────────────────────────────────────────────────

    def retire(self, runner: RunnerProcess) -> bool:
        """It gets no more jobs, ends when it has none left, and another takes its place now; False: it did already."""
        if runner.state != "working":
            return False
        runner.state = "retiring"
        runner.send(Recall())
        if not runner.apart:
            self._restarts[runner.number] = self._restarts.get(runner.number, 0) + 1
        self.wake()
        return True

    def _hurry(self, now_us: int) -> float | None:
        """Kills those that should end and do not: Python waits for threads that the user's code has left behind."""
        leaving = [runner for runner in self._roster.all() if runner.leaving or runner.unfit]
        for runner in leaving:
            if now_us - runner.told_us >= END_S * 1e6:
                log.warning("%s (process %d) does not end, and is killed.", runner.name, runner.pid)
                runner.kill()
        return END_S if leaving else None

    def retire_in_turn(self, runner: RunnerProcess) -> bool:
        """The same, unless its predecessor is still at work: long jobs must not add up to ever more processes."""
        with self._roster.lock:
            others = [other for other in self._roster.living if other is not runner and other.number == runner.number]
        return not others and self.retire(runner)

    def restart(self) -> None:
        """Replaces them one after the other; each goes on until the one that follows it can work."""
        with self._roster.lock:
            living = [runner for runner in self._roster.of_tasks() if not runner.apart]
            self._to_restart = deque(runner for runner in living if runner.state == "working")
            for runner in living:
                if runner.state == "starting":  # it has old code, or hangs in what was wrong with it
                    runner.sentence = Sentence(None, "stop", "all runners are replaced")
                    runner.kill()
        self.wake()

    def _go_on_restarting(self) -> None:
        roster = self._roster
        at_rest = not roster.stopping and self.trouble is None
        if self._to_restart and at_rest and all(runner.state == "working" for runner in roster.all()):
            runner = self._to_restart.popleft()
            if runner.code is None:
                self._start(runner.number)
            else:
                self.wake()  # it is new already; the next one

    def _elder(self, runner: RunnerProcess) -> RunnerProcess | None:
        """The one that it follows, if that one still works."""
        others = [other for other in self._roster.all() if other.number == runner.number and other is not runner]
        return None if runner.apart else next((other for other in others if other.state == "working"), None)

    def _give_up_restarting(self, runner: RunnerProcess) -> None:
        """Its code cannot run; the old one, which works, stays."""
        self._to_restart.clear()
        error = None if runner.unfit is None else _error_of(runner.unfit)
        why = f"A fresh runner {_how(runner)} before it did anything." if error is None else error.message
        trace = f"\n{error.traceback}" if isinstance(error, BrokenApp) else ""
        log.error("The restart is given up, and the runners go on as they are: %s%s", why, trace)
        self.setback = Setback(at_us=self._clock.now_us(), why=why)

    def _bury(self, runner: RunnerProcess, now_us: int) -> None:
        """What it wrote before its death counts: it is read to the last byte first."""
        self._hear_all(runner)
        roster = self._roster
        self._stop_listening(runner)
        with roster.lock:
            roster.living.remove(runner)
        started = bool(roster.marks(runner))
        if runner.for_scripts:
            # The kernel ends its scripts with it, and what those have started becomes ours.
            end_orphans(self.pids())
        self._boss.inherit(runner)
        runner.close()
        runner.buried.set()
        if runner.leaving:
            self._quick = 0  # those who died quickly did not come one after the other
        stopped = runner.sentence is not None and runner.sentence.why == "stop"
        if runner.leaving or stopped or roster.stopping or self.trouble is not None:
            return
        if not runner.greeted_us and self._elder(runner) is not None:
            self._give_up_restarting(runner)
            return
        if not runner.apart:
            self._restarts[runner.number] = self._restarts.get(runner.number, 0) + 1
        lived_us = now_us - (runner.greeted_us or now_us)
        if started or runner.ended or lived_us > QUICK_US or runner.sentence is not None:
            self._quick = 0
            next_one = "" if runner.apart else "; another takes its place"
            log.warning("%s (process %d) %s%s.", runner.name, runner.pid, _how(runner), next_one)
        else:
            self._died_quickly(runner, now_us)

    def _died_quickly(self, runner: RunnerProcess, now_us: int) -> None:
        self._quick += 1
        if self._quick < MOST_QUICK:
            pause_us = min(FIRST_PAUSE_US << (self._quick - 1), LONGEST_PAUSE_US)
            self._not_before_us = now_us + pause_us
            log.warning("%s (process %d) %s before it did anything.", runner.name, runner.pid, _how(runner))
        elif runner.unfit is not None:
            self._give_up(_error_of(runner.unfit))
        else:
            times = number_of(self._quick, "runner")
            self._give_up(
                RunnersDie(
                    f"{times} ended, one after the other, before they did anything; the last one {runner.last_words}.",
                    "See what your app does when it is imported: a library may crash there.",
                )
            )

    def _give_up(self, error: WindlassError) -> None:
        if self.trouble is None:
            self.trouble = error
            self.first.set()
            self.on_trouble()

    def stop(self, timeout_s: float | None = None) -> None:
        super().stop(timeout_s)
        if self.spare is not None:
            self.spare.kill()
            self.spare.wait(END_S)
            self.spare.close()
        self._selector.close()
        for end in (self._bell_in, self._bell_out):
            end.close()


def _how(runner: RunnerProcess) -> str:
    if runner.unfit is not None:
        return f"could not start ({runner.unfit.message})"
    return runner.last_words if runner.sentence is None else f"was killed: {runner.sentence.text}"


def _error_of(unfit: Unfit) -> WindlassError:
    if unfit.code:
        return error_with_code(unfit.code)(unfit.message, unfit.todo)
    error = BrokenApp(f"The app cannot be loaded: {unfit.message}.", "Correct it; the traceback says where.")
    error.traceback = unfit.traceback
    return error
