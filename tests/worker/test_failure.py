"""What is kept of an error."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import windlass
from windlass.core.limits import Limits
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
    failure = failure_of(raised_in(ours, theirs, "/lib/other.py"), Limits())
    assert ours not in failure.traceback
    assert theirs in failure.traceback
    assert "/lib/other.py" in failure.traceback
