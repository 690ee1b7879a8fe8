"""The settler: hands ends of attempts to the store, many at once, and tries until the store has answered.

A settlement goes at once if somebody waits for it (a lane, a flow, or no claim is left and so a slot stands still),
else with a hundred others or after 5 ms. Lines and progress of a job go before its end, which closes its record. What
the store does not answer is kept and tried again: the fence says whether it had arrived.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence

from windlass.core.clock import Clock
from windlass.core.errors import StoreError
from windlass.core.events import Bus, Settled
from windlass.core.ids import WorkerId, show_id
from windlass.core.limits import Limits
from windlass.engines.protocol import BATCH, Claim, Delta, Engine, Note, Settlement, Verdict
from windlass.worker.desk import Desk
from windlass.worker.executor import UNSTORABLE, unstorable
from windlass.worker.failure import failure_of
from windlass.worker.notes import DROPPED, MOST_NOTES
from windlass.worker.service import Service, log

PATIENCE_US = 5_000
MOST_UNSETTLED = 2 * BATCH


class Settler(Service):
    """Ends of attempts on their way to the store."""

    name = "settler"

    def __init__(
        self,
        clock: Clock,
        engine: Engine,
        desk: Desk,
        worker: Callable[[], WorkerId],
        bus: Bus,
        limits: Limits,
    ) -> None:
        super().__init__(clock)
        self._engine = engine
        self._desk = desk
        self._worker = worker
        self._bus = bus
        self._limits = limits
        self._ends: deque[Settlement] = deque()
        self._going: list[Settlement] = []
        """The batch that the store has not answered for yet."""
        self._notes: deque[Note] = deque()
        self._dropped = 0
        self._urgent = False
        self._asleep = False
        self._since_us = 0
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._counting = threading.Lock()
        self.on_settled: Callable[[], None] = lambda: None
        """Called after each batch: the consumer may have room again."""
        self.on_answer: Callable[[Settlement, Verdict], None] = lambda _settlement, _verdict: None
        """Called for each end that the store has answered for."""

    def put(self, settlements: Sequence[Settlement], *, urgent: bool) -> None:
        """Takes ends of attempts; returns at once."""
        before = len(self._ends)
        self._ends.extend(settlements)
        if urgent:
            self._urgent = True
            self.wake()
        elif self._asleep or before < BATCH <= len(self._ends):
            self.wake()

    def note(self, note: Note) -> None:
        """Takes a line or a progress of a running job."""
        if len(self._notes) >= MOST_NOTES:
            self._dropped += 1  # the store cannot take them as fast as they come, or not at all
            return
        self._notes.append(note)
        if self._asleep:
            self.wake()

    @property
    def unsettled(self) -> int:
        """How many ends the store does not have yet."""
        return len(self._ends) + len(self._going)

    def tick(self, now_us: int) -> float | None:
        # Said before the last look: whoever puts something down after it, wakes us.
        self._asleep = True
        if not self.unsettled and not self._notes:
            self._since_us = 0
            return None
        self._asleep = False
        if not self._since_us:
            self._since_us = now_us
        left_us = self._since_us + PATIENCE_US - now_us
        # After a failure at once: a step that only waits would count as one that worked, and end the outage in the log.
        if left_us > 0 and not self._urgent and len(self._ends) < BATCH and not self.stopping and not self._pause_s:
            return left_us / 1e6
        self.flush()
        return 0  # and only then to sleep, said beforehand

    def flush(self) -> None:
        """One round: all lines first, then up to a hundred ends."""
        self._urgent, self._since_us = False, 0
        if not self._going:
            for _ in range(min(BATCH, len(self._ends))):
                self._going.append(self._ends.popleft())
        # All lines that are here now, after the ends were taken: none of these jobs can have another one.
        self._write_notes(len(self._notes))
        if self._going:
            verdicts = self._settle(self._going)
            ends, self._going = self._going, []
            self._settled(ends, verdicts)
            self.on_settled()

    def _write_notes(self, count: int) -> None:
        while count > 0:
            notes = [self._notes[place] for place in range(min(BATCH, count))]
            # Of progress only the last word counts.
            last = {note.id: note for note in notes if note.kind == "progress"}
            self._note([note for note in notes if note.kind == "log" or last[note.id] is note])
            for _ in notes:
                self._notes.popleft()
            count -= len(notes)
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            log.warning(DROPPED, dropped)

    def _note(self, notes: Sequence[Note]) -> None:
        try:
            self._engine.note(notes)
        except StoreError:
            raise
        except Exception as error:
            # One that cannot be stored must not keep all ends from it, now and at every further try.
            if len(notes) > 1:
                for note in notes:
                    self._note([note])
            else:
                log.error("A line of job %s cannot be stored.", show_id(notes[0].id), exc_info=error)

    def _settle(self, ends: Sequence[Settlement]) -> list[Verdict]:
        try:
            return self._engine.settle(ends)
        except StoreError:
            raise
        except Exception as error:
            # One that cannot be stored must not keep the others from it, now and at every further try.
            if len(ends) > 1:
                return [self._settle([settlement])[0] for settlement in ends]
            return self._settle_as_failed(ends[0], error)

    def _settle_as_failed(self, settlement: Settlement, error: Exception) -> list[Verdict]:
        log.error("The end of job %s cannot be stored.", show_id(settlement.id), exc_info=error)
        claim = self._desk.open.get(settlement.id)
        if claim is None or settlement.transition.reason == UNSTORABLE:
            return [Verdict.STALE]
        return self._settle([unstorable(claim, failure_of(error, self._limits, claim.task))])

    def _settled(self, ends: Sequence[Settlement], verdicts: Sequence[Verdict]) -> None:
        is_wanted = self._bus.wanted(Settled)
        for settlement, verdict, claim in zip(ends, verdicts, self._let_go(ends, verdicts), strict=True):
            if claim is not None and is_wanted:
                self._publish(claim, settlement, verdict)
            if verdict is Verdict.STALE:
                log.warning(
                    "Job %s was not ours any more (another worker has it, or it was removed); its end is dropped.",
                    show_id(settlement.id),
                )
            self.on_answer(settlement, verdict)

    def _let_go(self, ends: Sequence[Settlement], verdicts: Sequence[Verdict]) -> list[Claim | None]:
        """The claims that these ends were of, as far as they were still held; their outcomes are counted."""
        claims: list[Claim | None] = []
        counts: Counter[tuple[str, str, str]] = Counter()
        for settlement, verdict in zip(ends, verdicts, strict=True):
            claim = self._desk.open.get(settlement.id)
            if claim is not None and claim.fence != settlement.fence:
                claim = None
            if claim is not None:
                self._desk.let_go(claim.id)
                if settlement.outcome is not None:
                    name = settlement.outcome.value if verdict is not Verdict.STALE else "stale"
                    counts[claim.queue, claim.task, name] += 1
            claims.append(claim)
        with self._counting:
            self._counts.update(counts)
        return claims

    def _publish(self, claim: Claim, settlement: Settlement, verdict: Verdict) -> None:
        self._bus.publish(
            Settled(
                at_us=self._clock.now_us(),
                job=claim.id,
                task=claim.task,
                worker=self._worker(),
                fence=claim.fence,
                attempt=claim.attempt,
                outcome="given_back" if settlement.outcome is None else settlement.outcome.value,
                state=settlement.transition.to.value,
                answer=verdict.value,
                ran_us=settlement.ran_us or 0,
            )
        )

    def take_counts(self) -> tuple[Delta, ...]:
        """What was counted since the last time, for the history."""
        with self._counting:
            counts, self._counts = self._counts, Counter()
        return tuple(Delta(queue=queue, task=task, name=name, n=n) for (queue, task, name), n in counts.items())

    def count(self, queue: str, task: str, name: str) -> None:
        """Counts something that happened to a job."""
        with self._counting:
            self._counts[queue, task, name] += 1

    def drain(self, deadline_s: float) -> list[Settlement]:
        """Tries until everything is settled or the time is over; gives what is left."""
        until_us = self._clock.monotonic_us() + int(deadline_s * 1e6)
        while (self.unsettled or self._notes) and self._clock.monotonic_us() < until_us:
            try:
                self.flush()
            except Exception as error:
                self._bell.wait(self._failed(error))
        return [*self._going, *self._ends]
