"""Dead jobs by error for somebody who goes on looking: gone through again only when others are dead, and not too often.

To go through ten thousand dead jobs means to read the error of each. Whether others are dead than at the last look is
told by the kept counters and the newest of them.
"""

from __future__ import annotations

from typing import Final

from windlass.core.clock import Clock, SystemClock
from windlass.core.ids import JobId
from windlass.core.job import State
from windlass.engines.protocol import Count, Engine, Query, TallyQuery
from windlass.ops.lookup import record_of
from windlass.ops.view import ErrorGroups, error_groups

REST: Final = 9
"""Where jobs die all the time, a look is followed by a rest so many times as long: it takes a tenth of the time."""

Sign = tuple[frozenset[Count], tuple[JobId, int | None] | None]


class DeadWatch:
    """The groups as of the last time that they were gone through."""

    def __init__(self, engine: Engine, clock: Clock | None = None) -> None:
        self._engine = engine
        self._clock = clock or SystemClock()
        self._groups: ErrorGroups | None = None
        self._sign: Sign | None = None
        self._rests_until_us = 0

    def look(self) -> ErrorGroups:
        """The groups; those of the last look where nothing has changed, or where it is too soon for another."""
        if self._groups is not None and self._clock.monotonic_us() < self._rests_until_us:
            return self._groups
        sign = self._signed()  # before the look: what comes meanwhile shows in the next one
        if self._groups is None or sign != self._sign:
            began_us = self._clock.monotonic_us()
            self._groups, self._sign = error_groups(self._engine), sign
            ended_us = self._clock.monotonic_us()
            self._rests_until_us = ended_us + REST * (ended_us - began_us)
        return self._groups

    def _signed(self) -> Sign:
        counts = self._engine.tally(TallyQuery()).counts
        newest = next(iter(self._engine.search(Query(state=State.DEAD, limit=1)).jobs), None)
        return (
            frozenset(one for one in counts if one.state is State.DEAD),
            None if newest is None else (newest.id, record_of(newest).ended_us),
        )
