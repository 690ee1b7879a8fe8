"""What is kept of an error."""

from __future__ import annotations

import logging
from pathlib import Path
from types import TracebackType

import pytest

import windlass
from tests.worker.rig import Rig
from windlass import Retry
from windlass.core.codec import encode_arguments
from windlass.core.errors import WrongType
from windlass.core.limits import Limits
from windlass.core.signature import Signature
from windlass.worker.failure import failure_of

PACKAGE = str(Path(windlass.__file__).parent)


def raised_in(*files: str) -> ValueError:
    """An error whose traceback goes through functions of these files, in this order."""
    call = None
    for file in reversed(files):
        space = {"call": call}
        code = "def step():\n    if call is None: raise ValueError('no')\n    call()"
        exec(compile(code, file, "exec"), space)
        call = space["step"]
    assert call is not None
    try:
        call()
    except ValueError as error:
        here: TracebackType | None = error.__traceback__
        assert here is not None
        return error.with_traceback(here.tb_next)
    raise AssertionError("nothing was raised")


def test_our_own_frames_are_left_out_and_those_of_a_package_with_a_like_name_are_not() -> None:
    ours, theirs = f"{PACKAGE}/worker/executor.py", f"{PACKAGE}_shop/tasks.py"
    failure = failure_of(raised_in(ours, theirs, "/lib/other.py"), Limits(), "shop.task")
    assert ours not in failure.traceback
    assert theirs in failure.traceback
    assert "/lib/other.py" in failure.traceback


# ── what is said of it ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("no such card", "ValueError: no such card."),
        ("No such card.", "ValueError: No such card."),
        ("No such card!\n", "ValueError: No such card!"),
        ("x" * 3_000, f"ValueError: {'x' * 2_000}…"),
        ("", "ValueError."),
    ],
)
def test_a_failure_is_said_as_a_sentence(message: str, sentence: str) -> None:
    assert failure_of(ValueError(message), Limits(), "shop.task").sentence == sentence


def test_the_log_line_of_a_failed_attempt_ends_the_error_before_it_says_what_follows(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    @rig.app.task(name="again", retry=Retry.fixed(1, base="1m", jitter=False))
    def again() -> None:
        raise ConnectionError("Gone.")

    rig.beat()
    dead, tried = rig.app.send("fails", "no such card"), again.delay()
    with caplog.at_level(logging.INFO, "windlass"):
        rig.work()
    said = {record.levelname: record.getMessage() for record in caplog.records if "attempt" in record.getMessage()}
    assert said == {
        "WARNING": f"fails {dead.id}, attempt 1: ValueError: no such card. The job is dead.",
        "INFO": f"again {tried.id}, attempt 1: ConnectionError: Gone. It is tried again in 1m.",
    }


def number(value: int) -> None: ...


def test_arguments_that_do_not_fit_are_alike_by_task() -> None:
    """The error comes from a function of ours, which is the same for all tasks."""
    prints: list[str] = []
    for task in ("a.task", "b.task", "a.task"):
        with pytest.raises(WrongType) as caught:
            Signature.of(number).decode(encode_arguments(("x",), {}))
        prints.append(failure_of(caught.value, Limits(), task).fingerprint)
    assert prints[0] == prints[2] != prints[1]
