"""The consumer: asks the store for work, about 50 ms of it for each slot, and sleeps when there is none.

    what does the staff wish for? ── nothing ──► sleeps until a slot is free
          │
    claim ── as many as were asked for ──► to the staff, and at once the next question
          └─ fewer, or none ──► sleeps in the store's own wait, until there is work or something comes due

A *suspect* (a job during which workers died) runs alone: it is asked for now and then, the others are let finish first,
and its start is written before it starts, so that another death has one possible cause.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from windlass.core.clock import Clock
from windlass.core.errors import LeaseExpired, StoreError, WorkerGone
from windlass.core.events import Bus, Claimed
from windlass.core.gates import MEMORY
from windlass.core.ids import WorkerId, new_id
from windlass.engines.protocol import Claim, Claims, Engine, Hint, Interest, Note, Order, Verdict
from windlass.worker.bellman import Bellman
from windlass.worker.budget import Budget
from windlass.worker.desk import Desk
from windlass.worker.executor import given_back
from windlass.worker.lease import Lease
from windlass.worker.service import Service, log
from windlass.worker.settler import MOST_UNSETTLED, Settler
from windlass.worker.staff import Apart, Staff, Wish

LOOK_S = 30.0
SUSPECTS_US = 1_000_000
PATIENCE_US, LATER_US, LONGEST_US = 5_000_000, 30_000_000, 60_000_000
"""How long a suspect waits for the others to end, how long it is left to other workers if they do not, and how long the
patience becomes at most: the pauses grow with it, so that slots stand empty for a seventh of the time."""
CUT_S = 0.5
"""How often it looks whether the store can be reached again."""
BESIDES_US = 250_000
"""How long it does not ask again for what is asked for besides, when there was none and there is other work."""
NARROW_S = 1.0
"""How long it sleeps at most, and how often it passes a wake-up on, while it asks for some of its jobs only."""


class Consumer(Service):
    """From the store to the slots."""

    name = "consumer"

    def __init__(
        self,
        clock: Clock,
        engine: Engine,
        desk: Desk,
        settler: Settler,
        bus: Bus,
        worker: Callable[[], WorkerId],
        queues: tuple[str, ...] | None,
        lease: Lease,
        budget: Budget,
        bellman: Bellman,
    ) -> None:
        super().__init__(clock)
        self._engine = engine
        self._desk = desk
        self._settler = settler
        self._bus = bus
        self._worker = worker
        self._queues = queues
        self._lease = lease
        self._budget = budget
        self._bellman = bellman
        self.staff: Staff | None = None
        self.on_lapse: Callable[[], None] = lambda: None
        """Called when the store refuses claims until the worker has renewed, or announced itself anew."""
        self.ticket = 0
        self._unsure = False
        """Whether the last claim was not answered: the store may have carried it out."""
        self._bell_id = new_id()
        self.asking = False
        """Whether the store may have given us claims that are not on the desk yet."""
        self._listen_s: float | None = None
        self._woken: list[Hint] = []
        self._suspects_at_us = 0
        self._suspect: Claim | None = None
        self._suspect_since_us = 0
        self._patience_us = PATIENCE_US
        self._alone = False
        """Whether the suspect has been given to the staff."""
        self._narrow = False
        """Whether it asked only for tasks of the kind that slots are free for, or for what its budget has left."""
        self._passed_on_us = 0
        self._told_cut = False
        self._besides_at_us = 0

    @property
    def _staff(self) -> Staff:
        assert self.staff is not None
        return self.staff

    # ── one step ────────────────────────────────────────────────────────────────────────────────────────

    def tick(self, now_us: int) -> float | None:
        try:
            pause_s = self._look(now_us)
        except (WorkerGone, LeaseExpired):
            # After an outage, or in a store that was emptied. The next beat puts it right.
            self.on_lapse()
            return CUT_S
        if self._woken and pause_s != 0:
            # The store wakes one sleeper for work. It may have more than we can take: then the next one is woken.
            hints, self._woken = self._woken, []
            if self._passes_on(now_us):
                with suppress(StoreError):
                    self._engine.signal(hints)
        return pause_s

    def is_back(self) -> bool:
        return not self._told_cut

    def _is_cut(self, now_us: int) -> bool:
        """Whether the lease forbids to claim; says so once, since others may take what runs here from now on."""
        cut = self._lease.is_cut(now_us)
        if cut and not self._told_cut:
            log.warning(
                "The store has not been reached for most of the lease: nothing is started until it is, "
                "and other workers may take over the jobs that run here."
            )
        self._told_cut = cut
        return cut

    def _passes_on(self, now_us: int) -> bool:
        if not self._narrow or self._listen_s is None:
            return self._listen_s is None
        # It may have been for the tasks that were not asked for. Not at once again: two such would wake each other.
        if now_us < self._passed_on_us:
            return False
        self._passed_on_us = now_us + int(NARROW_S * 1e6)
        return True

    def _look(self, now_us: int) -> float | None:
        self._listen_s = None
        if self._suspect is not None and self._staff.apart is None:
            return self._go_on_with(self._suspect)
        if self._is_cut(now_us):
            return CUT_S
        if self._settler.unsettled > MOST_UNSETTLED:
            return None
        apart = self._staff.apart
        wishes = self._staff.wishes()
        if not wishes and not self._unsure:
            if apart is None:
                return None
            self._look_for_a_suspect(apart, now_us)
            return SUSPECTS_US / 1e6
        # What it gave without our knowing must not lie there until a slot is free: it is asked for, and goes back.
        wishes = wishes or [Wish(1)]
        self._narrow = self._leaves_some_out(wishes)
        answers, is_all = self._ask(wishes)
        # Suspects last: whoever has just sent a job waits for its start.
        if apart is not None:
            answers += self._look_for_a_suspect(apart, now_us)
        elif self._suspect is None and (now_us >= self._suspects_at_us or not self._desk.open):
            answers.append(self._claim(Wish(1), suspects=True))
            self._suspects_at_us = now_us + SUSPECTS_US
        if self._suspect is not None or not is_all:
            return 0
        if any(answer.claims for answer in answers):
            wishes = self._staff.wishes()
            if not wishes:
                return 0
            self._narrow = self._narrow or self._leaves_some_out(wishes)
        return self._listen_for(now_us, *answers)

    def _ask(self, wishes: list[Wish]) -> tuple[list[Claims], bool]:
        """What came, and whether that was all there is for us: fewer than were asked for."""
        answers: list[Claims] = []
        enough, is_all = False, not self._unsure
        for wish in wishes:
            if self._suspect is not None:
                break
            if self._may_wait(answers) if wish.besides else enough:
                is_all = is_all and not wish.besides
                continue
            answers.append(self._claim(wish, suspects=False))
            found = answers[-1].claims
            if wish.besides and not found:
                self._besides_at_us = self._clock.monotonic_us() + BESIDES_US
            # After one with needs the staff may have other wishes.
            has_needs = any(claim.needs for claim in found)
            enough = len(found) < wish.limit or has_needs
            is_all = is_all and len(found) < wish.limit and not has_needs
        return answers, is_all

    def _may_wait(self, answers: list[Claims]) -> bool:
        """Under a stream of tasks, scripts of which there were none are not asked for with every claim."""
        is_busy = any(answer.claims for answer in answers)
        return is_busy and self._clock.monotonic_us() < self._besides_at_us

    def _leaves_some_out(self, wishes: list[Wish]) -> bool:
        """Whether some of the tasks on the card are not asked for."""
        named: frozenset[str] = frozenset()
        for wish in wishes:
            if wish.tasks is None:
                return False
            named |= wish.tasks
        return not named.issuperset(self._staff.tasks())

    def _listen_for(self, now_us: int, *looked: Claims) -> float:
        """Sleeps in the store's wait until something comes or is due."""
        waits_us = [found.wait_us for found in looked if found.wait_us is not None]
        if now_us < self._suspects_at_us < now_us + SUSPECTS_US:
            # They were not asked for this time, and the store may count them as seen.
            waits_us.append(self._suspects_at_us - now_us)
        self._listen_s = min([NARROW_S if self._narrow else LOOK_S, *(wait_us / 1e6 for wait_us in waits_us)])
        return self._listen_s

    def _claim(self, wish: Wish, *, suspects: bool) -> Claims:
        """Asks for work and hands it on, by what came and not by what was asked for.

        After an answer that was lost the ticket is the same, and the store repeats what it gave then.
        """
        free = self._budget.free(list(self._desk.open.values()))
        if not wish.alone:
            free[MEMORY] = 0
        self._narrow = self._narrow or free != self._budget.totals
        order = Order(
            worker=self._worker(),
            ticket=self.ticket + 1,
            limit=wish.limit,
            queues=self._queues,
            tasks=wish.tasks,
            free=free,
            total=self._budget.totals,
            suspects=suspects,
        )
        self.asking = True
        try:
            found = self._engine.claim(order)
        except BaseException:
            self._unsure = True
            raise
        # An empty answer counts, too: under the same ticket the store would repeat it for ever, where a lost answer was
        # taken back since, or a record cannot be read.
        self.ticket += 1
        self._unsure = False
        if found.claims:
            self._desk.take_in(found.claims)
        self.asking = False
        if found.claims:
            if self._bus.wanted(Claimed):
                self._tell(found.claims)
            if found.claims[0].suspect:
                (self._suspect,) = found.claims
                self._suspect_since_us = self._clock.monotonic_us()
            else:
                self._give_to_the_staff(found.claims)
        return found

    def _give_to_the_staff(self, claims: tuple[Claim, ...]) -> None:
        try:
            self._staff.put(claims)
        except BaseException:
            self._settler.put([given_back(claim) for claim in claims], urgent=True)
            raise

    def _tell(self, claims: tuple[Claim, ...]) -> None:
        now_us = self._clock.now_us()
        for claim in claims:
            self._bus.publish(
                Claimed(
                    at_us=now_us,
                    job=claim.id,
                    task=claim.task,
                    queue=claim.queue,
                    worker=self._worker(),
                    fence=claim.fence,
                    waited_us=max(0, now_us - claim.due_us),
                )
            )

    @property
    def waits_for_others(self) -> bool:
        """Whether a suspect keeps it from claiming until the others have ended."""
        return self._suspect is not None and not self._alone

    # ── suspects that run apart from the others ─────────────────────────────────────────────────────────

    def _look_for_a_suspect(self, apart: Apart, now_us: int) -> tuple[Claims, ...]:
        """Now and then, whatever else there is to do: it takes no slot from anybody."""
        answers: tuple[Claims, ...] = ()
        if self._suspect is None and now_us >= self._suspects_at_us and apart.has_room():
            answers = (self._claim(Wish(1), suspects=True),)
            self._suspects_at_us = now_us + SUSPECTS_US
        if self._suspect is not None:
            self._start_apart(apart, self._suspect)
        return answers

    def expect_a_suspect(self) -> None:
        """A job has just become one."""
        self._suspects_at_us = 0
        self.rouse()

    def _start_apart(self, apart: Apart, suspect: Claim) -> None:
        (answer,) = self._engine.note([Note(id=suspect.id, fence=suspect.fence, kind="start")])
        self._suspect = None
        if answer is Verdict.ACCEPTED:
            apart.put(suspect)
        else:
            self._desk.let_go(suspect.id)

    # ── suspects ────────────────────────────────────────────────────────────────────────────────────────

    def _go_on_with(self, suspect: Claim) -> float | None:
        """One step with a suspect: the others end, its start is written, it runs, it has ended."""
        if self._alone:
            if self._desk.holds(suspect):
                return None
            self._suspect, self._alone = None, False
            self._patience_us = PATIENCE_US
            return 0
        if len(self._desk.open) > 1:
            return self._wait_for_the_others(suspect)
        (answer,) = self._engine.note([Note(id=suspect.id, fence=suspect.fence, kind="start")])
        if answer is not Verdict.ACCEPTED:
            self._desk.let_go(suspect.id)
            self._suspect = None
            return 0
        self._alone = True
        self._staff.put((suspect,))
        return None

    def _wait_for_the_others(self, suspect: Claim) -> float | None:
        """Nothing new is claimed meanwhile, so not for long: a job of hours would keep all slots but its own empty."""
        now_us = self._clock.monotonic_us()
        left_us = self._suspect_since_us + self._patience_us - now_us
        if left_us > 0:
            return left_us / 1e6
        self._suspect = None
        self._suspects_at_us = now_us + LATER_US * self._patience_us // PATIENCE_US
        self._patience_us = min(2 * self._patience_us, LONGEST_US)  # or under steady work it would never run
        self._settler.put([given_back(suspect)], urgent=True)
        return 0

    def stop(self, timeout_s: float | None = None) -> None:
        super().stop(timeout_s)
        if self._suspect is not None and not self._alone:
            self._settler.put([given_back(self._suspect)], urgent=True)
            self._suspect = None

    # ── sleeping ────────────────────────────────────────────────────────────────────────────────────────

    def rest(self, pause_s: float | None) -> None:
        if self._listen_s is None or pause_s is None:
            super().rest(pause_s)
            return
        interest = Interest(queues=self._queues, worker=self._worker(), bell=self._bell_id)
        with suppress(StoreError):
            self._woken = [hint for hint in self._engine.listen(interest, pause_s) if hint.kind == "work"]

    def rouse(self) -> None:
        self.wake()
        # It may sleep in the store's wait. An order to the worker would wake the heartbeat too, and cost a renewal.
        self._bellman.ring(self._bell_id)

    def hungry(self) -> None:
        """A slot is free, or what an ended job needed."""
        if self._narrow and self._listen_s is not None:
            self.rouse()  # it sleeps for what other slots can run, not for what this one can
        else:
            self.wake()
