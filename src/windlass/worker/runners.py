"""The staff of a supervisor: runner processes, which may hang, leak, crash or be killed without harm to anybody else.

    put      ─► the runner with the most room ─► a frame ─► its slots
    settle   ◄─ read from its socket, to the last byte even after its death
    a death  ─► what its page says had started counts a crash, the rest goes back at its rank, a new runner starts

Two kinds of jobs have a runner to themselves. A suspect gets a fresh process apart from the others. A job with a memory
of its own gets a runner whose other jobs are let end first: then what the process uses is what the job uses.

The foreman's thread reads, buries and starts; the consumer's thread puts; whatever both touch is under one lock.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

import msgspec

from windlass.core.clock import Clock
from windlass.core.errors import JobError
from windlass.core.events import Bus, Event
from windlass.core.ids import JobId, show_id
from windlass.core.info import Active, Process
from windlass.core.scripts import SCRIPT
from windlass.core.settings import Settings
from windlass.core.system import adopt_orphans, footprint
from windlass.engines.protocol import BATCH, Claim, Note, Settlement, Verdict
from windlass.worker import deaths
from windlass.worker.asked import Asked
from windlass.worker.budget import memory_of
from windlass.worker.executor import crashed
from windlass.worker.foreman import END_S, Foreman
from windlass.worker.frames import (
    TOLD,
    Answers,
    Back,
    CancelJob,
    Ends,
    FromRunner,
    Hello,
    Judge,
    Key,
    News,
    Overran,
    Recall,
    Scripts,
    Stop,
    Unfit,
    Work,
)
from windlass.worker.judging import Judging
from windlass.worker.plan import Plan
from windlass.worker.room import Room, wishes_for
from windlass.worker.roster import Roster
from windlass.worker.runner_process import RunnerProcess, Sentence
from windlass.worker.service import log
from windlass.worker.staff import Office, Wish

HIRE_LOOK_S = 0.1
KILLED_S = 2.0
"""How long a killed process may take to be gone."""
RESERVE_US = 1_000_000
"""How long a job with a memory of its own waits at first for a runner's other jobs to end, before other workers may
have it for as long. Then it waits for twice that, and so on: in the end it outlasts whatever runs there."""


class Runners:
    """Runs tasks in processes of their own."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock
        self.roster = Roster(plan)
        self._names: dict[bool, frozenset[str]] = {}
        self._office: Office | None = None
        self._cut_us = 0
        self.judging = Judging(self.roster, clock, self._settle_unjudged)
        self._mixed = False
        """Whether not all of them know the same tasks: new code takes the place of old."""
        self._verdicts = False
        """Whether any of them wanted to hear what the store says."""
        self._started_us = clock.now_us()
        self._big = False
        """Whether jobs with a memory of their own have been seen."""
        self._no_big_before_us = 0
        self._patience_us = RESERVE_US
        self.foreman = Foreman(clock, self.roster, self)
        self.apart = self.foreman.suspects

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
        wishes = self._wishes_of_tasks()
        if self.roster.scripts is None:
            return wishes
        # Each kind by name, for none of the two can run what is the other's.
        hello = self.roster.hello
        known = frozenset(hello.tasks if hello is not None else ())
        named = [wish if wish.tasks is not None else wish._replace(tasks=known) for wish in wishes]
        with self.roster.lock:
            rooms = [room for runner in self._open_for_scripts() for room in runner.rooms.values()]
            free = min(BATCH, sum(room.free() for room in rooms))
        return [*named, *([Wish(free, frozenset({SCRIPT}), besides=True)] if free else [])]

    def _open_for_scripts(self) -> list[RunnerProcess]:
        return [runner for runner in self.roster.living if runner.for_scripts and runner.is_open]

    def _wishes_of_tasks(self) -> list[Wish]:
        with self.roster.lock:
            able = [runner for runner in self.roster.of_tasks() if runner.is_open]
            names = _names(runner.hello for runner in able) if self._mixed else self._names
            rooms = [room for runner in able for room in runner.rooms.items()]
            free = {kind: sum(room.free() for room_kind, room in rooms if room_kind is kind) for kind in names}
        wishes = wishes_for(free, names)
        if self._mixed:  # not for what only those know that have no room
            known = frozenset[str]().union(*names.values())
            wishes = [wish if wish.tasks is not None else wish._replace(tasks=known) for wish in wishes]
        if self._clock.monotonic_us() < self._no_big_before_us:
            return [wish._replace(alone=False) for wish in wishes]
        if not self._big or not wishes:
            return wishes
        # Of those that need a runner to themselves no more than there are runners.
        first, *rest = wishes
        some = Wish(min(first.limit, len(able)), first.tasks)
        others = Wish(first.limit - some.limit, first.tasks, alone=False)
        return [some, *([others] if others.limit else []), *(wish._replace(alone=False) for wish in rest)]

    def put(self, claims: tuple[Claim, ...]) -> None:
        lots: dict[int, tuple[RunnerProcess, list[Claim]]] = {}
        back: list[Claim] = []
        now_us = self._clock.monotonic_us()
        with self.roster.lock:
            there = [runner for runner in self.roster.living if runner.is_open]
            # First those that close a runner for the others.
            for claim in sorted(claims, key=lambda claim: not _is_big(claim)) if self._big else claims:
                # While new code takes the place of old, not every runner knows every task.
                able = [runner for runner in there if runner.alone is None and runner.knows(claim.task)]
                if not able:
                    back.append(claim)
                elif _is_big(claim):
                    self._big = True
                    self._reserve(able, claim, now_us)
                else:
                    chosen = max(able, key=lambda runner: runner.room_for(claim).left)
                    chosen.take_in([claim], now_us)
                    lots.setdefault(chosen.number, (chosen, []))[1].append(claim)
            for runner, lot in lots.values():
                self._give(runner, tuple(lot))
        if back:
            self.office.give_back(back)
        self.foreman.wake()

    def _reserve(self, able: list[RunnerProcess], claim: Claim, now_us: int) -> None:
        """It gets the runner with the fewest jobs to itself, once they have ended."""
        chosen = min(able, key=lambda runner: len(runner.claims))
        if chosen.claims:
            chosen.send(Recall())
        chosen.alone, chosen.alone_until_us = claim, now_us + self._patience_us

    def send_alone(self, runner: RunnerProcess, now_us: int) -> None:
        claim = runner.alone
        assert claim is not None
        if not runner.apart:
            self._patience_us = RESERVE_US
        seen = footprint(runner.pid)
        runner.base_rss = 0 if seen is None else seen.rss
        runner.alone_sent = True
        runner.take_in([claim], now_us)
        self._give(runner, (claim,))

    def _give(self, runner: RunnerProcess, claims: tuple[Claim, ...]) -> None:
        runner.send(Work(self.office.worker(), runner.epoch, claims))
        for claim in claims:
            if claim.id in self.office.desk.cancelled:  # somebody asked while it waited here
                runner.send(CancelJob(claim.id))

    def give_up_reserving(self, runner: RunnerProcess, now_us: int) -> None:
        """Its other jobs take long: the one that waits for them may find a place with another worker."""
        with self.roster.lock:
            claim = self._unreserve(runner)
            self._no_big_before_us = now_us + self._patience_us
            self._patience_us *= 2
        self.office.give_back([claim])
        self.office.hungry()

    def has_waiting(self) -> bool:
        with self.roster.lock:
            return any(room.waiting for runner in self.roster.living for room in runner.rooms.values())

    def take_back(self) -> list[Claim]:
        """Those that no runner has, or can judge; the others are asked for, and come back one by one."""
        with self.roster.lock:
            back = [self._unreserve(runner) for runner in self.roster.living if runner.alone and not runner.alone_sent]
            for runner in self.roster.living:
                if runner.claims:
                    runner.send(Recall())
        return [*back, *self.apart.take_back(), *self.judging.take_back()]

    def _unreserve(self, runner: RunnerProcess) -> Claim:
        claim, runner.alone = runner.alone, None
        assert claim is not None
        return claim

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
        """What they are doing, for people."""
        seen = footprint(os.getpid(), alone=True)
        here = Process(
            role="supervisor",
            pid=os.getpid(),
            started_us=self._started_us,
            rss=0 if seen is None else seen.rss,
            cpu_s=0.0 if seen is None else seen.cpu_s,
            setback=self.foreman.setback,
        )
        spare = self.foreman.spare
        waits = () if spare is None else (msgspec.structs.replace(self._described(spare), role="spare", state=""),)
        return (here, *(self._described(runner) for runner in self.roster.all()), *waits)

    def _described(self, runner: RunnerProcess) -> Process:
        seen = footprint(runner.pid)
        shift_us = self._clock.now_us() - self._clock.monotonic_us()
        marks = self.roster.marks(runner)
        active = [
            Active(id=show_id(mark.job), task=claim.task, started_us=mark.started_us + shift_us)
            for mark in marks
            if (claim := runner.claims.get((mark.job, mark.fence))) is not None
        ]
        return Process(
            role="scripts" if runner.for_scripts else "runner",
            pid=runner.pid,
            number=max(0, runner.number),
            state=runner.state,
            started_us=runner.started_us,
            rss=0 if seen is None else seen.rss,
            cpu_s=0.0 if seen is None else seen.cpu_s,
            slots=sum(room.slots for room in runner.rooms.values()),
            ended=runner.ended,
            restarts=runner.restarts,
            active=tuple(active),
        )

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
        for end in frame.ends:
            with self.roster.lock:
                claim = runner.let_go((end.id, end.fence))
                if claim is None:
                    claim = self.judging.answered(runner, (end.id, end.fence))
                elif end.outcome is not None:
                    runner.ended += 1
                    if end.ran_us is not None:
                        runner.room_for(claim).timed(end.ran_us)
            if claim is not None:
                if runner.hello is not None and runner.hello.verdicts:
                    runner.unanswered.add((end.id, end.fence))
                office.settle(end, claim)
        if runner.is_open and any(room.free() for room in runner.rooms.values()):
            if not runner.claims and not runner.for_scripts:
                self._no_big_before_us = 0  # here is a runner that one could have to itself at once
            office.hungry()

    def _greet(self, runner: RunnerProcess, hello: Hello) -> None:
        with self.roster.lock:
            if not runner.for_scripts:
                self.roster.hello = hello
                self._names = _names([hello])
            self._verdicts = self._verdicts or hello.verdicts
            runner.hello, runner.state = hello, "working"
            runner.rooms = {kind: Room(slots) for kind, slots in hello.slots.items()}
            runner.page.cut_at(self._cut_us)
            self._see_whether_mixed()
        self.foreman.greeted(runner)
        self.judging.look(self._clock.monotonic_us())
        if self._office is not None:
            self._office.hungry()

    def _see_whether_mixed(self) -> None:
        hellos = [runner.hello for runner in self.roster.of_tasks() if runner.hello is not None]
        self._mixed = any(hello.tasks != hellos[0].tasks for hello in hellos)

    # ── a death ─────────────────────────────────────────────────────────────────────────────────────────

    def inherit(self, runner: RunnerProcess) -> None:
        """What a dead runner had: each claim gets its end, or goes back."""
        hello = self.roster.hello
        if self._office is None or hello is None:
            return  # it had no time to be given anything
        now_us = self._clock.monotonic_us()
        with self.roster.lock:
            marks = {(mark.job, mark.fence): mark for mark in self.roster.marks(runner)}
            claims = [(key, claim, marks.get(key)) for key, claim in runner.claims.items()]
            if runner.alone is not None and not runner.alone_sent:
                claims.append(((runner.alone.id, runner.alone.fence), runner.alone, None))
            runner.claims.clear()
            self._see_whether_mixed()
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
        self.office.give_back(back)
        self.judging.lost(runner)
        if runner.apart:
            self.office.expect_a_suspect()  # another one may wait for the place

    def _settle_crashed(self, claim: Claim, error: JobError, ran_us: int) -> None:
        hello = self.roster.hello
        assert hello is not None
        self._tell_end(claim, error.message)
        dead_queue = hello.dead_queues.get(claim.task)
        self.office.settle(crashed(claim, error, hello.settings.limits, ran_us, dead_queue), claim)

    def _tell_end(self, claim: Claim, text: str) -> None:
        """The last line in the log of a script that could not say it itself."""
        if claim.task == SCRIPT:
            now_us = self._clock.now_us()
            self.office.note(Note(id=claim.id, fence=claim.fence, kind="log", data=text.encode(), at_us=now_us))

    def _settle_unjudged(self, judge: Judge) -> None:
        log.warning("No runner says what becomes of job %s; it counts a crash.", show_id(judge.claim.id))
        self._settle_crashed(judge.claim, deaths.unjudged(judge.why), judge.ran_us)

    def look_after_judges(self, now_us: int) -> float | None:
        return self.judging.look(now_us)

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


def _is_big(claim: Claim) -> bool:
    """Whether it gets a runner to itself; a script is a process of its own."""
    return memory_of(claim) is not None and claim.task != SCRIPT


def _names(hellos: Iterable[Hello | None]) -> dict[bool, frozenset[str]]:
    """The tasks of each kind that there are slots for."""
    names: dict[bool, set[str]] = {}
    for hello in (hello for hello in hellos if hello is not None):
        for kind in hello.slots:
            names.setdefault(kind, set()).update(name for name, is_async in hello.tasks.items() if is_async is kind)
    return {kind: frozenset(some) for kind, some in names.items()}
