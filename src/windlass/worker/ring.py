"""A ring of memory that a runner shares with its supervisor: what it has ended, to be read whatever becomes of it.

    runner      copies a message in and moves the head on; if the supervisor sleeps, it rings for it by the socket
    supervisor  copies them out and moves the tail on; before it sleeps it says so, and then looks once more

A system call for each end, and the change of threads that comes with it, cost a runner a sixth of its time. A message
goes in whole or, if it is long, in pieces, with a checksum each: not every processor shows the others what lies behind
the head before the head. For the same reason a ring may be missed: the supervisor looks by itself, too, as long as its
runner has anything to run.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable

SIZE = 1 << 18
_FRONT = 64
_HEAD, _TAIL, _ASLEEP = 0, 1, 2
_PIECE = struct.Struct("<II")
"""Before each: its length, and whether another one belongs to it; its checksum."""
_MORE = 1 << 31
_MOST = SIZE // 4
"""How long a piece may be."""
_ROOM_S = 0.001
_DOUBTS = 100
"""So many looks in a row at a piece that does not fit its checksum show that it never will."""

RING_SIZE = _FRONT + SIZE


class Ring:
    """One runner's ring, from either side. One thread at a time writes, one reads."""

    def __init__(self, memory: memoryview) -> None:
        self._numbers = memory[:_FRONT].cast("q")  # each of them is written at once
        self._bytes = memory[_FRONT:RING_SIZE]
        self._begun: list[bytes] = []
        """The pieces of a message whose last one has not come."""
        self._doubts = 0
        self.is_broken = False
        """Whether there lies what nobody can have written on purpose."""

    # ── the runner ──────────────────────────────────────────────────────────────────────────────────────

    def put(self, message: bytes, ring: Callable[[], object]) -> None:
        """Returns when all of it is there; `ring` wakes the supervisor."""
        last = max(0, len(message) - 1) // _MOST * _MOST
        for start in range(0, last, _MOST):
            self._put(message[start : start + _MOST], _MORE, ring)
        self._put(message[last:] if last else message, 0, ring)

    def _put(self, piece: bytes, more: int, ring: Callable[[], object]) -> None:
        numbers = self._numbers
        entry = _PIECE.pack(len(piece) | more, zlib.crc32(piece)) + piece
        head = numbers[_HEAD]
        end = head + len(entry)
        while end - numbers[_TAIL] > SIZE:
            self._ring(ring)
            time.sleep(_ROOM_S)
        at = head % SIZE
        left = SIZE - at
        if len(entry) <= left:
            self._bytes[at : at + len(entry)] = entry
        else:
            self._bytes[at:] = entry[:left]
            self._bytes[: len(entry) - left] = entry[left:]
        numbers[_HEAD] = end
        self._ring(ring)

    def _ring(self, ring: Callable[[], object]) -> None:
        if self._numbers[_ASLEEP]:
            self._numbers[_ASLEEP] = 0
            ring()

    # ── the supervisor ──────────────────────────────────────────────────────────────────────────────────

    @property
    def has_news(self) -> bool:
        """Whether there is something to read; of a broken one nothing ever is."""
        return self._numbers[_HEAD] != self._numbers[_TAIL] and not self.is_broken

    def sleeps(self, is_so: bool) -> None:
        """Whether it has to be rung for from now on."""
        self._numbers[_ASLEEP] = int(is_so)

    def take(self) -> list[bytes]:
        """All messages that can be read now."""
        numbers = self._numbers
        head, tail = numbers[_HEAD], numbers[_TAIL]
        if head == tail or self.is_broken:
            return []
        if not tail < head <= tail + SIZE:
            self.is_broken = True
            return []
        whole = self._between(tail % SIZE, head - tail)
        messages: list[bytes] = []
        start = 0
        while start + _PIECE.size <= len(whole):
            length, checksum = _PIECE.unpack_from(whole, start)
            end = start + _PIECE.size + (length & ~_MORE)
            piece = whole[start + _PIECE.size : end]
            if zlib.crc32(piece) != checksum:
                break
            start = end
            if length & _MORE:
                self._begun.append(piece)
            elif self._begun:
                messages.append(b"".join([*self._begun, piece]))
                self._begun.clear()
            else:
                messages.append(piece)
        self._doubts = 0 if start else self._doubts + 1
        self.is_broken = self._doubts >= _DOUBTS
        numbers[_TAIL] = tail + start
        return messages

    def _between(self, at: int, length: int) -> bytes:
        left = SIZE - at
        if length <= left:
            return bytes(self._bytes[at : at + length])
        return bytes(self._bytes[at:]) + bytes(self._bytes[: length - left])
