"""A pool's room: what it has at hand for its slots, and how much more it can use.

A slot is given about 50 ms of work at once, by the mean of what its jobs took: tiny jobs fly, long ones are never
hoarded. Used by all of a worker's threads: every change is a single operation on a dict or a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from windlass.core.ids import JobId
from windlass.engines.protocol import BATCH, Claim
from windlass.worker.desk import Run
from windlass.worker.staff import Wish

RUN_US = 50_000
"""A slot is given at most about so much work at once."""
MOST = 4 * BATCH
"""So many of the tiniest jobs, or half as many for each of several slots. With half of it a single slot stood still for
a tenth of its time: it had none left before its ends were heard of, others were claimed, and these came."""


class Room:
    """The slots of one pool, and the claims that wait for them or run in them."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.mean_us = float(RUN_US)
        self._at_hand: dict[tuple[JobId, int], Claim] = {}
        # By fence too: a worker that was taken for dead may claim a job again while its old run goes on.

    def enter(self, claims: Iterable[Claim]) -> None:
        """These were given to the pool."""
        for claim in claims:
            self._at_hand[claim.id, claim.fence] = claim

    def leave(self, claim: Claim) -> None:
        """It has ended, or was given up."""
        self._at_hand.pop((claim.id, claim.fence), None)

    def timed(self, took_us: float) -> None:
        """A job took so long: the mean follows quickly upwards and slowly down."""
        self.mean_us += (took_us - self.mean_us) * (0.5 if took_us > self.mean_us else 0.1)

    def appetite(self) -> int:
        """How many claims to have at hand: about 50 ms of work for each slot, one at least, within MOST."""
        each = max(1, int(RUN_US / max(self.mean_us, 1.0)))
        return min(self.slots * each, max(MOST, MOST // 2 * self.slots))

    def free(self) -> int:
        """How many claims to ask for now; 0: not yet."""
        appetite = self.appetite()
        free = appetite - len(self._at_hand)
        # Tiny jobs are asked for when half of them are done: a commit costs as much for fifty as for a hundred.
        return 0 if free < (min(BATCH, appetite // 2) if appetite > 2 * self.slots else 1) else min(free, BATCH)

    @property
    def left(self) -> int:
        """How many more claims it would take."""
        return self.appetite() - len(self._at_hand)

    @property
    def waiting(self) -> int:
        """How many of its claims cannot be in a slot."""
        return max(0, len(self._at_hand) - self.slots)

    def slowed(self) -> None:
        """Claims came back unstarted: no more than one for each slot is asked for until its jobs are short again."""
        self.mean_us = max(self.mean_us, float(RUN_US))

    def stands_still(self, runs: Sequence[Run], now_us: int) -> bool:
        """Whether all slots are taken, and have been for longer than what waits for them was meant to take.

        Then jobs are longer than the mean says: no more than one for each slot is asked for until they are short again.
        """
        youngest_us = now_us - max((run.started_us for run in runs), default=now_us)
        if len(runs) < self.slots or youngest_us <= RUN_US:
            return False
        self.mean_us = max(self.mean_us, youngest_us)
        return True


def wishes_for(free: Mapping[bool, int], names: Mapping[bool, frozenset[str]]) -> list[Wish]:
    """What to ask for, by the room there is for each kind of tasks (True: coroutine functions) and their names."""
    kinds = [kind for kind in free if names[kind]]
    if len(kinds) < 2:
        return [Wish(min(free[kind], BATCH)) for kind in kinds if free[kind]]
    less, more = sorted(kinds, key=lambda kind: free[kind])
    # What both have room for comes by rank alone; only what goes beyond it is asked for by name.
    wishes = (Wish(min(free[less], BATCH)), Wish(min(free[more] - free[less], BATCH), names[more]))
    return [wish for wish in wishes if wish.limit]
