"""Ids: made by the client, in order, never twice; those of follow-ups always the same."""

from __future__ import annotations

import threading
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import BadValue
from windlass.core.ids import child_id, new_id, read_id, show_id

IDS = st.binary(min_size=16, max_size=16)


def test_ids_of_many_threads_are_unique_and_each_thread_sees_its_own_grow() -> None:
    made: list[list[bytes]] = [[] for _ in range(8)]

    def make(mine: list[bytes]) -> None:
        mine += [new_id() for _ in range(3_000)]

    threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    assert len({one for mine in made for one in mine}) == 24_000


def test_ids_made_in_one_millisecond_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000_000_000_000)
    made = [new_id() for _ in range(10_000)]
    assert made == sorted(set(made))


def test_ids_grow_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = new_id()
    monkeypatch.setattr(time, "time_ns", lambda: 5_000_000)
    assert new_id() > before


def test_a_new_id_is_a_uuid_of_version_7_that_carries_the_time() -> None:
    made = uuid.UUID(bytes=new_id())
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    # Other tests may have borrowed some milliseconds from the future.
    assert abs((made.int >> 80) - time.time_ns() // 1_000_000) < 60_000


@given(IDS, st.integers(0, 1 << 63))
def test_a_follow_ups_id_is_the_same_every_time_and_lies_beside_its_parent(parent: bytes, index: int) -> None:
    child = child_id(parent, index)
    assert child == child_id(parent, index) != parent
    assert child[:6] == parent[:6]
    assert (uuid.UUID(bytes=child).version, uuid.UUID(bytes=child).variant) == (8, uuid.RFC_4122)


@given(st.sets(st.tuples(IDS, st.integers(0, 1_000)), min_size=2, max_size=30))
def test_no_two_follow_ups_share_an_id(pairs: set[tuple[bytes, int]]) -> None:
    assert len({child_id(parent, index) for parent, index in pairs}) == len(pairs)


@given(IDS)
def test_an_id_reads_back_as_it_was_shown_with_or_without_hyphens(value: bytes) -> None:
    assert read_id(show_id(value)) == value
    assert read_id(f"  {value.hex().upper()} ") == value
    assert show_id(value) == str(uuid.UUID(bytes=value))


@pytest.mark.parametrize("text", ["", "12", "g" * 32, "0" * 31, "0" * 34, "é" * 32, "0" * 100_000])
def test_what_is_no_id_is_refused_with_what_was_written_and_not_all_of_it(text: str) -> None:
    with pytest.raises(BadValue) as caught:
        read_id(text)
    assert len(str(caught.value)) < 250
    assert text[:20] in str(caught.value)
