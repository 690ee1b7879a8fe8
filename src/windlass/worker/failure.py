"""An error as text: type, message, traceback and a fingerprint by which like ones are found. Never an object."""

from __future__ import annotations

import hashlib
import os
import traceback
from pathlib import Path
from types import TracebackType

from windlass.core.errors import WindlassError
from windlass.core.job import Failure
from windlass.core.limits import Limits
from windlass.core.text import storable

OURS = f"{Path(__file__).parent.parent}{os.sep}"  # a package windlass_shop beside us is not ours
_MESSAGE = 2_000


def failure_of(error: BaseException, limits: Limits, task: str) -> Failure:
    """What is kept of an error in a job of that task: our own frames are left out, and everything is bounded."""
    kind = type(error)
    is_known = kind.__module__ == "builtins" or isinstance(error, WindlassError)
    name = kind.__qualname__ if is_known else f"{kind.__module__}.{kind.__qualname__}"
    frames = _of_the_task(error.__traceback__)
    try:
        text = "".join(traceback.format_exception(kind, error, frames))
        message = str(error)
    except BaseException:  # an error whose own text raises, whatever it raises
        text, message = name, "(its text cannot be shown)"
    return Failure(
        type=name,
        message=storable(message if len(message) <= _MESSAGE else message[:_MESSAGE] + "…"),
        traceback=limits.clip_error(storable(text)),
        fingerprint=_fingerprint(name, frames, task),
    )


def _of_the_task(frames: TracebackType | None) -> TracebackType | None:
    """The traceback from the task's own function on; where there is none, all of it."""
    frame = frames
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(OURS):
        frame = frame.tb_next
    return frame if frame is not None else frames


def _fingerprint(name: str, frames: TracebackType | None, task: str) -> str:
    """The same for the same error in the same function, whatever its message and its line.

    Where no function of the task's was reached, as when its arguments do not fit, errors are alike by task.
    """
    last = frames
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    code = None if last is None else last.tb_frame.f_code
    ours = code is None or code.co_filename.startswith(OURS)
    where = task if ours or code is None else f"{Path(code.co_filename).name}:{code.co_name}"
    return hashlib.blake2b(f"{name}@{where}".encode(), digest_size=8).hexdigest()
