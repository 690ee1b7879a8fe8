"""Who gets which claim: what the runners could take now, and which of them takes what has come.

A job with a memory of its own gets a runner to itself. It is given the one with the fewest jobs, which are let end
first; where that takes too long, other workers may have the job for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from windlass.core.clock import Clock
from windlass.core.scripts import SCRIPT
from windlass.core.system import footprint
from windlass.engines.protocol import BATCH, Claim
from windlass.worker.budget import memory_of
from windlass.worker.frames import CancelJob, Hello, Recall, Work
from windlass.worker.room import wishes_for
from windlass.worker.roster import Roster
from windlass.worker.runner_process import RunnerProcess
from windlass.worker.staff import Office, Wish

RESERVE_US = 1_000_000
"""How long a job with a memory of its own waits at first for a runner's other jobs to end, before other workers may
have it for as long. Then it waits for twice that, and so on: in the end it outlasts whatever runs there."""


class Dispatcher:
    """Hands claims to runners."""

    def __init__(self, roster: Roster, clock: Clock, office: Callable[[], Office]) -> None:
        self._roster = roster
        self._clock = clock
        self._office = office
        self._names: dict[bool, frozenset[str]] = {}
        self._mixed = False
        """Whether not all of them know the same tasks: new code takes the place of old."""
        self._big = False
        """Whether jobs with a memory of their own have been seen."""
        self._no_big_before_us = 0
        self._patience_us = RESERVE_US

    # ── what they could take ────────────────────────────────────────────────────────────────────────────

    def learn(self, hello: Hello) -> None:
        """The tasks of the app are these."""
        self._names = _names([hello])

    def see_whether_mixed(self) -> None:
        """One has come or gone."""
        hellos = [runner.hello for runner in self._roster.of_tasks() if runner.hello is not None]
        self._mixed = any(hello.tasks != hellos[0].tasks for hello in hellos)

    def wishes(self) -> list[Wish]:
        """What they could take now."""
        wishes = self._wishes_of_tasks()
        if self._roster.scripts is None:
            return wishes
        # Each kind by name, for none of the two can run what is the other's.
        hello = self._roster.hello
        known = frozenset(hello.tasks if hello is not None else ())
        named = [wish if wish.tasks is not None else wish._replace(tasks=known) for wish in wishes]
        with self._roster.lock:
            rooms = [room for runner in self._open_for_scripts() for room in runner.rooms.values()]
            free = min(BATCH, sum(room.free() for room in rooms))
        return [*named, *([Wish(free, frozenset({SCRIPT}), besides=True)] if free else [])]

    def _open_for_scripts(self) -> list[RunnerProcess]:
        return [runner for runner in self._roster.living if runner.for_scripts and runner.is_open]

    def _wishes_of_tasks(self) -> list[Wish]:
        with self._roster.lock:
            able = [runner for runner in self._roster.of_tasks() if runner.is_open]
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

    # ── who takes it ────────────────────────────────────────────────────────────────────────────────────

    def put(self, claims: tuple[Claim, ...]) -> None:
        """Each to the runner with the most room for it; what no runner can take goes back."""
        lots: dict[int, tuple[RunnerProcess, list[Claim]]] = {}
        back: list[Claim] = []
        now_us = self._clock.monotonic_us()
        with self._roster.lock:
            there = [runner for runner in self._roster.living if runner.is_open]
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
                    chosen = able[0] if len(able) == 1 else max(able, key=lambda runner: runner.room_for(claim).left)
                    chosen.take_in(claim, now_us)
                    lots.setdefault(chosen.number, (chosen, []))[1].append(claim)
            for runner, lot in lots.values():
                self._give(runner, tuple(lot))
        if back:
            self._office().give_back(back)

    def _reserve(self, able: list[RunnerProcess], claim: Claim, now_us: int) -> None:
        """It gets the runner with the fewest jobs to itself, once they have ended."""
        chosen = min(able, key=lambda runner: len(runner.claims))
        if chosen.claims:
            chosen.send(Recall())
        chosen.alone, chosen.alone_until_us = claim, now_us + self._patience_us

    def send_alone(self, runner: RunnerProcess, now_us: int) -> None:
        """It is free for the job that has it to itself."""
        claim = runner.alone
        assert claim is not None
        if not runner.apart:
            self._patience_us = RESERVE_US
        seen = footprint(runner.pid)
        runner.base_rss = 0 if seen is None else seen.rss
        runner.alone_sent = True
        runner.take_in(claim, now_us)
        self._give(runner, (claim,))

    def _give(self, runner: RunnerProcess, claims: tuple[Claim, ...]) -> None:
        runner.send(Work(self._office().worker(), runner.epoch, claims))
        cancelled = self._office().desk.cancelled
        for claim in claims if cancelled else ():
            if claim.id in cancelled:  # somebody asked while it waited here
                runner.send(CancelJob(claim.id))

    def give_up_reserving(self, runner: RunnerProcess, now_us: int) -> None:
        """Its other jobs take long: the one that waits for them may find a place with another worker."""
        with self._roster.lock:
            claim = self._unreserve(runner)
            self._no_big_before_us = now_us + self._patience_us
            self._patience_us *= 2
        self._office().give_back([claim])
        self._office().hungry()

    def expect_big_ones(self) -> None:
        """There is a runner that one could have to itself at once."""
        self._no_big_before_us = 0

    def take_back(self) -> list[Claim]:
        """Those that wait for a runner to themselves; what runners have is asked for."""
        with self._roster.lock:
            living = self._roster.living
            back = [self._unreserve(runner) for runner in living if runner.waits_to_be_alone]
            for runner in living:
                if runner.claims:
                    runner.send(Recall())
        return back

    def _unreserve(self, runner: RunnerProcess) -> Claim:
        claim, runner.alone = runner.alone, None
        assert claim is not None
        return claim


def _is_big(claim: Claim) -> bool:
    """Whether it gets a runner to itself; a script is a process of its own."""
    return bool(claim.needs) and memory_of(claim) is not None and claim.task != SCRIPT


def _names(hellos: Iterable[Hello | None]) -> dict[bool, frozenset[str]]:
    """The tasks of each kind that there are slots for."""
    names: dict[bool, set[str]] = {}
    for hello in (hello for hello in hellos if hello is not None):
        for kind in hello.slots:
            names.setdefault(kind, set()).update(name for name, is_async in hello.tasks.items() if is_async is kind)
    return {kind: frozenset(some) for kind, some in names.items()}
