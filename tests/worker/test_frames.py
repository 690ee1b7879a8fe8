"""What supervisor and runner say to each other arrives whole and equal, however the socket cuts it up."""

from __future__ import annotations

import typing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.codec import encode_result
from windlass.core.job import Failure, Outcome, State
from windlass.core.lifecycle import Transition
from windlass.core.settings import Settings
from windlass.engines.protocol import Claim, Note, Settlement, Verdict
from windlass.worker.frames import (
    Answers,
    Back,
    CancelJob,
    Ends,
    Frame,
    FromRunner,
    Hello,
    Judge,
    News,
    Overran,
    Reader,
    Recall,
    Rung,
    Stop,
    ToRunner,
    Unfit,
    Welcome,
    Work,
    decode_from_runner,
    decode_to_runner,
    encode,
    gathered,
)

JOB, WORKER = bytes(range(16)), bytes(range(16, 32))
CLAIM = Claim(
    id=JOB,
    fence=1 << 60,
    task="shop.charge",
    queue="default",
    payload=b"1:json::abc:[[1],{}]",
    options=b'{"timeout_us":5}',
    attempt=2,
    crashes=1,
    losses=1,
    suspect=True,
    priority=9,
    due_us=7,
    lane="customer 7",
    flow=WORKER,
    needs=(("memory", 1 << 30),),
)
SETTLEMENT = Settlement(
    id=JOB,
    fence=7,
    outcome=Outcome.FAILED,
    transition=Transition(to=State.DEAD, reason="retries"),
    result=encode_result([1, "zwei"]),
    failure=Failure(type="ValueError", message="no such card", traceback="…"),
    ran_us=5,
)
FROM_RUNNER: list[FromRunner] = [
    Hello(
        Settings(url="sqlite:///jobs.db"),
        {"a": False, "b": True},
        {False: 4, True: 4},
        {"a": "morgue"},
        ("Settled",),
        verdicts=True,
    ),
    Unfit("It cannot.", "Do this.", "Traceback …", "WL404"),
    Ends((SETTLEMENT, Settlement(id=JOB, fence=8)), (Note(id=JOB, fence=7, kind="log", data=b"\xff line"),)),
    Back(((JOB, 7), (WORKER, 8))),
    Overran((JOB, 7)),
    Rung(),
]
TO_RUNNER: list[ToRunner] = [
    Welcome("tasks.py", "auto", 4, 8, 1, True, "box", "debug", "json", "w.log"),
    Work(WORKER, 3, (CLAIM, CLAIM)),
    CancelJob(JOB),
    Recall(),
    Judge(CLAIM, "memory", 12, 1 << 40),
    Answers(((JOB, 7, Verdict.STALE), (WORKER, 8, Verdict.ACCEPTED))),
    News("Settled", b"\x81"),
    Stop(),
]


def test_every_frame_is_among_those_that_are_tried() -> None:
    assert {type(frame) for frame in FROM_RUNNER} == set(typing.get_args(FromRunner))
    assert {type(frame) for frame in TO_RUNNER} == set(typing.get_args(ToRunner))


@pytest.mark.parametrize("frame", FROM_RUNNER, ids=lambda frame: type(frame).__name__)
def test_what_a_runner_says_arrives_as_it_was_said(frame: FromRunner) -> None:
    assert Reader(decode_from_runner).feed(bytes(encode(frame))) == [frame]


@pytest.mark.parametrize("frame", TO_RUNNER, ids=lambda frame: type(frame).__name__)
def test_what_a_runner_is_told_arrives_as_it_was_said(frame: ToRunner) -> None:
    assert Reader(decode_to_runner).feed(bytes(encode(frame))) == [frame]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(st.lists(st.sampled_from(FROM_RUNNER), max_size=8), st.lists(st.integers(0, 1 << 20), max_size=20))
def test_any_split_of_the_stream_gives_the_same_frames(frames: list[Frame], places: list[int]) -> None:
    reader = Reader(decode_from_runner)
    stream = b"".join(encode(frame) for frame in frames)
    assert [frame for piece in cut(stream, places) for frame in reader.feed(piece)] == frames


@given(st.lists(st.sampled_from(TO_RUNNER), max_size=8), st.lists(st.integers(0, 1 << 20), max_size=20))
def test_so_does_any_split_of_what_a_runner_is_told(frames: list[Frame], places: list[int]) -> None:
    reader = Reader(decode_to_runner)
    stream = b"".join(encode(frame) for frame in frames)
    assert [frame for piece in cut(stream, places) for frame in reader.feed(piece)] == frames


def test_one_byte_after_the_other_is_enough() -> None:
    reader = Reader(decode_to_runner)
    stream = b"".join(encode(frame) for frame in TO_RUNNER)
    assert [frame for place in range(len(stream)) for frame in reader.feed(stream[place : place + 1])] == TO_RUNNER


def test_a_frame_of_many_megabytes_arrives() -> None:
    large = Ends((Settlement(id=JOB, fence=1, result=bytes(8 << 20)),))
    reader = Reader(decode_from_runner)
    stream = bytes(encode(large))
    pieces = [stream[place : place + 65_536] for place in range(0, len(stream), 65_536)]
    assert [frame for piece in pieces for frame in reader.feed(piece)] == [large]


def test_what_was_whole_before_it_was_no_frame_counts_and_nothing_after_it() -> None:
    reader = Reader(decode_from_runner)
    good, bad = bytes(encode(FROM_RUNNER[0])), b"\x03\x00\x00\x00\xff\xff\xff"
    assert reader.feed(good + bad + good) == [FROM_RUNNER[0]]
    assert reader.is_broken
    assert reader.feed(good) == []


@given(st.lists(st.sampled_from(FROM_RUNNER), max_size=12))
def test_ends_that_follow_one_another_become_one_frame_and_nothing_changes_its_place(frames: list[FromRunner]) -> None:
    found = gathered(frames)
    assert not any(isinstance(one, Ends) and isinstance(other, Ends) for one, other in pairwise(found))
    assert _spelled_out(found) == _spelled_out(frames)


def _spelled_out(frames: list[FromRunner]) -> list[object]:
    """Every end, and every other frame, in their order."""
    return [part for frame in frames for part in (frame.ends if isinstance(frame, Ends) else (frame,))]


def test_the_lines_of_gathered_frames_come_before_all_their_ends() -> None:
    first, second = (Note(id=JOB, fence=7, kind="log", data=data) for data in (b"first", b"second"))
    ended = Settlement(id=JOB, fence=7)
    assert gathered([Ends((), (first,)), Ends((ended,), (second,))]) == [Ends((ended,), (first, second))]
