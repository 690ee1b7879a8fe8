"""The staff of a supervisor: runner processes, which may hang, leak, crash or be killed without harm to anybody else.

    put      ─► the runner with the most room ─► a frame ─► its slots
    settle   ◄─ read from its socket, to the last byte even after its death
    a death  ─► what its page says had started counts a crash, the rest goes back at its rank, a new runner starts

Two kinds of jobs have a runner to themselves. A suspect gets a fresh process apart from the others. A job with a memory
of its own gets a runner whose other jobs are let end first: then what the process uses is what the job uses.

Who gets which claim is said in `dispatcher.py`, what becomes of those of the dead in `estate.py`. The foreman's thread
reads, buries and starts; the consumer's thread puts; whatever both touch is under one lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from windlass.core.clock import Clock
from windlass.core.events import Bus, Event
from windlass.core.ids import JobId, show_id
from windlass.core.info import Process
from windlass.core.scripts import SCRIPT
from windlass.core.settings import Settings
from windlass.core.system import adopt_orphans
from windlass.engines.protocol import Claim, Settlement, Verdict
from windlass.worker.asked import Asked
from windlass.worker.census import Census
from windlass.worker.dispatcher import Dispatcher
from windlass.worker.estate import Estate
from windlass.worker.foreman import END_S, Foreman
from windlass.worker.frames import (
    TOLD,
    Answers,
    Back,
    CancelJob,
    Ends,
    FromRunner,
    Hello,
    Key,
    News,
    Overran,
    Rung,
    Scripts,
    Stop,
    Unfit,
)
from windlass.worker.plan import Plan
from windlass.worker.room import Room
from windlass.worker.roster import Roster
from windlass.worker.runner_process import RunnerProcess, Sentence
from windlass.worker.service import log
from windlass.worker.staff import End, Office, Wish

HIRE_LOOK_S = 0.1
KILLED_S = 2.0
"""How long a killed process may take to be gone."""


class Runners:
    """Runs tasks in processes of their own."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock
        self.roster = Roster(plan)
        self._office: Office | None = None
        self._cut_us = 0
        self._verdicts = False
        """Whether any of them wanted to hear what the store says."""
        self.dispatcher = Dispatcher(self.roster, clock, lambda: self.office)
        self.estate = Estate(self.roster, clock, lambda: self.office)
        self.foreman = Foreman(clock, self.roster, self)
        self.apart = self.foreman.suspects
        self._census = Census(clock, self.roster, self.foreman)

    @property
    def office(self) -> Office:
        assert self._office is not None
        return self._office

    # ── before the store is known ───────────────────────────────────────────────────────────────────────

    def hire(self, asked: Asked) -> Settings | None:
        """Starts the first runner, whose app says where the store is; the others follow once that one works.

        None: somebody wants the worker to stop before it has started.
        """
        if self._plan.settings is not None:  # there is no app that could say
            self.roster.hello = Hello(self._plan.settings, {}, {})
            self.foreman.start()
            return self._plan.settings
        self.foreman.start()
        while not self.foreman.first.wait(HIRE_LOOK_S):
            if asked.has_words:
                return None
        if self.foreman.trouble is not None:
            raise self.foreman.trouble
        return None if self.roster.hello is None else self.roster.hello.settings

    def serve(self, office: Office, bus: Bus, locks: str = "") -> Runners:
        """From now on they work for that office. `locks`: where the store looks for those of single claims."""
        assert self.roster.hello is not None
        self._office = office
        settings = self.roster.hello.settings
        folders = self._plan.scripts or settings.scripts
        if folders:
            adopt_orphans()
            self.roster.scripts = Scripts(folders, settings, locks)
            log.info("Scripts are run from %s.", " and ".join(folders))
            self.foreman.wake()
        for name in self.roster.hello.events:
            bus.subscribe(TOLD[name], self._pass_on)
        return self

    def _pass_on(self, event: Event) -> None:
        """One runner is told, so that the app's subscribers get each event once."""
        with self.roster.lock:
            eldest = next((runner for runner in self.roster.of_tasks() if runner.state == "working"), None)
        if eldest is not None:
            eldest.tell(News(type(event).__name__, msgspec.msgpack.encode(event)))

    def start(self) -> None:
        """The first one runs already."""

    # ── what the office asks ────────────────────────────────────────────────────────────────────────────

    @property
    def slots(self) -> int:
        of_scripts = self._plan.slots if self.roster.scripts is not None else 0
        return self._plan.processes * sum(self.roster.hello.slots.values() if self.roster.hello else ()) + of_scripts

    def tasks(self) -> tuple[str, ...]:
        of_scripts = (SCRIPT,) if self.roster.scripts is not None else ()
        return tuple(sorted((*self.roster.hello.tasks, *of_scripts))) if self.roster.hello else ()

    def wishes(self) -> list[Wish]:
        return self.dispatcher.wishes()

    def put(self, claims: tuple[Claim, ...]) -> None:
        self.dispatcher.put(claims)
        self.foreman.expect()

    def has_waiting(self) -> bool:
        with self.roster.lock:
            return any(room.waiting for runner in self.roster.living for room in runner.rooms.values())

    def take_back(self) -> list[Claim]:
        """Those that no runner has, or can judge; the others are asked for, and come back one by one."""
        return [*self.dispatcher.take_back(), *self.apart.take_back(), *self.estate.judging.take_back()]

    def cancel(self, job_id: JobId) -> None:
        with self.roster.lock:
            for runner in self.roster.living:
                if any(job == job_id for job, _ in runner.claims):
                    runner.send(CancelJob(job_id))

    def running(self) -> Collection[JobId]:
        return {mark.job for runner in self.roster.all() for mark in self.roster.marks(runner)}

    def stuck(self) -> tuple[str, ...]:
        return tuple(show_id(job) for runner in self.roster.all() for job in list(runner.stuck))

    def answered(self, settlement: Settlement, verdict: Verdict) -> None:
        if not self._verdicts:
            return
        key = (settlement.id, settlement.fence)
        for runner in self.roster.all():
            if key in runner.unanswered:
                runner.send(Answers(((*key, verdict),)))
                runner.unanswered.discard(key)  # after it was sent: one that retires ends when nothing is left here
                if runner.state == "retiring":
                    self.foreman.wake()

    def cut_at(self, cut_us: int) -> None:
        """Until then the lease holds."""
        self._cut_us = cut_us
        for runner in self.roster.all():
            runner.page.cut_at(cut_us)

    def processes(self) -> tuple[Process, ...]:
        return self._census.processes()

    def pids(self) -> set[int]:
        return self.foreman.pids()

    def restart(self) -> None:
        """Replaces them one after the other: new code, no pause. Where new ones cannot start, the old ones stay."""
        self.foreman.restart()

    # ── what a runner says ──────────────────────────────────────────────────────────────────────────────

    def hear(self, runner: RunnerProcess, frame: FromRunner) -> None:
        match frame:
            case Ends():
                self._ends(runner, frame)
            case Back():
                self.take_from(runner, frame.claims)
            case Overran():
                with self.roster.lock:
                    claim = runner.claims.get(frame.claim)
                if claim is not None:
                    runner.stuck.add(claim.id)
                    self.office.overran(claim)
            case Hello():
                self._greet(runner, frame)
            case Unfit():
                self.foreman.complain(runner, frame)
            case Rung():
                pass  # what it was rung for has been read

    def take_from(self, runner: RunnerProcess, claims: Iterable[Key]) -> None:
        """It has not started these, and will not."""
        with self.roster.lock:
            back = [claim for key in claims if (claim := runner.let_go(key)) is not None]
            for room in runner.rooms.values():
                room.slowed()
        self.office.give_back(back)

    def _ends(self, runner: RunnerProcess, frame: Ends) -> None:
        office = self.office
        for note in frame.notes:
            office.note(note)
        ends: list[End] = []
        with self.roster.lock:
            for end in frame.ends:
                key = (end.id, end.fence)
                claim = runner.let_go(key, end.ran_us if end.outcome is not None else None)
                if claim is None:
                    claim = self.estate.judging.answered(runner, key)
                elif end.outcome is not None:
                    runner.ended += 1
                if claim is not None:
                    ends.append((end, claim))
        if ends and runner.hello is not None and runner.hello.verdicts:
            runner.unanswered.update((end.id, end.fence) for end, _ in ends)
        if ends:
            office.settle(ends)
        if runner.is_open and any(room.free() for room in runner.rooms.values()):
            if not runner.claims and not runner.for_scripts:
                self.dispatcher.expect_big_ones()
            office.hungry()

    def _greet(self, runner: RunnerProcess, hello: Hello) -> None:
        with self.roster.lock:
            if not runner.for_scripts:
                self.roster.hello = hello
                self.dispatcher.learn(hello)
            self._verdicts = self._verdicts or hello.verdicts
            runner.hello, runner.state = hello, "working"
            runner.rooms = {kind: Room(slots) for kind, slots in hello.slots.items()}
            runner.page.cut_at(self._cut_us)
            self.dispatcher.see_whether_mixed()
        self.foreman.greeted(runner)
        self.estate.judging.look(self._clock.monotonic_us())
        if self._office is not None:
            self._office.hungry()

    # ── what the foreman asks ───────────────────────────────────────────────────────────────────────────

    def send_alone(self, runner: RunnerProcess, now_us: int) -> None:
        self.dispatcher.send_alone(runner, now_us)

    def give_up_reserving(self, runner: RunnerProcess, now_us: int) -> None:
        self.dispatcher.give_up_reserving(runner, now_us)

    def inherit(self, runner: RunnerProcess) -> None:
        if self._office is None or self.roster.hello is None:
            return  # it had no time to be given anything
        self.dispatcher.see_whether_mixed()
        self.estate.divide(runner)
        if runner.apart:
            self.office.expect_a_suspect()  # another one may wait for the place

    def look_after_judges(self, now_us: int) -> float | None:
        return self.estate.judging.look(now_us)

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────

    def stop(self, timeout_s: float) -> None:
        """No process is replaced any more. Whatever still runs is killed, and goes back when it is dead."""
        with self.roster.lock:
            self.roster.stopping = True
            living = list(self.roster.living)
        doomed = [runner for runner in living if runner.claims or runner.hello is None]
        for runner in doomed:
            runner.sentence = runner.sentence or Sentence(None, "stop", "the worker stops")
            # A script runner knows what its scripts have started.
            runner.hang_up() if runner.for_scripts else runner.kill()
        for runner in living:
            if runner not in doomed and not runner.unanswered:
                runner.send(Stop())
        until_us = self._clock.monotonic_us() + int(min(timeout_s, KILLED_S) * 1e6)
        for runner in doomed:
            if not runner.buried.wait(max(0.0, (until_us - self._clock.monotonic_us()) / 1e6)):
                runner.kill()

    def close(self) -> None:
        for runner in self.roster.all():
            runner.unanswered.clear()  # the store was asked for the last time
        self.stop(0)
        self.foreman.wake()
        until_us = self._clock.monotonic_us() + int(END_S * 1e6)
        for runner in self.roster.all():
            if not runner.wait(max(0.0, (until_us - self._clock.monotonic_us()) / 1e6)):
                log.warning("%s does not end, and is killed.", runner.name)
                runner.kill()
                runner.wait(END_S)
        self.foreman.stop(END_S)
        for runner in self.roster.all():
            runner.close()
