"""The ring of memory between a runner and its supervisor."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.worker.ring import RING_SIZE, SIZE, Ring


def unheard() -> None:
    raise AssertionError("nobody sleeps")


def both() -> tuple[Ring, Ring, bytearray]:
    """The runner's side, the supervisor's, and what they share."""
    memory = bytearray(RING_SIZE)
    return Ring(memoryview(memory)), Ring(memoryview(memory)), memory


@given(st.lists(st.one_of(st.just(None), st.integers(min_value=1, max_value=SIZE // 3)), max_size=60))
def test_what_goes_in_comes_out_whole_and_in_order(steps: list[int | None]) -> None:
    """None: it is read; a number: so many bytes are put in, if there is room for them."""
    runner, supervisor, _ = both()
    given_: list[bytes] = []
    taken: list[bytes] = []
    held = 0
    for count, step in enumerate([*steps, None]):
        if step is None:
            taken += supervisor.take()
            held = 0
            assert not supervisor.has_news
        elif held + step + 32 <= SIZE:
            data = bytes([count % 256]) * step
            runner.put(data, unheard)
            given_.append(data)
            held += step + 32
    assert taken == given_
    assert not supervisor.is_broken


def test_what_is_longer_than_the_ring_goes_through_it_while_it_is_read() -> None:
    runner, supervisor, _ = both()
    data = bytes(range(256)) * (3 * SIZE // 256)
    rung = threading.Semaphore(0)
    supervisor.sleeps(True)
    writer = threading.Thread(target=runner.put, args=(data, rung.release), daemon=True)
    writer.start()
    taken: list[bytes] = []
    while not taken:
        assert rung.acquire(timeout=30), "it waits for room, and nobody was rung for"
        while supervisor.has_news:
            taken += supervisor.take()
            assert not supervisor.is_broken
        supervisor.sleeps(True)
        if supervisor.has_news:  # it came between the look and the word
            rung.release()
    writer.join()
    assert taken == [data]


def test_a_runner_that_finds_the_ring_full_waits_and_rings() -> None:
    runner, supervisor, _ = both()
    messages = [bytes([number]) * (SIZE // 4 - 8) for number in range(12)]
    rung = threading.Semaphore(0)

    def ring() -> None:
        rung.release()
        supervisor.sleeps(True)

    def write() -> None:
        for message in messages:
            runner.put(message, ring)

    supervisor.sleeps(True)
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    for _ in range(20):  # four for what fits, the others while it waits
        assert rung.acquire(timeout=30)
    assert supervisor.take() == messages[:4]
    taken = messages[:4]
    while len(taken) < len(messages):
        assert rung.acquire(timeout=30)
        taken += supervisor.take()
    writer.join(30)
    assert taken == messages


def test_a_supervisor_is_rung_for_once_and_only_while_it_sleeps() -> None:
    runner, supervisor, _ = both()
    rung: list[bool] = []

    def put() -> None:
        runner.put(b"end", lambda: rung.append(True))

    put()
    assert rung == []
    supervisor.sleeps(True)
    put()
    put()
    assert rung == [True]
    supervisor.sleeps(True)
    supervisor.sleeps(False)
    put()
    assert rung == [True]


def test_a_piece_that_is_not_to_be_seen_yet_is_looked_at_again() -> None:
    runner, supervisor, memory = both()
    runner.put(b"first", unheard)
    runner.put(b"second", unheard)
    hidden = memory.index(b"second")
    memory[hidden] ^= 1
    assert supervisor.take() == [b"first"]
    assert supervisor.take() == []
    memory[hidden] ^= 1
    assert supervisor.take() == [b"second"]
    assert not supervisor.is_broken


def test_a_piece_that_never_fits_its_checksum_is_damage() -> None:
    runner, supervisor, memory = both()
    runner.put(b"first", unheard)
    memory[memory.index(b"first")] ^= 1
    for _ in range(1_000):
        assert supervisor.take() == []
    assert supervisor.is_broken
    assert not supervisor.has_news  # or its reader would look without pause


@pytest.mark.parametrize("head", [-8, SIZE + 8])
def test_a_head_that_cannot_be_is_damage(head: int) -> None:
    _, supervisor, memory = both()
    memoryview(memory)[:8].cast("q")[0] = head
    assert supervisor.take() == []
    assert supervisor.is_broken
