"""A page of memory that a runner shares with its supervisor: what its slots run, seen even when it cannot speak.

    head    by the supervisor: until when the lease holds, and which claims it has taken back;
            by the runner: when it last looked around
    places  one for each slot: job, fence, when it started, when its timeout is over, when its grace is over too

A slot writes its place before it calls the task, and clears it after its end was written to the ring that lies behind
the page. So when the runner is dead, whatever stands on the page and whose end is not in the ring was running. All
times are of the monotonic clock, which is the same for all processes of a host.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from windlass.core.ids import JobId
from windlass.core.system import map_page
from windlass.engines.protocol import Claim
from windlass.worker.desk import Run
from windlass.worker.ring import RING_SIZE, Ring

_NUMBER = struct.Struct("<q")
_PLACE = struct.Struct("<16sqqqq")
_FREE = bytes(_PLACE.size)
_HEAD = 64
_CUT, _LOOKED, _EPOCH = 0, 8, 16


def page_size(places: int) -> int:
    """How many bytes a page with so many places takes."""
    return _HEAD + places * _PLACE.size


def shared_size(places: int) -> int:
    """How many bytes a runner shares with its supervisor: a page, and behind it a ring."""
    return page_size(places) + RING_SIZE


def share(descriptor: int, places: int) -> tuple[Page, Ring]:
    """What is shared, from either side."""
    memory, size = memoryview(map_page(descriptor, shared_size(places))), page_size(places)
    return Page(memory[:size]), Ring(memory[size:])


class Mark(NamedTuple):
    """A place that is taken."""

    job: JobId
    fence: int
    started_us: int
    soft_us: int
    """When its timeout is over; 0: it has none."""
    hard_us: int
    """When its grace is over; 0: it has none."""


class Page:
    """One runner's page, from either side."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        places = (len(memory) - _HEAD) // _PLACE.size
        self._places = [_HEAD + number * _PLACE.size for number in range(places)]
        self._free = deque(self._places)
        self._taken: dict[tuple[JobId, int], int] = {}
        self._epochs: dict[tuple[JobId, int], int] = {}

    # ── the runner ──────────────────────────────────────────────────────────────────────────────────────

    def expect(self, claims: Iterable[Claim], epoch: int) -> None:
        """These came with that epoch."""
        for claim in claims:
            self._epochs[claim.id, claim.fence] = epoch

    def enter(self, run: Run) -> bool:
        """A slot is about to start the job; False: it must not, see `mark`."""
        soft_us = run.context.deadline_us or 0
        return self.mark(run.claim, run.started_us, soft_us, soft_us + run.grace_us if soft_us else 0)

    def mark(self, claim: Claim, started_us: int, soft_us: int, hard_us: int) -> bool:
        """The job is about to start; False: it must not, for the supervisor has taken it back.

        It writes first and looks then; the supervisor writes first and looks a while later. So at least one of the two
        sees what the other has done.
        """
        place = self._free.popleft()
        self._taken[claim.id, claim.fence] = place
        _PLACE.pack_into(self._memory, place, claim.id, claim.fence, started_us, soft_us, hard_us)
        (epoch,) = _NUMBER.unpack_from(self._memory, _EPOCH)
        return self._epochs.pop((claim.id, claim.fence), epoch) >= epoch

    def leave(self, claim: Claim) -> None:
        """Its end is on its way; a job that was not started has no place to leave."""
        self._epochs.pop((claim.id, claim.fence), None)
        place = self._taken.pop((claim.id, claim.fence), None)
        if place is not None:
            self._memory[place : place + _PLACE.size] = _FREE
            self._free.append(place)

    def look(self, now_us: int) -> None:
        """The runner's threads get their turns."""
        _NUMBER.pack_into(self._memory, _LOOKED, now_us)

    def is_cut(self, now_us: int) -> bool:
        """Whether the worker has not reached the store for so long that others may take its jobs."""
        (cut_us,) = _NUMBER.unpack_from(self._memory, _CUT)
        return 0 < cut_us <= now_us

    # ── the supervisor ──────────────────────────────────────────────────────────────────────────────────

    def revoke(self, epoch: int) -> None:
        """Whatever came with an earlier epoch and has not started must not start."""
        _NUMBER.pack_into(self._memory, _EPOCH, epoch)

    def cut_at(self, cut_us: int) -> None:
        """From then on nothing is started; 0: never."""
        _NUMBER.pack_into(self._memory, _CUT, cut_us)

    @property
    def looked_us(self) -> int:
        (looked_us,) = _NUMBER.unpack_from(self._memory, _LOOKED)
        return looked_us

    def marks(self) -> list[Mark]:
        """What runs. A place may be read while it is written: whoever acts on it checks job and fence."""
        found = [Mark(*_PLACE.unpack_from(self._memory, place)) for place in self._places]
        return [mark for mark in found if mark.started_us]
